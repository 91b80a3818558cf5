//! The four payloads of the handshake.
//!
//! Each `encode` takes the libwitrpc extension as an option: a fifth wheel that a .NET peer skips.

use bytes::Bytes;

use super::memorypack::{Reader, Result, Write, string_size};
use super::tolerant::{Members, write_extension, write_header};

/// How the refusal of a libwitrpc server begins whose client does not encrypt, or not well enough.
pub const ENCRYPTION_REFUSED: &str = "Encryption refused: ";

fn bytes_size(value: Option<&[u8]>) -> usize {
    4 + value.map_or(0, <[u8]>::len)
}

/// Client to server: "here is my key and my version".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InitializationRequest {
    /// The single byte 0 from a plain client, a JSON text from an encrypting one.
    pub public_key: Option<Vec<u8>>,
    /// Must be [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION).
    pub protocol_version: i32,
    /// What a libwitrpc client adds.
    pub extension: Option<Vec<u8>>,
}

impl InitializationRequest {
    /// Reads the payload; `Ok(None)` for a null object.
    pub fn decode(data: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(data);
        let Some(mut members) = Members::open(&mut reader)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            public_key: members.member(|r| Ok(r.bytes()?.map(<[u8]>::to_vec)))?,
            protocol_version: members.member(Reader::i32)?,
            extension: members.finish()?.map(<[u8]>::to_vec),
        }))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let key = self.public_key.as_deref();
        let extension = self.extension.as_deref();
        write_header(out, &[bytes_size(key), 4], extension);
        out.bytes(key);
        out.i32(self.protocol_version);
        write_extension(out, extension);
    }
}

/// Server to client: the keys of the connection, or why there is none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct InitializationResponse {
    /// 32 bytes, or the single byte 0 from a plain server.
    pub symmetric_key: Option<Vec<u8>>,
    /// 16 bytes, or the single byte 0 from a plain server.
    pub vector: Option<Vec<u8>>,
    /// The server's version; a client does not compare it, the server already has.
    pub protocol_version: i32,
    /// The refusal, if it is one.
    pub error_message: Option<String>,
    /// What a libwitrpc server adds for a libwitrpc client.
    pub extension: Option<Vec<u8>>,
}

impl std::fmt::Debug for InitializationResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InitializationResponse")
            .field("has_keys", &self.symmetric_key.is_some())
            .field("protocol_version", &self.protocol_version)
            .field("error_message", &self.error_message)
            .finish_non_exhaustive()
    }
}

impl InitializationResponse {
    /// Reads the payload; `Ok(None)` for a null object.
    pub fn decode(data: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(data);
        let Some(mut members) = Members::open(&mut reader)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            symmetric_key: members.member(|r| Ok(r.bytes()?.map(<[u8]>::to_vec)))?,
            vector: members.member(|r| Ok(r.bytes()?.map(<[u8]>::to_vec)))?,
            protocol_version: members.member(Reader::i32)?,
            error_message: members.member(Reader::string)?,
            extension: members.finish()?.map(<[u8]>::to_vec),
        }))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let (key, vector) = (self.symmetric_key.as_deref(), self.vector.as_deref());
        let (error, extension) = (self.error_message.as_deref(), self.extension.as_deref());
        let lengths = [bytes_size(key), bytes_size(vector), 4, string_size(error)];
        write_header(out, &lengths, extension);
        out.bytes(key);
        out.bytes(vector);
        out.i32(self.protocol_version);
        out.string(error);
        write_extension(out, extension);
    }
}

/// Client to server: "this is my token".
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// Empty where no token is configured.
    pub token: Option<String>,
    /// What a libwitrpc client adds for a libwitrpc server.
    pub extension: Option<Bytes>,
}

impl std::fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthorizationRequest")
            .finish_non_exhaustive()
    }
}

impl AuthorizationRequest {
    /// Reads the payload; `Ok(None)` for a null object.
    pub fn decode(data: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(data);
        let Some(mut members) = Members::open(&mut reader)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            token: members.member(Reader::string)?,
            extension: members.finish()?.map(Bytes::copy_from_slice),
        }))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let token = self.token.as_deref();
        let extension = self.extension.as_deref();
        write_header(out, &[string_size(token)], extension);
        out.string(token);
        write_extension(out, extension);
    }
}

/// Server to client: whether the connection may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationResponse {
    /// True if it may.
    pub is_authorized: bool,
    /// `Authorized`, or the refusal (`Forbidden`).
    pub message: Option<String>,
    /// What a libwitrpc server adds for a libwitrpc client.
    pub extension: Option<Bytes>,
}

impl AuthorizationResponse {
    /// Reads the payload; `Ok(None)` for a null object.
    pub fn decode(data: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(data);
        let Some(mut members) = Members::open(&mut reader)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            is_authorized: members.member(Reader::bool)?,
            message: members.member(Reader::string)?,
            extension: members.finish()?.map(Bytes::copy_from_slice),
        }))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let message = self.message.as_deref();
        let extension = self.extension.as_deref();
        write_header(out, &[1, string_size(message)], extension);
        out.u8(u8::from(self.is_authorized));
        out.string(message);
        write_extension(out, extension);
    }
}
