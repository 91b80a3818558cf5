//! One connection's life as two state machines, the client's and the server's side.
//!
//! Frame bodies come in, framed bytes and events go out. No socket, no thread, no clock: whoever
//! drives a session reads, writes and keeps its deadlines. Randomness and keys come in from outside.

mod client;
mod cover;
mod server;

pub use client::{Call, ClientSession, Received as ClientReceived, Slot};
pub use server::{Received as ServerReceived, ServerSession, Violation};

use crate::wire::extension::{Extension, Reach};

/// What a peer said about itself; empty for a .NET peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// True if it is libwitrpc and numbers calls.
    pub deduplicates: bool,
    /// How far its memory of executed calls reaches (servers only).
    pub reach: Option<Reach>,
}

fn extension(bytes: Option<&[u8]>) -> Extension {
    bytes.and_then(Extension::decode).unwrap_or_default()
}
