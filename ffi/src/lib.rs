//! The C ABI of libwitrpc: opaque handles, callback function pointers, one error story.
//!
//! Thin: everything that happens, happens in the core. Owns what crosses the border: handles that
//! can't be misused, text and bytes, callbacks with their user data, and the promise that no panic
//! gets out. The only room of the project with `unsafe` (beside the Python crate's edge).
//!
//! Every function takes care of NULL, of handles that were freed, closed, or are of another kind,
//! and of text that is not UTF-8: they give a status, never a crash. What it can't take care of is
//! in the header: pointers to memory that is not there.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod buffer;
mod call;
mod callback;
mod client;
mod client_options;
mod contract;
mod error;
mod event;
mod guard;
mod handle;
mod library;
mod request;
mod server;
mod server_options;
mod status;
mod text;
