//! What makes a call survive an outage, as pure state machines: when to wait, when to try again,
//! when to give up, and how a server recognises a call that it has seen.
//!
//! Nothing here knows a socket, a thread, a runtime or a clock. Time comes in as [`Time`], randomness
//! as a seed; what is to be done comes out as values. The drivers in [`client`](crate::client) and
//! [`server`](crate::server) carry it out, and so does a simulator.
//!
//! [`Time`]: crate::time::Time

pub mod backoff;
pub mod budget;
pub mod dedup;
pub mod engine;
pub mod reconnect;
pub mod retry;
