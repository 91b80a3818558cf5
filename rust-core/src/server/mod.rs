//! The server: listening, connections, dispatch to handlers, events, and the memory of calls.
//!
//! Owns the tokio side of a server. What a message means in which state is decided by the
//! [session](crate::session), whether a call is a repetition by the
//! [table](crate::resilience::dedup).

mod builder;
mod connection;
mod dispatch;
mod groups;
mod handler;
mod listener;
mod outbound;
mod publish;
mod service;
mod validator;

use std::sync::Arc;
use std::time::Duration;

pub use self::builder::ServerBuilder;
use self::connection::Registry;
use self::dispatch::Dispatch;
pub use self::dispatch::ServerStats;
pub use self::groups::{ConnectionContext, ConnectionInfo, Groups};
pub use self::handler::{CallContext, Execution, Fault};
use self::listener::Listener;
pub use self::publish::{EventTypeNames, Publisher};
pub use self::service::ServiceBuilder;
pub use self::validator::{Credentials, Verdict};
use crate::error::Result;
use crate::event_queue::EventQueueOptions;
use crate::transport::{self, Endpoint, PeerAddr, TransportOptions};

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at the same time, authorised or not; one more is closed at once. Default 10,000.
    pub max_clients: usize,
    /// Largest message accepted, in bytes. Default 256 MiB.
    pub max_frame: usize,
    /// Largest message accepted from a connection that is not authorised yet, in bytes. Default
    /// 64 KiB.
    pub max_handshake_frame: usize,
    /// Calls of one connection that run at the same time; beyond it nothing more is read from that
    /// connection. 1 means one after another, as WitRPC does it. Default 256.
    pub max_in_flight_per_connection: usize,
    /// Calls of all connections that run at the same time; beyond it calls are refused with status
    /// 503. Default 65,536.
    pub max_in_flight: usize,
    /// What a refused libwitrpc client is told to wait before another try. Default 1 s.
    pub retry_after: Duration,
    /// Time from accepting a connection until it must be authorised, and of one check of a call's
    /// token; `None` = no limit. Default 30 s.
    pub handshake_timeout: Option<Duration>,
    /// Bytes that may wait for a client that does not read; beyond it the connection is closed.
    /// Default 64 MiB.
    pub max_unsent_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_clients: 10_000,
            max_frame: crate::wire::DEFAULT_MAX_FRAME,
            max_handshake_frame: 64 * 1024,
            max_in_flight_per_connection: 256,
            max_in_flight: 65_536,
            retry_after: Duration::from_secs(1),
            handshake_timeout: Some(Duration::from_secs(30)),
            max_unsent_bytes: 64 * 1024 * 1024,
        }
    }
}

/// A running server. Dropping it stops it at once; [`stop`](Self::stop) lets it finish.
pub struct Server {
    shared: Arc<Shared>,
    endpoints: Vec<Endpoint>,
    listeners: Vec<Listener>,
}

/// What the tasks of a server share.
struct Shared {
    limits: ServerLimits,
    /// Of each connection.
    event_queue: EventQueueOptions,
    transport: TransportOptions,
    /// WitRPC's own encryption is on.
    encryption: bool,
    dispatch: Arc<Dispatch>,
    connections: Arc<Registry>,
    publisher: Publisher,
}

impl Server {
    /// Starts a server's options.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    /// Where it listens, with the ports that were given for port 0.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// What it has done and does.
    pub fn stats(&self) -> ServerStats {
        let (events_dropped, slow_clients_closed) = self.shared.connections.losses();
        ServerStats {
            connections: self.shared.connections.len(),
            events_dropped,
            slow_clients_closed,
            ..self.shared.dispatch.stats()
        }
    }

    /// Raises events; may be kept and used from anywhere.
    pub fn publisher(&self) -> Publisher {
        self.shared.publisher.clone()
    }

    /// The groups of its connections; may be kept and used from anywhere.
    pub fn groups(&self) -> Groups {
        self.shared.publisher.groups()
    }

    /// The connections that are authorised.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let authorized = self.shared.connections.authorized();
        authorized.iter().map(|c| c.info()).collect()
    }

    /// Addresses of the clients that are connected and authorised.
    pub fn clients(&self) -> Vec<PeerAddr> {
        self.shared
            .connections
            .authorized()
            .iter()
            .map(|c| c.peer())
            .collect()
    }

    /// Stops in order: accepts nothing and nobody any more, refuses new calls with status 503, lets
    /// running ones finish and their answers leave, then closes the connections. What has not
    /// finished after `limit` is abandoned.
    ///
    /// Returns true if everything finished.
    pub async fn stop(self, limit: Duration) -> bool {
        self.stop_listening();
        self.shared.dispatch.drain();
        let finished = async {
            self.shared.dispatch.idle().await;
            self.shared.connections.close_all().await;
        };
        tokio::time::timeout(limit, finished).await.is_ok()
    }

    fn stop_listening(&self) {
        self.listeners.iter().for_each(Listener::close);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_listening();
        self.shared.connections.abort_all();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

async fn start(endpoints: Vec<Endpoint>, shared: Arc<Shared>) -> Result<Server> {
    let (mut bound, mut listeners) = (Vec::new(), Vec::new());
    for endpoint in endpoints {
        let sockets = transport::Listener::bind(&endpoint, &shared.transport).await?;
        bound.extend(sockets.first().map(|socket| socket.endpoint().clone()));
        listeners.extend(sockets);
    }
    let listeners = listeners
        .into_iter()
        .map(|socket| Listener::start(socket, &shared))
        .collect();
    Ok(Server {
        shared,
        endpoints: bound,
        listeners,
    })
}
