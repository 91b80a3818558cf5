//! MemoryPack primitives: a bounds-checked reader and an appending writer.
//!
//! Owns the encoding of integers, strings, byte arrays and object headers. It never trusts a
//! length: nothing is allocated that the remaining input could not fill.

use std::fmt;

/// Object header of a null object.
pub const NULL_OBJECT: u8 = 255;
/// Length prefix of a null array, collection or string.
pub const NULL_COLLECTION: i32 = -1;

/// Why bytes are not valid MemoryPack: what was expected, and at which offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// What is wrong, in words.
    pub what: String,
    /// Offset in bytes from the start of the input.
    pub at: usize,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for DecodeError {}

/// Result of reading.
pub type Result<T> = std::result::Result<T, DecodeError>;

/// Reads MemoryPack values from a slice, front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

macro_rules! read_le {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$ty> {
            Ok(<$ty>::from_le_bytes(self.array()?))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// A reader at the start of `input`.
    pub fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    /// Offset of the next byte to read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.input.len() - self.at
    }

    /// An error at the current position.
    #[cold]
    pub fn error(&self, what: impl Into<String>) -> DecodeError {
        DecodeError {
            what: what.into(),
            at: self.at,
        }
    }

    #[cold]
    fn too_short(&self, expected: usize) -> DecodeError {
        self.error(format!(
            "{expected} bytes expected, {} left",
            self.remaining()
        ))
    }

    /// The next `n` bytes, borrowed.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.input[self.at..].split_at_checked(n) {
            Some((head, _)) => {
                self.at += n;
                Ok(head)
            }
            None => Err(self.too_short(n)),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.input[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.too_short(N)),
        }
    }

    read_le! {
        /// One byte.
        u8 -> u8;
        /// One signed byte.
        i8 -> i8;
        /// Two bytes, little-endian.
        u16 -> u16;
        /// Two bytes, little-endian, signed.
        i16 -> i16;
        /// Four bytes, little-endian.
        u32 -> u32;
        /// Four bytes, little-endian, signed.
        i32 -> i32;
        /// Eight bytes, little-endian.
        u64 -> u64;
        /// Eight bytes, little-endian, signed.
        i64 -> i64;
        /// Sixteen bytes, little-endian.
        u128 -> u128;
        /// Sixteen bytes, little-endian, signed.
        i128 -> i128;
        /// An IEEE single.
        f32 -> f32;
        /// An IEEE double.
        f64 -> f64;
    }

    /// A bool: .NET reads any non-zero byte as true.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    /// A Guid in .NET memory order.
    pub fn guid(&mut self) -> Result<uuid::Uuid> {
        Ok(uuid::Uuid::from_bytes_le(self.array()?))
    }

    /// The member count of an object, `None` for a null object.
    pub fn object_header(&mut self) -> Result<Option<u8>> {
        match self.u8()? {
            NULL_OBJECT => Ok(None),
            count @ 0..=249 => Ok(Some(count)),
            code => {
                self.at -= 1;
                Err(self.error(format!("{code} is not an object header")))
            }
        }
    }

    /// The element count of a collection, `None` for null. Fails when the rest of the input
    /// could not hold that many elements of at least `min_element_size` bytes each.
    pub fn collection_header(&mut self, min_element_size: usize) -> Result<Option<usize>> {
        let start = self.at;
        let count = self.i32()?;
        if count == NULL_COLLECTION {
            return Ok(None);
        }
        let fits = usize::try_from(count)
            .ok()
            .filter(|n| n.saturating_mul(min_element_size) <= self.remaining());
        if fits.is_none() {
            self.at = start;
            return Err(self.error(format!("a count of {count} does not fit into the input")));
        }
        Ok(fits)
    }

    /// A `byte[]`, borrowed; `None` for null.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        match self.collection_header(1)? {
            Some(len) => self.take(len).map(Some),
            None => Ok(None),
        }
    }

    /// A string in either of the two forms a .NET reader accepts; `None` for null.
    ///
    /// In the UTF-8 form the number of UTF-16 units that precedes the text must be right, or not
    /// positive ("unknown"): the reference truncates or pads by it, which here is an error.
    pub fn string(&mut self) -> Result<Option<String>> {
        let start = self.at;
        let header = self.i32()?;
        match header {
            NULL_COLLECTION => Ok(None),
            0 => Ok(Some(String::new())),
            1.. => {
                let units = header as usize;
                let bytes = self.take(units.saturating_mul(2))?;
                let text: std::result::Result<String, _> = char::decode_utf16(
                    bytes
                        .chunks_exact(2)
                        .map(|pair| u16::from_le_bytes([pair[0], pair[1]])),
                )
                .collect();
                text.map(Some).map_err(|_| DecodeError {
                    what: "a string is not valid UTF-16".into(),
                    at: start,
                })
            }
            _ => {
                let len = !header as usize;
                let units = self.i32()?;
                let bytes = self.take(len)?;
                let text = std::str::from_utf8(bytes).map_err(|e| DecodeError {
                    what: "a string is not valid UTF-8".into(),
                    at: start + 8 + e.valid_up_to(),
                })?;
                if units > 0 && utf16_len(text) != units as usize {
                    return Err(DecodeError {
                        what: format!(
                            "a string says {units} UTF-16 units and has {}",
                            utf16_len(text)
                        ),
                        at: start + 4,
                    });
                }
                Ok(Some(text.to_owned()))
            }
        }
    }

    /// A variable-length integer as member lengths use it.
    #[inline]
    pub fn varint(&mut self) -> Result<i64> {
        // Nearly every member is shorter than 128 bytes.
        match self.input.get(self.at) {
            Some(&short @ 0..=127) => {
                self.at += 1;
                Ok(i64::from(short))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<i64> {
        let start = self.at;
        Ok(match self.i8()? {
            -121 => i64::from(self.u8()?),
            -122 => i64::from(self.i8()?),
            -123 => i64::from(self.u16()?),
            -124 => i64::from(self.i16()?),
            -125 => i64::from(self.u32()?),
            -126 => i64::from(self.i32()?),
            -127 => i64::try_from(self.u64()?).map_err(|_| DecodeError {
                what: "a length is out of range".into(),
                at: start,
            })?,
            -128 => self.i64()?,
            value => i64::from(value),
        })
    }
}

/// Appends MemoryPack values to a buffer.
pub trait Write {
    /// Appends raw bytes.
    fn raw(&mut self, bytes: &[u8]);

    /// One byte.
    fn u8(&mut self, value: u8) {
        self.raw(&[value]);
    }

    /// Four bytes, little-endian.
    fn i32(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    /// Eight bytes, little-endian.
    fn i64(&mut self, value: i64) {
        self.raw(&value.to_le_bytes());
    }

    /// A Guid in .NET memory order.
    fn guid(&mut self, value: uuid::Uuid) {
        self.raw(&value.to_bytes_le());
    }

    /// The length of a collection; `None` for null. A length above `i32::MAX` has no encoding:
    /// callers bound their input by the frame limit, which is smaller.
    fn collection_header(&mut self, len: Option<usize>) {
        debug_assert!(len.is_none_or(|n| i32::try_from(n).is_ok()));
        self.i32(len.map_or(NULL_COLLECTION, |n| n as i32));
    }

    /// A `byte[]`; `None` for null.
    fn bytes(&mut self, value: Option<&[u8]>) {
        self.collection_header(value.map(<[u8]>::len));
        self.raw(value.unwrap_or_default());
    }

    /// A string in UTF-8 form; `None` for null.
    fn string(&mut self, value: Option<&str>) {
        match value {
            None => self.i32(NULL_COLLECTION),
            Some("") => self.i32(0),
            Some(text) => {
                self.i32(!(text.len() as i32));
                self.i32(utf16_len(text) as i32);
                self.raw(text.as_bytes());
            }
        }
    }

    /// A variable-length integer as member lengths use it.
    fn varint(&mut self, value: usize) {
        match value {
            0..=127 => self.u8(value as u8),
            128..=32767 => {
                self.u8(0x84);
                self.raw(&(value as i16).to_le_bytes());
            }
            _ => {
                self.u8(0x82);
                self.i32(value as i32);
            }
        }
    }
}

impl Write for Vec<u8> {
    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Write for bytes::BytesMut {
    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Number of UTF-16 code units of `text`.
pub fn utf16_len(text: &str) -> usize {
    // Every character is one unit, those of four UTF-8 bytes are two: count the bytes that start
    // a character, and once more those that start a long one.
    text.bytes()
        .map(|b| usize::from(b & 0xC0 != 0x80) + usize::from(b >= 0xF0))
        .sum()
}

/// Encoded size of a string in bytes.
pub fn string_size(value: Option<&str>) -> usize {
    // Null and empty are told apart by the length word alone.
    match value.map_or(0, str::len) {
        0 => 4,
        len => 8 + len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(f: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        f(&mut out);
        out
    }

    #[test]
    fn strings_have_the_documented_bytes() {
        let bytes = written(|w| w.string(Some("é€😀")));
        assert_eq!(
            bytes,
            [
                0xF6, 0xFF, 0xFF, 0xFF, 4, 0, 0, 0, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98,
                0x80
            ]
        );
        assert_eq!(
            Reader::new(&bytes).string().unwrap().as_deref(),
            Some("é€😀")
        );
        assert_eq!(written(|w| w.string(None)), [0xFF; 4]);
        assert_eq!(written(|w| w.string(Some(""))), [0; 4]);
    }

    #[test]
    fn the_utf16_form_is_read() {
        let bytes = [2, 0, 0, 0, 0x3D, 0xD8, 0x00, 0xDE];
        assert_eq!(Reader::new(&bytes).string().unwrap().as_deref(), Some("😀"));
        let half = [1, 0, 0, 0, 0x3D, 0xD8];
        assert!(Reader::new(&half).string().is_err());
    }

    #[test]
    fn a_wrong_unit_count_is_an_error_and_an_unknown_one_is_not() {
        let mut bytes = written(|w| w.string(Some("abc")));
        bytes[4] = 0;
        assert_eq!(
            Reader::new(&bytes).string().unwrap().as_deref(),
            Some("abc")
        );
        for units in [1, 4, 127] {
            bytes[4] = units;
            assert!(Reader::new(&bytes).string().is_err());
        }
    }

    #[test]
    fn varints_have_the_documented_bytes() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7F]),
            (128, &[0x84, 0x80, 0]),
            (300, &[0x84, 0x2C, 1]),
            (32767, &[0x84, 0xFF, 0x7F]),
            (32768, &[0x82, 0, 0x80, 0, 0]),
        ] {
            assert_eq!(written(|w| w.varint(value)), bytes);
            assert_eq!(Reader::new(bytes).varint().unwrap(), value as i64);
        }
        for (bytes, value) in [
            (&[0x87, 200][..], 200),
            (&[0x86, 0xFF], -1),
            (&[0x85, 0xFF, 0xFF], 65535),
            (&[0x83, 0xFF, 0xFF, 0xFF, 0xFF], 4_294_967_295),
            (&[0x81, 1, 0, 0, 0, 0, 0, 0, 0], 1),
            (&[0x80, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], -2),
        ] {
            assert_eq!(Reader::new(bytes).varint().unwrap(), value);
        }
    }

    #[test]
    fn a_length_that_the_input_cannot_fill_is_refused_before_it_allocates() {
        for bytes in [
            [0xFF, 0xFF, 0xFF, 0x7F],
            [5, 0, 0, 0],
            [0xFE, 0xFF, 0xFF, 0xFF],
        ] {
            assert!(Reader::new(&bytes).bytes().is_err());
        }
        assert!(
            Reader::new(&[0x00, 0x00, 0x00, 0x80, 1, 0, 0, 0])
                .string()
                .is_err()
        );
    }
}
