//! Conversations between WitRPC's own client and server, frame by frame as they were on the wire.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use witrpc::wire::Envelope;

use crate::{root, unhex};

/// See the [module](self).
#[derive(Deserialize)]
pub struct Conversation {
    pub scenario: String,
    /// Options of the recorded server.
    pub server: String,
    pub connected: bool,
    pub calls: Vec<Call>,
    pub frames: Vec<Frame>,
}

/// A call of the recorded client, and what it gave.
#[derive(Deserialize)]
pub struct Call {
    #[serde(default)]
    pub method: String,
    #[serde(rename = "parameterTypes", default)]
    pub parameter_types: Vec<String>,
    /// Type arguments, by stable name.
    #[serde(rename = "genericArguments", default)]
    pub generic_arguments: Vec<String>,
    #[serde(default)]
    pub arguments: Vec<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
    pub error: Option<String>,
    /// The message of the inner exception.
    pub inner: Option<String>,
    /// Instead of a call: the events that the client's handlers saw.
    pub received: Option<Vec<String>>,
}

/// A frame, or the end of one side.
#[derive(Deserialize)]
pub struct Frame {
    from: String,
    hex: Option<String>,
}

impl Frame {
    pub fn is_from_client(&self) -> bool {
        self.from == "client"
    }

    /// The body; `None` where that side closed.
    pub fn body(&self) -> Option<Bytes> {
        let bytes = unhex(self.hex.as_ref()?);
        let (length, body) = bytes.split_first_chunk::<4>().expect("a length");
        assert_eq!(usize::try_from(i32::from_le_bytes(*length)), Ok(body.len()));
        Some(Bytes::copy_from_slice(body))
    }

    pub fn envelope(&self) -> Option<Envelope> {
        let body = self.body()?;
        Some(
            Envelope::decode(&body)
                .expect("an envelope")
                .expect("no null"),
        )
    }
}

/// Reads a recording.
pub fn load(name: &str) -> Conversation {
    let path = root().join(format!("tests/vectors/conversations/{name}.json"));
    let text = std::fs::read_to_string(&path).expect("the recording is there");
    serde_json::from_str(&text).expect("the recording can be read")
}
