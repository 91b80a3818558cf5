//! Why a value could not be read or written, and where in it.

use std::fmt;

/// Result of encoding and decoding.
pub type Result<T> = std::result::Result<T, CodecError>;

/// Why a value could not be read or written: what was wrong, where in the value, and at which byte
/// of its text or blob.
///
/// ```text
/// argument 2 "born": not an ISO date (byte 1)
/// argument 1 "person".Home.Zip: a string where an int is expected (byte 34)
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    message: String,
    at: Option<usize>,
    /// Outermost last: it grows while the error travels outwards.
    path: Vec<Step>,
    root: Root,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Index(usize),
    Key(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Root {
    None,
    Argument(usize, Option<String>),
    EventArgument(usize, Option<String>),
    Result,
}

impl CodecError {
    /// An error without a place.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            message: message.into(),
            at: None,
            path: Vec::new(),
            root: Root::None,
        }))
    }

    /// An error at a byte offset of the input.
    pub(crate) fn at(message: impl Into<String>, at: usize) -> Self {
        let mut error = Self::new(message);
        error.0.at = Some(at);
        error
    }

    /// The same error, inside the member of this name.
    pub(crate) fn in_member(mut self, name: &str) -> Self {
        self.0.path.push(Step::Member(name.into()));
        self
    }

    /// The same error, inside the item of this index.
    pub(crate) fn in_item(mut self, index: usize) -> Self {
        self.0.path.push(Step::Index(index));
        self
    }

    /// The same error, inside the entry of this key.
    pub(crate) fn in_key(mut self, key: impl Into<String>) -> Self {
        self.0.path.push(Step::Key(key.into()));
        self
    }

    pub(crate) fn in_argument(mut self, index: usize, name: Option<&str>) -> Self {
        self.0.root = Root::Argument(index, name.map(Into::into));
        self
    }

    pub(crate) fn in_event_argument(mut self, index: usize, name: Option<&str>) -> Self {
        self.0.root = Root::EventArgument(index, name.map(Into::into));
        self
    }

    pub(crate) fn in_result(mut self) -> Self {
        self.0.root = Root::Result;
        self
    }

    /// The same error with its offset counted from `start` bytes earlier.
    pub(crate) fn shifted(mut self, start: usize) -> Self {
        self.0.at = self.0.at.map(|at| at + start);
        self
    }

    /// The same error with an offset, if it has none.
    pub(crate) fn or_at(mut self, at: usize) -> Self {
        self.0.at.get_or_insert(at);
        self
    }

    /// The same error with its offset counted from `start`.
    pub(crate) fn counted_from(mut self, start: usize) -> Self {
        self.0.at = self.0.at.map(|at| at.saturating_sub(start));
        self
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Offset in bytes from the start of the value's text or blob, when known.
    pub fn offset(&self) -> Option<usize> {
        self.0.at
    }

    /// Where in the value: `argument 1 "person".Home.Zip`, `result[3]`; empty for a value as a
    /// whole.
    pub fn path(&self) -> String {
        let mut out = match &self.0.root {
            Root::None => String::new(),
            Root::Argument(index, name) => argument("argument", *index, name.as_deref()),
            Root::EventArgument(index, name) => argument("event argument", *index, name.as_deref()),
            Root::Result => "result".into(),
        };
        for step in self.0.path.iter().rev() {
            match step {
                Step::Member(name) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(name);
                }
                Step::Index(index) => out.push_str(&format!("[{index}]")),
                Step::Key(key) => out.push_str(&format!("[{key:?}]")),
            }
        }
        out
    }
}

fn argument(what: &str, index: usize, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{what} {} {name:?}", index + 1),
        None => format!("{what} {}", index + 1),
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.0.message)?;
        match self.0.at {
            Some(at) => write!(f, " (byte {at})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CodecError {}

/// Adds a place to the error of a result.
pub(crate) trait Place<T> {
    fn in_member(self, name: &str) -> Result<T>;
    fn in_item(self, index: usize) -> Result<T>;
}

impl<T> Place<T> for Result<T> {
    fn in_member(self, name: &str) -> Result<T> {
        self.map_err(|e| e.in_member(name))
    }

    fn in_item(self, index: usize) -> Result<T> {
        self.map_err(|e| e.in_item(index))
    }
}

impl From<crate::wire::memorypack::DecodeError> for CodecError {
    fn from(error: crate::wire::memorypack::DecodeError) -> Self {
        CodecError::at(error.what, error.at)
    }
}
