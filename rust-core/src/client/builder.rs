//! The options of a client and the start of its life.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use super::callbacks::{Callbacks, RetryNotice};
use super::driver::{Driver, DriverOptions};
use super::key::KeyPair;
use super::naming::{MethodLookup, Naming, TypeNameForm};
use super::retry::RetryPolicy;
use super::token::TokenSource;
use crate::codec::Codec;
use crate::dispatcher::Dispatcher;
use crate::error::{Error, Result};
use crate::event_queue::EventQueueOptions;
use crate::resilience::engine::{Engine, EngineOptions, State};
use crate::resilience::reconnect::ReconnectOptions;
use crate::session::KeepAliveOptions;
use crate::token_file::TokenFile;
use crate::transport::tls::TlsClientOptions;
use crate::transport::{Endpoint, SocketOptions, TransportOptions, WebSocketOptions};
use crate::wire::DEFAULT_MAX_FRAME;

/// How long a handler of events may hold up other callbacks: longer than one takes that does not
/// block, also on a machine that is busy, because then the order over several subscriptions ends.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(1);

/// Builds a [`Client`]. Everything has a default but the endpoint; wrong values are told by
/// [`build`](Self::build).
///
/// Callbacks run on a thread of the client's own, one after the other, never inside the call that
/// caused them. They may call the client, and may block it (then later callbacks wait).
#[must_use]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    codec: Codec,
    naming: Naming,
    encryption: bool,
    token: Token,
    engine: EngineOptions,
    socket: SocketOptions,
    websocket: WebSocketOptions,
    tls: TlsClientOptions,
    max_frame: usize,
    retry: Option<RetryPolicy>,
    event_queue: EventQueueOptions,
    handler_patience: Option<Duration>,
    callbacks: Callbacks,
    runtime: Option<Handle>,
    dispatcher: Option<Dispatcher>,
    name: String,
    seed: Option<[u8; 32]>,
}

type AskToken =
    Arc<dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = Result<String>> + Send>> + Send + Sync>;

enum Token {
    Fixed(String),
    Provider(AskToken),
}

impl ClientBuilder {
    pub(super) fn new(endpoint: &str) -> Self {
        Self {
            endpoints: vec![endpoint.to_owned()],
            codec: Codec::Json,
            naming: Naming::default(),
            encryption: false,
            token: Token::Fixed(String::new()),
            engine: EngineOptions::default(),
            socket: SocketOptions::default(),
            websocket: WebSocketOptions::default(),
            tls: TlsClientOptions::default(),
            max_frame: DEFAULT_MAX_FRAME,
            retry: None,
            event_queue: EventQueueOptions::client(),
            handler_patience: Some(DEFAULT_PATIENCE),
            callbacks: Callbacks::default(),
            runtime: None,
            dispatcher: None,
            name: String::new(),
            seed: None,
        }
    }

    /// One more server to try. They are tried in turn, each attempt to connect at the next one.
    pub fn endpoint(mut self, endpoint: &str) -> Self {
        self.endpoints.push(endpoint.to_owned());
        self
    }

    /// How arguments and results are encoded. The server must be set alike: it is not negotiated.
    /// Default JSON.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// How calls say which method they mean. Default by id. One call can be made otherwise with
    /// [`CallBuilder::lookup`](super::CallBuilder::lookup).
    pub fn method_lookup(mut self, lookup: MethodLookup) -> Self {
        self.naming.lookup = lookup;
        self
    }

    /// How types are named in calls that travel by name, generic methods among them. Default weak.
    pub fn type_names(mut self, form: TypeNameForm) -> Self {
        self.naming.form = form;
        self
    }

    /// WitRPC's own encryption: an RSA key exchange, then AES-256-GCM. The server must be set alike:
    /// there is no way back to clear text, and one that does not encrypt is refused as
    /// [`Encryption`](crate::ErrorCode::Encryption). It keeps out who listens, not who can change
    /// what passes: for that use TLS. Default off.
    ///
    /// The key pair is made at the first attempt to connect, on a thread for blocking work, and kept;
    /// that takes some 100 ms.
    pub fn encryption(mut self, on: bool) -> Self {
        self.encryption = on;
        self
    }

    /// The access token. Default empty: none. If the server refuses it, the client is
    /// [`Failed`](State::Failed) at once.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Token::Fixed(token.into());
        self
    }

    /// Asks for the token before every attempt to connect, and once more when the server refused
    /// it, at the handshake or for a call. May take as long as connecting may.
    pub fn token_provider<F, T>(mut self, provider: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = std::result::Result<String, String>> + Send + 'static,
    {
        self.token = Token::Provider(Arc::new(move || {
            let answer = provider();
            Box::pin(async move { answer.await.map_err(Error::invalid_argument) })
        }));
        self
    }

    /// Like [`token_provider`](Self::token_provider) with a function that may block: it is called
    /// on a thread for blocking work.
    pub fn blocking_token_provider<F>(self, provider: F) -> Self
    where
        F: Fn() -> std::result::Result<String, String> + Send + Sync + 'static,
    {
        let provider = Arc::new(provider);
        self.token_provider(move || {
            let provider = provider.clone();
            async move {
                let answer = tokio::task::spawn_blocking(move || provider()).await;
                answer.unwrap_or_else(|_| Err("the token provider panicked".to_owned()))
            }
        })
    }

    /// Takes the token from a file, which is read anew before every attempt to connect, and once
    /// more when the server refused it. A byte order mark, and blanks and line ends around the
    /// token, are no part of it.
    ///
    /// A file that is missing, empty, not UTF-8 or longer than 64 KiB fails the attempt, not
    /// [`build`](Self::build): it may be written later.
    pub fn token_file(self, path: impl Into<PathBuf>) -> Self {
        let file = TokenFile::new(path.into());
        self.blocking_token_provider(move || file.read())
    }

    /// Limit of one attempt to connect: token, name look-up, all addresses, handshake. Default
    /// 10 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.engine.connect_timeout = limit;
        self
    }

    /// Limit of one attempt of a call; `None` = none: then a call without a timeout of its own may
    /// hang for ever. Default 30 s.
    pub fn attempt_timeout(mut self, limit: Option<Duration>) -> Self {
        self.engine.attempt_timeout = limit;
        self
    }

    /// Largest message accepted, in bytes. Default 256 MiB.
    pub fn max_frame(mut self, bytes: usize) -> Self {
        self.max_frame = bytes;
        self
    }

    /// Socket options: how a dead link is noticed.
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.socket = options;
        self
    }

    /// How the death of a libwitrpc server is noticed that the network does not tell of, a frozen
    /// process for instance: it is pinged. `None` = it is not, and there is no round-trip time.
    /// Default: a ping after 15 s of silence, dead after 20 s more. With a .NET server, which knows no
    /// ping, the [socket options](Self::socket) watch the link alone.
    pub fn keep_alive(mut self, options: Option<KeepAliveOptions>) -> Self {
        self.engine.keep_alive = options;
        self
    }

    /// Which servers are trusted, for `tls://` and `wss://`. Default: those whose certificates the
    /// system's authorities vouch for.
    pub fn tls(mut self, options: TlsClientOptions) -> Self {
        self.tls = options;
        self
    }

    /// Options of `ws://` and `wss://`.
    pub fn websocket(mut self, options: WebSocketOptions) -> Self {
        self.websocket = options;
        self
    }

    /// Bounds of the queue of calls that wait for the link or for room: how many, and how many
    /// bytes of arguments. Beyond it a call fails at once as
    /// [`Overloaded`](crate::ErrorCode::Overloaded). Default 4,096 calls and 64 MiB.
    pub fn queue_limits(mut self, calls: usize, bytes: usize) -> Self {
        self.engine.max_queued_calls = calls;
        self.engine.max_queued_bytes = bytes;
        self
    }

    /// Requests without an answer at the same time; more wait in the queue. Default 16,384.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.engine.max_in_flight = calls;
        self
    }

    /// Switches automatic reconnection on.
    pub fn reconnect(mut self, options: ReconnectOptions) -> Self {
        self.engine.reconnect = Some(options);
        self
    }

    /// Switches the retry policy on.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Bounds of the queue of each subscription to events, and what happens to events that come
    /// faster than they are taken. Default [`EventQueueOptions::client`]. Subscriptions may have
    /// [their own](super::SubscribeBuilder::queue).
    ///
    /// With [`Overflow::Disconnect`](crate::Overflow::Disconnect) the client drops its link: it
    /// reconnects if it does so by itself, and `on_reconnected` can fetch what is missing.
    pub fn event_queue(mut self, options: EventQueueOptions) -> Self {
        self.event_queue = options;
        self
    }

    /// How long a handler of events may hold up the callbacks behind it. One that takes longer goes
    /// on by itself: its own events wait for it, everything else goes on in order beside it, so that
    /// then handlers of two subscriptions may run at the same time. `None`: no callback ever runs
    /// beside another one, and a handler that blocks holds up all of them. Default 1 s.
    pub fn handler_patience(mut self, limit: Option<Duration>) -> Self {
        self.handler_patience = limit;
        self
    }

    /// Called before the wait that precedes each attempt to reconnect, with the number of the
    /// attempt (from 1) and the delay that follows.
    pub fn on_reconnecting(mut self, f: impl Fn(u32, Duration) + Send + Sync + 'static) -> Self {
        self.callbacks.reconnecting = Some(Arc::new(move |(attempt, delay)| f(attempt, delay)));
        self
    }

    /// Called when the link is back: the place to fetch what was missed.
    pub fn on_reconnected(mut self, f: impl Fn() + Send + Sync + 'static) -> Self {
        self.callbacks.reconnected = Some(Arc::new(move |()| f()));
        self
    }

    /// Called when the attempts are used up or the server refused for good, with the last error.
    pub fn on_reconnection_failed(mut self, f: impl Fn(Error) + Send + Sync + 'static) -> Self {
        self.callbacks.reconnection_failed = Some(Arc::new(f));
        self
    }

    /// Called with every new state.
    pub fn on_state_changed(mut self, f: impl Fn(State) + Send + Sync + 'static) -> Self {
        self.callbacks.state_changed = Some(Arc::new(f));
        self
    }

    /// Called before the wait that precedes each retry of a call.
    pub fn on_retry(mut self, f: impl Fn(RetryNotice) + Send + Sync + 'static) -> Self {
        self.callbacks.retry = Some(Arc::new(f));
        self
    }

    /// The tokio runtime to run on. Default: the one that [`build`](Self::build) is called in.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// What runs the callbacks. Default: a thread of the client's own. Several clients may share one,
    /// as those of a loop do ([`Dispatcher::for_loop`]).
    pub fn dispatcher(mut self, dispatcher: Dispatcher) -> Self {
        self.dispatcher = Some(dispatcher);
        self
    }

    /// What the client is called in health reports. Default: nothing.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Feeds all randomness of this client (ids, jitter) from a seed. For reproducible tests only:
    /// two clients with one seed make the same ids.
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Checks the options. The client is not connected yet.
    pub fn build(self) -> Result<Client> {
        let endpoints = self
            .endpoints
            .iter()
            .map(|text| {
                let endpoint: Endpoint = text.parse()?;
                endpoint.check_for_client()?;
                Ok(endpoint)
            })
            .collect::<Result<Vec<_>>>()?;
        let tls_client = match endpoints.iter().any(|e| e.scheme().has_tls()) {
            true => Some(Arc::new(self.tls.load()?)),
            false => None,
        };
        let mut engine = self.engine;
        if let Some(reconnect) = &engine.reconnect {
            reconnect.validate()?;
        }
        if let Some(keep_alive) = &engine.keep_alive {
            keep_alive.validate()?;
        }
        let mut callbacks = self.callbacks;
        let policy = self.retry.unwrap_or_else(RetryPolicy::off);
        policy.check()?;
        self.event_queue.check()?;
        engine.retry = policy.engine_options();
        callbacks.retryable = policy.predicate();
        for (name, value) in [
            ("connect_timeout", Some(engine.connect_timeout)),
            ("attempt_timeout", engine.attempt_timeout),
        ] {
            if value == Some(Duration::ZERO) {
                return Err(Error::invalid_argument(format!("{name} must not be zero")));
            }
        }
        if i32::try_from(self.max_frame).is_err() || self.max_frame < 64 {
            return Err(Error::invalid_argument(format!(
                "max_frame is {} bytes: it must be from 64 to {}",
                self.max_frame,
                i32::MAX
            )));
        }
        if engine.max_in_flight == 0 {
            return Err(Error::invalid_argument("max_in_flight must not be zero"));
        }
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => Handle::try_current().map_err(|_| {
                Error::invalid_argument(
                    "no tokio runtime here: build the client inside one, or name one with `runtime`",
                )
            })?,
        };
        let token = match self.token {
            Token::Fixed(token) => TokenSource::Fixed(token),
            Token::Provider(ask) => TokenSource::Provider {
                ask,
                limit: engine.connect_timeout,
            },
        };
        engine.endpoints = endpoints.len();
        engine.token_is_provided = token.is_provided();
        let seed = self.seed.unwrap_or_else(crate::random::bytes);
        let options = DriverOptions {
            endpoints,
            transport: TransportOptions {
                socket: self.socket,
                websocket: self.websocket,
                max_frame: self.max_frame,
                tls_client,
                ..TransportOptions::default()
            },
            key: self.encryption.then(KeyPair::default),
            dispatcher: self.dispatcher,
            name: self.name,
            event_queue: self.event_queue,
            handler_patience: self.handler_patience,
        };
        let engine = Engine::new(engine, seed);
        let driver = Driver::start(engine, options, token, callbacks, runtime);
        Ok(Client::new(driver, self.codec, self.naming, policy))
    }
}
