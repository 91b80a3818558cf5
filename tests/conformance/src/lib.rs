//! What the conformance tests share: the live .NET peer, recorded conversations, raw connections,
//! and servers to test.
//!
//! Owns no expectation: what must be so is said in the tests.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    reason = "for the tests beside it only"
)]

pub mod conversation;
pub mod own;
pub mod peer;
pub mod player;
pub mod process;
pub mod raw;
pub mod target;
pub mod values;

use std::path::PathBuf;
use std::time::Duration;

/// A test that waits longer than this has failed.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    root.canonicalize().unwrap_or(root)
}

/// Bytes from hexadecimal text.
pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("a hexadecimal digit"))
        .collect()
}

/// Hexadecimal text of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
