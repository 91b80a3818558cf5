//! Stream framing: a four-byte little-endian length, then that many bytes.
//!
//! Owns the split of a byte stream into frame bodies and the writing of framed envelopes. It never
//! reserves memory for bytes that have not arrived.

use std::fmt;

use bytes::{Buf, BufMut, BytesMut};
use uuid::Uuid;

use super::envelope::{Envelope, Kind};
use super::memorypack::Write;

/// Bytes of the length in front of every frame body.
pub const PREFIX: usize = 4;

/// A length that ends the connection: zero, negative, or above the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLength {
    /// The length as it was read.
    pub length: i32,
    /// The limit in force, in bytes.
    pub limit: usize,
}

impl fmt::Display for BadLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a frame of {} bytes, where 1 to {} are allowed",
            self.length, self.limit
        )
    }
}

impl std::error::Error for BadLength {}

/// Takes the next whole frame body off the front of `input`. `Ok(None)` when it is not complete
/// yet. `limit` is the largest body accepted, in bytes.
pub fn split(input: &mut BytesMut, limit: usize) -> Result<Option<BytesMut>, BadLength> {
    let Some(prefix) = input.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let length = i32::from_le_bytes(*prefix);
    match usize::try_from(length) {
        Ok(n) if n > 0 && n <= limit => {
            if input.len() - PREFIX < n {
                return Ok(None);
            }
            input.advance(PREFIX);
            Ok(Some(input.split_to(n)))
        }
        _ => Err(BadLength { length, limit }),
    }
}

/// Appends a framed envelope whose data `write` appends. Nothing is written twice: the lengths are
/// put in afterwards.
pub fn write(out: &mut BytesMut, id: Uuid, kind: Kind, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_bytes(0, PREFIX);
    Envelope::encode_head(out, id, kind);
    out.put_bytes(0, 4);
    let data = out.len();
    write(out);
    let data_length = (out.len() - data) as i32;
    out[data - 4..data].copy_from_slice(&data_length.to_le_bytes());
    set_length(out, start);
}

/// Appends a framed envelope whose data is null.
pub fn write_null(out: &mut BytesMut, id: Uuid, kind: Kind) {
    let start = out.len();
    out.put_bytes(0, PREFIX);
    Envelope::encode_head(out, id, kind);
    Write::bytes(out, None);
    set_length(out, start);
}

fn set_length(out: &mut BytesMut, start: usize) {
    let length = (out.len() - start - PREFIX) as i32;
    out[start..start + PREFIX].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let mut stream = BytesMut::new();
        write(&mut stream, Uuid::nil(), Kind::REQUEST, |out| {
            out.put_slice(b"abc")
        });
        write_null(&mut stream, Uuid::max(), Kind::CALLBACK);
        let bytes = stream.freeze();
        for step in 1..=bytes.len() {
            let mut input = BytesMut::new();
            let mut bodies = Vec::new();
            for chunk in bytes.chunks(step) {
                input.extend_from_slice(chunk);
                while let Some(body) = split(&mut input, 100).unwrap() {
                    bodies.push(Envelope::take(body).unwrap().unwrap());
                }
            }
            assert_eq!(bodies.len(), 2);
            assert_eq!(bodies[0].data.as_deref(), Some(&b"abc"[..]));
            assert_eq!(
                (bodies[1].kind, bodies[1].data.clone()),
                (Kind::CALLBACK, None)
            );
        }
    }

    #[test]
    fn the_limit_is_inclusive_and_everything_else_is_refused() {
        for (length, ok) in [(1, true), (8, true), (9, false), (0, false), (-1, false)] {
            let mut input = BytesMut::new();
            input.put_i32_le(length);
            assert_eq!(
                split(&mut input, 8),
                if ok {
                    Ok(None)
                } else {
                    Err(BadLength { length, limit: 8 })
                }
            );
        }
    }
}
