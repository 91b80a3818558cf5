//! The state table of an encrypting server (protocol section 14.1), cell by cell, on raw sockets: our
//! server, and the .NET peer where there is one. The cells of a plain server are in `states.rs`.

use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use witrpc::security::{Channel, ClientKey, Keys, OVERHEAD, Role};
use witrpc::wire::{
    AuthorizationResponse, Envelope, InitializationRequest, InitializationResponse, Kind, Response,
};
use witrpc_conformance::own::Own;
use witrpc_conformance::peer::Peer;
use witrpc_conformance::raw::{self, Raw, authorization, encode, frame, framed, message};
use witrpc_conformance::target::Target;

static KEY: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate().expect("a key pair"));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connected,
    Initialized,
    Authorized,
}

const STATES: [State; 3] = [State::Connected, State::Initialized, State::Authorized];

fn targets() -> Vec<Target> {
    let mut all = vec![Target::Own(Own::with(|builder| builder.encryption(true)))];
    if let Some(peer) = Peer::find() {
        all.push(Target::Peer(peer.serve(&["--encrypt"])));
    }
    all
}

/// A connection and the keys agreed on.
struct Sealed {
    raw: Raw,
    channel: Option<Channel>,
    state: State,
}

impl Sealed {
    fn bring(target: &Target, state: State) -> Self {
        let mut sealed = Self {
            raw: Raw::connect(target.port()),
            channel: None,
            state: State::Connected,
        };
        while sealed.state != state {
            sealed.step();
        }
        sealed
    }

    /// Data as the next message carries it.
    fn seal(&mut self, data: &[u8]) -> Bytes {
        let mut buffer = vec![0; OVERHEAD];
        buffer.extend_from_slice(data);
        let channel = self.channel.as_mut().expect("keys");
        channel.sealer.seal(&mut buffer);
        buffer.into()
    }

    fn open(&mut self, envelope: &Envelope) -> Bytes {
        let data = BytesMut::from(&envelope.data.as_ref().expect("data")[..]);
        let channel = self.channel.as_mut().expect("keys");
        channel.opener.open(data).expect("it opens").freeze()
    }

    /// What is right in this state; sealed, so that it must be sent next.
    fn right(&mut self) -> Envelope {
        match self.state {
            State::Connected => message(Kind::INITIALIZATION, Some(hello())),
            State::Initialized => {
                let data = self.seal(&authorization(""));
                message(Kind::AUTHORIZATION, Some(data))
            }
            State::Authorized => {
                let request = raw::call("Ping()", &[]);
                let data = self.seal(&encode(|out| request.encode(out)));
                message(Kind::REQUEST, Some(data))
            }
        }
    }

    /// Does what is right in this state: the next thing that comes must be its answer.
    fn step(&mut self) {
        let message = self.right();
        self.raw.send(&frame(&message));
        let answer = self.raw.expect_frame();
        assert_eq!((answer.id, answer.kind), (message.id, message.kind));
        match self.state {
            State::Connected => {
                let clear = KEY.decrypt(answer.data.as_ref().unwrap()).expect("our key");
                let reply = InitializationResponse::decode(&clear).unwrap().unwrap();
                let (key, vector) = (reply.symmetric_key.unwrap(), reply.vector.unwrap());
                let keys = Keys::from_bytes(&key, &vector).unwrap();
                self.channel = Some(Channel::new(&keys, Role::Client).unwrap());
                self.state = State::Initialized;
            }
            State::Initialized => {
                let reply = AuthorizationResponse::decode(&self.open(&answer));
                assert!(reply.unwrap().unwrap().is_authorized);
                self.state = State::Authorized;
            }
            State::Authorized => {
                let response = Response::decode(&self.open(&answer)).unwrap().unwrap();
                assert_eq!(response.data, Some("\"pong\"".into()));
            }
        }
    }

    /// Goes through what is left of the handshake, and a call.
    fn works(&mut self) {
        while self.state != State::Authorized {
            self.step();
        }
        self.step();
    }
}

fn hello() -> Bytes {
    encode(|out| {
        InitializationRequest {
            public_key: Some(KEY.public_text().to_vec()),
            protocol_version: 3,
            extension: None,
        }
        .encode(out);
    })
}

fn body(kind: i32, data: Option<Bytes>) -> Vec<u8> {
    encode(|out| message(Kind(kind), data).encode(out)).to_vec()
}

/// Nothing is answered, nothing has changed.
fn is_ignored(target: &Target, state: State, make: impl Fn(&mut Sealed) -> Vec<u8>, what: &str) {
    let mut sealed = Sealed::bring(target, state);
    let body = make(&mut sealed);
    sealed.raw.send(&framed(&body));
    let works = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sealed.works()));
    assert!(works.is_ok(), "{}: {what} in {state:?}", target.name());
}

/// The connection ends without an answer.
fn closes(target: &Target, state: State, make: impl Fn(&mut Sealed) -> Vec<u8>, what: &str) {
    let mut sealed = Sealed::bring(target, state);
    let body = make(&mut sealed);
    sealed.raw.send(&framed(&body));
    target.expect_end(&mut sealed.raw, &format!("{what} in {state:?}"));
}

#[test]
fn what_is_no_message_and_type_0_are_ignored_before_anything_is_opened() {
    let whole = body(1, Some(Bytes::from_static(b"x")));
    for target in targets() {
        for state in STATES {
            for body in [&[0xff][..], &whole[..10], &whole[..25], b"nonsense"] {
                is_ignored(&target, state, |_| body.to_vec(), "no message");
            }
            // It does not count, either: the next sealed message is still the first.
            let clear = Some(Bytes::from_static(b"clear"));
            is_ignored(&target, state, |_| body(0, clear.clone()), "type 0");
        }
    }
}

#[test]
fn a_message_in_clear_closes_wherever_it_comes() {
    for target in targets() {
        for state in STATES {
            for kind in [1, 2, 4, 5, -1] {
                for data in [Bytes::new(), authorization(""), Bytes::from(vec![7; 100])] {
                    let what = format!("type {kind} with {} clear bytes", data.len());
                    closes(&target, state, |_| body(kind, Some(data.clone())), &what);
                }
            }
        }
    }
}

#[test]
fn types_without_a_meaning_are_opened_and_ignored_and_without_data_just_ignored() {
    for target in targets() {
        for state in STATES {
            for kind in [2, 5, 99, -1] {
                is_ignored(&target, state, |_| body(kind, None), "no data");
            }
        }
        for state in [State::Initialized, State::Authorized] {
            for kind in [2, 5, 99, -1] {
                // It counts: what is sealed next carries the next number.
                let sealed = |s: &mut Sealed| body(kind, Some(s.seal(b"anything")));
                is_ignored(&target, state, sealed, "sealed");
                let empty = |s: &mut Sealed| body(kind, Some(s.seal(b"")));
                is_ignored(&target, state, empty, "sealed and empty");
            }
        }
    }
}

#[test]
fn what_does_not_open_closes() {
    for target in targets() {
        for state in [State::Initialized, State::Authorized] {
            let altered = |s: &mut Sealed| {
                let right = s.right();
                let mut data = right.data.unwrap().to_vec();
                *data.last_mut().unwrap() ^= 1;
                body(right.kind.0, Some(data.into()))
            };
            closes(&target, state, altered, "altered");
            let skipped = |s: &mut Sealed| {
                s.seal(b"never sent");
                let right = s.right();
                body(right.kind.0, right.data)
            };
            closes(&target, state, skipped, "a number left out");
        }
        // The same message a second time.
        let mut sealed = Sealed::bring(&target, State::Authorized);
        let once = frame(&sealed.right());
        sealed.raw.send(&[once.clone(), once].concat());
        let answer = sealed.raw.expect_frame();
        assert_eq!(answer.kind, Kind::REQUEST);
        target.expect_end(&mut sealed.raw, "a repeated message");
    }
}

#[test]
fn a_second_initialization_closes() {
    for target in targets() {
        for state in [State::Initialized, State::Authorized] {
            for data in [None, Some(Bytes::new()), Some(hello())] {
                closes(&target, state, |_| body(3, data.clone()), "type 3");
            }
        }
    }
}

#[test]
fn authorizations_and_requests_out_of_turn_close() {
    for target in targets() {
        for (kind, state) in [
            (4, State::Connected),
            (1, State::Connected),
            (1, State::Initialized),
            (4, State::Authorized),
        ] {
            closes(&target, state, |_| body(kind, None), "no data");
        }
        let request = |s: &mut Sealed| {
            let call = raw::call("Ping()", &[]);
            let data = s.seal(&encode(|out| call.encode(out)));
            body(1, Some(data))
        };
        closes(&target, State::Initialized, request, "a sealed request");
        let again = |s: &mut Sealed| body(4, Some(s.seal(&authorization(""))));
        closes(&target, State::Authorized, again, "authorized again");
    }
}

#[test]
fn an_authorization_without_a_token_is_answered_with_nothing_and_closes() {
    for target in targets() {
        for nonsense in [None, Some(&b""[..]), Some(b"nonsense")] {
            let mut sealed = Sealed::bring(&target, State::Initialized);
            let data = nonsense.map(|bytes| sealed.seal(bytes));
            let message = message(Kind::AUTHORIZATION, data);
            sealed.raw.send(&frame(&message));
            let answer = sealed.raw.expect_frame();
            assert_eq!((answer.id, answer.kind), (message.id, Kind::AUTHORIZATION));
            assert_eq!(answer.data, None, "{}", target.name());
            target.expect_end(&mut sealed.raw, "no token");
        }
    }
}

#[test]
fn a_wrong_token_is_refused_under_seal_and_closes() {
    for target in targets() {
        let mut sealed = Sealed::bring(&target, State::Initialized);
        let data = sealed.seal(&authorization("wrong"));
        sealed
            .raw
            .send(&frame(&message(Kind::AUTHORIZATION, Some(data))));
        let answer = sealed.raw.expect_frame();
        let reply = AuthorizationResponse::decode(&sealed.open(&answer));
        let reply = reply.unwrap().unwrap();
        assert_eq!(reply.message.as_deref(), Some("Forbidden"));
        target.expect_end(&mut sealed.raw, "a refused token");
    }
}

#[test]
fn a_request_that_can_not_be_read_is_answered_under_seal_and_nothing_else_happens() {
    let empty = Response::error(400, "Request is empty", None);
    for target in targets() {
        let mut sealed = Sealed::bring(&target, State::Authorized);
        for nonsense in [None, Some(&b""[..]), Some(&[0xff]), Some(b"nonsense")] {
            let data = nonsense.map(|bytes| sealed.seal(bytes));
            let message = message(Kind::REQUEST, data);
            sealed.raw.send(&frame(&message));
            let answer = sealed.raw.expect_frame();
            assert_eq!((answer.id, answer.kind), (message.id, Kind::REQUEST));
            let response = Response::decode(&sealed.open(&answer)).unwrap().unwrap();
            assert_eq!(response, empty, "{}", target.name());
        }
        sealed.step();
    }
}

#[test]
fn an_initialization_without_data_or_key_leaves_everything_open() {
    let keyless = encode(|out| {
        InitializationRequest {
            public_key: None,
            protocol_version: 3,
            extension: None,
        }
        .encode(out);
    });
    for target in targets() {
        let mut sealed = Sealed::bring(&target, State::Connected);
        for data in [None, Some(keyless.clone())] {
            let message = message(Kind::INITIALIZATION, data);
            sealed.raw.send(&frame(&message));
            let answer = sealed.raw.expect_frame();
            assert_eq!((answer.id, answer.data), (message.id, None));
        }
        sealed.works();
    }
}

#[test]
fn another_version_is_refused_under_the_clients_key_and_closes() {
    for target in targets() {
        let mut sealed = Sealed::bring(&target, State::Connected);
        let data = encode(|out| {
            InitializationRequest {
                public_key: Some(KEY.public_text().to_vec()),
                protocol_version: 2,
                extension: None,
            }
            .encode(out);
        });
        sealed
            .raw
            .send(&frame(&message(Kind::INITIALIZATION, Some(data))));
        let answer = sealed.raw.expect_frame();
        let clear = KEY.decrypt(answer.data.as_ref().unwrap()).expect("our key");
        let reply = InitializationResponse::decode(&clear).unwrap().unwrap();
        let text = reply.error_message.unwrap();
        assert_eq!(text, "Protocol mismatch: client 2, server 3");
        assert_eq!((reply.symmetric_key, reply.vector), (None, None));
        target.expect_end(&mut sealed.raw, "another version");
    }
}

/// Where ours differs, for the better: keys are never given away in clear.
#[test]
fn a_key_that_is_none_is_refused_by_us_and_nothing_is_given_away() {
    let own = Target::Own(Own::with(|builder| builder.encryption(true)));
    for key in [
        &[0][..],
        b"nonsense",
        b"{}",
        b"{\"mod\":\"AA==\",\"exp\":\"AQAB\"}",
    ] {
        let mut raw = Raw::connect(own.port());
        let data = encode(|out| {
            InitializationRequest {
                public_key: Some(key.to_vec()),
                protocol_version: 3,
                extension: None,
            }
            .encode(out);
        });
        let message = message(Kind::INITIALIZATION, Some(data));
        raw.send(&frame(&message));
        let answer = raw.expect_frame();
        assert_ne!(answer.id, Uuid::nil());
        let reply = InitializationResponse::decode(answer.data.as_ref().unwrap());
        let reply = reply.unwrap().unwrap();
        assert_eq!((reply.symmetric_key, reply.vector), (None, None));
        assert!(reply.error_message.is_some());
        own.expect_end(&mut raw, "a bad key");
    }
}
