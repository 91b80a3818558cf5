//! JSON: the default codec, and the text in which values are shown.
//!
//! Owns a strict reader, a writer with two dialects, and both directions by declared type. Byte for
//! byte it agrees with `System.Text.Json` and its default options.

pub(crate) mod base64;
mod escape;
mod key;
mod raw;
mod read;
mod reader;
mod scalar;
mod write;

pub use escape::Dialect;
pub use raw::RawJson;

pub(crate) use raw::skip;
pub(crate) use read::{read, untyped};
pub(crate) use reader::{Reader, Token};
pub(crate) use scalar::{guid, version_text};
pub(crate) use write::{tuple_items, write};

use super::error::Result;
use super::value::Value;
use crate::contract::{Type, Types};

impl Value {
    /// Reads JSON text by the declared type, in the text dialect: `"NaN"` and the infinities are
    /// numbers, tuples and fields are read, and `"$type"` names the concrete type of an interface.
    ///
    /// What a .NET reader would quietly take for null or a default is an error.
    ///
    /// # Errors
    /// With the place in the value and the byte in the text.
    pub fn from_json(text: &str, ty: &Type, types: &Types) -> Result<Value> {
        let mut reader = Reader::new(text);
        let value = read(&mut reader, ty, types, Dialect::Text)?;
        reader.end()?;
        Ok(value)
    }

    /// The value as compact JSON text by its declared type.
    ///
    /// # Errors
    /// When the value does not fit the type, and for what has no JSON form.
    pub fn to_json(&self, ty: &Type, types: &Types, dialect: Dialect) -> Result<String> {
        let mut out = Vec::new();
        write(&mut out, self, ty, types, dialect, 0)?;
        // Everything that is written comes from text or is ASCII.
        Ok(String::from_utf8(out).unwrap_or_default())
    }
}
