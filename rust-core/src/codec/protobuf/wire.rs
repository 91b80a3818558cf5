//! The protobuf wire: tags, varints and lengths, with a bounds-checked reader.

use crate::codec::error::{CodecError, Result};

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const LENGTH: u8 = 2;
const GROUP: u8 = 3;
const END_GROUP: u8 = 4;
pub(super) const FIXED32: u8 = 5;

/// The payload of a field as it stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Length(&'a [u8]),
}

/// A field of a message, and the offset of its payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) payload: Payload<'a>,
    pub(super) at: usize,
}

/// Reads the fields of a message, front to back.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of `bytes` in the whole value, for messages.
    base: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, at: 0, base }
    }

    fn error(&self, message: impl Into<String>) -> CodecError {
        CodecError::at(message, self.base + self.at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn varint(&mut self) -> Result<u64> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else {
                break;
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && *byte > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::at("not a valid varint", self.base + start))
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.bytes[self.at..].split_at_checked(count) {
            Some((head, _)) => {
                self.at += count;
                Ok(head)
            }
            None => Err(self.error(format!(
                "{count} bytes expected, {} left",
                self.bytes.len() - self.at
            ))),
        }
    }

    pub(super) fn fixed32(&mut self) -> Result<u32> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    pub(super) fn fixed64(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// The number and the wire type of the next field.
    fn tag(&mut self) -> Result<(u32, u8)> {
        let start = self.at;
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number != 0 && number < 1 << 29 => Ok((number, (tag & 7) as u8)),
            _ => Err(CodecError::at("not a valid field", self.base + start)),
        }
    }

    /// The next field; groups, which nothing here is written as, are skipped.
    pub(super) fn field(&mut self) -> Result<Option<Field<'a>>> {
        while !self.is_empty() {
            let start = self.at;
            let (number, wire) = self.tag()?;
            let at = self.base + self.at;
            let payload = match wire {
                VARINT => Payload::Varint(self.varint()?),
                FIXED64 => Payload::Fixed64(self.fixed64()?),
                FIXED32 => Payload::Fixed32(self.fixed32()?),
                LENGTH => Payload::Length(self.length()?),
                GROUP => {
                    self.skip_group(number)?;
                    continue;
                }
                _ => {
                    let message = format!("the wire type {wire} of field {number} is not valid");
                    return Err(CodecError::at(message, self.base + start));
                }
            };
            // The offset of bytes is that of the first one.
            let at = match payload {
                Payload::Length(bytes) => self.base + self.at - bytes.len(),
                _ => at,
            };
            return Ok(Some(Field {
                number,
                payload,
                at,
            }));
        }
        Ok(None)
    }

    fn length(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length),
            Err(_) => Err(self.error(format!("{length} is no length"))),
        }
    }

    /// Skips to the end of a group, without recursion.
    fn skip_group(&mut self, number: u32) -> Result<()> {
        let mut open = vec![number];
        while let Some(last) = open.last() {
            let (number, wire) = self.tag()?;
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                FIXED32 => drop(self.take(4)?),
                LENGTH => drop(self.length()?),
                GROUP => open.push(number),
                END_GROUP if number == *last => drop(open.pop()),
                _ => return Err(self.error("a group does not end as it began")),
            }
        }
        Ok(())
    }
}

/// Appends a varint.
pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the tag of a field.
pub(super) fn write_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    write_varint(out, u64::from(number) << 3 | u64::from(wire));
}

/// Appends a field of bytes.
pub(super) fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_tag(out, number, LENGTH);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Puts tag and length before a message that was appended from `start` on.
pub(super) fn wrap(out: &mut Vec<u8>, number: u32, start: usize) {
    let mut head = Vec::with_capacity(8);
    write_tag(&mut head, number, LENGTH);
    write_varint(&mut head, (out.len() - start) as u64);
    out.splice(start..start, head);
}

/// A signed number with its sign in the lowest bit.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The reverse of [`zigzag`].
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
