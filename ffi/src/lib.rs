//! The C ABI of libwitrpc: opaque handles, callback function pointers, one error story.
//!
//! Thin: everything that happens, happens in the core. Owns what crosses the border: handles that
//! can't be misused, text and bytes, callbacks with their user data, and the promise that no panic
//! gets out. The only room of the project with `unsafe` (beside the Python crate's edge).
//!
//! Every function takes care of NULL, of handles that were freed, closed, or are of another kind,
//! and of text that is not UTF-8: they give a status, never a crash. What it can't take care of is
//! in the header: pointers to memory that is not there.
#![allow(non_camel_case_types, private_interfaces)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
// Handles are pointers that point nowhere; nothing behind them is ever looked at.
#![allow(clippy::not_unsafe_ptr_arg_deref)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod buffer;
pub mod call;
pub mod callback;
pub mod client;
pub mod client_options;
pub mod client_security;
pub mod client_tls;
pub mod codec;
pub mod connection;
pub mod contract;
pub mod durable;
pub mod encoded;
pub mod error;
pub mod event;
pub mod event_loop;
pub mod event_options;
pub mod extension;
pub mod fork;
pub mod guard;
pub mod handle;
pub mod health;
pub mod library;
pub mod log;
pub mod named;
pub mod naming;
pub mod pem;
pub mod presence;
pub mod probe;
pub mod publish;
pub mod request;
pub mod server;
pub mod server_limits;
pub mod server_options;
pub mod server_security;
pub mod server_store;
pub mod server_tls;
pub mod status;
pub mod text;
