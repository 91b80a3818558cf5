//! What the tests of the codecs share: contracts and the rows of the vectors.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use serde::Deserialize;
use serde_json::value::RawValue;
use witrpc::contract::Contract;

/// A value and the blobs that a .NET peer makes of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    #[serde(rename = "type")]
    pub ty: String,
    value: Option<Box<RawValue>>,
    note: Option<String>,
    #[serde(default)]
    decode_only: bool,
    pub json: String,
    pub memorypack: String,
    pub messagepack: String,
    pub protobuf: String,
    #[serde(default)]
    pub memorypack_padding: Vec<usize>,
    pub reads_back: ReadsBack,
}

/// What the peer itself gets from its blob.
#[derive(Deserialize)]
pub struct ReadsBack {
    pub json: Option<String>,
    pub memorypack: Option<String>,
    pub messagepack: Option<String>,
    pub protobuf: Option<String>,
}

impl Row {
    /// The value as JSON text, its digits as they are.
    pub fn value(&self) -> &str {
        self.value.as_ref().map_or("null", |value| value.get())
    }

    pub fn has_value(&self) -> bool {
        self.value.is_some()
    }

    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub fn decode_only(&self) -> bool {
        self.decode_only
    }
}

pub fn vector(name: &str) -> String {
    let path = format!("{}/../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

pub fn rows(name: &str) -> Vec<Row> {
    serde_json::from_str(&vector(name)).unwrap()
}

pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// `Demo.IEcho` as it ships among the examples.
pub fn echo() -> Contract {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/demo-echo.witrpc.json"
    );
    Contract::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}
