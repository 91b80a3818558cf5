//! Outages on purpose: what the chaos tests share.
//!
//! * [`proxy`]: a TCP proxy with toxics between a client and a server.
//! * [`served`]: `witrpc serve --demo` as a child process, and the trace of what it executed.
//! * [`peer`]: the .NET peer as a child process.
//! * [`raw`]: ends of a connection that speak the wire and can break it anywhere.
//! * [`load`]: many calls in flight, and the judgement of how they ended.
//! * [`redis`]: a Redis or Valkey of a test's own.
//! * [`recorder`]: what a client's callbacks said, in order.
//! * [`process`]: memory, threads and descriptors of a process.
//! * [`netns`]: network namespaces with a router that can lose every packet.
//! * [`watch`]: tests that fail with a message instead of hanging.
//!
//! Nothing here knows what a test wants to show; that is in `tests/`, one subject a file.
#![forbid(unsafe_code)]
// A helper that fails has to say so like a failing test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod demo;
pub mod load;
pub mod netns;
pub mod peer;
pub mod port;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod recorder;
pub mod redis;
pub mod served;
pub mod trace;
pub mod watch;
