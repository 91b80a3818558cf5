//! Any JSON: what `object` and types of which nothing is known travel as.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use witrpc::codec::{RawJson, Value};

use super::to_value::{Class, fields_of, is_a};
use super::{Converted, MAX_DEPTH, Mismatch};

/// An object as JSON, by what it is.
pub(super) fn to_json(object: &Bound<'_, PyAny>) -> Converted<Value> {
    let mut out = String::new();
    write(&mut out, object, 0)?;
    RawJson::parse(&out)
        .map(Value::Json)
        .map_err(|e| Mismatch::new(e.to_string()))
}

fn write(out: &mut String, object: &Bound<'_, PyAny>, depth: usize) -> Converted<()> {
    if depth > MAX_DEPTH {
        return Err(Mismatch::new(format!(
            "nested more than {MAX_DEPTH} levels deep"
        )));
    }
    if object.is_none() {
        out.push_str("null");
    } else if let Ok(value) = object.cast::<PyBool>() {
        out.push_str(if value.is_true() { "true" } else { "false" });
    } else if is_a(object, Class::Enum)? {
        write(out, &object.getattr("value")?, depth)?;
    } else if let Ok(text) = object.cast::<PyString>() {
        string(out, text.to_str()?);
    } else if object.is_instance_of::<PyInt>() || is_a(object, Class::Decimal)? {
        out.push_str(&number(object)?);
    } else if let Ok(float) = object.cast::<PyFloat>() {
        if !float.value().is_finite() {
            return Err(Mismatch::new("JSON has no NaN and no infinities"));
        }
        out.push_str(&float.repr()?.to_string());
    } else if let Ok(dict) = object.cast::<PyDict>() {
        out.push('{');
        for (i, (key, value)) in dict.iter().enumerate() {
            let Ok(key) = key.cast::<PyString>() else {
                return Err(Mismatch::new("the keys of an object in JSON are texts"));
            };
            member(out, i, key.to_str()?, &value, depth)?;
        }
        out.push('}');
    } else if is_a(object, Class::Uuid)? {
        string(out, &object.str()?.to_string());
    } else if is_a(object, Class::Date)? || is_a(object, Class::Time)? {
        string(out, &object.call_method0("isoformat")?.extract::<String>()?);
    } else if let Some(fields) = fields_of(object)? {
        out.push('{');
        for (i, (name, attribute)) in fields.iter().enumerate() {
            member(out, i, name, &object.getattr(attribute.as_str())?, depth)?;
        }
        out.push('}');
    } else if is_bytes(object) {
        let encode = object.py().import("base64")?.getattr("b64encode")?;
        let text = encode
            .call1((object,))?
            .call_method1("decode", ("ascii",))?;
        string(out, &text.extract::<String>()?);
    } else {
        let Ok(items) = object.try_iter() else {
            let name = object.get_type().name()?;
            return Err(Mismatch::new(format!("a {name} has no form in JSON")));
        };
        out.push('[');
        for (i, item) in items.enumerate() {
            if i > 0 {
                out.push(',');
            }
            write(out, &item?, depth + 1).map_err(|e| e.within(|| format!("[{i}]")))?;
        }
        out.push(']');
    }
    Ok(())
}

fn member(
    out: &mut String,
    index: usize,
    name: &str,
    value: &Bound<'_, PyAny>,
    depth: usize,
) -> Converted<()> {
    if index > 0 {
        out.push(',');
    }
    string(out, name);
    out.push(':');
    write(out, value, depth + 1).map_err(|e| e.within(|| format!(".{name}")))
}

fn is_bytes(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<pyo3::types::PyBytes>()
        || object.is_instance_of::<pyo3::types::PyByteArray>()
        || object.is_instance_of::<pyo3::types::PyMemoryView>()
}

fn number(object: &Bound<'_, PyAny>) -> PyResult<String> {
    // Subclasses may show themselves otherwise: `int.__repr__` is what it is.
    if object.is_instance_of::<PyInt>() {
        let plain = object.py().get_type::<PyInt>().call1((object,))?;
        return Ok(plain.str()?.to_string());
    }
    Ok(object.str()?.to_string().replace("E+", "e"))
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// JSON as Python objects: `dict`, `list`, `str`, `int`, `float`, `bool`, `None`.
pub(super) fn from_json<'py>(py: Python<'py>, json: &RawJson) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.get_or_try_init(py, || {
        PyResult::Ok(py.import("json")?.getattr("loads")?.unbind())
    })?;
    loads.bind(py).call1((json.as_str(),))
}

/// Text as it stands in JSON, for types that have a form as text.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    string(&mut out, text);
    out
}
