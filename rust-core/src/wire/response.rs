//! The answer to a call.

use bytes::Bytes;

use super::memorypack::{Reader, Result, Write, string_size};
use super::tolerant::{Members, write_extension, write_header};

/// Status, result and error texts of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// One of [`status`](super::status).
    pub status: i32,
    /// The encoded result; `None` for void and for null.
    pub data: Option<Bytes>,
    /// What went wrong.
    pub error_message: Option<String>,
    /// The message of the exception behind it.
    pub error_details: Option<String>,
    /// What a libwitrpc server adds for a libwitrpc client.
    pub extension: Option<Bytes>,
}

impl Response {
    /// A success.
    pub fn ok(data: Option<Bytes>) -> Self {
        Self {
            status: super::status::OK,
            data,
            ..Self::default()
        }
    }

    /// A refusal or failure.
    pub fn error(status: i32, message: impl Into<String>, details: Option<String>) -> Self {
        Self {
            status,
            error_message: Some(message.into()),
            error_details: details,
            ..Self::default()
        }
    }

    /// Reads the payload without copying the result; `Ok(None)` for a null object.
    pub fn decode(data: &Bytes) -> Result<Option<Self>> {
        let mut reader = Reader::new(data);
        let Some(mut members) = Members::open(&mut reader)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            status: members.member(Reader::i32)?,
            data: members.member(|r| Ok(r.bytes()?.map(|part| data.slice_ref(part))))?,
            error_message: members.member(Reader::string)?,
            error_details: members.member(Reader::string)?,
            extension: members.finish()?.map(|part| data.slice_ref(part)),
        }))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let data = self.data.as_deref();
        let (message, details) = (self.error_message.as_deref(), self.error_details.as_deref());
        let extension = self.extension.as_deref();
        let data_size = 4 + data.map_or(0, <[u8]>::len);
        write_header(
            out,
            &[4, data_size, string_size(message), string_size(details)],
            extension,
        );
        out.i32(self.status);
        out.bytes(data);
        out.string(message);
        out.string(details);
        write_extension(out, extension);
    }
}
