//! WitRPC from any language: the Rust core.
#![forbid(unsafe_code)]

pub mod codec;
pub mod contract;
pub mod wire;
