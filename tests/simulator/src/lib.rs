//! Whole client and server lives on the pure parts of libwitrpc, with a fake clock and one seed.
//!
//! A [plan] says who takes part, what they do and what goes wrong; a [world] lets it
//! happen: engines and sessions on one side, sessions and the memory of calls on the other, bytes in
//! between. A [checker] looks at the history from outside, a [model] says what the memory should have
//! answered, a [watch] what users should have been told. Nothing here knows a thread, a socket or the
//! time of day: a seed is the same life for ever.

pub mod callbacks;
pub mod checker;
pub mod client;
pub mod dice;
mod dotnet;
pub mod fault;
mod inject;
pub mod method;
pub mod model;
pub mod network;
pub mod plan;
pub mod queue;
pub mod runs;
pub mod server;
pub mod store;
pub mod twin;
pub mod watch;
pub mod world;
