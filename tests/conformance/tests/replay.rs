//! Recorded conversations of WitRPC's own client and server: every frame read and written again; with
//! JSON, the recorded client's side sent to our server, and the recorded server's side played to our
//! client. The other codecs are in `replay_binary`, the encrypted ones in the core's `security` tests.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use witrpc::client::Client;
use witrpc::server::EventTypeNames;
use witrpc::wire::{
    AuthorizationRequest, AuthorizationResponse, Envelope, InitializationRequest,
    InitializationResponse, Kind, Request, Response,
};
use witrpc::{Error, ErrorCode};
use witrpc_cli::demo;
use witrpc_conformance::conversation::{Conversation, load};
use witrpc_conformance::own::{Own, runtime};
use witrpc_conformance::player::{arguments, compact, line, play, recorded_requests};
use witrpc_conformance::raw::{Next, Raw, encode, framed};
use witrpc_conformance::{WATCHDOG, hex};

const CALLS: [&str; 4] = [
    "calls-json",
    "calls-json-weak",
    "calls-json-token",
    "calls-json-composite",
];
const EVENTS: [&str; 2] = ["events-json-strong", "events-json-weak"];
const REFUSED: [&str; 2] = ["refused-token", "refused-no-token-server"];
const OTHERS: [&str; 7] = [
    "generics-json",
    "plain-client-encrypted-server",
    "calls-memorypack",
    "calls-messagepack",
    "calls-protobuf",
    "events-memorypack-strong",
    "events-memorypack-weak",
];

/// The token in the options of a recording.
fn token(options: &str) -> &str {
    let mut words = options.split(' ').skip_while(|word| *word != "--token");
    words.nth(1).unwrap_or_default()
}

/// Reads the payload of a message and writes it again.
fn rewritten(message: &Envelope, from_client: bool) -> Option<Bytes> {
    macro_rules! again {
        ($model:ty, $data:expr) => {{
            let model = <$model>::decode($data)
                .expect("it can be read")
                .expect("no null");
            encode(|out| model.encode(out))
        }};
    }
    let data = message.data.as_ref()?;
    Some(match (message.kind, from_client) {
        (Kind::INITIALIZATION, true) => again!(InitializationRequest, data),
        (Kind::INITIALIZATION, false) => again!(InitializationResponse, data),
        (Kind::AUTHORIZATION, true) => again!(AuthorizationRequest, data),
        (Kind::AUTHORIZATION, false) => again!(AuthorizationResponse, data),
        (Kind::REQUEST, true) | (Kind::CALLBACK, false) => again!(Request, data),
        (Kind::REQUEST, false) => again!(Response, data),
        other => panic!("{other:?}"),
    })
}

#[test]
fn every_frame_is_written_as_it_was_read() {
    let mut frames = 0;
    for name in [&CALLS[..], &EVENTS, &REFUSED, &OTHERS].concat() {
        for frame in &load(name).frames {
            let (Some(body), Some(message)) = (frame.body(), frame.envelope()) else {
                continue;
            };
            let again = Envelope {
                data: rewritten(&message, frame.is_from_client()),
                ..message
            };
            let again = encode(|out| again.encode(out));
            assert_eq!(hex(&again), hex(&body), "{name}");
            frames += 1;
        }
    }
    assert!(frames > 1600, "{frames}");
}

/// Our server, set up as the recorded one.
fn server_of(conversation: &Conversation) -> Own {
    let options = &conversation.server;
    Own::with(|mut builder| {
        if options.contains("--composite") {
            builder = Own::composite(builder);
        }
        let names = match options.contains("--weak") {
            true => EventTypeNames::Weak,
            false => EventTypeNames::Strong,
        };
        builder.token(token(options)).event_type_names(names)
    })
}

/// What may differ in an event, made equal: the ids that are drawn anew, and the name of the class
/// that implements the service, which .NET writes as the type of the sender although the sender
/// itself never travels. We say what is true of it: an object.
fn without_chance(message: &Envelope) -> Envelope {
    if message.kind != Kind::CALLBACK {
        return message.clone();
    }
    let data = message.data.as_ref().expect("data");
    let mut request = Request::decode(data).expect("a request").expect("no null");
    assert!(!request.invocation_id.is_nil());
    request.invocation_id = Uuid::nil();
    for ty in request.parameter_types.iter_mut().flatten().flatten() {
        if ty == "Demo.EchoService, Demo.Host" {
            *ty = "System.Object, System.Private.CoreLib".into();
        }
    }
    for ty in request
        .parameter_types_by_name
        .iter_mut()
        .flatten()
        .flatten()
    {
        if ty.name.as_deref() == Some("Demo.EchoService") {
            ty.name = Some("System.Object".into());
            ty.assembly = Some("System.Private.CoreLib".into());
        }
    }
    Envelope {
        id: Uuid::nil(),
        kind: message.kind,
        data: Some(encode(|out| request.encode(out))),
    }
}

#[test]
fn our_server_says_to_the_recorded_client_what_the_recorded_one_said() {
    for name in [&CALLS[..], &EVENTS, &REFUSED].concat() {
        let conversation = load(name);
        let server = server_of(&conversation);
        let mut raw = Raw::connect(server.port);
        for (i, recorded) in conversation.frames.iter().enumerate() {
            let place = format!("{name}, frame {i}");
            match (recorded.body(), recorded.is_from_client()) {
                (Some(body), true) => raw.send(&framed(&body)),
                (None, true) => raw.finish(),
                // The recorded server closed after the client had; ours must close too.
                (None, false) => assert_eq!(raw.receive(), Next::End, "{place}"),
                (Some(body), false) => {
                    let expected = recorded.envelope().expect("a frame");
                    let Next::Frame(got_body) = raw.receive() else {
                        panic!("{place}: nothing was answered");
                    };
                    let got = Envelope::decode(&got_body).unwrap().unwrap();
                    if expected.kind == Kind::CALLBACK {
                        let (got, expected) = (without_chance(&got), without_chance(&expected));
                        assert_eq!(got, expected, "{place}");
                    } else {
                        assert_eq!(hex(&got_body), hex(&body), "{place}");
                    }
                }
            }
        }
    }
}

#[test]
fn our_client_understands_what_the_recorded_server_said_and_asks_as_the_recorded_client_did() {
    for name in CALLS {
        let conversation = load(name);
        let player = play(name);
        runtime().block_on(async {
            let client = Client::builder(&player.endpoint)
                .token(token(&conversation.server))
                .build()
                .unwrap();
            client.connect().await.unwrap();
            assert!(!client.peer().unwrap().deduplicates());
            let echo = client.service_of(demo::contract());
            for call in &conversation.calls {
                let place = format!("{name}: {} {}", line(call), arguments(call));
                let result = echo
                    .call_json::<()>(&line(call), &arguments(call))
                    .timeout(WATCHDOG)
                    .json()
                    .await;
                match (result, &call.error) {
                    (Ok(result), None) => {
                        let method = demo::contract().method(&line(call)).unwrap();
                        // Both through the declared type: the recording shows numbers as it likes.
                        let expected = call.result.as_ref().map_or("null", |r| r.get());
                        let expected = witrpc::codec::Value::from_json(
                            expected,
                            method.returns(),
                            method.types(),
                        )
                        .unwrap();
                        let expected = method.result_to_json(&expected).unwrap();
                        assert_eq!(compact(&result), compact(&expected), "{place}");
                    }
                    (Err(error), Some(text)) => {
                        assert_eq!(error.code(), ErrorCode::Remote, "{place}");
                        let shown = format!("WitExceptionFault: {}", error.message());
                        assert_eq!(&shown, text, "{place}");
                        assert_eq!(error.details(), call.inner.as_deref(), "{place}");
                    }
                    (result, _) => panic!("{place}: {result:?}"),
                }
            }
        });
        player.thread.join().unwrap();
        let ours = player.requests.lock().unwrap();
        let recorded = recorded_requests(name);
        assert_eq!(ours.len(), recorded.len(), "{name}");
        for (ours, recorded) in ours.iter().zip(&recorded) {
            // We leave out the names of types, which a server resolves for nothing, and draw ids of
            // our own. Everything else is the same, the bytes of the arguments too.
            assert!(!ours.invocation_id.is_nil());
            let expected = Request {
                parameter_types: Some(Vec::new()),
                parameter_types_by_name: Some(Vec::new()),
                invocation_id: ours.invocation_id,
                ..recorded.clone()
            };
            assert_eq!(ours, &expected, "{name}");
        }
    }
}

#[test]
fn our_client_receives_the_recorded_events_in_order() {
    for name in EVENTS {
        let conversation = load(name);
        let player = play(name);
        runtime().block_on(async {
            let client = Client::builder(&player.endpoint).build().unwrap();
            client.connect().await.unwrap();
            let echo = client.service_of(demo::contract());
            let mut progress = echo.events("Progress").unwrap();
            let mut changed = echo.events("Changed").unwrap();
            let mut person = echo.events("PersonChanged").unwrap();
            let mut nothing = echo.events("Nothing").unwrap();
            for call in conversation.calls.iter().filter(|c| c.received.is_none()) {
                let call = echo.call_json::<()>(&line(call), &arguments(call));
                call.timeout(WATCHDOG).json().await.unwrap();
            }
            for n in [42, 0, 1, 2, 3, 4] {
                assert_eq!(
                    progress.next().await.unwrap().json().unwrap(),
                    format!("[{n}]")
                );
            }
            assert_eq!(
                changed.next().await.unwrap().json().unwrap(),
                r#"[null,{"Percent":7,"Note":"seven"}]"#
            );
            let json = person.next().await.unwrap().json().unwrap();
            assert!(
                json.starts_with(r#"[{"Name":"Ann","Age":3,"#) && json.ends_with(r#","note"]"#)
            );
            assert_eq!(person.next().await.unwrap().json().unwrap(), "[null,null]");
            assert_eq!(nothing.next().await.unwrap().json().unwrap(), "[]");
            client.close();
            // No more than was raised.
            for mut stream in [progress, changed, person, nothing] {
                assert!(stream.next().await.is_none());
            }
        });
        player.thread.join().unwrap();
    }
}

fn connect_error(endpoint: &str, token: &str) -> Error {
    runtime().block_on(async {
        let client = Client::builder(endpoint)
            .token(token)
            .connect_timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        client.connect().await.unwrap_err()
    })
}

#[test]
fn our_client_tells_a_refusal_as_what_it_is() {
    for (name, token) in REFUSED.iter().zip(["wrong", "extra"]) {
        let player = play(name);
        let error = connect_error(&player.endpoint, token);
        assert_eq!(error.code(), ErrorCode::Unauthorized, "{name}");
        assert_eq!(error.details(), Some("Forbidden"), "{name}");
        player.thread.join().unwrap();
    }
    // The encrypting server gives its keys away in clear; the reference's client goes on as if
    // nothing were wrong, and hangs up on.
    let player = play("plain-client-encrypted-server");
    let error = connect_error(&player.endpoint, "");
    assert_eq!(error.code(), ErrorCode::Encryption, "{error}");
    player.thread.join().unwrap();
}
