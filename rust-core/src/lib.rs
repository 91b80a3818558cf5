//! WitRPC from any language: the Rust core.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arguments;
pub mod client;
pub mod codec;
pub mod config;
pub mod contract;
pub mod dispatcher;
mod error;
mod event_queue;
pub mod log;
#[doc(hidden)]
pub mod mutant;
mod random;
pub mod resilience;
pub mod runtime;
pub mod security;
pub mod server;
pub mod session;
pub mod time;
mod token_file;
pub mod transport;
pub mod wire;

pub use arguments::{FromArguments, IntoArguments};
pub use error::{Error, ErrorCode, OUTCOME_UNKNOWN_TEXT, Outcome, Result};
pub use event_queue::{EventQueueOptions, Overflow};
