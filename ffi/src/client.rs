//! Clients: connecting, states, services.

use std::ffi::{c_char, c_void};
use std::future::Future;
use std::time::Duration;

use witrpc_core::client::{Client, Service};
use witrpc_core::resilience::engine::State;
use witrpc_core::runtime::Runtime;

use crate::callback::{UserData, witrpc_destroy};
use crate::client_options::{ClientOptionsObject, limit, witrpc_client_options};
use crate::contract::{ContractObject, witrpc_contract};
use crate::error::{ErrorObject, witrpc_error};
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::library;
use crate::status::witrpc_status;
use crate::text;

/// A client. All functions may be called from any thread and from any callback.
pub struct witrpc_client {
    _private: [u8; 0],
}

/// A handle on one contract of the server that a client is connected to.
pub struct witrpc_service {
    _private: [u8; 0],
}

/// State of a client. The numbers are WitRPC's.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_state {
    /// Connected and authorised.
    WITRPC_CONNECTED = 0,
    /// Idle, and not reconnecting.
    WITRPC_DISCONNECTED = 1,
    /// Attempts in progress.
    WITRPC_RECONNECTING = 2,
    /// Attempts exhausted, or the server refused for good.
    WITRPC_FAILED = 3,
}

/// What a client has done and does. Set `struct_size` before it is filled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_client_stats {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: usize,
    /// Reconnections that succeeded.
    pub reconnects: u64,
    /// Retries of calls.
    pub retries: u64,
    /// Calls on their way now.
    pub in_flight: u64,
    /// Calls that wait for the link or for room now.
    pub queued: u64,
    /// How long the last ping and its answer took, in µs; -1 without a link, with a .NET server, and
    /// before the first answer.
    pub round_trip_us: i64,
    /// How long ago the server gave its last sign of life, in ms; -1 without a link.
    pub silence_ms: i64,
}

/// The end of an asynchronous operation without a result: `status` (witrpc_status) and, if it is
/// not WITRPC_OK, a borrowed error.
pub type witrpc_done =
    Option<unsafe extern "C" fn(user_data: *mut c_void, status: i32, error: *const witrpc_error)>;

pub(crate) struct ClientObject {
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
}

impl Object for ClientObject {
    type Opaque = witrpc_client;
    const KIND: usize = 5;
}

impl ClientObject {
    /// Waits on this thread. From a callback, others wait meanwhile.
    fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send,
        F::Output: Send,
    {
        block_on(&self.runtime, &self.client, future)
    }
}

/// Waits on this thread for something that a client does.
pub(crate) fn block_on<F>(runtime: &Runtime, client: &Client, future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    client
        .dispatcher()
        .while_waiting(|| runtime.block_on_anywhere(future))
}

pub(crate) struct ServiceObject {
    pub(crate) service: Service,
    pub(crate) runtime: Runtime,
}

impl Object for ServiceObject {
    type Opaque = witrpc_service;
    const KIND: usize = 6;
}

/// Makes a client. It is not connected yet. The options are copied: they may be changed and freed.
///
/// On success `*out` is a new handle, to be freed with witrpc_client_free. Fails with
/// WITRPC_INVALID_ARGUMENT if an option makes no sense. Does not block; any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_new(
    options: *const witrpc_client_options,
    out: *mut *mut witrpc_client,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ClientOptionsObject>(options, error, || {
            let out = guard::out(out)?;
            let options = handle::get::<ClientOptionsObject>(options)?;
            let runtime = library::client_runtime()?;
            let client = options.build(runtime.handle().clone())?;
            guard::give(out, ClientObject { client, runtime })
        }) as i32
    }
}

/// Closes a client, as witrpc_client_close, and frees its handle. Services, calls and subscriptions
/// of it may be freed before or after. NULL and a freed one are allowed. Never blocks; any thread,
/// any callback.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_free(client: *mut witrpc_client) {
    guard::value((), || {
        if let Some(client) = handle::remove::<ClientObject>(client) {
            client.client.close();
            library::freed(client.client.dispatcher().clone());
        }
        None
    });
}

/// Runs a function on a client.
unsafe fn with(
    client: *const witrpc_client,
    error: *mut *mut witrpc_error,
    f: impl FnOnce(&ClientObject) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller vouches for `error`.
    unsafe {
        guard::run::<ClientObject>(client, error, || f(&*handle::get::<ClientObject>(client)?))
            as i32
    }
}

/// Runs a function on a client that needs no error object.
fn tell(client: *const witrpc_client, f: impl FnOnce(&Client)) -> i32 {
    // SAFETY: there is no error object to write.
    unsafe {
        with(client, std::ptr::null_mut(), |object| {
            f(&object.client);
            Ok(())
        })
    }
}

/// Connects and waits until the server has authorised the client, or the attempt has failed (with
/// witrpc_client_options_reconnect_first_connect: the attempts). Connected already, it does
/// nothing.
///
/// Blocks for at most the connect timeout of each attempt. Any thread; from a callback, later
/// callbacks wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_connect(
    client: *const witrpc_client,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(client, error, |object| {
            Ok(object.block_on(object.client.connect())?)
        })
    }
}

/// Tells the end of an asynchronous operation, on the callback thread.
pub(crate) fn report(
    done: unsafe extern "C" fn(*mut c_void, i32, *const witrpc_error),
    user_data: &UserData,
    result: witrpc_core::Result<()>,
) {
    let (status, error) = match result {
        Ok(()) => (witrpc_status::WITRPC_OK, std::ptr::null_mut()),
        Err(error) => {
            let status = error.code().into();
            (status, handle::insert(ErrorObject::new(error)))
        }
    };
    // SAFETY: the caller gave the function together with the user data.
    unsafe { done(user_data.pointer(), status as i32, error) };
    drop(handle::remove::<ErrorObject>(error));
}

/// Connects without waiting. `done` is called exactly once, on the callback thread, never inside
/// this function; then `destroy` (may be NULL) with the user data. If this function fails, `done` is
/// not called, and `destroy` is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_connect_start(
    client: *const witrpc_client,
    done: witrpc_done,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(client, error, |object| {
            let done = done.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            let user_data = user_data.registered_on(object.client.dispatcher());
            let client = object.client.clone();
            object.runtime.handle().spawn(async move {
                let result = client.connect().await;
                client
                    .dispatcher()
                    .post(move || report(done, &user_data, result));
            });
            object.runtime.kick();
            Ok(())
        })
    }
}

/// Drops the link, if there is one, connects anew without a delay, and waits for the end of that.
/// With automatic reconnection, failures go on as its loop; without, the client is Failed.
///
/// Blocks as witrpc_client_connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_reconnect(
    client: *const witrpc_client,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(client, error, |object| {
            Ok(object.block_on(object.client.reconnect())?)
        })
    }
}

/// Ends the wait before the next attempt to reconnect; does nothing else. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_reconnect_now(client: *const witrpc_client) -> i32 {
    tell(client, Client::reconnect_now)
}

/// Ends attempts to reconnect in progress: the client is Disconnected, and on_reconnection_failed is
/// not called. Elsewhere it does nothing. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_stop_reconnection(client: *const witrpc_client) -> i32 {
    tell(client, Client::stop_reconnection)
}

/// Drops the link and stays without one until witrpc_client_connect. Never starts to reconnect.
/// Calls under way end with WITRPC_CLOSED. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_disconnect(client: *const witrpc_client) -> i32 {
    tell(client, Client::disconnect)
}

/// Disconnects for good: calls under way end with WITRPC_CLOSED, and so does what is asked of the
/// client from now on. Never blocks: callbacks that are running or queued may still be called
/// after it has returned.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_close(client: *const witrpc_client) -> i32 {
    tell(client, Client::close)
}

/// Closes a client and waits until the last callback has returned. WITRPC_TIMEOUT if that took
/// longer than `timeout_ms` (the client is closed all the same); WITRPC_WOULD_DEADLOCK, without
/// waiting, from a callback of this client.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_close_and_wait(
    client: *const witrpc_client,
    timeout_ms: u64,
) -> i32 {
    // SAFETY: there is no error object to write.
    unsafe {
        with(client, std::ptr::null_mut(), |object| {
            object.client.close();
            let dispatcher = object.client.dispatcher();
            if dispatcher.is_current() {
                return Err(witrpc_status::WITRPC_WOULD_DEADLOCK.into());
            }
            if dispatcher.wait_idle(limit(timeout_ms).unwrap_or(Duration::MAX)) {
                Ok(())
            } else {
                Err(witrpc_status::WITRPC_TIMEOUT.into())
            }
        })
    }
}

/// The state now (witrpc_state); -1 for a bad handle. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_state(client: *const witrpc_client) -> i32 {
    guard::value(-1, || {
        Some(handle::get::<ClientObject>(client).ok()?.client.state() as i32)
    })
}

/// Waits until the client is in a state (witrpc_state), for at most `timeout_ms` (or
/// WITRPC_NO_TIMEOUT). WITRPC_TIMEOUT if it was not.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_wait_state(
    client: *const witrpc_client,
    state: i32,
    timeout_ms: u64,
) -> i32 {
    // SAFETY: there is no error object to write.
    unsafe {
        with(client, std::ptr::null_mut(), |object| {
            let state = match state {
                0 => State::Connected,
                1 => State::Disconnected,
                2 => State::Reconnecting,
                3 => State::Failed,
                _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
            };
            let wait = object.client.wait_for(state);
            object.block_on(async {
                match limit(timeout_ms) {
                    None => Ok(wait.await?),
                    Some(limit) => match tokio::time::timeout(limit, wait).await {
                        Ok(result) => Ok(result?),
                        Err(_) => Err(witrpc_status::WITRPC_TIMEOUT.into()),
                    },
                }
            })
        })
    }
}

/// What the client has done and does. Set `stats->struct_size` first. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_stats_get(
    client: *const witrpc_client,
    stats: *mut witrpc_client_stats,
) -> i32 {
    // SAFETY: there is no error object to write.
    unsafe {
        with(client, std::ptr::null_mut(), |object| {
            let now = object.client.stats();
            let filled = witrpc_client_stats {
                struct_size: 0,
                reconnects: now.reconnects,
                retries: now.retries,
                in_flight: now.in_flight as u64,
                queued: now.queued as u64,
                round_trip_us: or_minus_one(now.round_trip.map(|time| time.as_micros())),
                silence_ms: or_minus_one(object.client.silence().map(|time| time.as_millis())),
            };
            // SAFETY: the header demands a valid pointer to a struct that says its size.
            guard::fill(stats, filled)
        })
    }
}

fn or_minus_one(value: Option<u128>) -> i64 {
    value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX))
}

/// Why the last link or attempt to connect failed: a new error object, to be freed; NULL if nothing
/// has failed yet. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_last_failure(client: *const witrpc_client) -> *mut witrpc_error {
    guard::value(std::ptr::null_mut(), || {
        let failure = handle::get::<ClientObject>(client)
            .ok()?
            .client
            .last_failure()?;
        Some(handle::insert(ErrorObject::new(failure)))
    })
}

/// A service by the name of its contract, as "Demo.IEcho" (`size` in bytes), without declarations:
/// methods and events are given as lines, and types that are not built in are known by name only.
///
/// On success `*out` is a new handle, to be freed with witrpc_service_free. Nothing is sent. Never
/// blocks; any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_service_n(
    client: *const witrpc_client,
    contract: *const c_char,
    size: usize,
    out: *mut *mut witrpc_service,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(client, error, |object| {
            open_service(object, text::sized(contract, size, "contract")?, out)
        })
    }
}

/// The same with a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_service(
    client: *const witrpc_client,
    contract: *const c_char,
    out: *mut *mut witrpc_service,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(client, error, |object| {
            open_service(object, text::terminated(contract, "contract")?, out)
        })
    }
}

unsafe fn open_service(
    object: &ClientObject,
    contract: &str,
    out: *mut *mut witrpc_service,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for `out`.
    unsafe {
        let out = guard::out(out)?;
        let service = object.client.service(contract)?;
        guard::give(
            out,
            ServiceObject {
                service,
                runtime: object.runtime.clone(),
            },
        )
    }
}

/// A service whose contract declares its methods, events and types. As witrpc_client_service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_service_of(
    client: *const witrpc_client,
    contract: *const witrpc_contract,
    out: *mut *mut witrpc_service,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(client, error, |object| {
            let out = guard::out(out)?;
            let contract = handle::get::<ContractObject>(contract)?;
            let service = object.client.service_of(contract.0.clone());
            guard::give(
                out,
                ServiceObject {
                    service,
                    runtime: object.runtime.clone(),
                },
            )
        })
    }
}

/// Frees a service handle. Calls under way go on. NULL and a freed one are allowed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_service_free(service: *mut witrpc_service) {
    guard::value((), || {
        drop(handle::remove::<ServiceObject>(service));
        None
    });
}
