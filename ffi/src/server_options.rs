//! The options of a server, and the implementations of contracts that it serves.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use witrpc_core::codec::Codec;
use witrpc_core::contract::Contract;
use witrpc_core::dispatcher::Dispatcher;
use witrpc_core::resilience::dedup::DedupOptions;
use witrpc_core::server::store::{RedisOptions, RedisStore};
use witrpc_core::server::{
    CallContext, EventTypeNames, Execution, Fault, Server, ServerBuilder, ServerLimits,
    ServiceBuilder,
};
use witrpc_core::transport::{SocketOptions, WebSocketOptions};
use witrpc_core::{Error, Result as CoreResult};

use crate::callback::{UserData, witrpc_destroy};
use crate::client_options::limit;
use crate::contract::{ContractObject, witrpc_contract};
use crate::durable::Durable;
use crate::error::witrpc_error;
use crate::event_options::ServerEvents;
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::presence::Presence;
use crate::request::{Answer, Arguments, NO_ANSWER, Reply, RequestObject, witrpc_request};
use crate::server_security::Access;
use crate::server_tls::ServerTls;
use crate::status::witrpc_status;
use crate::text::{self, c_string};

/// A contract and a handler for each of its methods. May be given to several servers, and freed
/// afterwards. Any thread.
pub struct witrpc_implementation {
    _private: [u8; 0],
}

/// The options of servers. May be changed and freed after a server was started from them. Any
/// thread.
pub struct witrpc_server_options {
    _private: [u8; 0],
}

/// Carries out a call. Runs on a thread for blocking work; handlers of one connection begin in the
/// order in which calls arrive and then run side by side, so it must be safe to run on several
/// threads at once. It owns the request and must end it, now or later. It must not throw or longjmp
/// out.
pub type witrpc_handler =
    Option<unsafe extern "C" fn(user_data: *mut c_void, request: *mut witrpc_request)>;

/// An execution is about to begin: method and the 16 bytes of the call's id. What is counted here is
/// what really ran. Must not block for long: it runs on an I/O thread.
pub type witrpc_on_execute = Option<
    unsafe extern "C" fn(user_data: *mut c_void, method: *const c_char, invocation_id: *const u8),
>;

#[derive(Clone)]
pub(crate) struct Handler {
    line: String,
    function: unsafe extern "C" fn(*mut c_void, *mut witrpc_request),
    user_data: Arc<UserData>,
    /// It gets encoded arguments and gives an encoded result.
    encoded: bool,
}

#[derive(Clone)]
pub(crate) struct Implementation {
    contract: Contract,
    handlers: Vec<Handler>,
    pub(crate) durable: Vec<Durable>,
}

pub(crate) struct ImplementationObject(pub(crate) Mutex<Implementation>);

impl Object for ImplementationObject {
    type Opaque = witrpc_implementation;
    const KIND: usize = 12;
}

#[derive(Clone)]
pub(crate) struct Options {
    endpoints: Vec<String>,
    implementations: Vec<Implementation>,
    pub(crate) codec: Codec,
    pub(crate) encryption: bool,
    pub(crate) access: Access,
    trace: Option<Arc<Trace>>,
    pub(crate) limits: ServerLimits,
    dedup: DedupOptions,
    pub(crate) redis: Option<RedisOptions>,
    strong_event_types: bool,
    pub(crate) events: ServerEvents,
    pub(crate) tls: Option<ServerTls>,
    socket: SocketOptions,
    websocket: WebSocketOptions,
    pipe_mode: Option<u32>,
    /// That of a loop of the caller's.
    pub(crate) dispatcher: Option<Dispatcher>,
    pub(crate) journal: Option<PathBuf>,
}

struct Trace {
    function: unsafe extern "C" fn(*mut c_void, *const c_char, *const u8),
    user_data: UserData,
}

pub(crate) struct ServerOptionsObject(Mutex<Options>);

impl Object for ServerOptionsObject {
    type Opaque = witrpc_server_options;
    const KIND: usize = 13;
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// True while a handler, or an asynchronous validator, runs on this thread.
pub(crate) fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// Runs code of the user's that a server waits for.
pub(crate) fn as_handler(f: impl FnOnce()) {
    IN_HANDLER.set(true);
    f();
    IN_HANDLER.set(false);
}

/// What a call hears whose code is not begun any more.
pub(crate) const STOPPING: &str = "The server is stopping";

/// Where the caller's code runs for a server.
#[derive(Clone)]
pub(crate) struct Stage {
    presence: Arc<Presence>,
    dispatcher: Option<Dispatcher>,
}

impl Handler {
    /// What is asked about calls that were cut off.
    pub(crate) fn resolver(
        function: unsafe extern "C" fn(*mut c_void, *mut witrpc_request),
        user_data: UserData,
    ) -> Self {
        Self {
            line: String::new(),
            function,
            user_data: Arc::new(user_data),
            encoded: false,
        }
    }

    /// Hands a call to the C function, on a thread where it may block.
    pub(crate) fn call(
        &self,
        context: CallContext,
        arguments: Arguments,
        stage: &Stage,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let request = handle::insert(RequestObject::new(context, arguments, sender));
        let request = request.expose_provenance();
        let handler = self.clone();
        let presence = stage.presence.clone();
        let job = move || {
            let request = std::ptr::with_exposed_provenance_mut(request);
            // SAFETY: the caller gave the function together with the user data.
            let call = || unsafe { (handler.function)(handler.user_data.pointer(), request) };
            if presence.run(|| as_handler(call)).is_none()
                && let Some(request) = handle::remove::<RequestObject>(request)
            {
                // It did not run, and the client may hear so before its connection is gone.
                request.end(Err(Fault::overloaded(STOPPING)));
            }
        };
        match &stage.dispatcher {
            Some(dispatcher) => dispatcher.post(job),
            None => drop(tokio::task::spawn_blocking(job)),
        }
        async move {
            receiver
                .await
                .unwrap_or_else(|_| Err(Fault::new(NO_ANSWER)))
        }
    }
}

impl Implementation {
    fn into_service(self, stage: &Stage) -> ServiceBuilder {
        let service = self.handlers.into_iter().fold(
            ServiceBuilder::new(self.contract),
            |service, handler| {
                let (line, stage) = (handler.line.clone(), stage.clone());
                if handler.encoded {
                    return service.handle_blobs(&line, move |context, blobs| {
                        let answer = handler.call(context, Arguments::Encoded(blobs), &stage);
                        async move { answer.await.map(Reply::into_blob) }
                    });
                }
                service.handle_json(&line, move |context, json| {
                    let arguments = Arguments::Json(c_string(&json));
                    let answer = handler.call(context, arguments, &stage);
                    async move { answer.await.map(Reply::into_json) }
                })
            },
        );
        let durable = self.durable.into_iter();
        durable.fold(service, |service, durable| durable.install(service, stage))
    }
}

impl Trace {
    fn tell(&self, execution: Execution<'_>) {
        let method = c_string(execution.method);
        let id = execution.invocation_id.as_bytes();
        // SAFETY: the caller gave the function together with the user data; the pointers outlive
        // the call.
        unsafe { (self.function)(self.user_data.pointer(), method.as_ptr(), id.as_ptr()) }
    }
}

impl ServerOptionsObject {
    /// Starts a server whose callbacks enter by `presence`. Also gives the store that the server shares
    /// with others, if it has one.
    pub(crate) async fn start(
        &self,
        presence: Arc<Presence>,
    ) -> CoreResult<(Server, Option<Arc<RedisStore>>)> {
        let options = self.0.lock().clone();
        let stage = Stage {
            presence: presence.clone(),
            dispatcher: options.dispatcher,
        };
        let mut builder: ServerBuilder = Server::builder()
            .codec(options.codec)
            .encryption(options.encryption)
            .limits(options.limits)
            .dedup(options.dedup);
        for endpoint in &options.endpoints {
            builder = builder.listen(endpoint);
        }
        for implementation in options.implementations {
            builder = builder.service(implementation.into_service(&stage));
        }
        builder = options.access.install(builder, &presence);
        builder = options.events.install(builder, &presence);
        if let Some(trace) = options.trace {
            builder = builder.on_execute(move |execution| {
                presence.run(|| trace.tell(execution));
            });
        }
        builder = builder.socket(options.socket).websocket(options.websocket);
        if let Some(tls) = options.tls {
            builder = builder.tls(tls.load()?);
        }
        if let Some(mode) = options.pipe_mode {
            builder = builder.pipe_mode(mode);
        }
        let has_journal = options.journal.is_some();
        if let Some(directory) = options.journal {
            builder = builder.journal(directory);
        }
        if options.strong_event_types {
            builder = builder.event_type_names(EventTypeNames::Strong);
        }
        let store = options
            .redis
            .map(RedisStore::new)
            .transpose()?
            .map(Arc::new);
        if let Some(store) = &store {
            if has_journal {
                return Err(Error::invalid_argument(
                    "the server has a journal and a store on Redis: give it one of them",
                ));
            }
            builder = builder.store(store.clone());
        }
        Ok((builder.start().await?, store))
    }
}

fn new_implementation(
    contract: Contract,
    out: *mut *mut witrpc_implementation,
) -> Result<(), Failure> {
    let implementation = Implementation {
        contract,
        handlers: Vec::new(),
        durable: Vec::new(),
    };
    // SAFETY: the callers checked `out`.
    unsafe { guard::give(out, ImplementationObject(Mutex::new(implementation))) }
}

/// Starts an implementation of a contract of which only the name is known (NUL-terminated, as
/// "Demo.IEcho"); its methods are declared by the lines of their handlers. On success `*out` is a new
/// handle, to be freed with witrpc_implementation_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_implementation_new(
    contract: *const c_char,
    out: *mut *mut witrpc_implementation,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ImplementationObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let name = text::terminated(contract, "contract")?;
            let contract = Contract::open(name)
                .map_err(|e| Error::invalid_argument(format!("contract \"{name}\": {e}")))?;
            new_implementation(contract, out)
        }) as i32
    }
}

/// Starts an implementation of a contract with its declarations. As witrpc_implementation_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_implementation_of(
    contract: *const witrpc_contract,
    out: *mut *mut witrpc_implementation,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ImplementationObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            new_implementation(handle::get::<ContractObject>(contract)?.0.clone(), out)
        }) as i32
    }
}

/// Has a method carried out by `handler`. `method` is a line, as "int Add(int a, int b)", or a
/// listed name, NUL-terminated. A handler of a generic method, as "T Echo<T>(T value)", is called for
/// all type arguments, which witrpc_request_type_argument tells.
///
/// `destroy` (may be NULL) is called with `user_data` exactly once, after the last call of the
/// handler, also when this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_implementation_handle(
    implementation: *mut witrpc_implementation,
    method: *const c_char,
    handler: witrpc_handler,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe { register(implementation, method, handler, false, user_data, error) }
}

/// As witrpc_implementation_handle with a handler that gets the arguments as they came, encoded by
/// the server's codec (witrpc_request_argument), and answers with an encoded result
/// (witrpc_request_reply_encoded). What can't be decoded it refuses with witrpc_request_refuse.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_implementation_handle_encoded(
    implementation: *mut witrpc_implementation,
    method: *const c_char,
    handler: witrpc_handler,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe { register(implementation, method, handler, true, user_data, error) }
}

unsafe fn register(
    implementation: *mut witrpc_implementation,
    method: *const c_char,
    handler: witrpc_handler,
    encoded: bool,
    user_data: UserData,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        guard::run::<ImplementationObject>(implementation, error, || {
            let object = handle::get::<ImplementationObject>(implementation)?;
            let line = text::terminated(method, "method")?.to_owned();
            let function = handler.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            let mut implementation = object.0.lock();
            implementation
                .contract
                .method(&line)
                .map_err(|e| Error::invalid_argument(format!("method \"{line}\": {e}")))?;
            let user_data = Arc::new(user_data.registered());
            implementation.handlers.push(Handler {
                line,
                function,
                user_data,
                encoded,
            });
            Ok(())
        }) as i32
    }
}

/// Frees an implementation. Servers started with it go on. NULL and a freed one are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_implementation_free(implementation: *mut witrpc_implementation) {
    guard::value((), || {
        drop(handle::remove::<ImplementationObject>(implementation));
        None
    });
}

/// Starts options of a server that listens at `endpoint` (NUL-terminated, as
/// "tcp://127.0.0.1:5000", "tls://[::1]:5000", "ws://localhost:80/api/" or "pipe://name"; the host
/// `*` stands for all addresses of this machine, port 0 picks a free one). On success `*out` is a new
/// handle, to be freed with witrpc_server_options_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_new(
    endpoint: *const c_char,
    out: *mut *mut witrpc_server_options,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServerOptionsObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let options = Options {
                endpoints: vec![text::terminated(endpoint, "endpoint")?.to_owned()],
                implementations: Vec::new(),
                codec: Codec::Json,
                encryption: false,
                access: Access::Token(String::new()),
                trace: None,
                limits: ServerLimits::default(),
                dedup: DedupOptions::default(),
                redis: None,
                strong_event_types: false,
                events: ServerEvents::default(),
                tls: None,
                socket: SocketOptions::default(),
                websocket: WebSocketOptions::default(),
                pipe_mode: None,
                dispatcher: None,
                journal: None,
            };
            guard::give(out, ServerOptionsObject(Mutex::new(options)))
        }) as i32
    }
}

/// Frees options. NULL and freed ones are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_free(options: *mut witrpc_server_options) {
    guard::value((), || {
        drop(handle::remove::<ServerOptionsObject>(options));
        None
    });
}

/// Changes options; gives the status.
pub(crate) fn change(
    options: *mut witrpc_server_options,
    f: impl FnOnce(&mut Options) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<ServerOptionsObject>(options, std::ptr::null_mut(), || {
            f(&mut handle::get::<ServerOptionsObject>(options)?.0.lock())
        })
    };
    status as i32
}

/// Listens at one more endpoint, NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_add_endpoint(
    options: *mut witrpc_server_options,
    endpoint: *const c_char,
) -> i32 {
    change(options, |o| {
        // SAFETY: the header demands a valid pointer.
        o.endpoints
            .push(unsafe { text::terminated(endpoint, "endpoint") }?.to_owned());
        Ok(())
    })
}

/// Serves an implementation, as it is now. At least one is needed; several contracts are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_serve(
    options: *mut witrpc_server_options,
    implementation: *const witrpc_implementation,
) -> i32 {
    change(options, |o| {
        let object = handle::get::<ImplementationObject>(implementation)?;
        o.implementations.push(object.0.lock().clone());
        Ok(())
    })
}

/// Tells of each execution, before the handler begins. `destroy` as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_on_execute(
    options: *mut witrpc_server_options,
    on_execute: witrpc_on_execute,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    change(options, |o| {
        let function = on_execute.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
        o.trace = Some(Arc::new(Trace {
            function,
            user_data: user_data.registered(),
        }));
        Ok(())
    })
}

/// Connections at the same time; one more is closed at once. Default 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_max_clients(
    options: *mut witrpc_server_options,
    clients: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_clients = clients;
        Ok(())
    })
}

/// Largest message accepted, in bytes: from a connection that is authorised, and before. Default
/// 256 MiB and 64 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_max_frame(
    options: *mut witrpc_server_options,
    bytes: usize,
    handshake_bytes: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_frame = bytes;
        o.limits.max_handshake_frame = handshake_bytes;
        Ok(())
    })
}

/// Calls that run at the same time: of one connection (beyond it they wait, see
/// witrpc_server_options_max_waiting_bytes), and of all (beyond it calls are refused). Default 256 and 65,536.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_max_in_flight(
    options: *mut witrpc_server_options,
    per_connection: usize,
    in_all: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_in_flight_per_connection = per_connection;
        o.limits.max_in_flight = in_all;
        Ok(())
    })
}

/// Runs the calls of one connection one after another, as WitRPC does, for services that were
/// written for that.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_ordered_per_connection(
    options: *mut witrpc_server_options,
) -> i32 {
    change(options, |o| {
        o.limits.max_in_flight_per_connection = 1;
        Ok(())
    })
}

/// Time from accepting a connection until it must be authorised, in ms; WITRPC_NO_TIMEOUT = none.
/// Default 30,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_handshake_timeout_ms(
    options: *mut witrpc_server_options,
    ms: u64,
) -> i32 {
    change(options, |o| {
        o.limits.handshake_timeout = limit(ms);
        Ok(())
    })
}

/// Bytes that may wait for a client that does not read; beyond it the connection is closed. Default
/// 64 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_max_unsent_bytes(
    options: *mut witrpc_server_options,
    bytes: usize,
) -> i32 {
    change(options, |o| {
        o.limits.max_unsent_bytes = bytes;
        Ok(())
    })
}

/// Bounds of the memory of calls, by which a repeated call is recognised: records (running calls
/// included), bytes of stored answers, how long an answer is held in ms, and the biggest answer that
/// is stored in bytes. Default 65,536, 64 MiB, 600,000 ms and 1 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_dedup(
    options: *mut witrpc_server_options,
    max_records: usize,
    max_bytes: usize,
    hold_ms: u64,
    max_answer: usize,
) -> i32 {
    change(options, |o| {
        o.dedup.max_records = max_records;
        o.dedup.max_bytes = max_bytes;
        o.dedup.hold = Duration::from_millis(hold_ms);
        o.dedup.max_answer = max_answer;
        Ok(())
    })
}

/// Names the types of event arguments assembly-qualified, as WitRPC's default server does; a .NET
/// client that can't resolve one then loses the event. Default: by name and assembly apart.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_strong_event_types(
    options: *mut witrpc_server_options,
    strong: bool,
) -> i32 {
    change(options, |o| {
        o.strong_event_types = strong;
        Ok(())
    })
}

/// TCP keep-alive, which notices a client that vanished without a word: silence before the first
/// probe (WITRPC_NO_TIMEOUT = no probes), time between probes, unanswered probes until the
/// connection is closed. Default 10,000 ms, 5,000 ms, 3.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_keepalive(
    options: *mut witrpc_server_options,
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

/// How long sent bytes may stay unacknowledged until a connection is closed, in ms (Linux);
/// WITRPC_NO_TIMEOUT = the kernel's own limit. Default 20,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_user_timeout_ms(
    options: *mut witrpc_server_options,
    ms: u64,
) -> i32 {
    change(options, |o| {
        o.socket.user_timeout = limit(ms);
        Ok(())
    })
}

/// How a dead client is noticed with ws:// and wss://: silence before a ping, and silence after it
/// until the connection is closed. Default 15,000 ms and 20,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_websocket_ping(
    options: *mut witrpc_server_options,
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
pub extern "C" fn witrpc_server_options_websocket_fragment(
    options: *mut witrpc_server_options,
    bytes: usize,
) -> i32 {
    change(options, |o| {
        o.websocket.fragment = (bytes > 0).then_some(bytes);
        Ok(())
    })
}

/// Permissions of the socket file of pipe://, as 0600 (octal), which is the default. Without effect
/// on Windows.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_pipe_mode(
    options: *mut witrpc_server_options,
    mode: u32,
) -> i32 {
    change(options, |o| {
        o.pipe_mode = Some(mode);
        Ok(())
    })
}
