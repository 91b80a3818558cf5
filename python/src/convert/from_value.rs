//! From values to Python objects, by declared type.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PySet, PyString, PyTuple};
use uuid::Uuid;
use witrpc::codec::{Object, Value};
use witrpc::contract::{Framework, Shape, Type, TypeDef, TypeKind, Types};

use super::to_value::rest_args;
use super::{json, time};

/// The Python object of a value. The type decides only where the value does not: whether a list is a
/// tuple or a set.
pub(crate) fn from_value<'py>(
    py: Python<'py>,
    value: &Value,
    ty: &Type,
    types: &Types,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::UInt(value) => value.into_pyobject(py)?.into_any(),
        Value::Int128(value) => value.into_pyobject(py)?.into_any(),
        Value::UInt128(value) => value.into_pyobject(py)?.into_any(),
        Value::Half(value) => value.to_f32().into_pyobject(py)?.into_any(),
        Value::Single(value) => value.into_pyobject(py)?.into_any(),
        Value::Double(value) => value.into_pyobject(py)?.into_any(),
        Value::Decimal(value) => decimal(py, &value.to_string())?,
        Value::Char(unit) => character(py, *unit)?,
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Guid(id) => uuid(py, id)?,
        Value::DateTime(value) => time::py_date_time(py, *value)?,
        Value::DateTimeOffset(value) => time::py_date_time_offset(py, *value)?,
        Value::TimeSpan(value) => time::py_time_span(py, *value)?,
        Value::DateOnly(value) => time::py_date_only(py, *value)?,
        Value::TimeOnly(value) => time::py_time_only(py, *value)?,
        Value::Version(parts) => version(py, *parts),
        Value::List(items) => list(py, items, ty.without_ref(), types)?,
        Value::Map(entries) => map(py, entries, ty.without_ref(), types)?,
        Value::Object(object) => record(py, object, ty.without_ref(), types)?,
        Value::Json(raw) => json::from_json(py, raw)?,
        _ => {
            return Err(crate::errors::invalid(format!(
                "{} has no form in Python yet",
                value.kind()
            )));
        }
    })
}

fn record<'py>(
    py: Python<'py>,
    object: &Object,
    ty: &Type,
    types: &Types,
) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    let concrete = object
        .type_name
        .as_deref()
        .and_then(|name| types.use_of(name));
    if let Some(name) = &object.type_name {
        dict.set_item("$type", &**name)?;
    }
    let declared = match concrete.as_ref().unwrap_or(ty) {
        Type::Nullable(inner) => inner,
        other => other,
    };
    let (members, args) = match declared {
        Type::Declared(declared) => match types.definition(declared).map(TypeDef::kind) {
            Some(TypeKind::Record(record)) => (record.members(), declared.args()),
            _ => (&[][..], &[][..]),
        },
        _ => (&[][..], &[][..]),
    };
    for (i, (name, value)) in object.members.iter().enumerate() {
        // Decoding gives the members in the order of the declaration.
        let member = members.get(i).filter(|member| member.name() == &**name);
        let value = match member {
            Some(member) if args.is_empty() => from_value(py, value, member.ty(), types)?,
            Some(member) => from_value(py, value, &member.ty().substitute(args), types)?,
            None => from_value(py, value, &Type::OBJECT, types)?,
        };
        dict.set_item(&**name, value)?;
    }
    Ok(dict.into_any())
}

fn list<'py>(
    py: Python<'py>,
    items: &[Value],
    ty: &Type,
    types: &Types,
) -> PyResult<Bound<'py, PyAny>> {
    match ty {
        Type::Framework(framework, args) => match (framework.shape(), &args[..]) {
            (Shape::Pair | Shape::Tuple | Shape::ValueTuple, args) => {
                let mut row = Vec::with_capacity(items.len());
                tuple(py, items, args, types, &mut row)?;
                Ok(PyTuple::new(py, row)?.into_any())
            }
            (_, [item]) if is_set(framework) && matches!(item, Type::Scalar(_)) => {
                let set = PySet::empty(py)?;
                for value in items {
                    set.add(from_value(py, value, item, types)?)?;
                }
                Ok(set.into_any())
            }
            (_, [item]) => plain_list(py, items, item, types),
            _ => plain_list(py, items, &Type::OBJECT, types),
        },
        Type::Array(item, 1) => plain_list(py, items, item, types),
        Type::Array(item, rank) => {
            plain_list(py, items, &Type::Array(item.clone(), rank - 1), types)
        }
        Type::Nullable(inner) => list(py, items, inner, types),
        _ => plain_list(py, items, &Type::OBJECT, types),
    }
}

fn plain_list<'py>(
    py: Python<'py>,
    items: &[Value],
    item: &Type,
    types: &Types,
) -> PyResult<Bound<'py, PyAny>> {
    let objects = items.iter().map(|value| from_value(py, value, item, types));
    let objects = objects.collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, objects)?.into_any())
}

fn tuple<'py>(
    py: Python<'py>,
    items: &[Value],
    args: &[Type],
    types: &Types,
    row: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<()> {
    for (i, value) in items.iter().enumerate() {
        let ty = args.get(i).unwrap_or(&Type::OBJECT);
        match (value, rest_args(ty)) {
            (Value::List(rest), Some(args)) if i == 7 => tuple(py, rest, args, types, row)?,
            _ => row.push(from_value(py, value, ty, types)?),
        }
    }
    Ok(())
}

fn is_set(framework: &Framework) -> bool {
    framework.name().ends_with("Set")
}

fn map<'py>(
    py: Python<'py>,
    entries: &[(Value, Value)],
    ty: &Type,
    types: &Types,
) -> PyResult<Bound<'py, PyAny>> {
    let (key, item) = match ty {
        Type::Framework(_, args) if args.len() == 2 => (&args[0], &args[1]),
        _ => (&Type::OBJECT, &Type::OBJECT),
    };
    let dict = PyDict::new(py);
    for (name, value) in entries {
        dict.set_item(
            from_value(py, name, key, types)?,
            from_value(py, value, item, types)?,
        )?;
    }
    Ok(dict.into_any())
}

fn decimal<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = DECIMAL.get_or_try_init(py, || {
        PyResult::Ok(py.import("decimal")?.getattr("Decimal")?.unbind())
    })?;
    class.bind(py).call1((text,))
}

pub(crate) fn uuid<'py>(py: Python<'py>, id: &Uuid) -> PyResult<Bound<'py, PyAny>> {
    static UUID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = UUID.get_or_try_init(py, || {
        PyResult::Ok(py.import("uuid")?.getattr("UUID")?.unbind())
    })?;
    let arguments = PyDict::new(py);
    arguments.set_item("int", id.as_u128())?;
    class.bind(py).call((), Some(&arguments))
}

/// One UTF-16 unit, which may be half of a pair: Python's texts can hold that.
fn character<'py>(py: Python<'py>, unit: u16) -> PyResult<Bound<'py, PyAny>> {
    match char::from_u32(unit.into()) {
        Some(c) => Ok(PyString::new(py, c.encode_utf8(&mut [0; 4])).into_any()),
        None => py.import("builtins")?.getattr("chr")?.call1((unit,)),
    }
}

fn version<'py>(py: Python<'py>, parts: [i32; 4]) -> Bound<'py, PyAny> {
    let given = parts.iter().take_while(|part| **part >= 0);
    let text: Vec<String> = given.map(i32::to_string).collect();
    PyString::new(py, &text.join(".")).into_any()
}
