//! What can be wrong with a connection.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

/// What is wrong in each direction. Default: nothing.
#[derive(Debug, Clone, Default)]
pub struct Toxics {
    /// From client to server.
    pub up: Toxic,
    /// From server to client.
    pub down: Toxic,
}

impl Toxics {
    /// The same in both directions.
    pub fn both(toxic: Toxic) -> Self {
        Self {
            up: toxic.clone(),
            down: toxic,
        }
    }
}

/// What is wrong in one direction. Everything may be combined.
#[derive(Debug, Clone, Default)]
pub struct Toxic {
    /// Bytes arrive this much later.
    pub latency: Duration,
    /// Up to this much is added to the latency at random; the order is kept.
    pub jitter: Duration,
    /// Bytes a second at most.
    pub bandwidth: Option<u32>,
    /// Bytes arrive in small pieces.
    pub slicer: Option<Slicer>,
    /// The connection ends after so many bytes.
    pub limit: Option<Limit>,
    /// The end of the stream is passed on this much later.
    pub slow_close: Duration,
    /// Bytes vanish. A connection that has lost some never gets well again.
    pub black_hole: bool,
}

/// Cuts the stream at random places.
#[derive(Debug, Clone, Copy)]
pub struct Slicer {
    /// Average size of a piece, in bytes.
    pub average: usize,
    /// Pause after each piece.
    pub delay: Duration,
}

impl Slicer {
    /// Size of the next piece.
    pub(super) fn piece(&self, rng: &mut StdRng) -> usize {
        rng.random_range(1..=(2 * self.average).saturating_sub(1).max(1))
    }
}

/// Where a connection ends, and how.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Bytes that are let through in this direction, counted from the beginning.
    pub bytes: u64,
    /// How it ends then.
    pub end: End,
}

/// How a connection ends, for both peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In order: end of stream.
    Close,
    /// With a reset.
    Reset,
}
