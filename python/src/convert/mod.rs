//! Python objects and values of the codec, by the declared .NET type.
//!
//! Owns both directions. A value goes straight from the one to the other, without text between them.
//! What does not fit is an error that says where; nothing is quietly taken for null or zero.

mod from_value;
mod json;
mod names;
mod time;
mod to_value;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};
use witrpc::codec::Value;
use witrpc::contract::{Param, Type, Types};

pub(crate) use from_value::{from_value, uuid};

use crate::errors;

/// Deepest nesting of a Python object that is converted; the JSON reader of .NET stops there too.
const MAX_DEPTH: usize = 64;

/// Why an object can't be converted, and where in it.
pub(crate) enum Mismatch {
    /// The object does not fit.
    Value { path: String, message: String },
    /// Python raised.
    Raised(PyErr),
}

pub(crate) type Converted<T> = Result<T, Mismatch>;

impl From<PyErr> for Mismatch {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Mismatch {
    fn new(message: impl Into<String>) -> Self {
        Self::Value {
            path: String::new(),
            message: message.into(),
        }
    }

    /// `<kind of object> where a <type> is expected`
    fn expected(object: &Bound<'_, PyAny>, ty: &Type) -> Self {
        let found = object.get_type().name().map_or_else(
            |_| "an object".to_owned(),
            |name| match name.to_string().as_str() {
                "NoneType" => "None".to_owned(),
                name => with_article(name),
            },
        );
        Self::new(format!(
            "{found} where {} is expected",
            with_article(&ty.to_string())
        ))
    }

    /// Says in front of the path where it was.
    fn within(self, place: impl FnOnce() -> String) -> Self {
        match self {
            Self::Value { path, message } => Self::Value {
                path: place() + &path,
                message,
            },
            raised => raised,
        }
    }

    fn raise(self, place: &str) -> PyErr {
        match self {
            Self::Value { path, message } => errors::invalid(format!("{place}{path}: {message}")),
            Self::Raised(error) => error,
        }
    }
}

fn with_article(name: &str) -> String {
    let vowel = name.starts_with(|c: char| "aeioAEIO".contains(c));
    format!("{} {name}", if vowel { "an" } else { "a" })
}

/// The arguments of a call or event.
pub(crate) fn arguments(
    args: &Bound<'_, PyTuple>,
    owner: &str,
    params: &[Param],
    types: &Types,
) -> PyResult<Vec<Value>> {
    if args.len() != params.len() {
        let count = match params.len() {
            1 => "1 argument".to_owned(),
            n => format!("{n} arguments"),
        };
        return Err(errors::invalid(format!(
            "{owner} takes {count} and got {}",
            args.len()
        )));
    }
    args.iter()
        .zip(params)
        .enumerate()
        .map(|(i, (object, param))| {
            to_value::to_value(&object, param.ty(), types, 0).map_err(|mismatch| {
                let name = param.name().map(|name| format!(" \"{name}\""));
                let name = name.unwrap_or_default();
                mismatch.raise(&format!("argument {}{name} of {owner}", i + 1))
            })
        })
        .collect()
}

/// The result of a handler.
pub(crate) fn result(
    object: &Bound<'_, PyAny>,
    owner: &str,
    ty: &Type,
    types: &Types,
) -> PyResult<Value> {
    if *ty == Type::Void {
        return Ok(Value::Null);
    }
    to_value::to_value(object, ty, types, 0)
        .map_err(|mismatch| mismatch.raise(&format!("result of {owner}")))
}

/// A copy of the bytes of an object that has such: `bytes`, `bytearray`, `memoryview`, `numpy`
/// arrays, in the order in which they lie.
pub(crate) fn copied_bytes(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    let buffer = object.py().import("builtins")?.getattr("memoryview")?;
    let bytes = buffer.call1((object,))?.call_method1("cast", ("B",));
    let bytes = match bytes {
        Ok(flat) => flat,
        // Not contiguous: Python puts the pieces together.
        Err(_) => {
            return buffer.call1((object,))?.call_method0("tobytes")?.extract();
        }
    };
    PyBuffer::<u8>::get(&bytes)?.to_vec(object.py())
}
