//! Input that is legal and not what .NET itself writes: the answer is what .NET writes. A server that
//! gives back the bytes it got fails here. Expected are the answers of the live .NET peer; where there is
//! one it is asked too.

use std::sync::Arc;

use bytes::Bytes;
use witrpc::codec::{Codec, Value};
use witrpc::contract::Contract;
use witrpc::server::{Server, ServiceBuilder};
use witrpc::wire::{Request, status};
use witrpc_cli::demo;
use witrpc_conformance::own::{Own, runtime};
use witrpc_conformance::peer::Peer;
use witrpc_conformance::raw::{Raw, call, request};
use witrpc_conformance::{hex, unhex};

fn with_blob(request: Request, blob: &[u8]) -> Request {
    Request {
        parameters: Some(vec![Some(Bytes::copy_from_slice(blob))]),
        ..request
    }
}

/// Asks our server, and the peer, for a method that gives back its argument.
fn becomes(codec: Codec, cases: &[(&str, &str, &str)]) {
    let own = Own::with(|builder| builder.codec(codec));
    let peer = Peer::find().map(|peer| peer.serve(&["--codec", codec.name()]));
    let mut servers = vec![("our server", Raw::authorized(own.port, ""))];
    if let Some(peer) = &peer {
        servers.push(("the peer", Raw::authorized(peer.port, "")));
    }
    for (method, given, expected) in cases {
        let (given, expected) = (given.replace(' ', ""), expected.replace(' ', ""));
        assert_ne!(given, expected, "{method}: that would be an echo");
        for (server, raw) in &mut servers {
            let asked = with_blob(call(method, &[]), &unhex(&given));
            let answer = raw.ask(&asked);
            assert_eq!(
                answer.status,
                status::OK,
                "{server}: {method} {given}: {answer:?}"
            );
            let data = hex(&answer.data.unwrap_or_default());
            assert_eq!(data, expected, "{server}: {method} of {given}");
        }
    }
}

fn ascii(text: &str) -> String {
    hex(text.as_bytes())
}

#[test]
fn protobuf_packed_and_unpacked_unknown_and_repeated_fields() {
    becomes(
        Codec::Protobuf,
        &[
            // Packed lists, which protobuf-net reads and does not write.
            ("Ints", "0a 03 01 02 03", "0801 0802 0803"),
            ("Ints", "0a 02 01 02 0803", "0801 0802 0803"),
            (
                "Doubles",
                "0a 10 000000000000f03f 0000000000000040",
                "09000000000000f03f 090000000000000040",
            ),
            (
                "Find",
                "0a 0a ffffffffffffffffff01",
                "08ffffffffffffffffff01",
            ),
            // A varint longer than it need be.
            ("Big", "08 8180808000", "0801"),
            // A field that nobody knows, before and behind.
            ("Big", "1a0161 0805 2207 00000000000000", "0805"),
            // The last of a field that may stand once.
            ("Big", "0801 0802", "0802"),
            // Members in another order, and one more.
            ("Describe", "1007 0a0141 7a0161", "0a0141 1007 42040801100f"),
        ],
    );
}

#[test]
fn messagepack_uncompressed_and_wide_forms() {
    becomes(
        Codec::MessagePack,
        &[
            ("Big", "d300000000 00000005", "05"),
            ("Big", "d2fffffffe", "fe"),
            ("Short", "d10005", "05"),
            ("Echo", "db00000001 61", "a161"),
            ("Echo", "da0001 61", "a161"),
            ("Ints", "dd00000002 d200000001 cd0002", "920102"),
            ("Double", "ca3fc00000", "cb3ff8000000000000"),
            // More members than are known, and fewer.
            (
                "Describe",
                "9b a141 07 00 c0 c0 c0 c0 d6ff00000000 c0 a161 01",
                "99 a141 07 00 c0 c0 c0 c0 d6ff00000000 c0",
            ),
        ],
    );
}

/// From 64 bytes on .NET compresses. Two compressors need not agree on the bytes, only on what they are.
#[test]
fn messagepack_over_64_bytes_is_compressed() {
    let codec = Codec::MessagePack;
    let own = Own::with(|builder| builder.codec(codec));
    let peer = Peer::find().map(|peer| peer.serve(&["--codec", codec.name()]));
    let text = "x".repeat(100);
    let asked = with_blob(call("Echo", &[]), &unhex(&format!("d964{}", ascii(&text))));
    for port in [Some(own.port), peer.as_ref().map(|peer| peer.port)]
        .into_iter()
        .flatten()
    {
        let answer = Raw::authorized(port, "").ask(&asked);
        let data = answer.data.unwrap();
        // An extension of type 99, which begins with the length of what it holds.
        assert_eq!((data[0], data[2]), (0xc7, 99), "{}", hex(&data));
        assert!(data.len() < 40, "{}", hex(&data));
        let method = demo::contract().method("Echo").unwrap();
        let result = method.decode_result(codec, &data).unwrap();
        assert_eq!(result, Value::String(text.clone()));
    }
}

#[test]
fn memorypack_utf16_strings_and_fewer_members() {
    becomes(
        Codec::MemoryPack,
        &[
            ("Echo", "01000000 6100", "feffffff 01000000 61"),
            ("Echo", "02000000 3dd800de", "fbffffff 02000000 f09f9880"),
            (
                "Names",
                "02000000 01000000 6100 00000000",
                "02000000 feffffff 01000000 61 00000000",
            ),
            // A person of whom only the first two members are told.
            (
                "Describe",
                "02 01000000 4100 07000000",
                "09 feffffff0100000041 07000000 00000000 ff ffffffff ffffffff ffffffff 0000000000000000 \
                 00000000000000000000000000000000",
            ),
        ],
    );
}

#[test]
fn json_blanks_escapes_order_and_extra_members() {
    let text = |text: &str| ascii(text);
    let cases = [
        ("Ints", " [ 1 ,\n 2 ] ", "[1,2]"),
        ("Echo", "\"\\u0061\\/\"", "\"a/\""),
        ("Double", "1.0e1", "10"),
        ("Find", "[1,2 ]", "[1,2]"),
        (
            "Describe",
            "{\"Age\":1,\"Nobody\":{\"x\":[1]},\"Name\":\"A\",\"Age\":2}",
            "{\"Name\":\"A\",\"Age\":2,\"Favourite\":0,\"Home\":null,\"Tags\":null,\"Scores\":null,\
             \"Photo\":null,\"Born\":\"0001-01-01T00:00:00\",\"Height\":null}",
        ),
    ];
    let cases: Vec<_> = cases
        .iter()
        .map(|(m, a, b)| (*m, text(a), text(b)))
        .collect();
    let cases: Vec<_> = cases.iter().map(|(m, a, b)| (*m, &**a, &**b)).collect();
    becomes(Codec::Json, &cases);
}

/// Version-tolerant MemoryPack: members that a later version has added are skipped, those of a gap too.
#[test]
fn version_tolerant_memorypack_with_more_members() {
    let contract = r#"{"contract": "Demo.ITolerant", "assembly": "Demo", "types": [
        {"class": "Demo.Tolerant", "memorypack": "version-tolerant", "members": [
            {"member": "int A", "memorypack": 0}, {"member": "string? B", "memorypack": 1},
            {"member": "List<int>? D", "memorypack": 3}]}],
        "methods": ["Demo.Tolerant Same(Demo.Tolerant value)"]}"#;
    let contract = Contract::from_json(contract).unwrap();
    let method = contract.method("Same").unwrap();
    let runtime = Arc::new(runtime());
    let server = runtime.block_on(
        Server::builder()
            .listen("tcp://127.0.0.1:0")
            .codec(Codec::MemoryPack)
            .service(
                ServiceBuilder::new(contract)
                    .handle_values("Same", |_, mut values| async move { Ok(values.remove(0)) }),
            )
            .start(),
    );
    let server = server.unwrap();
    let mut raw = Raw::authorized(server.endpoints()[0].port(), "");
    // 7, "é" in UTF-16, nothing in the gap, [1], and a fifth member of three bytes.
    let given = "05 04 06 00 08 03 07000000 01000000e900 0100000001000000 aabbcc";
    let given = unhex(&given.replace(' ', ""));
    let asked = with_blob(request("Same", method.method_id(), &[]), &given);
    let answer = raw.ask(&asked);
    let expected =
        "04 04 0a 00 08 07000000 fdffffff 01000000 c3a9 01000000 01000000".replace(' ', "");
    assert_eq!(answer.status, status::OK, "{answer:?}");
    assert_eq!(hex(&answer.data.unwrap()), expected);
}
