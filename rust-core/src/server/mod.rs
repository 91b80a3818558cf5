//! The server: listening, connections, dispatch to handlers, events, and the memory of calls.
//!
//! Owns the tokio side of a server. What a message means in which state is decided by the
//! [session](crate::session), whether a call is a repetition by the
//! [table](crate::resilience::dedup).

mod addresses;
mod builder;
mod cancellation;
mod caught;
mod connection;
mod dispatch;
mod durable;
mod groups;
mod handler;
mod inbox;
mod listener;
mod lookup;
mod outbound;
mod publish;
mod service;
pub mod store;
mod validator;
mod watch;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub use self::builder::ServerBuilder;
pub use self::cancellation::CancellationToken;
use self::connection::Registry;
use self::dispatch::Dispatch;
pub use self::dispatch::ServerStats;
pub use self::durable::Resolution;
pub use self::groups::{ConnectionContext, ConnectionInfo, Groups};
pub use self::handler::{CallContext, Execution, Fault};
use self::listener::Listener;
pub use self::publish::{EventTypeNames, Publisher};
pub use self::service::ServiceBuilder;
pub use self::validator::{Credentials, Verdict};
use crate::error::Result;
use crate::event_queue::EventQueueOptions;
use crate::session::KeepAliveOptions;
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
    /// Bytes of all messages accepted from a connection until it is authorised. Default 128 KiB: an
    /// initialization and an authorization of the largest size.
    pub max_handshake_bytes: usize,
    /// Connections at the same time from one address (of IPv6: from one /64 network), authorised or
    /// not; one more is closed at once. 0 = no limit of its own, which is the default: many clients
    /// may come from behind one address.
    pub max_clients_per_address: usize,
    /// The same for connections that are not authorised yet. Default 1,000, a tenth of
    /// [`max_clients`](Self::max_clients): who has no token can't take all places from one address.
    pub max_strangers_per_address: usize,
    /// Calls of one connection that run at the same time; more wait. 1 means one after another, as
    /// WitRPC does it. Default 256.
    pub max_in_flight_per_connection: usize,
    /// Bytes of calls of one connection that may wait for others to end; beyond it nothing more is
    /// read from that connection. Default 1 MiB: some thousand small calls, so that cancellations
    /// and pings behind them are heard.
    pub max_waiting_bytes: usize,
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
    /// Bytes a second at least of a message that a client has begun to send, and of what it is being
    /// sent; who is slower over the [window](Self::rate_window) is closed. 0 = no such limit.
    /// Default 240, as ASP.NET Core's web server has it. Of messages on their way in, those over
    /// WebSockets are not measured.
    pub min_rate: u32,
    /// Time over which [`min_rate`](Self::min_rate) is measured. Default 30 s, as long as the
    /// handshake may take.
    pub rate_window: Duration,
    /// How the death of a libwitrpc client is noticed that the network does not tell of; `None` = it
    /// is never pinged.
    pub keep_alive: Option<KeepAliveOptions>,
}

/// How long clients that were told to leave may take to hear it.
const NOTICE: Duration = Duration::from_secs(5);

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_clients: 10_000,
            max_frame: crate::wire::DEFAULT_MAX_FRAME,
            max_handshake_frame: 64 * 1024,
            max_handshake_bytes: 128 * 1024,
            max_clients_per_address: 0,
            max_strangers_per_address: 1_000,
            max_in_flight_per_connection: 256,
            max_waiting_bytes: 1024 * 1024,
            max_in_flight: 65_536,
            retry_after: Duration::from_secs(1),
            handshake_timeout: Some(Duration::from_secs(30)),
            max_unsent_bytes: 64 * 1024 * 1024,
            min_rate: 240,
            rate_window: Duration::from_secs(30),
            keep_alive: Some(KeepAliveOptions::default()),
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

    /// Stops in order: accepts nobody any more, refuses new calls with status 503, lets running ones
    /// finish and their answers leave, then closes the connections. What has not finished after
    /// `limit` is abandoned.
    ///
    /// libwitrpc clients are told first, and have a moment (half of `limit`, at most 5 s) to begin no
    /// call here any more; what they send until they have heard it is still run. So none of their
    /// calls is refused.
    ///
    /// Returns true if everything finished.
    pub async fn stop(self, limit: Duration) -> bool {
        self.stop_listening();
        let (connections, dispatch) = (&self.shared.connections, &self.shared.dispatch);
        dispatch.drain();
        connections.tell_to_leave();
        let finished = async {
            connections.have_heard(NOTICE.min(limit / 2)).await;
            dispatch.close();
            dispatch.idle().await;
            connections.close_all().await;
            dispatch.close_store().await;
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

/// Makes clients that were told another epoch connect again, whenever it changes.
async fn follow_epoch(mut epochs: tokio::sync::watch::Receiver<u64>, connections: Weak<Registry>) {
    while epochs.changed().await.is_ok() {
        let Some(connections) = connections.upgrade() else {
            return;
        };
        let now = *epochs.borrow_and_update();
        connections.expect_epoch(now);
    }
}

async fn start(endpoints: Vec<Endpoint>, shared: Arc<Shared>) -> Result<Server> {
    let (mut bound, mut listeners) = (Vec::new(), Vec::new());
    for endpoint in endpoints {
        let sockets = transport::Listener::bind(&endpoint, &shared.transport).await?;
        bound.extend(sockets.first().map(|socket| socket.endpoint().clone()));
        listeners.extend(sockets);
    }
    if let Some(epochs) = shared.dispatch.epochs() {
        tokio::spawn(follow_epoch(epochs, Arc::downgrade(&shared.connections)));
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
