//! MessagePack tokens: a bounds-checked reader and the writing of shortest forms.

use crate::codec::error::{CodecError, Result};

/// Reads MessagePack front to back.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A number as it stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Single(f32),
    Double(f64),
}

/// The kind of a token, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nil,
    Bool,
    Integer,
    Single,
    Double,
    String,
    Binary,
    Array,
    Map,
    Extension,
}

impl Kind {
    /// For messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Nil => "null",
            Kind::Bool => "a bool",
            Kind::Integer => "an integer",
            Kind::Single => "a float",
            Kind::Double => "a double",
            Kind::String => "a string",
            Kind::Binary => "bytes",
            Kind::Array => "an array",
            Kind::Map => "a map",
            Kind::Extension => "an extension",
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn error(&self, message: impl Into<String>) -> CodecError {
        CodecError::at(message, self.at)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.rest().split_at_checked(count) {
            Some((head, _)) => {
                self.at += count;
                Ok(head)
            }
            None => Err(self.error(format!(
                "{count} bytes expected, {} left",
                self.rest().len()
            ))),
        }
    }

    /// A big-endian number of `size` bytes.
    fn unsigned(&mut self, size: usize) -> Result<u64> {
        Ok(self
            .take(size)?
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// The kind of the next token.
    pub(super) fn kind(&self) -> Result<Kind> {
        let code = self
            .rest()
            .first()
            .ok_or_else(|| self.error("the data ends where a value is expected"))?;
        Ok(match code {
            0x00..=0x7F | 0xE0..=0xFF | 0xCC..=0xD3 => Kind::Integer,
            0x80..=0x8F | 0xDE | 0xDF => Kind::Map,
            0x90..=0x9F | 0xDC | 0xDD => Kind::Array,
            0xA0..=0xBF | 0xD9..=0xDB => Kind::String,
            0xC0 => Kind::Nil,
            0xC2 | 0xC3 => Kind::Bool,
            0xC4..=0xC6 => Kind::Binary,
            0xC7..=0xC9 | 0xD4..=0xD8 => Kind::Extension,
            0xCA => Kind::Single,
            0xCB => Kind::Double,
            0xC1 => return Err(self.error("C1 is no MessagePack")),
        })
    }

    /// Takes a nil, if that is what comes next.
    pub(super) fn nil(&mut self) -> Result<bool> {
        let nil = self.kind()? == Kind::Nil;
        if nil {
            self.at += 1;
        }
        Ok(nil)
    }

    fn wrong(&self, expected: &str) -> CodecError {
        match self.kind() {
            Ok(kind) => self.error(format!("{} where {expected} is expected", kind.name())),
            Err(error) => error,
        }
    }

    /// A bool.
    pub(super) fn bool(&mut self) -> Result<bool> {
        if self.kind()? != Kind::Bool {
            return Err(self.wrong("a bool"));
        }
        Ok(self.byte()? == 0xC3)
    }

    /// An integer of any width.
    pub(super) fn integer(&mut self) -> Result<i128> {
        if self.kind()? != Kind::Integer {
            return Err(self.wrong("an integer"));
        }
        let code = self.byte()?;
        Ok(match code {
            0x00..=0x7F => code.into(),
            0xCC..=0xCF => self.unsigned(1 << (code - 0xCC))?.into(),
            0xD0 => (self.unsigned(1)? as i8).into(),
            0xD1 => (self.unsigned(2)? as i16).into(),
            0xD2 => (self.unsigned(4)? as i32).into(),
            0xD3 => (self.unsigned(8)? as i64).into(),
            _ => code.cast_signed().into(),
        })
    }

    /// A number of any kind.
    pub(super) fn number(&mut self) -> Result<Number> {
        match self.kind()? {
            Kind::Integer => self.integer().map(Number::Int),
            Kind::Single => {
                self.at += 1;
                let bits = self.unsigned(4)? as u32;
                Ok(Number::Single(f32::from_bits(bits)))
            }
            Kind::Double => {
                self.at += 1;
                Ok(Number::Double(f64::from_bits(self.unsigned(8)?)))
            }
            _ => Err(self.wrong("a number")),
        }
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<&'a str> {
        if self.kind()? != Kind::String {
            return Err(self.wrong("a string"));
        }
        let code = self.byte()?;
        let length = match code {
            0xA0..=0xBF => u64::from(code & 0x1F),
            _ => self.unsigned(1 << (code - 0xD9))?,
        };
        let start = self.at;
        let bytes = self.take(length as usize)?;
        std::str::from_utf8(bytes)
            .map_err(|e| CodecError::at("a string is not UTF-8", start + e.valid_up_to()))
    }

    /// Bytes; also the bytes of a string, as the library reads them.
    pub(super) fn binary(&mut self) -> Result<&'a [u8]> {
        match self.kind()? {
            Kind::Binary => {
                let code = self.byte()?;
                let length = self.unsigned(1 << (code - 0xC4))?;
                self.take(length as usize)
            }
            Kind::String => self.string().map(str::as_bytes),
            _ => Err(self.wrong("bytes")),
        }
    }

    /// The number of items of an array, each of which has at least a byte.
    pub(super) fn array_length(&mut self) -> Result<usize> {
        if self.kind()? != Kind::Array {
            return Err(self.wrong("an array"));
        }
        let code = self.byte()?;
        let count = match code {
            0x90..=0x9F => u64::from(code & 0x0F),
            _ => self.unsigned(2 << (code - 0xDC))?,
        };
        self.fits(count, 1)
    }

    /// The number of entries of a map.
    pub(super) fn map_length(&mut self) -> Result<usize> {
        if self.kind()? != Kind::Map {
            return Err(self.wrong("a map"));
        }
        let code = self.byte()?;
        let count = match code {
            0x80..=0x8F => u64::from(code & 0x0F),
            _ => self.unsigned(2 << (code - 0xDE))?,
        };
        self.fits(count, 2)
    }

    fn fits(&self, count: u64, size: usize) -> Result<usize> {
        usize::try_from(count)
            .ok()
            .filter(|n| n.saturating_mul(size) <= self.rest().len())
            .ok_or_else(|| self.error(format!("a count of {count} does not fit into the data")))
    }

    pub(super) fn peek_array(&self) -> bool {
        self.kind() == Ok(Kind::Array)
    }

    /// The type of the extension that comes next.
    pub(super) fn peek_extension(&self) -> Option<i8> {
        let mut ahead = self.clone();
        match self.kind() {
            Ok(Kind::Extension) => ahead.extension().ok().map(|(ty, _)| ty),
            _ => None,
        }
    }

    /// An extension: its type and its bytes.
    pub(super) fn extension(&mut self) -> Result<(i8, &'a [u8])> {
        if self.kind()? != Kind::Extension {
            return Err(self.wrong("an extension"));
        }
        let code = self.byte()?;
        let length = match code {
            0xD4..=0xD8 => 1 << (code - 0xD4),
            _ => self.unsigned(1 << (code - 0xC7))?,
        };
        let ty = self.byte()?.cast_signed();
        Ok((ty, self.take(length as usize)?))
    }

    /// An integer that is a length.
    pub(super) fn length(&mut self) -> Result<usize> {
        let at = self.at;
        let length = self.integer()?;
        usize::try_from(length).map_err(|_| CodecError::at(format!("{length} is no length"), at))
    }

    /// Skips a value, without recursion.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            match self.kind()? {
                Kind::Nil | Kind::Bool => self.at += 1,
                Kind::Integer => {
                    self.integer()?;
                }
                Kind::Single | Kind::Double => {
                    self.number()?;
                }
                Kind::String | Kind::Binary => {
                    self.skip_bytes()?;
                }
                Kind::Extension => {
                    self.extension()?;
                }
                // Counts that do not fit into the data are refused, so this does not overflow.
                Kind::Array => left += self.array_length()?,
                Kind::Map => left += 2 * self.map_length()?,
            }
        }
        Ok(())
    }

    fn skip_bytes(&mut self) -> Result<()> {
        let code = self.byte()?;
        let length = match code {
            0xA0..=0xBF => u64::from(code & 0x1F),
            0xC4..=0xC6 => self.unsigned(1 << (code - 0xC4))?,
            _ => self.unsigned(1 << (code - 0xD9))?,
        };
        self.take(length as usize)?;
        Ok(())
    }
}

/// Appends an integer in its shortest form.
pub(super) fn write_integer(out: &mut Vec<u8>, value: i128) {
    match value {
        0..=0x7F => out.push(value as u8),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, value as u8]),
        0x100..=0xFFFF => write_wide(out, 0xCD, &(value as u16).to_be_bytes()),
        0x1_0000..=0xFFFF_FFFF => write_wide(out, 0xCE, &(value as u32).to_be_bytes()),
        0x1_0000_0000.. => write_wide(out, 0xCF, &(value as u64).to_be_bytes()),
        -32..=-1 => out.push((value as i8).cast_unsigned()),
        -0x80..=-33 => out.extend_from_slice(&[0xD0, (value as i8).cast_unsigned()]),
        -0x8000..=-0x81 => write_wide(out, 0xD1, &(value as i16).to_be_bytes()),
        -0x8000_0000..=-0x8001 => write_wide(out, 0xD2, &(value as i32).to_be_bytes()),
        _ => write_wide(out, 0xD3, &(value as i64).to_be_bytes()),
    }
}

/// Appends a code and the bytes of a number.
pub(super) fn write_wide(out: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    out.push(code);
    out.extend_from_slice(bytes);
}

/// A header of the shortest form: up to `fixed` in the code itself, else in 8, 16 or 32 bits.
fn write_length(out: &mut Vec<u8>, length: usize, fix: (u8, usize), codes: [Option<u8>; 3]) {
    let [narrow, middle, wide] = codes;
    match (u8::try_from(length), u16::try_from(length), narrow, middle) {
        _ if length <= fix.1 => out.push(fix.0 | length as u8),
        (Ok(length), _, Some(code), _) => out.extend_from_slice(&[code, length]),
        (_, Ok(length), _, Some(code)) => write_wide(out, code, &length.to_be_bytes()),
        _ => write_wide(
            out,
            wide.unwrap_or_default(),
            &(length as u32).to_be_bytes(),
        ),
    }
}

/// Appends a string.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    let codes = [Some(0xD9), Some(0xDA), Some(0xDB)];
    write_length(out, text.len(), (0xA0, 31), codes);
    out.extend_from_slice(text.as_bytes());
}

/// Appends bytes.
pub(super) fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length), _) => out.extend_from_slice(&[0xC4, length]),
        (_, Ok(length)) => write_wide(out, 0xC5, &length.to_be_bytes()),
        _ => write_wide(out, 0xC6, &(length as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

/// Appends the header of an array.
pub(super) fn write_array(out: &mut Vec<u8>, length: usize) {
    write_length(out, length, (0x90, 15), [None, Some(0xDC), Some(0xDD)]);
}

/// Appends the header of a map.
pub(super) fn write_map(out: &mut Vec<u8>, length: usize) {
    write_length(out, length, (0x80, 15), [None, Some(0xDE), Some(0xDF)]);
}
