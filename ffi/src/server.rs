//! Servers.

use std::ffi::c_char;
use std::sync::Arc;

use parking_lot::Mutex;
use witrpc_core::server::store::RedisStore;
use witrpc_core::server::{Publisher, Server};

use crate::buffer::{BufferObject, witrpc_buffer};
use crate::client_options::limit;
use crate::error::witrpc_error;
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::library;
use crate::presence::Presence;
pub(crate) use crate::server_options::in_handler;
use crate::server_options::{ServerOptionsObject, witrpc_server_options};
use crate::status::witrpc_status;
use crate::text;

/// A running server. All functions may be called from any thread.
pub struct witrpc_server {
    _private: [u8; 0],
}

/// What a server has done and does. Set `struct_size` before it is filled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_server_stats {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: usize,
    /// Connections now.
    pub connections: u64,
    /// Handlers running now.
    pub running: u64,
    /// Handlers ever begun.
    pub executed: u64,
    /// Calls answered from memory instead of being executed again.
    pub replayed: u64,
    /// Calls attached to a running twin.
    pub attached: u64,
    /// Answers held in memory now.
    pub held: u64,
    /// Events that were dropped because a client did not read as fast as they came, each counted for
    /// each such client.
    pub events_dropped: u64,
    /// Connections that were closed because their clients did not read their events.
    pub slow_clients_closed: u64,
}

pub(crate) struct ServerObject {
    /// Gone once it has been stopped.
    server: Mutex<Option<Server>>,
    pub(crate) publisher: Publisher,
    endpoints: Vec<String>,
    presence: Arc<Presence>,
    pub(crate) store: Option<Arc<RedisStore>>,
}

impl Object for ServerObject {
    type Opaque = witrpc_server;
    const KIND: usize = 14;
}

impl ServerObject {
    /// Stops at once.
    pub(crate) fn abort(&self) {
        self.presence.close();
        drop(self.server.lock().take());
    }
}

/// Starts a server: binds its endpoints and accepts clients. The options are copied.
///
/// On success `*out` is a new handle, to be freed with witrpc_server_free. Blocks until the
/// endpoints are bound. Not from a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_start(
    options: *const witrpc_server_options,
    out: *mut *mut witrpc_server,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServerOptionsObject>(options, error, || {
            let out = guard::out(out)?;
            let options = handle::get::<ServerOptionsObject>(options)?;
            let presence = Arc::<Presence>::default();
            let start = options.start(presence.clone());
            let (server, store) = library::wait_for_server(start)??;
            let object = ServerObject {
                publisher: server.publisher(),
                endpoints: server.endpoints().iter().map(ToString::to_string).collect(),
                server: Mutex::new(Some(server)),
                presence,
                store,
            };
            guard::give(out, object)
        }) as i32
    }
}

pub(crate) unsafe fn with(
    server: *const witrpc_server,
    error: *mut *mut witrpc_error,
    f: impl FnOnce(&ServerObject) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller vouches for `error`.
    unsafe {
        guard::run::<ServerObject>(server, error, || f(&*handle::get::<ServerObject>(server)?))
            as i32
    }
}

/// Where the server listens, as "tcp://127.0.0.1:41873": its `index`-th endpoint, from 0, with the
/// port that it was given. On success `*out` is a new buffer with the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_endpoint(
    server: *const witrpc_server,
    index: usize,
    out: *mut *mut witrpc_buffer,
) -> i32 {
    // SAFETY: the header demands valid pointers; there is no error object.
    unsafe {
        with(server, std::ptr::null_mut(), |object| {
            let out = guard::out(out)?;
            let endpoint = object
                .endpoints
                .get(index)
                .ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            guard::give(out, BufferObject::text(endpoint.clone()))
        })
    }
}

/// Raises an event to all clients that are connected and authorised. `contract` is the contract's
/// name, `event` a line or a listed name, `arguments` a JSON array, all NUL-terminated. What a client
/// does not read at once waits for it: witrpc_server_options_event_queue. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_raise(
    server: *const witrpc_server,
    contract: *const c_char,
    event: *const c_char,
    arguments: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(server, error, |object| {
            let contract = text::terminated(contract, "contract")?;
            let event = text::terminated(event, "event")?;
            let arguments = text::terminated(arguments, "arguments")?;
            object.publisher.raise_json(contract, event, arguments)?;
            Ok(())
        })
    }
}

/// What the server has done and does. Set `stats->struct_size` first. WITRPC_CLOSED once it has been
/// stopped. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_stats_get(
    server: *const witrpc_server,
    stats: *mut witrpc_server_stats,
) -> i32 {
    // SAFETY: the header demands a valid pointer to a struct that says its size; there is no error
    // object.
    unsafe {
        with(server, std::ptr::null_mut(), |object| {
            let running = object.server.lock();
            let now = running
                .as_ref()
                .ok_or(witrpc_status::WITRPC_CLOSED)?
                .stats();
            let filled = witrpc_server_stats {
                struct_size: 0,
                connections: now.connections as u64,
                running: now.running as u64,
                executed: now.executed,
                replayed: now.dedup.replayed,
                attached: now.dedup.attached,
                held: now.dedup.done as u64,
                events_dropped: now.events_dropped,
                slow_clients_closed: now.slow_clients_closed,
            };
            guard::fill(stats, filled)
        })
    }
}

/// Stops in order: accepts nobody any more, refuses new calls, lets running ones finish and their
/// answers leave, then closes the connections. WITRPC_TIMEOUT if something had to be abandoned after
/// `timeout_ms`. A stopped server is closed; only witrpc_server_free is left to do.
///
/// Blocks for at most `timeout_ms`. WITRPC_WOULD_DEADLOCK from a handler.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_stop(server: *const witrpc_server, timeout_ms: u64) -> i32 {
    // SAFETY: there is no error object.
    unsafe {
        with(server, std::ptr::null_mut(), |object| {
            if in_handler() {
                return Err(witrpc_status::WITRPC_WOULD_DEADLOCK.into());
            }
            let Some(server) = object.server.lock().take() else {
                return Ok(());
            };
            let limit = limit(timeout_ms).unwrap_or(std::time::Duration::MAX);
            if library::wait_for_server(server.stop(limit))? {
                Ok(())
            } else {
                Err(witrpc_status::WITRPC_TIMEOUT.into())
            }
        })
    }
}

/// Stops a server at once, unless it has been stopped, without waiting for answers; and waits until
/// handlers, validators and other callbacks of it that are running have returned. None begins after
/// that, so that what they use may be freed. WITRPC_TIMEOUT if that took longer than `timeout_ms` (the
/// server is stopped all the same); WITRPC_WOULD_DEADLOCK, without stopping it, from a handler.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_close_and_wait(
    server: *const witrpc_server,
    timeout_ms: u64,
) -> i32 {
    // SAFETY: there is no error object.
    unsafe {
        with(server, std::ptr::null_mut(), |object| {
            if in_handler() {
                return Err(witrpc_status::WITRPC_WOULD_DEADLOCK.into());
            }
            object.abort();
            match object.presence.wait(limit(timeout_ms)) {
                true => Ok(()),
                false => Err(witrpc_status::WITRPC_TIMEOUT.into()),
            }
        })
    }
}

/// Stops a server at once, unless it has been stopped, and frees its handle. Handlers that are running
/// go on; witrpc_server_close_and_wait waits for them. NULL and a freed one
/// are allowed. Never blocks; any thread, handlers too.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_free(server: *mut witrpc_server) {
    guard::value((), || {
        if let Some(server) = handle::remove::<ServerObject>(server) {
            server.abort();
        }
        None
    });
}
