//! The state table of a plain server (protocol section 14.1), cell by cell, on raw sockets: our
//! server, and the .NET peer where there is one, so that the table is known to be the right one.
//!
//! Cells that speak of opening sealed data don't exist on a plain server.

use bytes::Bytes;
use witrpc::wire::{
    AuthorizationRequest, AuthorizationResponse, Envelope, InitializationRequest,
    InitializationResponse, Kind, Response,
};
use witrpc_conformance::WATCHDOG;
use witrpc_conformance::own::Own;
use witrpc_conformance::peer::Peer;
use witrpc_conformance::raw::{
    self, Next, Raw, authorization, encode, frame, framed, initialization, message, response,
};
use witrpc_conformance::target::Target;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connected,
    Initialized,
    Authorized,
}

const STATES: [State; 3] = [State::Connected, State::Initialized, State::Authorized];

/// A connection in this state.
fn bring(target: &Target, state: State) -> Raw {
    let mut raw = Raw::connect(target.port());
    if state != State::Connected {
        step(&mut raw, State::Connected);
    }
    if state == State::Authorized {
        step(&mut raw, State::Initialized);
    }
    raw
}

/// What is right in this state.
fn right(state: State) -> Envelope {
    match state {
        State::Connected => message(Kind::INITIALIZATION, Some(initialization())),
        State::Initialized => message(Kind::AUTHORIZATION, Some(authorization(""))),
        State::Authorized => request("Ping()"),
    }
}

fn request(line: &str) -> Envelope {
    let request = raw::call(line, &[]);
    message(Kind::REQUEST, Some(encode(|out| request.encode(out))))
}

/// Does what is right in this state: the next thing that comes must be its answer.
fn step(raw: &mut Raw, state: State) {
    let message = right(state);
    raw.send(&frame(&message));
    let answer = raw.expect_frame();
    assert_eq!(
        (answer.id, answer.kind),
        (message.id, message.kind),
        "{state:?}"
    );
    let data = answer.data.as_ref().expect("data");
    match state {
        State::Connected => {
            let reply = InitializationResponse::decode(data).unwrap().unwrap();
            assert_eq!(reply, clear());
        }
        State::Initialized => {
            let reply = AuthorizationResponse::decode(data).unwrap().unwrap();
            assert!(reply.is_authorized && reply.message.as_deref() == Some("Authorized"));
        }
        State::Authorized => assert_eq!(response(&answer).data, Some("\"pong\"".into())),
    }
}

/// What a plain server says to a plain client.
fn clear() -> InitializationResponse {
    InitializationResponse {
        symmetric_key: Some(vec![0]),
        vector: Some(vec![0]),
        protocol_version: 3,
        error_message: None,
        extension: None,
    }
}

fn refusal(text: &str) -> InitializationResponse {
    InitializationResponse {
        protocol_version: 3,
        error_message: Some(text.to_owned()),
        ..InitializationResponse::default()
    }
}

/// Nothing is answered, nothing has changed.
fn is_ignored(target: &Target, state: State, body: &[u8], what: &str) {
    let mut raw = bring(target, state);
    raw.send(&framed(body));
    let mut state = state;
    loop {
        let before = format!("{}: {what} in {state:?}", target.name());
        let probe =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&mut raw, state)));
        assert!(probe.is_ok(), "{before}");
        state = match state {
            State::Connected => State::Initialized,
            State::Initialized => State::Authorized,
            State::Authorized => return,
        };
    }
}

/// The connection ends without an answer, and what came behind is dropped.
fn closes(target: &Target, state: State, body: &[u8], what: &str) {
    let mut raw = bring(target, state);
    raw.send(
        &[
            framed(body),
            frame(&right(state)),
            frame(&request("RaiseNothing()")),
        ]
        .concat(),
    );
    target.expect_end(&mut raw, &format!("{what} in {state:?}"));
}

fn body(kind: i32, data: Option<Bytes>) -> Vec<u8> {
    encode(|out| message(Kind(kind), data).encode(out)).to_vec()
}

#[test]
fn what_is_no_message_is_ignored_in_every_state() {
    let whole = body(1, Some(Bytes::from_static(b"x")));
    let mut four_members = whole.clone();
    four_members[0] = 4;
    let mut too_long = whole.clone();
    too_long[21..25].copy_from_slice(&1000i32.to_le_bytes());
    for target in Target::all("") {
        for state in STATES {
            for (body, what) in [
                (&[0xff][..], "a null object"),
                (&[0], "an object without members"),
                (&whole[..10], "half a Guid"),
                (&whole[..20], "half a type"),
                (&whole[..24], "half a length"),
                (&whole[..25], "a body without its data"),
                (&too_long, "data that is longer than the body"),
                (&four_members, "four members"),
                (b"GET / HTTP/1.1\r\n\r\n", "another protocol"),
            ] {
                is_ignored(&target, state, body, what);
            }
            // One member: type 0.
            let one = [&[1][..], &whole[1..17]].concat();
            is_ignored(&target, state, &one, "one member");
        }
    }
}

#[test]
fn types_without_a_meaning_are_ignored_in_every_state() {
    for target in Target::all("") {
        for state in STATES {
            for kind in [0, 2, 5, 99, -1, i32::MAX] {
                for data in [None, Some(Bytes::new()), Some(initialization())] {
                    let what = format!("type {kind} with {data:?}");
                    is_ignored(&target, state, &body(kind, data), &what);
                }
            }
            // Two members: data null.
            let two = [&[2][..], &body(2, None)[1..21]].concat();
            is_ignored(&target, state, &two, "a type 2 of two members");
        }
    }
}

#[test]
fn a_second_initialization_closes() {
    for target in Target::all("") {
        for state in [State::Initialized, State::Authorized] {
            for data in [None, Some(Bytes::new()), Some(initialization())] {
                closes(&target, state, &body(3, data), "type 3");
            }
        }
    }
}

#[test]
fn an_authorization_out_of_turn_closes() {
    for target in Target::all("") {
        for state in [State::Connected, State::Authorized] {
            for data in [None, Some(Bytes::new()), Some(authorization(""))] {
                closes(&target, state, &body(4, data), "type 4");
            }
        }
    }
}

#[test]
fn a_request_before_authorization_closes() {
    for target in Target::all("") {
        for state in [State::Connected, State::Initialized] {
            let request = request("Ping()");
            for data in [None, Some(Bytes::new()), request.data] {
                closes(&target, state, &body(1, data), "type 1");
            }
        }
    }
}

#[test]
fn a_request_that_can_not_be_read_is_answered_and_nothing_else_happens() {
    let whole = request("Ping()").data.unwrap();
    let empty = Response::error(400, "Request is empty", None);
    for target in Target::all("") {
        let mut raw = bring(&target, State::Authorized);
        for (data, what) in [
            (None, "data null"),
            (Some(Bytes::new()), "empty data"),
            (Some(Bytes::from_static(&[0xff])), "a null object"),
            (
                Some(whole.slice(..whole.len() - 1)),
                "a request that ends early",
            ),
            (Some(Bytes::from_static(b"nonsense")), "nonsense"),
        ] {
            let message = message(Kind::REQUEST, data);
            raw.send(&frame(&message));
            let answer = raw.expect_frame();
            assert_eq!(
                (answer.id, answer.kind),
                (message.id, Kind::REQUEST),
                "{what}"
            );
            assert_eq!(response(&answer), empty, "{}: {what}", target.name());
            step(&mut raw, State::Authorized);
        }
        // Two members.
        let two = [&[2][..], &body(1, None)[1..21]].concat();
        raw.send(&framed(&two));
        assert_eq!(response(&raw.expect_frame()), empty, "{}", target.name());
    }
}

/// Sends an Initialization and gives back the data of its answer.
fn initialize(raw: &mut Raw, data: Option<Bytes>) -> Option<Bytes> {
    let message = message(Kind::INITIALIZATION, data);
    raw.send(&frame(&message));
    let answer = raw.expect_frame();
    assert_eq!((answer.id, answer.kind), (message.id, Kind::INITIALIZATION));
    answer.data
}

fn hello(public_key: Option<&[u8]>, protocol_version: i32) -> Bytes {
    encode(|out| {
        InitializationRequest {
            public_key: public_key.map(<[u8]>::to_vec),
            protocol_version,
            extension: None,
        }
        .encode(out);
    })
}

#[test]
fn any_key_is_answered_in_clear() {
    let expected = encode(|out| clear().encode(out));
    let rsa = format!(
        "{{\"mod\":\"{}\",\"exp\":\"AQAB\"}}",
        "A".repeat(342) + "=="
    );
    for target in Target::all("") {
        for key in [&[0][..], &[], &[1, 2, 3, 4, 5], rsa.as_bytes()] {
            let mut raw = bring(&target, State::Connected);
            let reply = initialize(&mut raw, Some(hello(Some(key), 3)));
            assert_eq!(reply, Some(expected.clone()), "{}: {key:?}", target.name());
            step(&mut raw, State::Initialized);
        }
        // A member more than is known, as a later version may send it.
        let mut later = hello(Some(&[0]), 3).to_vec();
        later[0] = 3;
        later.insert(3, 2);
        later.extend_from_slice(b"xy");
        let mut raw = bring(&target, State::Connected);
        let reply = initialize(&mut raw, Some(later.into()));
        assert_eq!(reply, Some(expected.clone()), "{}", target.name());
    }
}

#[test]
fn an_initialization_without_a_key_leaves_everything_open() {
    for target in Target::all("") {
        let mut raw = bring(&target, State::Connected);
        for data in [None, Some(hello(None, 3))] {
            assert_eq!(initialize(&mut raw, data), None, "{}", target.name());
        }
        step(&mut raw, State::Connected);
        step(&mut raw, State::Initialized);
        step(&mut raw, State::Authorized);
    }
}

#[test]
fn another_version_or_an_unreadable_initialization_is_refused_and_closes() {
    let unreadable = "Cannot read the initialization request; the server speaks protocol 3";
    let mismatch = |version: i32| format!("Protocol mismatch: client {version}, server 3");
    for target in Target::all("") {
        for (data, text) in [
            (Bytes::new(), unreadable.to_owned()),
            (Bytes::from_static(&[0xff]), unreadable.to_owned()),
            (Bytes::from_static(b"nonsense"), unreadable.to_owned()),
            (hello(Some(&[0]), 2), mismatch(2)),
            (hello(Some(&[0]), 4), mismatch(4)),
            (hello(Some(&[0]), -1), mismatch(-1)),
            // The version is looked at before the key.
            (hello(None, 2), mismatch(2)),
            // Without members, and with the key alone.
            (Bytes::from_static(&[0]), mismatch(0)),
            (Bytes::from_static(&[1, 5, 1, 0, 0, 0, 0]), mismatch(0)),
        ] {
            let mut raw = bring(&target, State::Connected);
            let message = message(Kind::INITIALIZATION, Some(data));
            // What comes behind is dropped.
            raw.send(&[frame(&message), frame(&right(State::Connected))].concat());
            let answer = raw.expect_frame();
            assert_eq!((answer.id, answer.kind), (message.id, Kind::INITIALIZATION));
            let expected = encode(|out| refusal(&text).encode(out));
            assert_eq!(answer.data, Some(expected), "{}: {text}", target.name());
            target.expect_end(&mut raw, &text);
        }
    }
}

#[test]
fn the_token_decides_about_authorization() {
    for (token, right, wrong) in [("", "", "x"), ("s3cret", "s3cret", ""), ("é", "é", "e")] {
        for target in Target::all(token) {
            let mut raw = bring(&target, State::Initialized);
            let sent = message(Kind::AUTHORIZATION, Some(authorization(right)));
            raw.send(&frame(&sent));
            let answer = raw.expect_frame();
            assert_eq!((answer.id, answer.kind), (sent.id, Kind::AUTHORIZATION));
            let expected = AuthorizationResponse {
                is_authorized: true,
                message: Some("Authorized".into()),
                extension: None,
            };
            assert_eq!(answer.data, Some(encode(|out| expected.encode(out))));

            let mut raw = bring(&target, State::Initialized);
            let sent = message(Kind::AUTHORIZATION, Some(authorization(wrong)));
            let behind = message(Kind::AUTHORIZATION, Some(authorization(right)));
            raw.send(&[frame(&sent), frame(&behind)].concat());
            let expected = AuthorizationResponse {
                is_authorized: false,
                message: Some("Forbidden".into()),
                extension: None,
            };
            let answer = raw.expect_frame();
            assert_eq!(answer.id, sent.id);
            assert_eq!(answer.data, Some(encode(|out| expected.encode(out))));
            target.expect_end(&mut raw, "a refused token");
        }
    }
}

#[test]
fn an_authorization_without_a_token_is_answered_with_nothing_and_closes() {
    let null = encode(|out| AuthorizationRequest::default().encode(out));
    for target in Target::all("") {
        for (data, what) in [
            (None, "data null"),
            (Some(Bytes::new()), "empty data"),
            (Some(Bytes::from_static(&[0xff])), "a null object"),
            (Some(Bytes::from_static(b"nonsense")), "nonsense"),
            (Some(null.clone()), "a null token"),
        ] {
            let mut raw = bring(&target, State::Initialized);
            let message = message(Kind::AUTHORIZATION, data);
            raw.send(&[frame(&message), frame(&right(State::Initialized))].concat());
            let answer = raw.expect_frame();
            assert_eq!(
                (answer.id, answer.kind),
                (message.id, Kind::AUTHORIZATION),
                "{what}"
            );
            assert_eq!(answer.data, None, "{}: {what}", target.name());
            target.expect_end(&mut raw, what);
        }
    }
}

#[test]
fn a_refused_token_of_a_request_keeps_the_connection() {
    let refused = Response::error(561, "Token is not valid", None);
    for target in Target::all("") {
        let mut raw = bring(&target, State::Authorized);
        for token in [Some("x".to_owned()), None] {
            let mut request = raw::call("Ping()", &[]);
            request.token = token;
            assert_eq!(raw.ask(&request), refused, "{}", target.name());
        }
        step(&mut raw, State::Authorized);
    }
}

#[test]
fn a_whole_conversation_may_come_at_once() {
    for target in Target::all("") {
        let mut raw = Raw::connect(target.port());
        let messages = [
            right(State::Connected),
            right(State::Initialized),
            right(State::Authorized),
            right(State::Authorized),
        ];
        let bytes: Vec<u8> = messages.iter().flat_map(frame).collect();
        raw.send(&bytes);
        for message in &messages {
            assert_eq!(raw.expect_frame().id, message.id, "{}", target.name());
        }
        // The same byte by byte.
        let mut raw = Raw::connect(target.port());
        bytes.chunks(1).for_each(|byte| raw.send(byte));
        for message in &messages {
            assert_eq!(raw.expect_frame().id, message.id, "{}", target.name());
        }
    }
}

#[test]
fn a_violation_closes_after_the_answers_that_were_due() {
    for target in Target::all("") {
        let mut raw = bring(&target, State::Authorized);
        let (first, second) = (request("Ping()"), request("Count()"));
        let violation = message(Kind::INITIALIZATION, Some(initialization()));
        let behind = request("RaiseNothing()");
        raw.send(&[&first, &second, &violation, &behind].map(frame).concat());
        for due in [first, second] {
            assert_eq!(raw.expect_frame().id, due.id, "{}", target.name());
        }
        target.expect_end(&mut raw, "after a violation");
    }
}

/// A socket that is closed with unread bytes in it takes back what was sent last.
#[test]
fn a_refusal_arrives_however_much_was_sent_behind_it() {
    let own = Target::Own(Own::start());
    let behind = framed(&body(2, Some(Bytes::from(vec![0; 60_000])))).repeat(50);
    for _ in 0..10 {
        let mut raw = bring(&own, State::Connected);
        let version = message(Kind::INITIALIZATION, Some(hello(Some(&[0]), 2)));
        raw.send(&[frame(&version), behind.clone()].concat());
        let answer = raw.expect_frame();
        assert_eq!(answer.id, version.id);
        own.expect_end(&mut raw, "after a refusal");
    }
}

#[test]
fn a_length_that_is_not_allowed_closes_without_an_answer() {
    for target in Target::all("") {
        for state in STATES {
            for length in [0, -1, i32::MIN, 256 * 1024 * 1024 + 1, i32::MAX] {
                let mut raw = bring(&target, state);
                raw.send(&length.to_le_bytes());
                target.expect_end(&mut raw, &format!("a frame of {length} bytes in {state:?}"));
            }
        }
    }
}

#[test]
fn the_end_of_the_stream_ends_the_connection_also_within_a_frame() {
    for target in Target::all("") {
        for state in STATES {
            for part in [0, 2, 4, 20] {
                let mut raw = bring(&target, state);
                raw.send(&frame(&right(state))[..part]);
                raw.finish();
                target.expect_end(&mut raw, &format!("{part} bytes in {state:?}"));
            }
        }
    }
}

#[test]
fn the_handshake_has_a_deadline_that_nothing_extends() {
    use std::time::{Duration, Instant};
    let limit = Duration::from_secs(1);
    let mut targets = vec![Target::Own(Own::with(|builder| {
        builder.limits(witrpc::server::ServerLimits {
            handshake_timeout: Some(limit),
            ..witrpc::server::ServerLimits::default()
        })
    }))];
    if let Some(peer) = Peer::find() {
        targets.push(Target::Peer(peer.serve(&["--handshake", "1000"])));
    }
    // A peer that has just started may take that long for its first handshake alone.
    for target in &targets {
        let handshake = [right(State::Connected), right(State::Initialized)].map(|m| frame(&m));
        let is_authorized = || {
            let mut raw = Raw::connect(target.port());
            raw.send(&handshake.concat());
            (0..2).all(|_| matches!(raw.receive(), Next::Frame(_)))
        };
        let begun = Instant::now();
        while !is_authorized() {
            assert!(
                begun.elapsed() < WATCHDOG,
                "{} does not answer",
                target.name()
            );
        }
    }
    let is_late = |target: &Target, state: State, busy: bool| {
        let begun = Instant::now();
        let mut raw = bring(target, state);
        while busy && begun.elapsed() < limit * 3 / 4 {
            if state == State::Connected {
                assert_eq!(initialize(&mut raw, None), None);
            } else {
                raw.send(&framed(&body(2, None)));
            }
            std::thread::sleep(limit / 20);
        }
        target.expect_end(&mut raw, &format!("too late in {state:?}"));
        // Timers of .NET may be early by less than a tick of the clock.
        let took = begun.elapsed() + Duration::from_millis(20);
        let name = target.name();
        assert!(took >= limit && took < limit * 10, "{name}: {took:?}");
    };
    std::thread::scope(|scope| {
        for target in &targets {
            for state in [State::Connected, State::Initialized] {
                scope.spawn(move || is_late(target, state, false));
                scope.spawn(move || is_late(target, state, true));
            }
            // Who is in stays in.
            scope.spawn(move || {
                let mut raw = bring(target, State::Authorized);
                std::thread::sleep(limit * 2);
                step(&mut raw, State::Authorized);
            });
        }
    });
}
