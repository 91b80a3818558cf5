//! The options of a server and the start of its life.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use super::connection::Registry;
use super::dispatch::{Dispatch, DispatchOptions, Store, Trace};
use super::groups::ConnectionContext;
use super::handler::Execution;
use super::lookup::Services;
use super::publish::{EventTypeNames, Hook, Inner, Publisher};
use super::service::ServiceBuilder;
use super::store::{CallStore, Journal};
use super::validator::{Credentials, Validator, Verdict};
use super::{Server, ServerLimits, Shared};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::event_queue::EventQueueOptions;
use crate::resilience::dedup::DedupOptions;
use crate::token_file::TokenFile;
use crate::transport::tls::TlsServerOptions;
use crate::transport::{Endpoint, SocketOptions, TransportOptions, WebSocketOptions};

/// Builds a [`Server`]. Needs an endpoint and a service.
#[must_use]
pub struct ServerBuilder {
    endpoints: Vec<String>,
    services: Vec<ServiceBuilder>,
    codec: Codec,
    encryption: bool,
    validator: Validator,
    limits: ServerLimits,
    transport: TransportOptions,
    tls: Option<TlsServerOptions>,
    dedup: DedupOptions,
    store: Chosen,
    type_names: EventTypeNames,
    event_queue: EventQueueOptions,
    on_connected: Option<Hook>,
    on_disconnected: Option<Hook>,
    trace: Option<Trace>,
}

/// Where the calls of durable methods are kept.
enum Chosen {
    Memory,
    Journal(PathBuf),
    Store(Arc<dyn CallStore>),
}

impl ServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            endpoints: Vec::new(),
            services: Vec::new(),
            codec: Codec::Json,
            encryption: false,
            validator: Validator::Token(String::new()),
            limits: ServerLimits::default(),
            transport: TransportOptions::default(),
            tls: None,
            dedup: DedupOptions::default(),
            store: Chosen::Memory,
            type_names: EventTypeNames::default(),
            event_queue: EventQueueOptions::server(),
            on_connected: None,
            on_disconnected: None,
            trace: None,
        }
    }

    /// Listens here, as `tcp://127.0.0.1:5000` or `tcp://*:5000`; port 0 picks one. May be given
    /// several times.
    pub fn listen(mut self, endpoint: &str) -> Self {
        self.endpoints.push(endpoint.to_owned());
        self
    }

    /// Serves this. May be given several times.
    pub fn service(mut self, service: ServiceBuilder) -> Self {
        self.services.push(service);
        self
    }

    /// How arguments and results are encoded. Clients must be set alike. Default JSON.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// WitRPC's own encryption: an RSA key exchange, then AES-256-GCM. Clients must be set alike: one
    /// that does not encrypt, or with a key that is malformed, weak, or of fewer than 2,048 or more
    /// than 4,096 bits, is told so and refused. It keeps out who listens, not who can change what
    /// passes: for that use TLS. Default off.
    pub fn encryption(mut self, on: bool) -> Self {
        self.encryption = on;
        self
    }

    /// Accepts only this token. Default the empty one, which is what a client without a token
    /// sends.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.validator = Validator::Token(token.into());
        self
    }

    /// Accepts only the token in this file. It is looked at for every check, and read again only if
    /// its time, size or number has changed; so a new token counts at once, also on connections that
    /// stand. A byte order mark, and blanks and line ends around the token, are no part of it.
    ///
    /// While the file is missing, empty, not UTF-8 or longer than 64 KiB, nobody is let in; at
    /// [`start`](Self::start) that is an error. Replace it by renaming another one over it: who comes
    /// while it is half written is refused.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.validator = Validator::File(Arc::new(TokenFile::new(path.into())));
        self
    }

    /// Asks at the handshake and for every call. Must not block.
    pub fn validator(
        mut self,
        check: impl Fn(Credentials<'_>) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        self.validator = Validator::Check(Arc::new(check));
        self
    }

    /// Asks at the handshake and for every call, and waits for the answer. Calls of one connection
    /// are checked one after the other and begin in the order in which they came; other connections
    /// are not held up. Without an answer within the
    /// [handshake timeout](ServerLimits::handshake_timeout) the connection is closed at the handshake,
    /// and a call is refused with status 503.
    ///
    /// The future can't borrow from the credentials:
    ///
    /// ```
    /// # use witrpc::server::{Server, Verdict};
    /// # async fn look_up(token: String) -> Option<String> { None }
    /// Server::builder().validator_async(|credentials| {
    ///     let token = credentials.token.to_owned();
    ///     async move {
    ///         match look_up(token).await {
    ///             Some(user) => Verdict::Accepted(user.into()),
    ///             None => Verdict::Refused,
    ///         }
    ///     }
    /// });
    /// ```
    pub fn validator_async<T>(
        mut self,
        check: impl Fn(Credentials<'_>) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = Verdict> + Send + 'static,
    {
        self.validator = Validator::asynchronous(check);
        self
    }

    /// Limits.
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs the calls of one connection one after another, as WitRPC does, for services that were
    /// written for that. Default: side by side.
    pub fn ordered_per_connection(mut self) -> Self {
        self.limits.max_in_flight_per_connection = 1;
        self
    }

    /// Socket options of accepted connections.
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.transport.socket = options;
        self
    }

    /// The certificate of `tls://` and `wss://`, and which clients are accepted by theirs.
    pub fn tls(mut self, options: TlsServerOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Options of `ws://` and `wss://`.
    pub fn websocket(mut self, options: WebSocketOptions) -> Self {
        self.transport.websocket = options;
        self
    }

    /// Permissions of the socket file of `pipe://`, as `0o600`, which is the default. Without effect
    /// on Windows.
    pub fn pipe_mode(mut self, mode: u32) -> Self {
        self.transport.pipe_mode = Some(mode);
        self
    }

    /// Bounds of the memory of calls, by which a repeated call is recognised.
    pub fn dedup(mut self, options: DedupOptions) -> Self {
        self.dedup = options;
        self
    }

    /// Keeps the calls of [durable](ServiceBuilder::durable) methods where they outlive the process. Default: none, and no method may be durable then.
    ///
    /// Clients are told the [epoch](super::store::Opened::epoch) of the store, so that they repeat calls also after a restart. Those of methods
    /// that are not durable end as outcome unknown then, as they do without a store.
    pub fn store(mut self, store: impl CallStore) -> Self {
        self.store = Chosen::Store(Arc::new(store));
        self
    }

    /// Keeps the calls of [durable](ServiceBuilder::durable) methods in a [journal](super::store::Journal) in this directory, which survives the death
    /// of the process at any moment. It is bounded as the [memory](Self::dedup) is. Each server needs a directory of its own.
    pub fn journal(mut self, directory: impl Into<PathBuf>) -> Self {
        self.store = Chosen::Journal(directory.into());
        self
    }

    /// How events name the types of their arguments, for .NET clients. Default weak.
    pub fn event_type_names(mut self, form: EventTypeNames) -> Self {
        self.type_names = form;
        self
    }

    /// Bounds of the queue of events of each connection, and what happens to events that come faster
    /// than its client reads. Default [`EventQueueOptions::server`]. Answers are never dropped.
    ///
    /// Of events that wait the bytes are counted for each client, but held once for all. More than
    /// [`max_unsent_bytes`](ServerLimits::max_unsent_bytes) do not wait, whatever is given here.
    pub fn event_queue(mut self, options: EventQueueOptions) -> Self {
        self.event_queue = options;
        self
    }

    /// Called with each connection that was authorised, before its first call is read: the place to
    /// put it into groups. Must not block: it runs on an I/O thread.
    pub fn on_connected(mut self, f: impl Fn(ConnectionContext) + Send + Sync + 'static) -> Self {
        self.on_connected = Some(Arc::new(f));
        self
    }

    /// Called when a connection that was authorised has ended; nothing can be sent to it any more.
    /// Calls that came on it may still run. Must not block: it runs on an I/O thread.
    pub fn on_disconnected(
        mut self,
        f: impl Fn(ConnectionContext) + Send + Sync + 'static,
    ) -> Self {
        self.on_disconnected = Some(Arc::new(f));
        self
    }

    /// Called for each execution, before the handler begins: what is counted here is what really
    /// ran. Must not block for long.
    pub fn on_execute(mut self, f: impl Fn(Execution<'_>) + Send + Sync + 'static) -> Self {
        self.trace = Some(Arc::new(f));
        self
    }

    /// Checks the options, binds the endpoints and starts, on the tokio runtime that this is called
    /// in.
    pub async fn start(self) -> Result<Server> {
        if self.endpoints.is_empty() {
            return Err(Error::invalid_argument(
                "the server has no endpoint to listen on",
            ));
        }
        self.event_queue.check()?;
        if self.services.is_empty() {
            return Err(Error::invalid_argument("the server has no service"));
        }
        if let Some(keep_alive) = &self.limits.keep_alive {
            keep_alive.validate()?;
        }
        let endpoints = self
            .endpoints
            .iter()
            .map(|text| text.parse())
            .collect::<Result<Vec<Endpoint>>>()?;
        let mut transport = self.transport;
        transport.tls_server = self.tls.map(|tls| tls.load()).transpose()?;
        if let Validator::File(file) = &self.validator {
            file.read().map_err(Error::invalid_argument)?;
        }
        let services = Services::new(self.services)?;
        let store: Option<Arc<dyn CallStore>> = match self.store {
            Chosen::Memory => None,
            Chosen::Journal(path) => Some(Arc::new(Journal::new(path, self.dedup))),
            Chosen::Store(store) => Some(store),
        };
        let store = match (store, services.durable()) {
            (Some(store), Some(_)) => Some(store),
            (None, None) => None,
            (None, Some(method)) => {
                return Err(Error::invalid_argument(format!(
                    "{method} of \"{}\" is to be durable, and the server has no store",
                    method.contract_name()
                )));
            }
            (Some(_), None) => {
                return Err(Error::invalid_argument(
                    "the server has a store, and none of its methods is durable: name them with \
                     ServiceBuilder::durable (witrpc_implementation_durable)",
                ));
            }
        };
        let connections = Arc::new(Registry::default());
        let publisher = Publisher::new(Inner {
            connections: connections.clone(),
            contracts: services.contracts().to_vec(),
            codec: self.codec,
            type_names: self.type_names,
            on_connected: self.on_connected,
            on_disconnected: self.on_disconnected,
        });
        let store = match store {
            None => None,
            Some(calls) => {
                let opened = calls.open().await;
                let opened = opened.map_err(|e| Error::invalid_argument(e.to_string()))?;
                let epochs = calls.epoch();
                Some(Store {
                    calls,
                    opened,
                    epochs,
                })
            }
        };
        let dispatch = Arc::new(Dispatch::new(DispatchOptions {
            services,
            codec: self.codec,
            validator: self.validator,
            trace: self.trace,
            publisher: publisher.clone(),
            max_in_flight: self.limits.max_in_flight,
            retry_after: self.limits.retry_after,
            dedup: self.dedup,
            store,
        }));
        let max_bytes = self.event_queue.max_bytes.min(self.limits.max_unsent_bytes);
        let shared = Arc::new(Shared {
            event_queue: EventQueueOptions {
                max_bytes,
                ..self.event_queue
            },
            limits: self.limits,
            transport,
            encryption: self.encryption,
            dispatch,
            connections,
            publisher,
        });
        let started = super::start(endpoints, shared.clone()).await;
        if started.is_err() {
            shared.dispatch.close_store().await;
        }
        started
    }
}
