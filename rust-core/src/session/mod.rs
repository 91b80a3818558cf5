//! One connection's life as two state machines, the client's and the server's side.
//!
//! Frame bodies come in, framed bytes and events go out. No socket, no thread, no clock: whoever
//! drives a session reads, writes and keeps its deadlines. Randomness and keys come in from outside.

mod client;
mod cover;
mod keep_alive;
mod pace;
mod server;

pub use client::{Call, ClientSession, Received as ClientReceived, Slot};
pub use keep_alive::{KeepAlive, KeepAliveOptions, Pulse};
pub use pace::Pace;
pub use server::{Received as ServerReceived, ServerSession, Violation};

use crate::wire::extension::{Capabilities, Extension, Reach};

/// What a peer said about itself; empty for a .NET peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// What it understands beyond WitRPC.
    pub capabilities: Capabilities,
    /// How far its memory of executed calls reaches (servers only).
    pub reach: Option<Reach>,
}

impl PeerInfo {
    /// True if it is libwitrpc and numbers calls.
    pub fn deduplicates(&self) -> bool {
        self.capabilities.has(Capabilities::DEDUPLICATION)
    }

    /// True if it understands that a server is going away.
    pub fn can_be_told_to_leave(&self) -> bool {
        self.capabilities.has(Capabilities::GOING_AWAY)
    }
}

/// Pongs that may wait to be sent: who pings and never reads must not fill the memory.
const MAX_PONGS: u32 = 16;

fn extension(bytes: Option<&[u8]>) -> Extension {
    bytes.and_then(Extension::decode).unwrap_or_default()
}
