//! The client's side of one connection: handshake, then calls out and answers and events in.
//!
//! Owns the message ids of the connection and nothing of the calls behind them: an answer is
//! reported by the [`Slot`] that the call was sent with. Deadlines, retries and reconnection belong
//! to the [engine](crate::resilience::engine).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zeroize::Zeroize;

use super::cover::Cover;
use super::{MAX_PONGS, PeerInfo, extension};
use crate::error::{Error, ErrorCode, Outcome, Result};
use crate::security::{Channel, ClientKey, Keys, Role};
use crate::wire::extension::{Capabilities, Extension};
use crate::wire::{
    self, Arguments, AuthorizationRequest, AuthorizationResponse, ENCRYPTION_REFUSED, Envelope,
    InitializationRequest, InitializationResponse, Kind, PROTOCOL_VERSION, Request, Response,
    TypeNames,
};

/// Where an answer belongs: the place of its call and a number that no other request of this
/// client had before. Both travel in the message id, so that an answer finds its call without a
/// search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Place of the call.
    pub index: u32,
    /// Number of the attempt over all calls; wraps.
    pub serial: u32,
}

/// One attempt of a call.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Name of the method.
    pub method_name: &'a str,
    /// The encoded arguments.
    pub arguments: &'a Arguments,
    /// Type names, for a call by name.
    pub types: Option<&'a TypeNames>,
    /// The same for all attempts of one call.
    pub invocation_id: Uuid,
    /// Id of the contract.
    pub contract_id: i64,
    /// Id of the method, 0 for a call by name.
    pub method_id: i64,
    /// Number of the call within the client; `None` for a call that is never sent again.
    pub number: Option<u64>,
    /// No call below this number will be sent again.
    pub first_unfinished: u64,
    /// Which attempt it is, where an earlier one may have arrived and the call must not run twice.
    pub attempt: Option<u32>,
    /// An earlier attempt may have been executed in another life of the server.
    pub elsewhere: bool,
    /// An earlier attempt may have arrived, and the call may run twice.
    pub may_have_come: bool,
    /// Time until its caller gives up.
    pub remaining: Option<Duration>,
    /// What the handler's tracing is told, at most
    /// [`MAX_TRACE_CONTEXT`](wire::extension::MAX_TRACE_CONTEXT) bytes.
    pub trace_context: Option<&'a [u8]>,
}

/// What a frame meant.
#[derive(Debug)]
pub enum Received {
    /// Nothing that concerns anybody.
    Nothing,
    /// The connection is authorised.
    Authorized,
    /// The answer to a request; an error if the peer's bytes made no sense.
    Answer(Slot, Result<(Response, Extension)>),
    /// An event.
    Event(Request),
    /// The answer to a [ping](ClientSession::ping).
    Pong(u64),
    /// The server will close the connection. It has been answered that no more requests come.
    GoingAway,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Initializing,
    Authorizing,
    Ready,
}

/// The client's side of one connection, as a state machine without a socket or a clock.
#[derive(Debug)]
pub struct ClientSession {
    phase: Phase,
    /// Id of the handshake message in flight.
    handshake_id: Uuid,
    /// First half of all message ids of this connection.
    nonce: [u8; 8],
    token: String,
    client_id: Uuid,
    peer: PeerInfo,
    /// The key pair, if the connection is to be encrypted.
    key: Option<Arc<ClientKey>>,
    cover: Cover,
    output: BytesMut,
    /// Bytes ever put into `output`.
    produced: u64,
    /// Silence that is taken for death.
    patience: Option<Duration>,
    /// Pongs in `output`.
    pongs: u32,
    /// The server was told that no more requests come.
    leaving: bool,
}

impl ClientSession {
    /// Starts the handshake: its first frame is in the [output](Self::take_output).
    ///
    /// `nonce` must be random. `client_id` is told to a libwitrpc server only.
    pub fn new(nonce: [u8; 8], client_id: Uuid, token: &str) -> Self {
        Self::start(nonce, client_id, token, None)
    }

    /// The same, encrypted: a server that does not encrypt is refused. The key pair may serve all
    /// connections of a client.
    pub fn encrypted(nonce: [u8; 8], client_id: Uuid, token: &str, key: Arc<ClientKey>) -> Self {
        Self::start(nonce, client_id, token, Some(key))
    }

    /// True once the server has answered the introduction.
    pub fn is_initialized(&self) -> bool {
        self.phase != Phase::Initializing
    }

    fn start(nonce: [u8; 8], client_id: Uuid, token: &str, key: Option<Arc<ClientKey>>) -> Self {
        let public_key = key
            .as_ref()
            .map_or(vec![0], |key| key.public_text().to_vec());
        let mut session = Self {
            phase: Phase::Initializing,
            handshake_id: Uuid::nil(),
            nonce,
            token: token.to_owned(),
            client_id,
            peer: PeerInfo::default(),
            cover: match key {
                Some(_) => Cover::Agreeing,
                None => Cover::Clear,
            },
            key,
            output: BytesMut::new(),
            produced: 0,
            patience: None,
            pongs: 0,
            leaving: false,
        };
        let announced = Extension {
            capabilities: Some(Capabilities::ALL),
            ..Extension::default()
        };
        let request = InitializationRequest {
            public_key: Some(public_key),
            protocol_version: PROTOCOL_VERSION,
            extension: Some(announced.encode()),
        };
        session.handshake_id = session.message_id(Slot {
            index: u32::MAX,
            serial: 0,
        });
        session.send(session.handshake_id, Kind::INITIALIZATION, |out| {
            request.encode(out)
        });
        session
    }

    /// Has a libwitrpc server told what silence is taken for death, when it is told the token.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// What the server said about itself, from the moment it is authorised.
    pub fn peer(&self) -> &PeerInfo {
        &self.peer
    }

    /// True once calls may be sent.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// True once both ends have the keys of this connection: what follows is sealed.
    pub fn is_sealed(&self) -> bool {
        matches!(self.cover, Cover::Sealed(_))
    }

    /// Bytes waiting to be taken.
    pub fn pending_output(&self) -> usize {
        self.output.len()
    }

    /// Bytes ever produced, taken or not: a request is sent once that many minus those that the
    /// network refused reach its [end](Self::request).
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Takes all framed bytes that are to be sent.
    pub fn take_output(&mut self) -> BytesMut {
        self.pongs = 0;
        self.output.split()
    }

    /// A new token for the requests from now on.
    pub fn set_token(&mut self, token: &str) {
        token.clone_into(&mut self.token);
    }

    /// Writes a request. Returns the position of its last byte in everything
    /// [produced](Self::produced).
    pub fn request(&mut self, slot: Slot, call: &Call<'_>) -> u64 {
        let capabilities = self.peer.capabilities;
        let numbered = capabilities.has(Capabilities::DEDUPLICATION);
        let explained = capabilities.has(Capabilities::CALL_CONTEXT);
        let number = call.number.filter(|_| numbered);
        let fields = Extension {
            call_number: number,
            first_unfinished: number.map(|_| call.first_unfinished),
            attempt: call.attempt.filter(|_| numbered),
            elsewhere: call.elsewhere && numbered,
            may_have_come: call.may_have_come && numbered,
            remaining_ms: call.remaining.filter(|_| explained).map(milliseconds),
            trace_context: call.trace_context.filter(|_| explained).map(Into::into),
            ..Extension::default()
        };
        let (mut buffer, mut long) = ([0; 64], Vec::new());
        let extension = if fields == Extension::default() {
            None
        } else if fields.trace_context.is_some() {
            fields.encode_to(&mut long);
            Some(&long[..])
        } else {
            let mut writer = SliceWriter {
                buffer: &mut buffer,
                len: 0,
            };
            fields.encode_to(&mut writer);
            let len = writer.len;
            Some(&buffer[..len])
        };
        let id = self.message_id(slot);
        let token = std::mem::take(&mut self.token);
        let request = wire::Call {
            token: &token,
            method_name: call.method_name,
            arguments: call.arguments,
            types: call.types,
            invocation_id: call.invocation_id,
            contract_id: call.contract_id,
            method_id: call.method_id,
            extension,
        };
        self.send(id, Kind::REQUEST, |out| request.encode(out));
        self.token = token;
        self.produced
    }

    /// Takes a request back, if the server understands that: nobody waits for its answer any more.
    pub fn cancel(&mut self, slot: Slot) {
        if self.peer.capabilities.has(Capabilities::CANCELLATION) {
            let id = self.message_id(slot);
            self.tell(Kind::CANCELLATION, |fields| fields.cancels = Some(id));
        }
    }

    /// Asks the server for a sign of life, if it understands that: a [`Received::Pong`].
    pub fn ping(&mut self, number: u64) {
        if self.can_ping() {
            self.tell(Kind::PING, |fields| fields.ping = Some(number));
        }
    }

    /// True if the server answers pings.
    pub fn can_ping(&self) -> bool {
        self.phase == Phase::Ready && self.peer.capabilities.has(Capabilities::PING)
    }

    /// Takes in one frame body. An error ends the connection; its code says whether another try
    /// can help.
    pub fn receive(&mut self, body: BytesMut) -> Result<Received> {
        // As the reference: what is no message, or of type 0, is dropped.
        let Ok(Some(Envelope { id, kind, data })) = Envelope::take(body) else {
            return Ok(Received::Nothing);
        };
        if kind == Kind::UNKNOWN {
            return Ok(Received::Nothing);
        }
        // Unlike the reference, which loses everything that follows.
        let data = self.cover.open(kind, data).map_err(|error| {
            Error::new(
                ErrorCode::Encryption,
                "a message from the server did not open",
            )
            .with_details(Some(error.to_string()))
        })?;
        match (self.phase, kind) {
            (Phase::Initializing, Kind::INITIALIZATION) if id == self.handshake_id => {
                self.initialized(data)
            }
            (Phase::Authorizing, Kind::AUTHORIZATION) if id == self.handshake_id => {
                self.authorized(data)
            }
            (Phase::Ready, Kind::CALLBACK) => Ok(match data.as_ref().map(Request::decode) {
                Some(Ok(Some(request))) => Received::Event(request),
                _ => Received::Nothing,
            }),
            (Phase::Ready, Kind::REQUEST) => Ok(match self.slot(id) {
                Some(slot) => Received::Answer(slot, Self::answer(data)),
                None => Received::Nothing,
            }),
            (Phase::Ready, Kind::PING | Kind::PONG | Kind::GOING_AWAY) => Ok(self.told(kind, data)),
            _ => Ok(Received::Nothing),
        }
    }

    /// A message of a libwitrpc server. What does not parse, and what a server that has announced
    /// nothing says, is ignored.
    fn told(&mut self, kind: Kind, data: Option<Bytes>) -> Received {
        let capabilities = self.peer.capabilities;
        let Some(fields) = data.as_deref().and_then(Extension::decode) else {
            return Received::Nothing;
        };
        match (kind, fields.ping) {
            (Kind::GOING_AWAY, _) if capabilities.has(Capabilities::GOING_AWAY) => {
                if !std::mem::replace(&mut self.leaving, true) {
                    self.tell(Kind::GOING_AWAY, |_| {});
                }
                Received::GoingAway
            }
            (Kind::PONG, Some(number)) if capabilities.has(Capabilities::PING) => {
                Received::Pong(number)
            }
            (Kind::PING, Some(number))
                if capabilities.has(Capabilities::PING) && self.pongs < MAX_PONGS =>
            {
                self.pongs += 1;
                self.tell(Kind::PONG, |fields| fields.ping = Some(number));
                Received::Nothing
            }
            _ => Received::Nothing,
        }
    }

    /// Sends a message that only libwitrpc servers understand.
    fn tell(&mut self, kind: Kind, set: impl FnOnce(&mut Extension)) {
        let mut fields = Extension::default();
        set(&mut fields);
        let id = self.message_id(Slot {
            index: u32::MAX,
            serial: 2,
        });
        self.send(id, kind, |out| fields.encode_to(out));
    }

    fn initialized(&mut self, data: Option<Bytes>) -> Result<Received> {
        let data = data.ok_or_else(|| match self.key {
            Some(_) => no_encryption("the server did not accept this client's public key"),
            None => refused("it did not accept the initialization"),
        })?;
        let decrypted = self.key.as_ref().and_then(|key| key.decrypt(&data));
        let clear = match &decrypted {
            Some(decrypted) => decrypted,
            None => &data[..],
        };
        let mut response = match (InitializationResponse::decode(clear), &self.key) {
            (Ok(Some(response)), _) => response,
            (_, Some(_)) if decrypted.is_none() => {
                return Err(no_encryption(
                    "the server's reply is not encrypted for this client's key",
                ));
            }
            (Ok(None), _) => return Err(refused("its initialization is null")),
            (Err(e), _) => return Err(refused(&format!("its initialization can't be read: {e}"))),
        };
        if let Some(text) = &response.error_message {
            return Err(refused(text));
        }
        let (Some(symmetric), Some(vector)) = (&response.symmetric_key, &response.vector) else {
            return Err(refused("its initialization has no keys"));
        };
        match (&self.key, &decrypted) {
            (None, _) if symmetric.len() <= 1 => {}
            // Keys in clear: it encrypts and took us for a peer that does.
            (None, _) => {
                return Err(no_encryption(
                    "the server encrypts and this client does not: switch encryption on",
                ));
            }
            (Some(_), None) if symmetric.len() <= 1 => {
                return Err(no_encryption(
                    "the server does not encrypt and this client does: switch encryption on in \
                     the server, or off here",
                ));
            }
            (Some(_), None) => {
                return Err(no_encryption(
                    "the server sent its keys in clear, for everybody to read",
                ));
            }
            (Some(_), Some(_)) => {
                let keys = Keys::from_bytes(symmetric, vector)
                    .ok_or_else(|| no_encryption("the keys of the server have a wrong length"))?;
                let channel = Channel::new(&keys, Role::Client)
                    .map_err(|e| Error::new(ErrorCode::Internal, e.to_string()))?;
                self.cover = Cover::Sealed(channel);
            }
        }
        response.symmetric_key.zeroize();
        response.vector.zeroize();
        self.peer.capabilities = extension(response.extension.as_deref())
            .capabilities
            .unwrap_or_default();
        self.phase = Phase::Authorizing;
        let request = AuthorizationRequest {
            token: Some(self.token.clone()),
            extension: self.peer.deduplicates().then(|| {
                let fields = Extension {
                    client_id: Some(self.client_id),
                    patience_ms: self.patience.map(milliseconds),
                    ..Extension::default()
                };
                fields.encode().into()
            }),
        };
        self.handshake_id = self.message_id(Slot {
            index: u32::MAX,
            serial: 1,
        });
        self.send(self.handshake_id, Kind::AUTHORIZATION, |out| {
            request.encode(out)
        });
        Ok(Received::Nothing)
    }

    fn authorized(&mut self, data: Option<Bytes>) -> Result<Received> {
        let refused = |text: &str| {
            Error::new(ErrorCode::Unauthorized, "the server refused the token")
                .with_details(Some(text.to_owned()))
                .with_outcome(Outcome::Answered)
        };
        let Some(Ok(Some(response))) = data.as_deref().map(AuthorizationResponse::decode) else {
            return Err(Error::new(
                ErrorCode::Protocol,
                "the server's answer to the token can't be read",
            ));
        };
        if !response.is_authorized {
            return Err(refused(
                response.message.as_deref().unwrap_or("no reason given"),
            ));
        }
        self.peer.reach = extension(response.extension.as_deref()).reach;
        self.phase = Phase::Ready;
        Ok(Received::Authorized)
    }

    fn answer(data: Option<Bytes>) -> Result<(Response, Extension)> {
        let lost = |message: &str, details: Option<String>| {
            Error::new(ErrorCode::Transport, message)
                .with_details(details)
                .with_outcome(Outcome::Unknown)
        };
        let data = data.ok_or_else(|| lost("Server returned an empty response", None))?;
        match Response::decode(&data) {
            Ok(Some(response)) => {
                let extension = extension(response.extension.as_deref());
                Ok((response, extension))
            }
            Ok(None) => Err(lost("Server returned an empty response", None)),
            Err(e) => Err(lost("Failed to deserialize response", Some(e.to_string()))),
        }
    }

    fn send(&mut self, id: Uuid, kind: Kind, write: impl FnOnce(&mut BytesMut)) {
        let before = self.output.len();
        self.cover.write(&mut self.output, id, kind, write);
        self.produced += (self.output.len() - before) as u64;
    }

    fn message_id(&self, slot: Slot) -> Uuid {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.nonce);
        id[8..12].copy_from_slice(&slot.index.to_le_bytes());
        id[12..].copy_from_slice(&slot.serial.to_le_bytes());
        Uuid::from_bytes(id)
    }

    fn slot(&self, id: Uuid) -> Option<Slot> {
        let rest = id.as_bytes().strip_prefix(&self.nonce)?;
        let (index, serial) = rest.split_first_chunk::<4>()?;
        Some(Slot {
            index: u32::from_le_bytes(*index),
            serial: u32::from_le_bytes(serial.try_into().ok()?),
        })
    }
}

/// The server said no, or nothing that could be a yes.
fn refused(text: &str) -> Error {
    let code = match text.starts_with(ENCRYPTION_REFUSED) {
        true => ErrorCode::Encryption,
        false => ErrorCode::Protocol,
    };
    Error::new(code, "the server refused the connection").with_details(Some(text.to_owned()))
}

/// The peers do not agree on encryption.
fn no_encryption(text: &str) -> Error {
    Error::new(ErrorCode::Encryption, text)
}

/// At least 1, so that what is left never looks like what is over.
fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}

/// Writes into a fixed buffer: the extension of a request needs no allocation.
struct SliceWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl wire::memorypack::Write for SliceWriter<'_> {
    fn raw(&mut self, bytes: &[u8]) {
        self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}
