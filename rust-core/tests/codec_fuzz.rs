//! Damaged blobs and texts: no decoder panics, and what is accepted can be shown and written again.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Row, echo, hex, rows, shape_rows, shapes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use witrpc::codec::{Codec, Dialect, RawJson, Value};
use witrpc::contract::Contract;

const CODECS: [Codec; 5] = [
    Codec::Json,
    Codec::MemoryPack,
    Codec::MessagePack,
    Codec::Protobuf,
    Codec::GoogleProtobuf,
];

fn damage(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    const TELLING: [u8; 12] = [
        0, 1, 2, 0x7F, 0x80, 0xC0, 0xC1, 0xDF, 0xFA, 0xFE, 0xFF, b'"',
    ];
    for _ in 0..rng.random_range(1..5) {
        let byte = match rng.random_range(0..2) {
            0 => TELLING[rng.random_range(0..TELLING.len())],
            _ => rng.random(),
        };
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => bytes.push(byte),
        }
    }
}

fn blob(row: &Row, codec: Codec) -> Vec<u8> {
    hex(match codec {
        Codec::MemoryPack => &row.memorypack,
        Codec::MessagePack => &row.messagepack,
        Codec::Protobuf => &row.protobuf,
        _ => &row.json,
    })
}

/// Decodes damaged blobs; gives how many were accepted.
fn fuzz(contract: &Contract, rows: &[Row], rng: &mut StdRng, rounds: usize) -> usize {
    let mut accepted = 0;
    for row in rows {
        let Ok(ty) = contract.type_from_text(&row.ty) else {
            continue;
        };
        for codec in CODECS {
            for round in 0..rounds {
                let mut bytes = blob(row, codec);
                if round == 0 {
                    bytes = (0..rng.random_range(0..24)).map(|_| rng.random()).collect();
                }
                damage(rng, &mut bytes);
                let Ok(value) = codec.decode(&bytes, &ty, contract.types()) else {
                    continue;
                };
                accepted += 1;
                let text = value.to_json(&ty, contract.types(), Dialect::Text);
                let mut again = Vec::new();
                let written = codec.encode(&mut again, &value, &ty, contract.types());
                if written.is_ok() && !again.is_empty() {
                    // What was written reads back as what it was.
                    let back = codec
                        .decode(&again, &ty, contract.types())
                        .unwrap_or_else(|e| panic!("{codec} {} {bytes:02x?}: {e}", row.ty));
                    let shown = back.to_json(&ty, contract.types(), Dialect::Text);
                    // MessagePack makes all times UTC, and none of an absent one.
                    let utc = |text: Result<String, _>| text.map(|t| t.replace("Z\"", "\""));
                    let (shown, text) = (utc(shown), utc(text));
                    if !lossy(codec, &row.ty) {
                        assert_eq!(shown, text, "{codec} {} {bytes:02x?}", row.ty);
                    }
                }
            }
        }
    }
    accepted
}

/// Whether the codec loses parts of such values on the wire.
fn lossy(codec: Codec, ty: &str) -> bool {
    match codec {
        Codec::Protobuf => true,
        // Fields and the items of value tuples are not there, and a local DateTime has no zone.
        Codec::Json | Codec::GoogleProtobuf => ["ValueTuple", "Point", "Label", "Tree", "IShape"]
            .iter()
            .any(|name| ty.contains(name)),
        Codec::MemoryPack => ty.contains("Ordered"),
        _ => ty.contains("System.Object"),
    }
}

#[test]
fn damaged_blobs() {
    let mut rng = StdRng::seed_from_u64(11);
    let (values, mut random) = (echo(), rows("values-random.json"));
    random.truncate(70);
    let mut accepted = fuzz(&values, &rows("values.json"), &mut rng, 60);
    accepted += fuzz(&values, &random, &mut rng, 60);
    accepted += fuzz(&shapes(), &shape_rows(), &mut rng, 200);
    assert!(
        accepted > 10_000,
        "the fuzz reaches what is accepted: {accepted}"
    );
}

#[test]
fn damaged_texts() {
    let mut rng = StdRng::seed_from_u64(12);
    let contract = echo();
    let mut accepted = 0;
    for row in rows("values.json") {
        let ty = contract.type_from_text(&row.ty).unwrap();
        for _ in 0..200 {
            let mut bytes = row.value().as_bytes().to_vec();
            damage(&mut rng, &mut bytes);
            let text = String::from_utf8_lossy(&bytes);
            let raw = RawJson::parse(&text);
            if let Ok(value) = Value::from_json(&text, &ty, contract.types()) {
                accepted += 1;
                assert!(raw.is_ok(), "{text}");
                let shown = value.to_json(&ty, contract.types(), Dialect::Text).unwrap();
                let again = Value::from_json(&shown, &ty, contract.types()).unwrap();
                let shown_again = again.to_json(&ty, contract.types(), Dialect::Text).unwrap();
                assert_eq!(shown_again, shown, "{text}");
            }
            // The reader is no more lenient than a known one, but for duplicates and large numbers.
            if raw.is_ok() {
                let other: Result<serde_json::Value, _> = serde_json::from_str(&text);
                assert!(other.is_ok(), "{text}");
            }
        }
    }
    assert!(accepted > 500, "{accepted}");
}
