//! The server's side of one connection: what each message means in each state (protocol section
//! 14.1), and the frames that answer it.
//!
//! Owns the states Connected, Initialized, Authorized and the order of outgoing frames. Whether a
//! token is good, what a request does and when a silent client has waited too long is decided by
//! whoever drives it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zeroize::{Zeroize, Zeroizing};

use super::cover::Cover;
use super::{MAX_PONGS, PeerInfo, extension};
use crate::security::{BadKey, Channel, Keys, PublicKey, Role};
use crate::wire::extension::{Capabilities, Extension, Reach};
use crate::wire::{
    AuthorizationRequest, AuthorizationResponse, ENCRYPTION_REFUSED, Envelope,
    InitializationRequest, InitializationResponse, Kind, PROTOCOL_VERSION, Request, Response,
    frame, status,
};

/// What a frame meant.
#[derive(Debug)]
pub enum Received {
    /// Nothing, or something that is answered already.
    Nothing,
    /// A token to check. Nothing more is to be received until [`ServerSession::authorize`].
    Authorize {
        /// The token.
        token: String,
        /// The lasting id of a libwitrpc client.
        client_id: Option<Uuid>,
        /// Silence that it takes for death.
        patience: Option<Duration>,
    },
    /// A call to make. Answered by [`ServerSession::respond`] under the same id.
    Request(Uuid, Box<Request>),
    /// The client takes back the request that came under this id: nobody waits for its answer.
    Cancel(Uuid),
    /// The answer to a [ping](ServerSession::ping).
    Pong(u64),
    /// The client has heard that the server is [going away](ServerSession::going_away): it will send
    /// no more requests.
    Leaves,
}

/// The connection is to be closed, after what was written so far has been sent. Frames behind the
/// offending one are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connected,
    Initialized,
    /// A token is being checked; the answer repeats this message id.
    Authorizing(Uuid),
    Authorized,
}

/// The server's side of one connection, as a state machine without a socket or a clock.
#[derive(Debug)]
pub struct ServerSession {
    phase: Phase,
    /// Id of this connection: what callbacks carry.
    id: Uuid,
    peer: PeerInfo,
    /// The keys of this connection, if it is to be encrypted.
    keys: Option<Keys>,
    cover: Cover,
    output: BytesMut,
    /// Pongs in `output`.
    pongs: u32,
}

impl ServerSession {
    /// A connection that has just been accepted. `id` must be random.
    pub fn new(id: Uuid) -> Self {
        Self::start(id, None)
    }

    /// The same, encrypted: clients that do not encrypt, or with a bad key, are refused. `keys` must
    /// be fresh.
    pub fn encrypted(id: Uuid, keys: Keys) -> Self {
        Self::start(id, Some(keys))
    }

    fn start(id: Uuid, keys: Option<Keys>) -> Self {
        Self {
            phase: Phase::Connected,
            id,
            peer: PeerInfo::default(),
            cover: match keys {
                Some(_) => Cover::Agreeing,
                None => Cover::Clear,
            },
            keys,
            output: BytesMut::new(),
            pongs: 0,
        }
    }

    /// Id of this connection.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// What the client said about itself.
    pub fn peer(&self) -> &PeerInfo {
        &self.peer
    }

    /// True once calls may come and events may go.
    pub fn is_authorized(&self) -> bool {
        self.phase == Phase::Authorized
    }

    /// Bytes waiting to be taken.
    pub fn pending_output(&self) -> usize {
        self.output.len()
    }

    /// Takes all framed bytes that are to be sent.
    pub fn take_output(&mut self) -> BytesMut {
        self.pongs = 0;
        self.output.split()
    }

    /// True if the client answers pings.
    pub fn can_ping(&self) -> bool {
        self.is_authorized() && self.peer.capabilities.has(Capabilities::PING)
    }

    /// Asks the client for a sign of life, and is one itself: a [`Received::Pong`], if it
    /// understands that.
    pub fn ping(&mut self, number: u64) {
        if self.can_ping() {
            self.tell(Kind::PING, |fields| fields.ping = Some(number));
        }
    }

    /// Tells a client that understands it that the connection will be closed. Such a client sends no
    /// more requests, says so ([`Received::Leaves`]), and closes the connection when those that it
    /// has sent have been answered. False if it does not understand.
    pub fn going_away(&mut self) -> bool {
        let understands =
            self.is_authorized() && self.peer.capabilities.has(Capabilities::GOING_AWAY);
        if understands {
            self.tell(Kind::GOING_AWAY, |_| {});
        }
        understands
    }

    /// Sends a message that only libwitrpc clients understand.
    fn tell(&mut self, kind: Kind, set: impl FnOnce(&mut Extension)) {
        let mut fields = Extension::default();
        set(&mut fields);
        self.send(self.id, kind, |out| fields.encode_to(out));
    }

    /// Takes in one frame body.
    pub fn receive(&mut self, body: BytesMut) -> Result<Received, Violation> {
        let Ok(Some(Envelope { id, kind, data })) = Envelope::take(body) else {
            return Ok(Received::Nothing);
        };
        if kind == Kind::UNKNOWN {
            return Ok(Received::Nothing);
        }
        // Before the state is looked at, as the reference: what does not open ends the connection
        // in every state, and what is ignored counts.
        let data = self.cover.open(kind, data).map_err(|error| {
            Violation(format!(
                "a message of type {} did not open: {error}",
                kind.0
            ))
        })?;
        match (self.phase, kind) {
            (Phase::Connected, Kind::INITIALIZATION) => self.initialize(id, data),
            (Phase::Initialized, Kind::AUTHORIZATION) => self.authorization(id, data),
            (Phase::Authorized, Kind::REQUEST) => Ok(self.request(id, data)),
            (_, Kind::INITIALIZATION | Kind::AUTHORIZATION | Kind::REQUEST) => Err(Violation(
                format!("a message of type {} in state {:?}", kind.0, self.phase),
            )),
            (
                Phase::Authorized,
                Kind::CANCELLATION | Kind::PING | Kind::PONG | Kind::GOING_AWAY,
            ) => Ok(self.told(kind, data)),
            _ => Ok(Received::Nothing),
        }
    }

    /// A message of a libwitrpc client. What does not parse, and what a client that has announced
    /// nothing says, is ignored.
    fn told(&mut self, kind: Kind, data: Option<Bytes>) -> Received {
        let capabilities = self.peer.capabilities;
        let Some(fields) = data.as_deref().and_then(Extension::decode) else {
            return Received::Nothing;
        };
        match kind {
            Kind::CANCELLATION if capabilities.has(Capabilities::CANCELLATION) => {
                fields.cancels.map_or(Received::Nothing, Received::Cancel)
            }
            Kind::GOING_AWAY if capabilities.has(Capabilities::GOING_AWAY) => Received::Leaves,
            Kind::PONG if capabilities.has(Capabilities::PING) => {
                fields.ping.map_or(Received::Nothing, Received::Pong)
            }
            Kind::PING if capabilities.has(Capabilities::PING) && self.pongs < MAX_PONGS => {
                if let Some(number) = fields.ping {
                    self.pongs += 1;
                    self.tell(Kind::PONG, |fields| fields.ping = Some(number));
                }
                Received::Nothing
            }
            _ => Received::Nothing,
        }
    }

    fn initialize(&mut self, id: Uuid, data: Option<Bytes>) -> Result<Received, Violation> {
        let Some(data) = data else {
            frame::write_null(&mut self.output, id, Kind::INITIALIZATION);
            return Ok(Received::Nothing);
        };
        let Ok(Some(request)) = InitializationRequest::decode(&data) else {
            let text = format!(
                "Cannot read the initialization request; the server speaks protocol {PROTOCOL_VERSION}"
            );
            return Err(self.refuse(id, text, None));
        };
        if request.protocol_version != PROTOCOL_VERSION {
            let text = format!(
                "Protocol mismatch: client {}, server {PROTOCOL_VERSION}",
                request.protocol_version
            );
            // Under its key, because only so a .NET client can show the text.
            let key = self.keys.as_ref().and(request.public_key.as_deref());
            let key = key.and_then(|text| PublicKey::read(text).ok());
            return Err(self.refuse(id, text, key.as_ref()));
        }
        let Some(public_key) = request.public_key else {
            frame::write_null(&mut self.output, id, Kind::INITIALIZATION);
            return Ok(Received::Nothing);
        };
        let announced = extension(request.extension.as_deref()).capabilities;
        let mut response = InitializationResponse {
            symmetric_key: Some(vec![0]),
            vector: Some(vec![0]),
            protocol_version: PROTOCOL_VERSION,
            error_message: None,
            extension: announced.map(|_| {
                let fields = Extension {
                    capabilities: Some(Capabilities::ALL),
                    ..Extension::default()
                };
                fields.encode()
            }),
        };
        match &self.keys {
            None => self.send(id, Kind::INITIALIZATION, |out| response.encode(out)),
            Some(keys) => match agree(keys, &public_key, &mut response) {
                Ok((reply, channel)) => {
                    self.send(id, Kind::INITIALIZATION, |out| {
                        out.extend_from_slice(&reply);
                    });
                    self.cover = Cover::Sealed(channel);
                    self.keys = None;
                }
                Err(bad) => {
                    let text = format!("{ENCRYPTION_REFUSED}{bad}");
                    return Err(self.refuse(id, text, None));
                }
            },
        }
        self.peer.capabilities = announced.unwrap_or_default();
        self.phase = Phase::Initialized;
        Ok(Received::Nothing)
    }

    /// Says why the connection is refused; encrypted where there is a key for it.
    fn refuse(&mut self, id: Uuid, text: String, key: Option<&PublicKey>) -> Violation {
        let response = InitializationResponse {
            protocol_version: PROTOCOL_VERSION,
            error_message: Some(text.clone()),
            ..InitializationResponse::default()
        };
        let mut data = Vec::new();
        response.encode(&mut data);
        if let Some(sealed) = key.and_then(|key| key.encrypt(&data).ok()) {
            data = sealed;
        }
        self.send(id, Kind::INITIALIZATION, |out| out.extend_from_slice(&data));
        Violation(text)
    }

    fn authorization(&mut self, id: Uuid, data: Option<Bytes>) -> Result<Received, Violation> {
        let request = data.as_deref().map(AuthorizationRequest::decode);
        let Some(Ok(Some(AuthorizationRequest {
            token: Some(token),
            extension: bytes,
        }))) = request
        else {
            frame::write_null(&mut self.output, id, Kind::AUTHORIZATION);
            return Err(Violation("an authorization without a token".into()));
        };
        self.phase = Phase::Authorizing(id);
        let fields = extension(bytes.as_deref());
        Ok(Received::Authorize {
            token,
            client_id: fields.client_id,
            patience: fields
                .patience_ms
                .map(|ms| Duration::from_millis(ms.into())),
        })
    }

    /// Answers the token that was [asked about](Received::Authorize). `reach` is told to a
    /// libwitrpc client.
    pub fn authorize(&mut self, accepted: bool, reach: Option<Reach>) -> Result<(), Violation> {
        let Phase::Authorizing(id) = self.phase else {
            return Err(Violation("no authorization was asked for".into()));
        };
        let response = AuthorizationResponse {
            is_authorized: accepted,
            message: Some(if accepted { "Authorized" } else { "Forbidden" }.into()),
            extension: (accepted && self.peer.deduplicates()).then(|| {
                let fields = Extension {
                    reach,
                    ..Extension::default()
                };
                fields.encode().into()
            }),
        };
        self.send(id, Kind::AUTHORIZATION, |out| response.encode(out));
        if accepted {
            self.phase = Phase::Authorized;
            Ok(())
        } else {
            Err(Violation("the token was refused".into()))
        }
    }

    fn request(&mut self, id: Uuid, data: Option<Bytes>) -> Received {
        match data.as_ref().map(Request::decode) {
            Some(Ok(Some(request))) => Received::Request(id, Box::new(request)),
            _ => {
                let response = Response::error(status::BAD_REQUEST, "Request is empty", None);
                self.send(id, Kind::REQUEST, |out| response.encode(out));
                Received::Nothing
            }
        }
    }

    /// Answers a request with an encoded [`Response`].
    pub fn respond(&mut self, id: Uuid, response: &[u8]) {
        self.send(id, Kind::REQUEST, |out| out.extend_from_slice(response));
    }

    /// Sends an event: an encoded [`Request`], the same for all its receivers.
    pub fn event(&mut self, request: &[u8]) {
        self.send(self.id, Kind::CALLBACK, |out| {
            out.extend_from_slice(request)
        });
    }

    fn send(&mut self, id: Uuid, kind: Kind, write: impl FnOnce(&mut BytesMut)) {
        self.cover.write(&mut self.output, id, kind, write);
    }
}

/// Puts the keys into the reply and encrypts it for the client.
fn agree(
    keys: &Keys,
    public_key: &[u8],
    response: &mut InitializationResponse,
) -> Result<(Vec<u8>, Channel), BadKey> {
    let public_key = PublicKey::read(public_key)?;
    response.symmetric_key = Some(keys.symmetric().to_vec());
    response.vector = Some(keys.vector().to_vec());
    // Room enough from the start: a buffer that grew would leave a copy behind.
    let mut data = Zeroizing::new(Vec::with_capacity(public_key.capacity()));
    response.encode(&mut *data);
    response.symmetric_key.zeroize();
    response.vector.zeroize();
    let reply = public_key.encrypt(&data).map_err(|_| BadKey::Unusable)?;
    let channel = Channel::new(keys, Role::Server).map_err(|_| BadKey::Unusable)?;
    Ok((reply, channel))
}
