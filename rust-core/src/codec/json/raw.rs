//! JSON of which the type is not known: kept as text, its numbers digit for digit.

use std::fmt;

use super::escape::{Dialect, write_string};
use super::reader::{Reader, Token};
use crate::codec::error::Result;

/// Any JSON value as compact text: no blanks, members in order, duplicates and the digits of
/// numbers kept.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Box<str>);

impl RawJson {
    /// Reads one JSON value, strictly.
    ///
    /// # Errors
    /// When the text is no JSON, has more than one value, or is nested more than 64 levels deep.
    pub fn parse(text: &str) -> Result<RawJson> {
        let mut reader = Reader::new(text);
        let raw = read(&mut reader)?;
        reader.end()?;
        Ok(raw)
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes the next value whole.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<RawJson> {
    let mut out = Vec::new();
    copy(reader, &mut out, Dialect::Text)?;
    // What was copied came from text, piece by piece.
    Ok(RawJson(String::from_utf8(out).unwrap_or_default().into()))
}

/// Appends a value in the dialect.
pub(crate) fn write(out: &mut Vec<u8>, value: &RawJson, dialect: Dialect) -> Result<()> {
    match dialect {
        Dialect::Text => {
            out.extend_from_slice(value.0.as_bytes());
            Ok(())
        }
        Dialect::Wire => copy(&mut Reader::new(&value.0), out, dialect),
    }
}

/// Skips the next value, but checks it.
pub(crate) fn skip(reader: &mut Reader<'_>) -> Result<()> {
    walk(reader, None)
}

fn copy(reader: &mut Reader<'_>, out: &mut Vec<u8>, dialect: Dialect) -> Result<()> {
    walk(reader, Some((out, dialect)))
}

/// Goes through a value without recursion, and copies it where asked.
fn walk(reader: &mut Reader<'_>, mut out: Option<(&mut Vec<u8>, Dialect)>) -> Result<()> {
    // One entry per open container: whether it is an object.
    let mut open: Vec<bool> = Vec::new();
    let push = |out: &mut Option<(&mut Vec<u8>, Dialect)>, bytes: &[u8]| {
        if let Some((out, _)) = out {
            out.extend_from_slice(bytes);
        }
    };
    loop {
        let mut first = false;
        match reader.peek()? {
            Token::Null => {
                reader.null()?;
                push(&mut out, b"null");
            }
            Token::True | Token::False => {
                let value = reader.bool()?;
                push(&mut out, if value { b"true" } else { b"false" });
            }
            Token::Number => {
                let text = reader.number()?;
                push(&mut out, text.as_bytes());
            }
            Token::String => {
                let text = reader.string()?;
                if let Some((out, dialect)) = &mut out {
                    write_string(out, &text, *dialect);
                }
            }
            token @ (Token::Array | Token::Object) => {
                reader.enter()?;
                let object = token == Token::Object;
                push(&mut out, if object { b"{" } else { b"[" });
                open.push(object);
                first = true;
            }
        }
        // To the next value: over the ends of containers and the name of a member.
        loop {
            let Some(object) = open.last() else {
                return Ok(());
            };
            let name = if *object {
                reader.next_member(first)?.map(Some)
            } else {
                reader.next_item(first)?.then_some(None)
            };
            match name {
                None => {
                    push(&mut out, if *object { b"}" } else { b"]" });
                    open.pop();
                    first = false;
                }
                Some(name) => {
                    if !first {
                        push(&mut out, b",");
                    }
                    if let Some(name) = name {
                        if let Some((out, dialect)) = &mut out {
                            write_string(out, &name, *dialect);
                        }
                        push(&mut out, b":");
                    }
                    break;
                }
            }
        }
    }
}
