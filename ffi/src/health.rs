//! Health reports of clients.

use std::time::Duration;

use witrpc_core::client::{Health, HealthStatus};

use crate::buffer::{BufferObject, witrpc_buffer};
use crate::client::{ClientObject, block_on, witrpc_client};
use crate::client_options::{limit, millis};
use crate::error::{ErrorObject, witrpc_error};
use crate::guard;
use crate::handle;
use crate::status::WITRPC_NO_TIMEOUT;

/// A verdict on a client. Numbers never change.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_health_status {
    /// Connected, initialized and authorised.
    WITRPC_HEALTHY = 0,
    /// Reconnecting: calls wait for the link.
    WITRPC_DEGRADED = 1,
    /// Failed, disconnected, or without an answer to a deep check.
    WITRPC_UNHEALTHY = 2,
}

/// A health report. Begin with WITRPC_CLIENT_HEALTH_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct witrpc_client_health {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: usize,
    /// The verdict (witrpc_health_status).
    pub status: i32,
    /// The state (witrpc_state).
    pub connection_state: i32,
    /// Time since the server's last sign of life, in ms; WITRPC_NO_TIMEOUT without a link.
    pub silence_ms: u64,
    /// Round trip of a deep check, else of the last ping, in microseconds; WITRPC_NO_TIMEOUT where
    /// none is known.
    pub round_trip_us: u64,
    /// Calls on their way now.
    pub in_flight: u64,
    /// Calls that wait for the link or for room now.
    pub queued: u64,
    /// Reconnections that succeeded.
    pub reconnects: u64,
    /// The server has answered the client's introduction on the present link.
    pub is_initialized: bool,
    /// The server has accepted the token on the present link.
    pub is_authorized: bool,
}

fn micros(time: Option<Duration>) -> u64 {
    time.map_or(WITRPC_NO_TIMEOUT, |t| {
        u64::try_from(t.as_micros()).unwrap_or(WITRPC_NO_TIMEOUT)
    })
}

fn filled(health: &Health) -> witrpc_client_health {
    let status = match health.status {
        HealthStatus::Healthy => witrpc_health_status::WITRPC_HEALTHY,
        HealthStatus::Degraded => witrpc_health_status::WITRPC_DEGRADED,
        HealthStatus::Unhealthy => witrpc_health_status::WITRPC_UNHEALTHY,
    };
    witrpc_client_health {
        struct_size: 0,
        status: status as i32,
        connection_state: health.connection_state as i32,
        silence_ms: health.silence.map_or(WITRPC_NO_TIMEOUT, millis),
        round_trip_us: micros(health.round_trip),
        in_flight: health.in_flight as u64,
        queued: health.queued as u64,
        reconnects: health.reconnects,
        is_initialized: health.is_initialized,
        is_authorized: health.is_authorized,
    }
}

/// Reports with `check`, which may wait.
unsafe fn report(
    client: *const witrpc_client,
    out: *mut witrpc_client_health,
    last_error: *mut *mut witrpc_error,
    check: impl FnOnce(&ClientObject) -> Health,
) -> i32 {
    // SAFETY: the caller vouches for the pointers; the error object is written here.
    unsafe {
        if !last_error.is_null() {
            last_error.write(std::ptr::null_mut());
        }
        guard::run::<ClientObject>(client, std::ptr::null_mut(), || {
            let object = handle::get::<ClientObject>(client)?;
            // Once before, so that a bad place is told without waiting.
            guard::fill(out, filled(&object.client.health()))?;
            let health = check(&object);
            guard::fill(out, filled(&health))?;
            if let (false, Some(error)) = (last_error.is_null(), health.last_error) {
                last_error.write(handle::insert(ErrorObject::new(error)));
            }
            Ok(())
        }) as i32
    }
}

/// Reports how a client is, as far as it knows itself: nothing is sent. `*last_error` (may be NULL) is
/// why the last link or attempt to connect failed, a new error object, or NULL. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_health_get(
    client: *const witrpc_client,
    health: *mut witrpc_client_health,
    last_error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe { report(client, health, last_error, |o| o.client.health()) }
}

/// The deep check: the report, and a round trip to the server if the client is connected (with a
/// reserved method that no server has: it executes nothing). WITRPC_UNHEALTHY in `health->status` without
/// an answer within `timeout_ms`; unless other calls are on their way to a server that answers one after
/// the other, as .NET's does: then it is no verdict. `*last_error` as above, or why there was no answer.
///
/// The status is WITRPC_OK whenever `health` was filled. Blocks for at most `timeout_ms`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_check_health(
    client: *const witrpc_client,
    timeout_ms: u64,
    health: *mut witrpc_client_health,
    last_error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        report(client, health, last_error, |object| {
            let limit = limit(timeout_ms).unwrap_or(Duration::MAX);
            let check = object.client.check_health(limit);
            block_on(&object.runtime, &object.client, check)
        })
    }
}

/// What the client is called: that of witrpc_client_options_named or witrpc_client_options_name, else
/// empty. On success `*out` is a new buffer with the text. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_client_name(
    client: *const witrpc_client,
    out: *mut *mut witrpc_buffer,
) -> i32 {
    // SAFETY: the header demands valid pointers; there is no error object.
    unsafe {
        guard::run::<ClientObject>(client, std::ptr::null_mut(), || {
            let object = handle::get::<ClientObject>(client)?;
            let out = guard::out(out)?;
            guard::give(out, BufferObject::text(object.client.name().to_owned()))
        }) as i32
    }
}
