//! The value samples of the vectors, by .NET type.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{root, unhex};

/// A value, and the blob that WitRPC's JSON makes of it.
#[derive(Deserialize)]
pub struct Sample {
    /// Stable name of the type.
    #[serde(rename = "type")]
    pub ty: String,
    value: Option<Box<RawValue>>,
    json: Option<String>,
    #[serde(rename = "readsBack")]
    reads_back: ReadsBack,
}

#[derive(Deserialize)]
struct ReadsBack {
    json: Option<String>,
}

impl Sample {
    /// The value as JSON text.
    pub fn text(&self) -> &str {
        self.value.as_ref().map_or("null", |value| value.get())
    }

    /// What must come back from a peer that gives back what it gets; `None` where JSON can't carry
    /// the value.
    pub fn blob(&self) -> Option<Vec<u8>> {
        let kept = self.reads_back.json.as_deref() == Some("same") || self.text() == "null";
        self.json.as_ref().filter(|_| kept).map(|hex| unhex(hex))
    }
}

/// All samples.
pub fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for name in ["values.json", "values-random.json"] {
        let path = root().join("tests/vectors").join(name);
        let text = std::fs::read_to_string(path).expect("the vectors are there");
        let rows: Vec<Sample> = serde_json::from_str(&text).expect("the vectors can be read");
        all.extend(rows);
    }
    all
}
