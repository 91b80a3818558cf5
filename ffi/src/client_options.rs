//! The options of a client.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use witrpc_core::client::{Client, ClientBuilder, RetryNotice, RetryPolicy};
use witrpc_core::codec::Codec;
use witrpc_core::config::{ClientConfig, TokenConfig};
use witrpc_core::dispatcher::Dispatcher;
use witrpc_core::resilience::backoff::{BackoffType, Jitter};
use witrpc_core::resilience::budget::BudgetOptions;
use witrpc_core::resilience::reconnect::ReconnectOptions;
use witrpc_core::session::KeepAliveOptions;
use witrpc_core::transport::{SocketOptions, WebSocketOptions};
use witrpc_core::{Error, Result as CoreResult};

use crate::callback::{UserData, witrpc_destroy};
use crate::client_security::Token;
use crate::client_tls::ClientTls;
use crate::error::{ErrorObject, witrpc_error};
use crate::event_options::ClientEvents;
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::naming::Naming;
use crate::status::{WITRPC_NO_TIMEOUT, witrpc_status};
use crate::text::{self, c_string};

/// The options of clients. Set what is to be different from the defaults, then make one or more
/// clients from them; the options may be changed and freed afterwards. Any thread.
pub struct witrpc_client_options {
    _private: [u8; 0],
}

/// How delays are spread, so that many clients do not come back at the same moment.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_jitter {
    /// The delay as it is. The default.
    WITRPC_JITTER_NONE = 0,
    /// Between half of it and all of it.
    WITRPC_JITTER_EQUAL = 1,
    /// Between nothing and all of it.
    WITRPC_JITTER_FULL = 2,
    /// Between the initial delay and three times the delay before, at most the cap.
    WITRPC_JITTER_DECORRELATED = 3,
}

/// How the delays of retries grow.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_backoff {
    /// Always the initial delay.
    WITRPC_BACKOFF_FIXED = 0,
    /// The initial delay times the number of the retry.
    WITRPC_BACKOFF_LINEAR = 1,
    /// Multiplied from one to the next. The default.
    WITRPC_BACKOFF_EXPONENTIAL = 2,
}

/// A retry that is about to happen. Filled by the library; valid until the callback returns.
#[repr(C)]
pub struct witrpc_retry_info {
    /// Size of this struct in the library that fills it, in bytes.
    pub struct_size: usize,
    /// Name of the method, NUL-terminated.
    pub method: *const c_char,
    /// Why the attempt failed; borrowed.
    pub error: *const witrpc_error,
    /// Number of the attempt that failed, from 1.
    pub attempt: u32,
    /// The delay that follows, in ms.
    pub delay_ms: u64,
}

/// The callbacks of a client. Begin with WITRPC_CLIENT_CALLBACKS_INIT and set what you need; NULL
/// is "not interested".
///
/// All of them run on a thread of the library's own, one after the other and in the order in which
/// things happen, never inside a function that you call and never on an I/O thread. They may call
/// any function of this header, blocking ones too; while one runs, later ones wait, and so do
/// handlers of events. They must not throw or longjmp out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_client_callbacks {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: usize,
    /// An attempt to reconnect follows after a delay. `attempt` counts from 1 since the last
    /// authorised link; `delay_ms` is the delay really used.
    pub on_reconnecting:
        Option<unsafe extern "C" fn(user_data: *mut c_void, attempt: u32, delay_ms: u64)>,
    /// The link is back: the place to fetch what was missed.
    pub on_reconnected: Option<unsafe extern "C" fn(user_data: *mut c_void)>,
    /// The attempts are used up, or the server refused for good. `last_error` is borrowed.
    pub on_reconnection_failed:
        Option<unsafe extern "C" fn(user_data: *mut c_void, last_error: *const witrpc_error)>,
    /// The state is another one (witrpc_state).
    pub on_state_changed: Option<unsafe extern "C" fn(user_data: *mut c_void, state: i32)>,
    /// A call is tried again after a delay. `info` is borrowed.
    pub on_retry:
        Option<unsafe extern "C" fn(user_data: *mut c_void, info: *const witrpc_retry_info)>,
    /// Asked about failures of declared methods that no retryable status covers: true to try again.
    /// `error` is borrowed.
    pub is_retryable:
        Option<unsafe extern "C" fn(user_data: *mut c_void, error: *const witrpc_error) -> bool>,
    /// Handed to each callback. Must be usable from another thread.
    pub user_data: *mut c_void,
    /// Called with `user_data` exactly once, after the last callback: when the options, and all
    /// clients made from them, are freed or closed. May be NULL.
    pub destroy: witrpc_destroy,
}

pub(crate) struct ClientOptionsObject(pub(crate) Mutex<Options>);

impl Object for ClientOptionsObject {
    type Opaque = witrpc_client_options;
    const KIND: usize = 4;
}

#[derive(Clone)]
pub(crate) struct Options {
    endpoints: Vec<String>,
    pub(crate) codec: Codec,
    pub(crate) naming: Naming,
    pub(crate) encryption: bool,
    pub(crate) token: Token,
    connect_timeout: Option<Duration>,
    attempt_timeout: Option<Option<Duration>>,
    max_frame: Option<usize>,
    queue_limits: Option<(usize, usize)>,
    max_in_flight: Option<usize>,
    socket: SocketOptions,
    websocket: WebSocketOptions,
    pub(crate) tls: ClientTls,
    pub(crate) keep_alive: Option<KeepAliveOptions>,
    reconnect: Option<ReconnectOptions>,
    retry: Option<RetryPolicy>,
    pub(crate) events: ClientEvents,
    callbacks: Option<Arc<Callbacks>>,
    /// That of a loop of the caller's.
    pub(crate) dispatcher: Option<Dispatcher>,
    pub(crate) name: String,
}

struct Callbacks {
    table: witrpc_client_callbacks,
    user_data: UserData,
}

// SAFETY: function pointers and a user pointer, which the header demands to be usable from other
// threads.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

/// Lends an error to a callback.
fn lend<R>(error: Error, f: impl FnOnce(*const witrpc_error) -> R) -> R {
    let lent = handle::insert(ErrorObject::new(error));
    let result = f(lent);
    drop(handle::remove::<ErrorObject>(lent));
    result
}

impl Callbacks {
    fn install(self: &Arc<Self>, mut builder: ClientBuilder) -> ClientBuilder {
        // SAFETY (all calls): the caller gave each function together with the user data.
        if let Some(f) = self.table.on_reconnecting {
            let this = self.clone();
            builder = builder.on_reconnecting(move |attempt, delay| {
                // SAFETY: see above.
                unsafe { f(this.user_data.pointer(), attempt, millis(delay)) }
            });
        }
        if let Some(f) = self.table.on_reconnected {
            let this = self.clone();
            // SAFETY: see above.
            builder = builder.on_reconnected(move || unsafe { f(this.user_data.pointer()) });
        }
        if let Some(f) = self.table.on_reconnection_failed {
            let this = self.clone();
            builder = builder.on_reconnection_failed(move |error| {
                // SAFETY: see above.
                lend(error, |error| unsafe { f(this.user_data.pointer(), error) });
            });
        }
        if let Some(f) = self.table.on_state_changed {
            let this = self.clone();
            builder = builder.on_state_changed(move |state| {
                // SAFETY: see above.
                unsafe { f(this.user_data.pointer(), state as i32) }
            });
        }
        if let Some(f) = self.table.on_retry {
            let this = self.clone();
            builder = builder.on_retry(move |notice| this.retry(f, notice));
        }
        builder
    }

    fn retry(
        &self,
        f: unsafe extern "C" fn(*mut c_void, *const witrpc_retry_info),
        notice: RetryNotice,
    ) {
        let method = c_string(&notice.method);
        lend(notice.error, |error| {
            let info = witrpc_retry_info {
                struct_size: size_of::<witrpc_retry_info>(),
                method: method.as_ptr(),
                error,
                attempt: notice.attempt,
                delay_ms: millis(notice.delay),
            };
            // SAFETY: the caller gave the function together with the user data; `info` outlives
            // the call.
            unsafe { f(self.user_data.pointer(), &raw const info) }
        });
    }

    fn predicate(self: &Arc<Self>) -> Option<impl Fn(&Error) -> bool + Send + Sync + 'static> {
        let f = self.table.is_retryable?;
        let this = self.clone();
        Some(move |error: &Error| {
            // SAFETY: the caller gave the function together with the user data.
            lend(error.clone(), |error| unsafe {
                f(this.user_data.pointer(), error)
            })
        })
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time limit from the caller: the constant is "none".
pub(crate) fn limit(ms: u64) -> Option<Duration> {
    (ms != WITRPC_NO_TIMEOUT).then(|| Duration::from_millis(ms))
}

impl Options {
    fn new(endpoint: &str) -> Self {
        Self {
            endpoints: vec![endpoint.to_owned()],
            codec: Codec::Json,
            naming: Naming::default(),
            encryption: false,
            token: Token::Fixed(String::new()),
            connect_timeout: None,
            attempt_timeout: None,
            max_frame: None,
            queue_limits: None,
            max_in_flight: None,
            socket: SocketOptions::default(),
            websocket: WebSocketOptions::default(),
            tls: ClientTls::default(),
            keep_alive: Some(KeepAliveOptions::default()),
            reconnect: None,
            retry: None,
            events: ClientEvents::default(),
            callbacks: None,
            dispatcher: None,
            name: String::new(),
        }
    }

    /// What a file says.
    pub(crate) fn from_config(config: ClientConfig) -> Self {
        let mut endpoints = config.endpoints;
        let mut options = Self::new("");
        std::mem::swap(&mut options.endpoints, &mut endpoints);
        options.codec = config.codec.unwrap_or(Codec::Json);
        options.encryption = config.encryption;
        options.token = match config.token {
            TokenConfig::None => Token::Fixed(String::new()),
            TokenConfig::Text(token) => Token::Fixed(token),
            TokenConfig::File(path) => Token::File(path.to_string_lossy().into_owned()),
        };
        options.connect_timeout = config.connect_timeout;
        options.attempt_timeout = config.attempt_timeout.map(Some);
        options.max_frame = config.max_frame;
        options.max_in_flight = config.max_in_flight;
        options.socket = config.socket;
        options.tls = ClientTls::from_config(config.tls);
        options.reconnect = config.reconnect;
        options.retry = config.retry;
        options.name = config.name;
        options
    }

    fn reconnect(&mut self) -> &mut ReconnectOptions {
        self.reconnect.get_or_insert_default()
    }

    fn change_retry(&mut self, change: impl FnOnce(RetryPolicy) -> RetryPolicy) {
        self.retry = Some(change(self.retry.take().unwrap_or_default()));
    }
}

impl ClientOptionsObject {
    pub(crate) fn build(&self, runtime: tokio::runtime::Handle) -> CoreResult<Client> {
        let options = self.0.lock().clone();
        let mut builder = Client::builder(&options.endpoints[0]).runtime(runtime);
        for endpoint in &options.endpoints[1..] {
            builder = builder.endpoint(endpoint);
        }
        builder = builder
            .codec(options.codec)
            .method_lookup(options.naming.lookup)
            .type_names(options.naming.form)
            .encryption(options.encryption);
        builder = options.token.install(builder);
        builder = options.events.install(builder);
        if let Some(limit) = options.connect_timeout {
            builder = builder.connect_timeout(limit);
        }
        if let Some(limit) = options.attempt_timeout {
            builder = builder.attempt_timeout(limit);
        }
        if let Some(bytes) = options.max_frame {
            builder = builder.max_frame(bytes);
        }
        if let Some((calls, bytes)) = options.queue_limits {
            builder = builder.queue_limits(calls, bytes);
        }
        if let Some(calls) = options.max_in_flight {
            builder = builder.max_in_flight(calls);
        }
        builder = builder
            .socket(options.socket)
            .websocket(options.websocket)
            .keep_alive(options.keep_alive)
            .tls(options.tls.load()?);
        builder = builder.name(options.name);
        if let Some(dispatcher) = options.dispatcher {
            builder = builder.dispatcher(dispatcher);
        }
        if let Some(reconnect) = options.reconnect {
            builder = builder.reconnect(reconnect);
        }
        let mut retry = options.retry;
        if let Some(callbacks) = &options.callbacks {
            builder = callbacks.install(builder);
            if let (Some(policy), Some(predicate)) = (&mut retry, callbacks.predicate()) {
                *policy = std::mem::take(policy).retry_if(predicate);
            }
        }
        if let Some(retry) = retry {
            builder = builder.retry(retry);
        }
        builder.build()
    }
}

/// Changes options; gives the status.
pub(crate) fn change(
    options: *mut witrpc_client_options,
    f: impl FnOnce(&mut Options) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: there is no error object to write.
    let status = unsafe {
        guard::run::<ClientOptionsObject>(options, std::ptr::null_mut(), || {
            f(&mut handle::get::<ClientOptionsObject>(options)?.0.lock())
        })
    };
    status as i32
}

/// Starts options for clients of the server at `endpoint`, as "tcp://host:port" (`size` in bytes).
///
/// On success `*out` is a new handle, to be freed with witrpc_client_options_free. The endpoint is
/// checked when a client is made. Does not block; any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_new_n(
    endpoint: *const c_char,
    size: usize,
    out: *mut *mut witrpc_client_options,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ClientOptionsObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let options = Options::new(text::sized(endpoint, size, "endpoint")?);
            guard::give(out, ClientOptionsObject(Mutex::new(options)))
        }) as i32
    }
}

/// The same with a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_new(
    endpoint: *const c_char,
    out: *mut *mut witrpc_client_options,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ClientOptionsObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let options = Options::new(text::terminated(endpoint, "endpoint")?);
            guard::give(out, ClientOptionsObject(Mutex::new(options)))
        }) as i32
    }
}

/// Frees options. NULL and freed ones are allowed. Clients made from them live on. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_free(options: *mut witrpc_client_options) {
    guard::value((), || {
        drop(handle::remove::<ClientOptionsObject>(options));
        None
    });
}

/// One more server to try, NUL-terminated. They are tried in turn, each attempt to connect at the
/// next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_add_endpoint(
    options: *mut witrpc_client_options,
    endpoint: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.endpoints
            .push(unsafe { text::terminated(endpoint, "endpoint") }?.to_owned());
        Ok(())
    })
}

/// Limit of one attempt to connect, in ms: token, name look-up, all addresses, handshake. Default
/// 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_connect_timeout_ms(
    options: *mut witrpc_client_options,
    ms: u64,
) -> i32 {
    change(options, |o| {
        o.connect_timeout = Some(Duration::from_millis(ms));
        Ok(())
    })
}

/// Limit of one attempt of a call, in ms. Default 30,000. WITRPC_NO_TIMEOUT lets a call without a
/// limit of its own wait for ever.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_attempt_timeout_ms(
    options: *mut witrpc_client_options,
    ms: u64,
) -> i32 {
    change(options, |o| {
        o.attempt_timeout = Some(limit(ms));
        Ok(())
    })
}

/// Largest message accepted, in bytes. Default 256 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_max_frame(
    options: *mut witrpc_client_options,
    bytes: usize,
) -> i32 {
    change(options, |o| {
        o.max_frame = Some(bytes);
        Ok(())
    })
}

/// Bounds of the queue of calls that wait for the link or for room: how many, and how many bytes of
/// arguments. Beyond it a call fails at once with WITRPC_OVERLOADED. Default 4,096 and 64 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_queue_limits(
    options: *mut witrpc_client_options,
    calls: usize,
    bytes: usize,
) -> i32 {
    change(options, |o| {
        o.queue_limits = Some((calls, bytes));
        Ok(())
    })
}

/// Requests without an answer at the same time; more wait in the queue. Default 16,384.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_max_in_flight(
    options: *mut witrpc_client_options,
    calls: usize,
) -> i32 {
    change(options, |o| {
        o.max_in_flight = Some(calls);
        Ok(())
    })
}

/// TCP keep-alive, which notices a peer that vanished without a word: silence before the first
/// probe (WITRPC_NO_TIMEOUT = no probes), time between probes, unanswered probes until the link is
/// dead. Default 10,000 ms, 5,000 ms, 3.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_keepalive(
    options: *mut witrpc_client_options,
    idle_ms: u64,
    interval_ms: u64,
    probes: u32,
) -> i32 {
    change(options, |o| {
        o.socket.keepalive_idle = limit(idle_ms);
        o.socket.keepalive_interval = Duration::from_millis(interval_ms);
        o.socket.keepalive_probes = probes;
        Ok(())
    })
}

/// How long sent bytes may stay unacknowledged until the link is dead, in ms (Linux);
/// WITRPC_NO_TIMEOUT = the kernel's own limit. Default 20,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_user_timeout_ms(
    options: *mut witrpc_client_options,
    ms: u64,
) -> i32 {
    change(options, |o| {
        o.socket.user_timeout = limit(ms);
        Ok(())
    })
}

/// How a dead peer is noticed with ws:// and wss://: silence before a ping, and silence after it until
/// the link is dead. Default 15,000 ms and 20,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_websocket_ping(
    options: *mut witrpc_client_options,
    interval_ms: u64,
    timeout_ms: u64,
) -> i32 {
    change(options, |o| {
        o.websocket.ping_interval = Duration::from_millis(interval_ms);
        o.websocket.ping_timeout = Duration::from_millis(timeout_ms);
        Ok(())
    })
}

/// Largest piece that a WebSocket message is sent in, in bytes; 0 = in one piece, the default.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_websocket_fragment(
    options: *mut witrpc_client_options,
    bytes: usize,
) -> i32 {
    change(options, |o| {
        o.websocket.fragment = (bytes > 0).then_some(bytes);
        Ok(())
    })
}

/// Switches automatic reconnection on, with WitRPC's defaults: 10 attempts, delays of 1, 2, 4, 8 …
/// 120 s, also after the server closed the connection. Every function named
/// witrpc_client_options_reconnect_… does so too.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect(options: *mut witrpc_client_options) -> i32 {
    change(options, |o| {
        o.reconnect();
        Ok(())
    })
}

/// Automatic reconnection for long-running clients, of which there may be many: unlimited attempts,
/// decorrelated jitter, a random first delay, the first connect covered. Replaces what was set
/// before.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_fleet(
    options: *mut witrpc_client_options,
) -> i32 {
    change(options, |o| {
        o.reconnect = Some(ReconnectOptions::fleet());
        Ok(())
    })
}

/// Attempts until the client gives up and is Failed; 0 = unlimited. Default 10.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_max_attempts(
    options: *mut witrpc_client_options,
    attempts: u32,
) -> i32 {
    change(options, |o| {
        o.reconnect().max_attempts = attempts;
        Ok(())
    })
}

/// Delay before the first attempt and cap of the delays, in ms, and their growth. Default 1,000,
/// 120,000 and 2.0.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_delays(
    options: *mut witrpc_client_options,
    initial_ms: u64,
    max_ms: u64,
    multiplier: f64,
) -> i32 {
    change(options, |o| {
        let reconnect = o.reconnect();
        reconnect.initial_delay = Duration::from_millis(initial_ms);
        reconnect.max_delay = Duration::from_millis(max_ms);
        reconnect.backoff_multiplier = multiplier;
        Ok(())
    })
}

/// How the delays are spread (witrpc_jitter), and whether the very first one after a loss is drawn
/// between nothing and the initial delay. Default WITRPC_JITTER_NONE and false.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_jitter(
    options: *mut witrpc_client_options,
    jitter: i32,
    random_first_delay: bool,
) -> i32 {
    change(options, |o| {
        o.reconnect().jitter = jitter_of(jitter)?;
        o.reconnect().random_first_delay = random_first_delay;
        Ok(())
    })
}

/// Whether to reconnect also when the server closed the connection in order. Default true. Resets,
/// half a message and silence are always covered.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_on_disconnect(
    options: *mut witrpc_client_options,
    reconnect: bool,
) -> i32 {
    change(options, |o| {
        o.reconnect().reconnect_on_disconnect = reconnect;
        Ok(())
    })
}

/// Whether the very first connect is covered too. Default false.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_first_connect(
    options: *mut witrpc_client_options,
    cover: bool,
) -> i32 {
    change(options, |o| {
        o.reconnect().retry_first_connect = cover;
        Ok(())
    })
}

/// How long a link must have stood to end the growth of the delays, in ms. Default 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_reconnect_stable_after_ms(
    options: *mut witrpc_client_options,
    ms: u64,
) -> i32 {
    change(options, |o| {
        o.reconnect().stable_after = Duration::from_millis(ms);
        Ok(())
    })
}

/// Switches the retry policy on, with WitRPC's defaults: 3 retries after 0.5, 1 and 2 s, on
/// WITRPC_TIMEOUT and WITRPC_TRANSPORT, for no method: declare which may be repeated. Every
/// function named witrpc_client_options_retry_… or …_mark_… does so too.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry(options: *mut witrpc_client_options) -> i32 {
    change(options, |o| {
        o.change_retry(|retry| retry);
        Ok(())
    })
}

/// Attempts after the first one. Default 3.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_max_retries(
    options: *mut witrpc_client_options,
    retries: u32,
) -> i32 {
    change(options, |o| {
        o.change_retry(|retry| retry.max_retries(retries));
        Ok(())
    })
}

/// Delay before the first retry and cap of the delays, in ms, how they grow (witrpc_backoff), and
/// by what. Default 500, 30,000, WITRPC_BACKOFF_EXPONENTIAL and 2.0.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_delays(
    options: *mut witrpc_client_options,
    initial_ms: u64,
    max_ms: u64,
    backoff: i32,
    multiplier: f64,
) -> i32 {
    change(options, |o| {
        let kind = match backoff {
            0 => BackoffType::Fixed,
            1 => BackoffType::Linear,
            2 => BackoffType::Exponential,
            _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
        };
        o.change_retry(|retry| {
            retry
                .initial_delay(Duration::from_millis(initial_ms))
                .max_delay(Duration::from_millis(max_ms))
                .backoff(kind)
                .backoff_multiplier(multiplier)
        });
        Ok(())
    })
}

/// How the delays of retries are spread (witrpc_jitter). Default WITRPC_JITTER_NONE.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_jitter(
    options: *mut witrpc_client_options,
    jitter: i32,
) -> i32 {
    change(options, |o| {
        let jitter = jitter_of(jitter)?;
        o.change_retry(|retry| retry.jitter(jitter));
        Ok(())
    })
}

/// One more status number of WitRPC that is retried. Default 408 (timeout) and 503 (transport,
/// overloaded); 500 adds methods that failed on the server.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_on_status(
    options: *mut witrpc_client_options,
    status: i32,
) -> i32 {
    change(options, |o| {
        o.change_retry(|retry| retry.retry_on_status(status));
        Ok(())
    })
}

/// Retries on these status numbers of WitRPC, `count` of them, and on no others: replaces 408 and
/// 503. None at all leaves it to is_retryable of the callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_retry_statuses(
    options: *mut witrpc_client_options,
    statuses: *const i32,
    count: usize,
) -> i32 {
    change(options, |o| {
        if count != 0 && (statuses.is_null() || count > 1024) {
            return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
        }
        let statuses = match count {
            0 => Vec::new(),
            // SAFETY: not null, and the header demands that so many are there.
            _ => unsafe { std::slice::from_raw_parts(statuses, count) }.to_vec(),
        };
        o.change_retry(|retry| retry.retryable_statuses(statuses));
        Ok(())
    })
}

/// Limit of retries over time: so many a second, and on top so many for every hundred calls of the
/// last 10 s. Default 10 and 20.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_budget(
    options: *mut witrpc_client_options,
    reserve_per_second: u32,
    percent: u32,
) -> i32 {
    change(options, |o| {
        let budget = BudgetOptions {
            reserve_per_second,
            percent,
        };
        o.change_retry(|retry| retry.budget(Some(budget)));
        Ok(())
    })
}

/// No limit of retries over time.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_no_budget(
    options: *mut witrpc_client_options,
) -> i32 {
    change(options, |o| {
        o.change_retry(|retry| retry.budget(None));
        Ok(())
    })
}

/// This method may run twice: it is repeated anywhere. Named by its name (all overloads) or by its
/// line (that overload), NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_mark_idempotent(
    options: *mut witrpc_client_options,
    method: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        let method = unsafe { text::terminated(method, "method") }?;
        o.change_retry(|retry| retry.mark_idempotent([method]));
        Ok(())
    })
}

/// This method must not run twice: it is repeated only where the server recognises the repetition;
/// elsewhere the call ends with WITRPC_OUTCOME_UNKNOWN. Named as for
/// witrpc_client_options_mark_idempotent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_mark_deduplicated(
    options: *mut witrpc_client_options,
    method: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        let method = unsafe { text::terminated(method, "method") }?;
        o.change_retry(|retry| retry.mark_deduplicated([method]));
        Ok(())
    })
}

/// All methods may run twice, but those marked deduplicated.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_retry_all_methods(
    options: *mut witrpc_client_options,
) -> i32 {
    change(options, |o| {
        o.change_retry(RetryPolicy::retry_all_methods);
        Ok(())
    })
}

/// Sets the callbacks. The struct is copied; it replaces the one set before.
///
/// `destroy` of the struct is called exactly once, after the last callback, also when this function
/// fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_options_callbacks(
    options: *mut witrpc_client_options,
    callbacks: *const witrpc_client_callbacks,
) -> i32 {
    // SAFETY: the header demands a valid pointer.
    let Some(table) = (unsafe { read_sized(callbacks) }) else {
        return witrpc_status::WITRPC_INVALID_ARGUMENT as i32;
    };
    let user_data = UserData::new(table.user_data, table.destroy);
    change(options, |o| {
        let user_data = match &o.dispatcher {
            Some(dispatcher) => user_data.registered_on(dispatcher),
            None => user_data.registered(),
        };
        o.callbacks = Some(Arc::new(Callbacks { table, user_data }));
        Ok(())
    })
}

/// Copies as much of a struct as its writer knew; the rest is zero.
///
/// # Safety
/// `table` must be NULL or point to a struct whose first field says how much of it is there.
unsafe fn read_sized(table: *const witrpc_client_callbacks) -> Option<witrpc_client_callbacks> {
    if table.is_null() {
        return None;
    }
    // SAFETY: not null; the size comes first.
    let size = unsafe { table.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() || size > 4096 {
        return None;
    }
    let mut copy = std::mem::MaybeUninit::<witrpc_client_callbacks>::zeroed();
    let known = size.min(size_of::<witrpc_client_callbacks>());
    // SAFETY: `known` bytes are there on both sides, and all zeros is a valid value: sizes,
    // pointers and options of function pointers.
    unsafe {
        std::ptr::copy_nonoverlapping(table.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known);
        Some(copy.assume_init())
    }
}

fn jitter_of(jitter: i32) -> Result<Jitter, Failure> {
    Ok(match jitter {
        0 => Jitter::None,
        1 => Jitter::Equal,
        2 => Jitter::Full,
        3 => Jitter::Decorrelated,
        _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
    })
}
