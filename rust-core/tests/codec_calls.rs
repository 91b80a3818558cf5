//! Arguments, results and events by method: what a client and a server do with them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::echo;
use witrpc::codec::{Codec, Value};
use witrpc::contract::{Contract, Method};

fn method(line: &str) -> Method {
    echo().method(line).unwrap()
}

fn json_blobs(line: &str, args: &str) -> Result<Vec<String>, String> {
    method(line)
        .encode_args_json(Codec::Json, args)
        .map(|blobs| {
            blobs
                .iter()
                .map(|blob| String::from_utf8(blob.to_vec()).unwrap())
                .collect()
        })
        .map_err(|e| e.to_string())
}

#[test]
fn arguments_become_one_blob_each() {
    let blobs = |line, args| json_blobs(line, args).unwrap();
    assert_eq!(blobs("Add", "[2, 3]"), ["2", "3"]);
    assert_eq!(blobs("Echo", "[\"hi\"]"), ["\"hi\""]);
    assert_eq!(blobs("Echo", "[null]"), [""]);
    assert_eq!(blobs("Blob", " [ \"AQID\" ] "), ["\"AQID\""]);
    assert_eq!(blobs("Find", "[[1, 2]]"), ["[1,2]"]);
    assert_eq!(blobs("Not", "[true]"), ["true"]);
    assert_eq!(blobs("Echo", "[\"ab<c>\"]"), ["\"ab\\u003Cc\\u003E\""]);
    assert_eq!(blobs("Money", "[1.10]"), ["1.10"]);
    assert_eq!(blobs("Anything", "[{ \"a\" : 1.50 }]"), ["{\"a\":1.50}"]);
    assert!(blobs("Ping", "[]").is_empty());
    let values = [Value::from(2), Value::from(3)];
    let encoded = method("Add").encode_args(Codec::Json, &values).unwrap();
    assert_eq!(encoded, [Bytes::from("2"), Bytes::from("3")]);
}

#[test]
fn a_wrong_number_of_arguments_names_both_numbers() {
    for (line, args, message) in [
        ("Add", "[]", "Add takes 2 arguments and got 0"),
        (
            "Add",
            "[1, 2, {\"x\": [3]}, 4]",
            "Add takes 2 arguments and got 4",
        ),
        ("AddOne", "[1, 2]", "AddOne takes 1 argument and got 2"),
        ("Ping", "[null]", "Ping takes 0 arguments and got 1"),
    ] {
        assert_eq!(json_blobs(line, args).unwrap_err(), message);
    }
    let error = method("Add")
        .encode_args(Codec::Json, &[Value::Null])
        .unwrap_err();
    assert_eq!(error.to_string(), "Add takes 2 arguments and got 1");
    let error = method("Add").decode_args(Codec::Json, &[b"1"]).unwrap_err();
    assert_eq!(error.to_string(), "Add takes 2 arguments and got 1");
}

#[test]
fn errors_name_the_argument_and_the_place_in_it() {
    let contract = Contract::open("Demo.IEcho").unwrap();
    let error = |line: &str, args: &str| {
        contract
            .method(line)
            .unwrap()
            .encode_args_json(Codec::Json, args)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(
            "void Hire(string name, DateTime born)",
            "[\"Ann\", \"yesterday\"]"
        ),
        "argument 2 \"born\": not an ISO date (byte 1)"
    );
    assert_eq!(
        error("Add(int, int)", "[1, 2.0]"),
        "argument 2: 2.0 is no integer (byte 0)"
    );
    assert_eq!(
        error("Add(int, int)", "{\"a\":1}"),
        "an object where a JSON array of the arguments is expected (byte 0)"
    );
    assert_eq!(
        error("Add(int, int)", "[1, 2"),
        "expected \",\" or \"]\" (byte 5)"
    );
    assert_eq!(
        error("Add(int, int)", "[1, 2] 3"),
        "more data after the JSON value (byte 7)"
    );
    assert_eq!(
        error("Add(int, int)", ""),
        "the JSON ends where a value is expected (byte 0)"
    );
    assert_eq!(
        error("A(double x)", "[\"NaN\"]"),
        "argument 1 \"x\": JSON has no form for a double that is not finite"
    );
    let declared = echo();
    let describe = declared.method("Describe").unwrap();
    let error = describe
        .encode_args_json(
            Codec::Json,
            "[{\"Home\": {\"Street\": \"S\", \"Zip\": \"8001\"}}]",
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "argument 1 \"value\".Home.Zip: a string where an int is expected (byte 32)"
    );
    assert_eq!(error.path(), "argument 1 \"value\".Home.Zip");
    assert_eq!(error.offset(), Some(32));
    let error = describe
        .decode_args(Codec::Json, &[br#"{"Age":null}"#])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "argument 1 \"value\".Age: null where an int is expected (byte 7)"
    );
}

#[test]
fn requests_come_back_as_values_and_as_text() {
    let add = method("Add");
    let args = add
        .decode_args(Codec::Json, &[b"2".as_slice(), b"3"])
        .unwrap();
    assert_eq!(args, [Value::Int(2), Value::Int(3)]);
    let people = method("PeopleArray");
    let text = r#"[[{"Name":"Ann","Age":1,"Favourite":7,"Home":null,"Tags":["ü"],"Scores":{"x":1},"Photo":"AQ==","Born":"2026-01-02T03:04:05Z","Height":1.75},null]]"#;
    let blobs = people.encode_args_json(Codec::Json, text).unwrap();
    assert_eq!(people.decode_args_json(Codec::Json, &blobs).unwrap(), text);
    // A missing argument is null where the parameter allows it.
    assert_eq!(
        method("Echo").decode_args(Codec::Json, &[b""]).unwrap(),
        [Value::Null]
    );
    let error = add
        .decode_args(Codec::Json, &[b"".as_slice(), b"1"])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "argument 1 \"a\": nothing where an int is expected: the sender had no form for its value, \
         or gave none"
    );
}

#[test]
fn results_go_both_ways() {
    let add = method("Add");
    let data = add.encode_result(Codec::Json, &Value::from(5)).unwrap();
    assert_eq!(data.as_deref(), Some(b"5".as_slice()));
    assert_eq!(add.decode_result(Codec::Json, b"5").unwrap(), Value::Int(5));
    assert_eq!(
        add.decode_result(Codec::Json, b"\"5\"")
            .unwrap_err()
            .to_string(),
        "result: a string where an int is expected (byte 0)"
    );
    assert!(add.decode_result(Codec::Json, b"").is_err());
    assert_eq!(
        add.encode_result(Codec::Json, &Value::Null)
            .unwrap_err()
            .to_string(),
        "result: null where an int is expected"
    );
    let echo = method("Echo");
    assert_eq!(echo.encode_result(Codec::Json, &Value::Null).unwrap(), None);
    assert_eq!(echo.decode_result(Codec::Json, b"").unwrap(), Value::Null);
    assert_eq!(
        echo.decode_result_json(Codec::Json, b"\"\\u00E9\"")
            .unwrap(),
        "\"é\""
    );
    assert_eq!(
        method("Money")
            .encode_result_json(Codec::Json, "1.50")
            .unwrap()
            .as_deref(),
        Some(b"1.50".as_slice())
    );
}

#[test]
fn methods_without_a_result_have_null() {
    let fire = method("Fire");
    assert_eq!(fire.encode_result(Codec::Json, &Value::Null).unwrap(), None);
    assert_eq!(fire.decode_result(Codec::Json, b"").unwrap(), Value::Null);
    // Data that a method without a result sends anyway is not looked at.
    assert_eq!(
        fire.decode_result_json(Codec::Json, b"null").unwrap(),
        "null"
    );
    assert!(fire.encode_result(Codec::Json, &Value::from(1)).is_err());
}

#[test]
fn a_return_type_left_out_is_any_json() {
    let method = Contract::open("Demo.IEcho")
        .unwrap()
        .method("Add(int, int)")
        .unwrap();
    let result = |data: &[u8]| method.decode_result_json(Codec::Json, data);
    assert_eq!(
        result(b"{ \"A\" : [1e5, \"\\u00E9\"] }").unwrap(),
        "{\"A\":[1e5,\"é\"]}"
    );
    assert_eq!(result(b"").unwrap(), "null");
    assert!(result(b"{").is_err());
}

#[test]
fn a_generic_method_needs_its_type_arguments() {
    let open = Contract::open("Demo.IGeneric")
        .unwrap()
        .method("List<T> Twice<T>(T v)")
        .unwrap();
    assert_eq!(
        open.encode_args_json(Codec::Json, "[5]")
            .unwrap_err()
            .to_string(),
        "no type is given for T of Twice: write types instead of type parameters, as in int \
         Echo<int>(int value), or add \"where T = int\"; a type that the contract does not declare is \
         written with its namespace"
    );
    let closed = open.instantiate_named(&["int"]).unwrap();
    assert_eq!(
        closed.encode_args_json(Codec::Json, "[5]").unwrap(),
        [Bytes::from("5")]
    );
    assert!(closed.encode_args_json(Codec::Json, "[\"5\"]").is_err());
    assert_eq!(
        closed.decode_result_json(Codec::Json, b"[5,5]").unwrap(),
        "[5,5]"
    );
}

#[test]
fn events_carry_arguments_too() {
    let contract = echo();
    let progress = contract.event("Progress").unwrap();
    let blobs = progress
        .encode_args(Codec::Json, &[Value::from(42)])
        .unwrap();
    assert_eq!(blobs, [Bytes::from("42")]);
    assert_eq!(
        progress.decode_args(Codec::Json, &blobs, &[]).unwrap(),
        [Value::Int(42)]
    );
    assert_eq!(
        progress
            .decode_args(Codec::Json, &[b"x"], &[])
            .unwrap_err()
            .to_string(),
        "event argument 1: not JSON (byte 0)"
    );
    let changed = contract.event("Changed").unwrap();
    let blobs = changed
        .encode_args_json(Codec::Json, "[null, {\"Percent\": 5}]")
        .unwrap();
    assert_eq!(
        blobs,
        [Bytes::new(), Bytes::from("{\"Percent\":5,\"Note\":null}")]
    );
    // The type on the wire decides where the event says `object`.
    let int = contract
        .type_from_wire("System.Int32, System.Private.CoreLib")
        .unwrap();
    let args = changed
        .decode_args(
            Codec::Json,
            &[b"5".as_slice(), b"{}"],
            std::slice::from_ref(&int),
        )
        .unwrap();
    assert_eq!(args[0], Value::Int(5));
    assert_eq!(
        changed.args_to_json(&args).unwrap(),
        "[5,{\"Percent\":0,\"Note\":null}]"
    );
    let nothing = contract.event("Nothing").unwrap();
    assert_eq!(
        nothing
            .args_to_json(
                &nothing
                    .decode_args(Codec::Json, &[] as &[&[u8]], &[])
                    .unwrap()
            )
            .unwrap(),
        "[]"
    );
}

#[test]
fn google_protobuf_passes_messages_and_has_json_for_the_rest() {
    let contract = Contract::open("Demo.IEcho").unwrap();
    let method = contract
        .method("Demo.Reply Send(Demo.Message m, int n)")
        .unwrap();
    let args = [Value::Bytes(vec![8, 1]), Value::from(5)];
    let blobs = method.encode_args(Codec::GoogleProtobuf, &args).unwrap();
    assert_eq!(blobs, [Bytes::from_static(&[8, 1]), Bytes::from("5")]);
    assert_eq!(
        method.decode_args(Codec::GoogleProtobuf, &blobs).unwrap(),
        args
    );
    assert_eq!(
        method
            .decode_result(Codec::GoogleProtobuf, &[8, 2])
            .unwrap(),
        Value::Bytes(vec![8, 2])
    );
}

#[test]
fn codecs_have_names() {
    for codec in [Codec::Json, Codec::GoogleProtobuf] {
        assert_eq!(codec.to_string().parse::<Codec>().unwrap(), codec);
    }
    assert_eq!("JSON".parse::<Codec>().unwrap(), Codec::Json);
    assert!(
        "xml"
            .parse::<Codec>()
            .unwrap_err()
            .to_string()
            .starts_with("\"xml\" is no codec: write one of json")
    );
}
