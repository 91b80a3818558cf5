//! Recorded conversations with MemoryPack, MessagePack and protobuf: the recorded client's side sent to
//! our server, and the recorded server's side played to our client. What must be equal are the values;
//! bytes are, but where the recording has padding that was never written, or was compressed by another
//! compressor.

use std::collections::HashMap;

use bytes::Bytes;
use uuid::Uuid;
use witrpc::client::Client;
use witrpc::codec::Codec;
use witrpc::contract::{Method, Type};
use witrpc::server::EventTypeNames;
use witrpc::wire::{Envelope, Kind, Request, Response};
use witrpc_cli::demo;
use witrpc_conformance::WATCHDOG;
use witrpc_conformance::conversation::load;
use witrpc_conformance::own::{Own, runtime};
use witrpc_conformance::player::{arguments, compact, line, play, recorded_requests};
use witrpc_conformance::raw::{Next, Raw, framed};

const CALLS: [(&str, Codec); 3] = [
    ("calls-memorypack", Codec::MemoryPack),
    ("calls-messagepack", Codec::MessagePack),
    ("calls-protobuf", Codec::Protobuf),
];
const EVENTS: [(&str, EventTypeNames); 2] = [
    ("events-memorypack-strong", EventTypeNames::Strong),
    ("events-memorypack-weak", EventTypeNames::Weak),
];

fn request(message: &Envelope) -> Request {
    let data = message.data.as_ref().unwrap();
    Request::decode(data).unwrap().unwrap()
}

fn response(message: &Envelope) -> Response {
    let data = message.data.as_ref().unwrap();
    Response::decode(data).unwrap().unwrap()
}

fn method(request: &Request) -> Method {
    let contract = demo::contract();
    contract.by_id(request.method_id).unwrap().clone()
}

/// A value as the codec reads it, to be compared: NaN is no equal of itself.
fn shown(codec: Codec, method: &Method, data: Option<&Bytes>) -> String {
    let data = data.cloned().unwrap_or_default();
    format!("{:?}", method.decode_result(codec, &data))
}

/// How an answer of ours relates to the recorded one.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Found {
    Bytes,
    Value,
    /// .NET had no form for a part of the value, or did not read it, and went on with null.
    BetterThanNull,
}

fn compare(
    codec: Codec,
    asked: &Request,
    ours: &Response,
    theirs: &Response,
    place: &str,
) -> Found {
    if ours == theirs {
        return Found::Bytes;
    }
    let method = method(asked);
    if method.name() == "Anything" && codec == Codec::Protobuf {
        assert_eq!((ours.status, theirs.status), (400, 200), "{place}");
        assert!(theirs.data.as_ref().is_none_or(Bytes::is_empty), "{place}");
        let text = ours.error_message.as_deref().unwrap_or_default();
        assert!(
            text.contains("argument 1 \"value\": protobuf can not hold"),
            "{text}"
        );
        return Found::BetterThanNull;
    }
    assert_eq!(
        (ours.status, &ours.error_message, &ours.error_details),
        (theirs.status, &theirs.error_message, &theirs.error_details),
        "{place}"
    );
    assert_eq!(
        shown(codec, &method, ours.data.as_ref()),
        shown(codec, &method, theirs.data.as_ref()),
        "{place}"
    );
    Found::Value
}

#[test]
fn our_server_answers_the_recorded_client_with_the_values_of_the_recorded_one() {
    for (name, codec) in CALLS {
        let server = Own::with(|builder| builder.codec(codec));
        let mut raw = Raw::connect(server.port);
        let mut asked: HashMap<Uuid, Request> = HashMap::new();
        let mut found: HashMap<Found, usize> = HashMap::new();
        for (i, recorded) in load(name).frames.iter().enumerate() {
            let place = format!("{name}, frame {i}");
            let Some(body) = recorded.body() else {
                continue;
            };
            let expected = recorded.envelope().unwrap();
            if recorded.is_from_client() {
                if expected.kind == Kind::REQUEST {
                    asked.insert(expected.id, request(&expected));
                }
                raw.send(&framed(&body));
                continue;
            }
            let Next::Frame(got) = raw.receive() else {
                panic!("{place}: nothing was answered");
            };
            let got = Envelope::decode(&got).unwrap().unwrap();
            assert_eq!((got.id, got.kind), (expected.id, expected.kind), "{place}");
            if got.kind != Kind::REQUEST {
                assert_eq!(got.data, expected.data, "{place}");
                continue;
            }
            let asked = &asked[&expected.id];
            let place = format!("{place}: {}", asked.method_name.as_deref().unwrap());
            let how = compare(codec, asked, &response(&got), &response(&expected), &place);
            *found.entry(how).or_default() += 1;
        }
        let count = |how| found.get(&how).copied().unwrap_or_default();
        assert!(count(Found::Bytes) > 100, "{name}: {found:?}");
        assert!(count(Found::BetterThanNull) <= 6, "{name}: {found:?}");
    }
}

/// Whether the recording can be compared: not where the recorded client itself sent null for a value, nor
/// a ValueTuple, which the recording shows without its items.
fn is_carried(codec: Codec, method: &Method, recorded: &Request) -> bool {
    let mut blobs = recorded.parameters.iter().flatten();
    let nothing = blobs.any(|blob| blob.as_ref().is_none_or(Bytes::is_empty));
    let shown = !["Anything", "Pair"].contains(&method.name());
    shown && (!nothing || codec != Codec::Protobuf)
}

#[test]
fn our_client_understands_the_recorded_server_and_asks_with_the_recorded_values() {
    for (name, codec) in CALLS {
        let conversation = load(name);
        let recorded = recorded_requests(name);
        let player = play(name);
        let mut compared = 0;
        runtime().block_on(async {
            let client = Client::builder(&player.endpoint)
                .codec(codec)
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let echo = client.service_of(demo::contract());
            for (call, recorded) in conversation.calls.iter().zip(&recorded) {
                let place = format!("{name}: {} {}", line(call), arguments(call));
                let method = method(recorded);
                let blobs = recorded.parameters.iter().flatten();
                let blobs: Vec<_> = blobs.map(|b| b.clone().unwrap_or_default()).collect();
                // Where the value has no form, or the recorded one sent none, its blobs are sent.
                let carried = is_carried(codec, &method, recorded)
                    && method.encode_args_json(codec, &arguments(call)).is_ok();
                let started = match carried {
                    true => echo.call_json::<()>(&line(call), &arguments(call)),
                    false => {
                        echo.call_encoded(&line(call), witrpc::wire::Arguments::from_blobs(&blobs))
                    }
                };
                let answer = started.timeout(WATCHDOG).encoded().await;
                match (answer, &call.error) {
                    (Ok(answer), None) => {
                        let json = method
                            .decode_result_json(codec, answer.data.as_deref().unwrap_or_default());
                        compared += usize::from(check_result(codec, &method, call, json, &place));
                    }
                    (Err(error), Some(text)) => {
                        let shown = format!("WitExceptionFault: {}", error.message());
                        assert_eq!(&shown, text, "{place}");
                        assert_eq!(error.details(), call.inner.as_deref(), "{place}");
                    }
                    (answer, _) => panic!("{place}: {answer:?}"),
                }
            }
        });
        player.thread.join().unwrap();
        assert!(compared > 110, "{name}: {compared}");
        let ours = player.requests.lock().unwrap();
        assert_eq!(ours.len(), recorded.len(), "{name}");
        for (ours, recorded) in ours.iter().zip(&recorded) {
            let method = method(recorded);
            let values = |request: &Request| {
                let blobs = request.parameters.iter().flatten();
                let blobs: Vec<_> = blobs.map(|b| b.clone().unwrap_or_default()).collect();
                format!("{:?}", method.decode_args(codec, &blobs))
            };
            assert_eq!(values(ours), values(recorded), "{name}: {}", method.name());
            assert_eq!(
                (&ours.method_name, ours.method_id, ours.contract_id),
                (
                    &recorded.method_name,
                    recorded.method_id,
                    recorded.contract_id
                )
            );
        }
    }
}

/// Compares a result with what the recorded client saw. False where that client lost the value, which
/// ours does not.
fn check_result(
    codec: Codec,
    method: &Method,
    call: &witrpc_conformance::conversation::Call,
    json: Result<String, witrpc::codec::CodecError>,
    place: &str,
) -> bool {
    let expected = call.result.as_ref().map_or("null", |r| r.get());
    let json = json.unwrap_or_else(|e| panic!("{place}: {e}"));
    let is_nullable = matches!(method.returns(), Type::Nullable(_));
    if codec == Codec::MemoryPack && is_nullable && expected == "null" {
        // Results are written by what they are and read by what is declared: .NET reads null.
        let argument = arguments(call);
        assert_eq!(
            compact(&json),
            compact(&argument[1..argument.len() - 1]),
            "{place}"
        );
        return false;
    }
    if method.name() == "Anything" || expected == "{}" {
        // A boxed value has no declared type; a ValueTuple is shown without its items.
        return false;
    }
    let value = witrpc::codec::Value::from_json(expected, method.returns(), method.types());
    let value = value.unwrap_or_else(|e| panic!("{place}: {expected}: {e}"));
    let expected = method.result_to_json(&value).unwrap();
    assert_eq!(compact(&json), compact(&expected), "{place}");
    true
}

/// What an event says, without the ids and type names that differ from server to server.
fn event(message: &Envelope) -> (Option<String>, Vec<Option<Bytes>>) {
    let request = request(message);
    (request.method_name, request.parameters.unwrap_or_default())
}

#[test]
fn our_server_raises_the_recorded_events() {
    for (name, names) in EVENTS {
        let server = Own::with(|builder| builder.codec(Codec::MemoryPack).event_type_names(names));
        let mut raw = Raw::connect(server.port);
        let mut events = 0;
        for (i, recorded) in load(name).frames.iter().enumerate() {
            let place = format!("{name}, frame {i}");
            let Some(body) = recorded.body() else {
                continue;
            };
            if recorded.is_from_client() {
                raw.send(&framed(&body));
                continue;
            }
            let expected = recorded.envelope().unwrap();
            let Next::Frame(got) = raw.receive() else {
                panic!("{place}: nothing came");
            };
            let got = Envelope::decode(&got).unwrap().unwrap();
            assert_eq!(got.kind, expected.kind, "{place}");
            if got.kind != Kind::CALLBACK {
                assert_eq!(got.id, expected.id, "{place}");
                continue;
            }
            let (ours, theirs) = (event(&got), event(&expected));
            assert_eq!(ours.0, theirs.0, "{place}");
            let contract = demo::contract();
            let declared = contract
                .events()
                .iter()
                .find(|e| Some(e.name()) == ours.0.as_deref());
            let values = |blobs: &[Option<Bytes>]| {
                let blobs: Vec<_> = blobs
                    .iter()
                    .map(|b| b.clone().unwrap_or_default())
                    .collect();
                let args = declared
                    .unwrap()
                    .decode_args(Codec::MemoryPack, &blobs, &[]);
                format!("{args:?}")
            };
            assert_eq!(values(&ours.1), values(&theirs.1), "{place}");
            events += 1;
        }
        assert_eq!(events, 10, "{name}");
    }
}

#[test]
fn our_client_receives_the_recorded_events() {
    for (name, _) in EVENTS {
        let conversation = load(name);
        let player = play(name);
        runtime().block_on(async {
            let builder = Client::builder(&player.endpoint).codec(Codec::MemoryPack);
            let client = builder.build().unwrap();
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
                let json = progress.next().await.unwrap().json();
                assert_eq!(json.unwrap(), format!("[{n}]"));
            }
            // MemoryPack has no form for its class.
            assert_eq!(changed.next().await.unwrap().json().unwrap(), "[null,null]");
            let json = person.next().await.unwrap().json().unwrap();
            assert!(json.starts_with(r#"[{"Name":"Ann","Age":3,"#), "{json}");
            assert_eq!(person.next().await.unwrap().json().unwrap(), "[null,null]");
            assert_eq!(nothing.next().await.unwrap().json().unwrap(), "[]");
        });
        player.thread.join().unwrap();
    }
}
