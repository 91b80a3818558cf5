//! MessagePack, by declared type, as version 2.5 of MessagePack-CSharp writes it with its standard
//! resolver and LZ4 block compression.

mod decode;
mod encode;
mod lz4;
mod reader;

use super::error::{CodecError, Result};
use super::value::Value;
use crate::contract::{Type, Types};

/// Deepest nesting of a value.
const MAX_DEPTH: usize = super::schema::MAX_BINARY_DEPTH;
/// Extension type of a timestamp.
const TIMESTAMP: i8 = -1;

fn too_deep() -> CodecError {
    CodecError::new(format!("nested more than {MAX_DEPTH} levels deep"))
}

/// Appends a value, compressed where that makes it smaller. On error `out` may hold a part of it.
pub(super) fn encode(out: &mut Vec<u8>, value: &Value, ty: &Type, types: &Types) -> Result<()> {
    let start = out.len();
    encode::encode(out, value, ty, types)?;
    lz4::compress(out, start);
    Ok(())
}

/// Reads a value in any of the three forms: plain, one compressed block, or several. Bytes after it
/// are ignored, as the library does.
pub(super) fn decode(bytes: &[u8], ty: &Type, types: &Types) -> Result<Value> {
    match lz4::decompress(bytes)? {
        Some(plain) => decode::decode(&plain, ty, types),
        None => decode::decode(bytes, ty, types),
    }
}
