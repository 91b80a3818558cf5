//! The compression of MessagePack-CSharp: a value as one LZ4 block in an extension, or as several.

use super::reader::Reader;
use crate::codec::error::{CodecError, Result};

/// Extension type of one compressed block.
const BLOCK: i8 = 99;
/// Extension type of the lengths of several blocks.
const BLOCKS: i8 = 98;
/// Values shorter than this stay as they are.
const MIN_LENGTH: usize = 64;
/// LZ4 makes at most so many bytes of one.
const MAX_RATIO: usize = 255;
/// Most bytes that a value may have after decompression: as many as a frame.
const MAX_LENGTH: usize = 256 * 1024 * 1024;

/// Compresses what `out` holds from `start` on, if that makes it shorter.
pub(super) fn compress(out: &mut Vec<u8>, start: usize) {
    let plain = &out[start..];
    let Ok(length) = i32::try_from(plain.len()) else {
        return;
    };
    if plain.len() < MIN_LENGTH {
        return;
    }
    let block = lz4_flex::block::compress(plain);
    // The extension's length counts the five bytes before the block.
    let inner = block.len() + 5;
    let mut header = Vec::with_capacity(11);
    match (u8::try_from(inner), u16::try_from(inner)) {
        (Ok(inner), _) => header.extend_from_slice(&[0xC7, inner]),
        (_, Ok(inner)) => {
            header.push(0xC8);
            header.extend_from_slice(&inner.to_be_bytes());
        }
        _ => {
            header.push(0xC9);
            header.extend_from_slice(&(inner as u32).to_be_bytes());
        }
    }
    header.push(BLOCK.cast_unsigned());
    header.push(0xD2);
    header.extend_from_slice(&length.to_be_bytes());
    if header.len() + block.len() < plain.len() {
        out.truncate(start);
        out.extend_from_slice(&header);
        out.extend_from_slice(&block);
    }
}

/// The plain bytes of a compressed value; `None` if it is not compressed.
pub(super) fn decompress(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut reader = Reader::new(bytes);
    if reader.peek_extension() == Some(BLOCK) {
        let (_, body) = reader.extension()?;
        let mut inner = Reader::new(body);
        let length = inner.length()?;
        let mut out = Vec::new();
        block(&mut out, inner.rest(), length)?;
        return Ok(Some(out));
    }
    if !reader.peek_array() {
        return Ok(None);
    }
    let count = reader.array_length()?;
    if count == 0 || reader.peek_extension() != Some(BLOCKS) {
        return Ok(None);
    }
    let (_, lengths) = reader.extension()?;
    let mut lengths = Reader::new(lengths);
    let mut out = Vec::new();
    for _ in 1..count {
        let length = lengths.length()?;
        block(&mut out, reader.binary()?, length)?;
    }
    Ok(Some(out))
}

fn block(out: &mut Vec<u8>, compressed: &[u8], length: usize) -> Result<()> {
    let corrupt =
        |what: &str| CodecError::new(format!("the compressed block is not valid: {what}"));
    let total = out.len() + length;
    if length > compressed.len().saturating_mul(MAX_RATIO) || total > MAX_LENGTH {
        return Err(corrupt("it says that it is longer than it can be"));
    }
    let start = out.len();
    out.resize(total, 0);
    match lz4_flex::block::decompress_into(compressed, &mut out[start..]) {
        Ok(written) if written == length => Ok(()),
        Ok(_) => Err(corrupt("it is shorter than it says")),
        Err(e) => Err(corrupt(&e.to_string())),
    }
}
