//! How frames travel. Each transport connects or accepts and moves frame bodies; none of them knows
//! what a frame means.
//!
//! From the network up: `io` is a byte stream (TCP or a local socket), `tls` and `websocket` are
//! layers without a socket of their own, `pump` puts them together for whoever sends and receives.

mod dial;
mod endpoint;
mod io;
mod layers;
mod listen;
mod pipe;
pub(crate) mod pump;
mod tcp;
pub mod tls;
mod websocket;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use dial::connect;
pub use endpoint::{Endpoint, Host, Scheme};
pub(crate) use listen::{Incoming, Listener};
pub use tcp::SocketOptions;

/// Where a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerAddr {
    /// Address and port.
    Ip(SocketAddr),
    /// On this machine, at the other end of a pipe.
    Local,
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Local => f.write_str("local"),
        }
    }
}

/// Options of WebSockets, on both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebSocketOptions {
    /// Silence after which the peer is sent a ping. Default 15 s.
    pub ping_interval: Duration,
    /// Silence after a ping until the link is dead. Default 20 s.
    pub ping_timeout: Duration,
    /// Largest piece that a message is sent in, in bytes; `None` = in one piece. Default `None`:
    /// every peer must take any size. WitRPC sends pieces of 4,096.
    pub fragment: Option<usize>,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(20),
            fragment: None,
        }
    }
}

/// What all connections of a client or server have in common.
#[derive(Clone, Default)]
pub(crate) struct TransportOptions {
    pub(crate) socket: SocketOptions,
    pub(crate) websocket: WebSocketOptions,
    /// Largest frame body accepted, in bytes.
    pub(crate) max_frame: usize,
    pub(crate) tls_client: Option<Arc<tls::ClientConfig>>,
    pub(crate) tls_server: Option<Arc<rustls::ServerConfig>>,
    /// Permissions of the socket file of a pipe.
    pub(crate) pipe_mode: Option<u32>,
}
