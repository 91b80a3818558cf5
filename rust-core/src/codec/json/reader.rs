//! A strict reader of JSON text, as strict as `System.Text.Json` with its defaults.
//!
//! Owns the lexical side: blanks, numbers, strings, nesting. It refuses a byte order mark, comments,
//! trailing commas and data, single quotes, raw control characters, lone surrogates, invalid UTF-8 and
//! more than 64 levels.

use std::borrow::Cow;

use crate::codec::error::{CodecError, Result};

/// Deepest nesting of arrays and objects.
pub(crate) const MAX_DEPTH: usize = 64;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

impl Token {
    /// For messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Token::Null => "null",
            Token::True | Token::False => "a bool",
            Token::Number => "a number",
            Token::String => "a string",
            Token::Array => "an array",
            Token::Object => "an object",
        }
    }
}

/// Reads JSON front to back.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// A reader of bytes that must be UTF-8.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(text)),
            Err(e) => Err(CodecError::at("not UTF-8", e.valid_up_to())),
        }
    }

    /// Offset of what comes next.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> CodecError {
        CodecError::at(message, self.at)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The text between two offsets of this reader.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// What the next value is; nothing is taken but blanks.
    pub(crate) fn peek(&mut self) -> Result<Token> {
        self.skip_blanks();
        Ok(match self.byte() {
            Some(b'n') => Token::Null,
            Some(b't') => Token::True,
            Some(b'f') => Token::False,
            Some(b'-' | b'0'..=b'9') => Token::Number,
            Some(b'"') => Token::String,
            Some(b'[') => Token::Array,
            Some(b'{') => Token::Object,
            Some(_) => return Err(self.error("not JSON")),
            None => return Err(self.error("the JSON ends where a value is expected")),
        })
    }

    /// Nothing but blanks may be left.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.skip_blanks();
        match self.byte() {
            None => Ok(()),
            Some(_) => Err(self.error("more data after the JSON value")),
        }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.error("not JSON"))
        }
    }

    /// Takes `null`, if that is what comes next.
    pub(crate) fn null(&mut self) -> Result<bool> {
        let null = self.peek()? == Token::Null;
        if null {
            self.word("null")?;
        }
        Ok(null)
    }

    /// Takes `true` or `false`, after it was peeked.
    pub(crate) fn bool(&mut self) -> Result<bool> {
        if self.byte() == Some(b't') {
            self.word("true").map(|()| true)
        } else {
            self.word("false").map(|()| false)
        }
    }

    /// Takes a number, after it was peeked: its text, exactly as it stands.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |from: usize| {
            bytes[from..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = digits(at);
        if whole == 0 || (whole > 1 && bytes[at] == b'0') {
            return Err(self.error("not a JSON number"));
        }
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            if fraction == 0 {
                return Err(self.error("not a JSON number"));
            }
            at += 1 + fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = bytes
                .get(at + 1 + sign)
                .map_or(0, |_| digits(at + 1 + sign));
            if exponent == 0 {
                return Err(self.error("not a JSON number"));
            }
            at += 1 + sign + exponent;
        }
        // What follows must end it.
        if !matches!(
            bytes.get(at),
            None | Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b']' | b'}')
        ) {
            return Err(self.error("not a JSON number"));
        }
        self.at = at;
        Ok(self.slice(start, at))
    }

    /// Takes a string, after it was peeked; borrowed if it has no escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut at = start;
        let mut owned: Option<String> = None;
        // Start of the run that is not copied yet.
        let mut run = start;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    let last = self.slice(run, at);
                    return Ok(match owned {
                        None => Cow::Borrowed(last),
                        Some(mut text) => {
                            text.push_str(last);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_default();
                    text.push_str(self.text.get(run..at).unwrap_or_default());
                    let (next, len) = self.escape(at)?;
                    text.push(next);
                    at += len;
                    run = at;
                }
                Some(0..=0x1F) => {
                    return Err(CodecError::at("a raw control character in a string", at));
                }
                Some(_) => at += 1,
                None => return Err(CodecError::at("a string without an end", self.at)),
            }
        }
    }

    /// The character of the escape at `at`, and the escape's length.
    fn escape(&self, at: usize) -> Result<(char, usize)> {
        let simple = match self.text.as_bytes().get(at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(at),
            _ => return Err(CodecError::at("not a JSON escape", at)),
        };
        Ok((simple, 2))
    }

    fn unicode_escape(&self, at: usize) -> Result<(char, usize)> {
        let unit = self.hex_unit(at)?;
        if let Some(single) = char::from_u32(unit.into()) {
            return Ok((single, 6));
        }
        let lone = || CodecError::at("half of a surrogate pair", at);
        if unit >= 0xDC00 || self.text.get(at + 6..at + 8) != Some("\\u") {
            return Err(lone());
        }
        let second = self.hex_unit(at + 6)?;
        match char::decode_utf16([unit, second]).next() {
            Some(Ok(pair)) => Ok((pair, 12)),
            _ => Err(lone()),
        }
    }

    fn hex_unit(&self, at: usize) -> Result<u16> {
        self.text
            .get(at + 2..at + 6)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u16::from_str_radix(hex, 16).ok())
            .ok_or_else(|| CodecError::at("not a JSON escape", at))
    }

    fn open(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("nested more than {MAX_DEPTH} levels deep")));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Goes into an array or object, after it was peeked.
    pub(crate) fn enter(&mut self) -> Result<()> {
        self.open()
    }

    /// Goes to the next item of an array; false at its end, which is taken.
    pub(crate) fn next_item(&mut self, first: bool) -> Result<bool> {
        self.next(first, b']', "\",\" or \"]\"")
    }

    /// Goes to the next member of an object and takes its name; `None` at the end of the object.
    pub(crate) fn next_member(&mut self, first: bool) -> Result<Option<Cow<'a, str>>> {
        if !self.next(first, b'}', "\",\" or \"}\"")? {
            return Ok(None);
        }
        if self.byte() != Some(b'"') {
            return Err(self.error("expected a member's name in quotes"));
        }
        let name = self.string()?;
        self.skip_blanks();
        if self.byte() != Some(b':') {
            return Err(self.error("expected \":\""));
        }
        self.at += 1;
        Ok(Some(name))
    }

    fn next(&mut self, first: bool, close: u8, expected: &str) -> Result<bool> {
        self.skip_blanks();
        match self.byte() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                self.skip_blanks();
                if self.byte() == Some(close) {
                    return Err(self.error("a comma before the end"));
                }
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.error(format!("expected {expected}"))),
        }
    }
}
