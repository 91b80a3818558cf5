//! Whole recorded conversations with a .NET peer: the methods that its ids mean, and its arguments,
//! results and events in every codec.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::HashMap;

use bytes::Bytes;
use common::{compact, echo, hex, vector};
use serde::Deserialize;
use serde_json::value::RawValue;
use witrpc::codec::{Codec, Value};
use witrpc::contract::{Contract, Method, Type};
use witrpc::wire::memorypack::Reader;

#[derive(Deserialize)]
struct Conversation {
    calls: Vec<Call>,
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    #[serde(default)]
    method: String,
    #[serde(default)]
    generic_arguments: Vec<String>,
    arguments: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Frame {
    from: String,
    #[serde(default)]
    hex: String,
}

/// What a request or an event carries.
#[derive(Default)]
struct Request {
    method: String,
    parameters: Vec<Bytes>,
    types: Vec<String>,
    generics: Vec<String>,
    contract_id: i64,
    method_id: i64,
}

struct Response {
    status: i32,
    data: Option<Bytes>,
}

/// Id, type and data of an envelope.
fn envelope(frame: &str) -> (uuid::Uuid, i32, Vec<u8>) {
    let bytes = hex(frame);
    let mut reader = Reader::new(&bytes[4..]);
    assert_eq!(reader.object_header().unwrap(), Some(3));
    let id = reader.guid().unwrap();
    let ty = reader.i32().unwrap();
    (id, ty, reader.bytes().unwrap().unwrap_or_default().to_vec())
}

fn skip_lengths(reader: &mut Reader<'_>) {
    for _ in 0..reader.object_header().unwrap().unwrap() {
        reader.varint().unwrap();
    }
}

fn strings(reader: &mut Reader<'_>, pairs: bool) -> Vec<String> {
    let count = reader.collection_header(1).unwrap().unwrap_or_default();
    (0..count)
        .map(|_| {
            if !pairs {
                return reader.string().unwrap().unwrap();
            }
            skip_lengths(reader);
            let name = reader.string().unwrap().unwrap();
            let assembly = reader.string().unwrap().unwrap();
            format!("{name}, {assembly}")
        })
        .collect()
}

fn request(data: &[u8]) -> Request {
    let mut reader = Reader::new(data);
    skip_lengths(&mut reader);
    reader.string().unwrap();
    let method = reader.string().unwrap().unwrap_or_default();
    let count = reader.collection_header(1).unwrap().unwrap_or_default();
    let parameters = (0..count)
        .map(|_| Bytes::copy_from_slice(reader.bytes().unwrap().unwrap_or_default()))
        .collect();
    let mut types = strings(&mut reader, false);
    types.extend(strings(&mut reader, true));
    let mut generics = strings(&mut reader, false);
    generics.extend(strings(&mut reader, true));
    reader.guid().unwrap();
    Request {
        method,
        parameters,
        types,
        generics,
        contract_id: reader.i64().unwrap(),
        method_id: reader.i64().unwrap(),
    }
}

fn response(data: &[u8]) -> Response {
    let mut reader = Reader::new(data);
    skip_lengths(&mut reader);
    Response {
        status: reader.i32().unwrap(),
        data: reader.bytes().unwrap().map(Bytes::copy_from_slice),
    }
}

/// The calls of a conversation with what travelled for them.
fn exchanges(name: &str) -> Vec<(Call, Request, Response)> {
    let text = vector(&format!("conversations/{name}.json"));
    let conversation: Conversation = serde_json::from_str(&text).unwrap();
    let mut requests = Vec::new();
    let mut responses = HashMap::new();
    for frame in conversation.frames.iter().filter(|f| !f.hex.is_empty()) {
        let (id, ty, data) = envelope(&frame.hex);
        match (ty, frame.from.as_str()) {
            (1, "client") => requests.push((id, request(&data))),
            (1, "server") => drop(responses.insert(id, response(&data))),
            _ => {}
        }
    }
    let calls = conversation
        .calls
        .into_iter()
        .filter(|c| c.arguments.is_some());
    let out: Vec<_> = calls
        .zip(requests)
        .map(|(call, (id, request))| (call, request, responses.remove(&id).unwrap()))
        .collect();
    assert!(responses.is_empty(), "every request has a call");
    out
}

/// The arguments as text; those of `Pair` were recorded as the JSON that loses its items.
fn arguments(call: &Call) -> &str {
    let recorded = call.arguments.as_ref().unwrap().get();
    match compact(recorded).as_str() {
        "[{}]" => r#"[{"Item1":1,"Item2":"t"}]"#,
        _ => recorded,
    }
}

/// The result as text, likewise.
fn expected(call: &Call, codec: Codec) -> String {
    let recorded = compact(call.result.as_ref().map_or("null", |r| r.get()));
    match (recorded.as_str(), codec) {
        ("{}", Codec::Json) => r#"{"Item1":0,"Item2":null}"#.into(),
        ("{}", _) => r#"{"Item1":1,"Item2":"t"}"#.into(),
        _ => recorded,
    }
}

fn check_calls(name: &str, codec: Codec) {
    let contract = echo();
    let mut methods = std::collections::HashSet::new();
    for (call, request, response) in exchanges(name) {
        let what = format!("{} {}", call.method, arguments(&call));
        let method = contract.by_id(request.method_id).unwrap();
        assert_eq!(method.name(), call.method);
        assert_eq!(request.contract_id, contract.id());
        methods.insert(request.method_id);
        if call.method == "Anything" && codec != Codec::Json {
            // The peer writes an object by its .NET type, which is not known here.
            let args = method.decode_args(codec, &request.parameters);
            assert_eq!(
                args.is_ok(),
                codec != Codec::Protobuf || request.parameters[0].is_empty()
            );
            continue;
        }
        if let Err(error) = method.encode_args_json(codec, arguments(&call)) {
            // What the peer can not write either, and sends as null without a word.
            assert!(
                request.parameters.iter().any(|p| p.is_empty()),
                "{what}: {error}"
            );
            continue;
        }
        let blobs = method
            .encode_args_json(codec, arguments(&call))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let theirs = method
            .decode_args(codec, &request.parameters)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let ours = method.decode_args(codec, &blobs).unwrap();
        // NaN is no equal of itself, so they are compared by what they show.
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{what}");
        let padded = codec == Codec::MemoryPack
            && (method
                .params()
                .iter()
                .any(|p| matches!(p.ty(), Type::Nullable(_)))
                || call.method.contains("Describe")
                || call.method.contains("People")
                || call.method.contains("RaisePerson"));
        let compressed =
            codec == Codec::MessagePack && request.parameters.iter().any(|p| p.len() > 20);
        if !padded && !compressed {
            assert_eq!(blobs, request.parameters, "{what}");
        }
        if call.error.is_some() {
            assert_ne!(response.status, 200);
            continue;
        }
        check_result(&call, method, codec, &response, &what);
    }
    // All methods but those that raise events, and the setter that no call needs.
    assert!(methods.len() > 55, "{}", methods.len());
}

fn check_result(call: &Call, method: &Method, codec: Codec, response: &Response, what: &str) {
    assert_eq!(response.status, 200, "{what}");
    let data = response.data.clone().unwrap_or_default();
    let not_there = data.is_empty() && method.returns().is_value_type() == Some(true);
    let result = method.decode_result(codec, &data);
    if not_there && !matches!(method.returns(), Type::Nullable(_)) && result.is_err() {
        // The peer could not write it: NaN as JSON.
        assert_eq!(codec, Codec::Json, "{what}");
        return;
    }
    let result = result.unwrap_or_else(|e| panic!("{what}: {e}"));
    let shown = method.result_to_json(&result).unwrap();
    let expected = expected(call, codec);
    if expected == "null" && shown != "null" {
        // What a .NET client loses: nullable results with MemoryPack.
        assert_eq!(codec, Codec::MemoryPack, "{what}");
        assert!(matches!(method.returns(), Type::Nullable(_)), "{what}");
        assert_eq!(
            shown,
            compact(&arguments(call)[1..arguments(call).len() - 1])
        );
    } else if !call.method.contains("Anything") {
        assert_eq!(shown, expected, "{what}");
    }
    // A server's answer reads back the same.
    let encoded = method
        .encode_result(codec, &result)
        .unwrap()
        .unwrap_or_default();
    assert_eq!(
        format!("{:?}", method.decode_result(codec, &encoded).unwrap()),
        format!("{result:?}"),
        "{what}"
    );
}

#[test]
fn json_calls() {
    check_calls("calls-json", Codec::Json);
}

#[test]
fn memorypack_calls() {
    check_calls("calls-memorypack", Codec::MemoryPack);
}

#[test]
fn messagepack_calls() {
    check_calls("calls-messagepack", Codec::MessagePack);
}

#[test]
fn protobuf_calls() {
    check_calls("calls-protobuf", Codec::Protobuf);
}

#[test]
fn generic_calls_are_found_by_name_and_types() {
    let contract = Contract::builder("Demo.IGeneric")
        .assembly("Demo.Host")
        .declare(witrpc::contract::TypeDecl::class("Demo.Person").assembly("Demo.Contracts"))
        .method("T? Same<T>(T? v);")
        .method("List<T> Twice<T>(T v);")
        .method("int Count<T>(List<T> items);")
        .method("string Pair<TA, TB>(TA a, TB b);")
        .method("T[] Arr<T>(T[] v);")
        .method("string Mixed<T>(Dictionary<string, T> d);")
        .method("string Over(List<int> x);")
        .method("string Over<T>(List<T> x);")
        .method("string Plain<T>(int a, T b);")
        .method("Task<T?> SameAsync<T>(T? v);")
        .method("ValueTask<int> Val(int a);")
        .method("Task? NullTask();")
        .method("string? NullString();")
        .method("int Opt(int a, int b = 5);")
        .method("string Par(params int[] xs);")
        .build()
        .unwrap();
    let exchanges = exchanges("generics-json");
    assert_eq!(exchanges.len(), 19);
    for (call, request, response) in exchanges {
        let what = format!("{} {}", call.method, arguments(&call));
        let generic = !request.generics.is_empty();
        let parse = |names: &[String]| -> Vec<Type> {
            names
                .iter()
                .map(|name| contract.type_from_wire(name).unwrap())
                .collect()
        };
        let method = if generic {
            assert_eq!(request.method_id, 0);
            let types = parse(&request.types);
            let generics = parse(&request.generics);
            contract
                .by_signature(&request.method, &types, &generics)
                .unwrap_or_else(|| panic!("{what}"))
        } else {
            contract.by_id(request.method_id).unwrap().clone()
        };
        assert_eq!(method.name(), call.method);
        let stable: Vec<String> = method
            .generic_args()
            .iter()
            .map(|ty| ty.stable_name().unwrap())
            .collect();
        assert_eq!(stable, call.generic_arguments, "{what}");
        // The names that this side writes are those of the peer.
        let names = |names: Vec<witrpc::contract::TypeName>| -> Vec<String> {
            names.iter().map(|name| name.qualified()).collect()
        };
        assert_eq!(names(method.generic_arg_names().unwrap()), request.generics);
        assert_eq!(
            names(method.param_type_names().unwrap()),
            request.types,
            "{what}"
        );
        // A person is declared without members here, so its JSON is not looked at.
        if !request.types.concat().contains("Demo.Person") {
            let blobs = method
                .encode_args_json(Codec::Json, arguments(&call))
                .unwrap();
            assert_eq!(blobs, request.parameters, "{what}");
        }
        if response.status == 200 && !request.types.concat().contains("Demo.Person") {
            let data = response.data.unwrap_or_default();
            let shown = method.decode_result_json(Codec::Json, &data).unwrap();
            // A .NET client loses the result of a ValueTask, which is on the wire.
            let expected = expected(&call, Codec::Json).replace("\"Result\":0", "\"Result\":3");
            assert_eq!(shown, expected, "{what}");
        }
    }
}

fn check_events(name: &str, codec: Codec) {
    let contract = echo();
    let text = vector(&format!("conversations/{name}.json"));
    let conversation: Conversation = serde_json::from_str(&text).unwrap();
    let mut shown = Vec::new();
    for frame in conversation.frames.iter().filter(|f| !f.hex.is_empty()) {
        let (_, ty, data) = envelope(&frame.hex);
        if ty != 2 {
            continue;
        }
        let raised = request(&data);
        assert_eq!(raised.contract_id, contract.id());
        let event = contract.event_named(&raised.method).unwrap();
        let wire_types: Vec<Type> = raised
            .types
            .iter()
            .map(|name| contract.type_from_wire(name).unwrap())
            .collect();
        let args = event
            .decode_args(codec, &raised.parameters, &wire_types)
            .unwrap_or_else(|e| panic!("{}: {e}", raised.method));
        shown.push(format!(
            "{} {}",
            raised.method,
            event.args_to_json(&args).unwrap()
        ));
        if !args.iter().any(Value::is_null) {
            let names: Vec<String> = event
                .arg_type_names()
                .unwrap()
                .iter()
                .map(|name| name.qualified())
                .collect();
            assert_eq!(names, raised.types);
            let theirs = &raised.parameters;
            // The peer leaves memory in the padding of a nullable.
            if codec == Codec::Json {
                assert_eq!(event.encode_args(codec, &args).unwrap(), *theirs);
            }
        }
    }
    let changed = match codec {
        Codec::Json => r#"Changed [null,{"Percent":7,"Note":"seven"}]"#,
        // The peer's class has no attributes, so nothing of it travels.
        _ => "Changed [null,null]",
    };
    let person = shown.iter().find(|line| line.contains("Ann")).unwrap();
    assert!(
        person.starts_with(r#"PersonChanged [{"Name":"Ann""#) && person.ends_with(r#","note"]"#)
    );
    assert!(shown.contains(&changed.to_owned()), "{shown:?}");
    for line in [
        "Progress [42]",
        "Progress [4]",
        "Nothing []",
        "PersonChanged [null,null]",
    ] {
        assert!(shown.contains(&line.to_owned()), "{line} {shown:?}");
    }
}

#[test]
fn events() {
    check_events("events-json-strong", Codec::Json);
    check_events("events-json-weak", Codec::Json);
    check_events("events-memorypack-strong", Codec::MemoryPack);
    check_events("events-memorypack-weak", Codec::MemoryPack);
}
