//! What two libwitrpc peers do beyond WitRPC: pings, trace context, remaining time, cancellation.

use std::ffi::c_char;
use std::future::Future;
use std::ptr::null;
use std::time::Duration;

use witrpc_core::Error;
use witrpc_core::session::KeepAliveOptions;

use crate::call::{CallOptionsObject, witrpc_call_options};
use crate::client_options::{change as change_client, limit, millis, witrpc_client_options};
use crate::error::{look, witrpc_error};
use crate::guard::{self, Failure};
use crate::handle;
use crate::library;
use crate::request::{RequestObject, look as look_at, witrpc_request};
use crate::server_options::{change as change_server, witrpc_server_options};
use crate::status::{WITRPC_NO_TIMEOUT, witrpc_status};
use crate::text;

fn keep_alive(interval_ms: u64, timeout_ms: u64) -> Option<KeepAliveOptions> {
    limit(interval_ms).map(|interval| KeepAliveOptions {
        interval,
        timeout: Duration::from_millis(timeout_ms),
    })
}

/// How the death of a libwitrpc server is noticed that the network does not tell of, a frozen process
/// for instance: silence before a ping in ms (WITRPC_NO_TIMEOUT = no pings, and no round-trip time),
/// and silence after it until the link is dead. Neither may be 0. Default 15,000 and 20,000. A .NET
/// server knows no ping.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_ping(
    options: *mut witrpc_client_options,
    interval_ms: u64,
    timeout_ms: u64,
) -> i32 {
    change_client(options, |o| {
        o.keep_alive = keep_alive(interval_ms, timeout_ms);
        Ok(())
    })
}

/// The same for libwitrpc clients of a server. Default 15,000 and 20,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_ping(
    options: *mut witrpc_server_options,
    interval_ms: u64,
    timeout_ms: u64,
) -> i32 {
    change_server(options, |o| {
        o.limits.keep_alive = keep_alive(interval_ms, timeout_ms);
        Ok(())
    })
}

/// How long libwitrpc clients that are refused for load are told to wait before another try, in ms.
/// Default 1,000.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_retry_after_ms(
    options: *mut witrpc_server_options,
    ms: u64,
) -> i32 {
    change_server(options, |o| {
        o.limits.retry_after = Duration::from_millis(ms);
        Ok(())
    })
}

/// How long the server asks to wait before another try, in ms; WITRPC_NO_TIMEOUT if it did not say.
/// A retry policy waits at least that long. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_retry_after_ms(error: *const witrpc_error) -> u64 {
    look(error, WITRPC_NO_TIMEOUT, |e| {
        e.error
            .retry_after_ms()
            .map_or(WITRPC_NO_TIMEOUT, u64::from)
    })
}

/// What the tracing of a libwitrpc server's handler is to know, as W3C's traceparent: `size` bytes,
/// at most 1,024, opaque to this library. Size 0 = nothing. WITRPC_INVALID_ARGUMENT if it is longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_call_options_trace_context_n(
    options: *mut witrpc_call_options,
    context: *const c_char,
    size: usize,
) -> i32 {
    // SAFETY: the header demands a valid pointer.
    set_trace_context(options, || unsafe { text::bytes(context.cast(), size) })
}

/// The same with a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_call_options_trace_context(
    options: *mut witrpc_call_options,
    context: *const c_char,
) -> i32 {
    set_trace_context(options, || {
        // SAFETY: the header demands a valid pointer.
        Ok(unsafe { text::terminated(context, "context") }?.as_bytes())
    })
}

fn set_trace_context<'a>(
    options: *mut witrpc_call_options,
    context: impl FnOnce() -> Result<&'a [u8], Failure>,
) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<CallOptionsObject>(options, std::ptr::null_mut(), || {
            let object = handle::get::<CallOptionsObject>(options)?;
            let context = context()?;
            if context.len() > witrpc_core::wire::extension::MAX_TRACE_CONTEXT {
                return Err(Error::invalid_argument("the trace context is too long").into());
            }
            object.set_trace_context((!context.is_empty()).then(|| context.into()));
            Ok(())
        })
    };
    status as i32
}

/// True once all who waited for the answer of a call have taken it back (cancelled it, or given up):
/// what its handler comes to is of no use to anybody. A handler that takes long should look now and
/// then. Only libwitrpc clients take calls back. False for a bad handle. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_is_cancelled(request: *const witrpc_request) -> bool {
    look_at(request, false, |r| {
        r.context().cancellation().is_cancelled()
    })
}

/// Waits until a call has been taken back, for at most `timeout_ms` (or WITRPC_NO_TIMEOUT).
/// WITRPC_TIMEOUT if it was not. The request may be ended by another thread meanwhile. Blocks; on the
/// handler's thread or one of your own, not on one that must not block.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_wait_cancelled(
    request: *const witrpc_request,
    timeout_ms: u64,
) -> i32 {
    // SAFETY: there is no error object.
    let status = unsafe {
        guard::run::<RequestObject>(request, std::ptr::null_mut(), || {
            let token = {
                let request = handle::get::<RequestObject>(request)?;
                request.context().cancellation().clone()
            };
            match wait(token.cancelled(), limit(timeout_ms))? {
                true => Ok(()),
                false => Err(witrpc_status::WITRPC_TIMEOUT.into()),
            }
        })
    };
    status as i32
}

/// False if it did not come in time.
fn wait(event: impl Future<Output = ()> + Send, limit: Option<Duration>) -> Result<bool, Failure> {
    Ok(library::wait_for_server(async {
        match limit {
            None => {
                event.await;
                true
            }
            Some(limit) => tokio::time::timeout(limit, event).await.is_ok(),
        }
    })?)
}

/// How long the caller of a call still waits, in ms: 0 once its time is over; WITRPC_NO_TIMEOUT if it
/// told nothing (a .NET client never does), and for a bad handle. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_remaining_ms(request: *const witrpc_request) -> u64 {
    look_at(request, WITRPC_NO_TIMEOUT, |r| {
        r.context().remaining().map_or(WITRPC_NO_TIMEOUT, millis)
    })
}

/// What the caller's tracing wants to be known, as W3C's traceparent: writes its size in bytes to
/// `*size` (may be NULL) and returns it, valid until the request is ended; it is not NUL-terminated.
/// NULL and size 0 if there is none, and for a bad handle. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_trace_context(
    request: *const witrpc_request,
    size: *mut usize,
) -> *const u8 {
    let (context, length) = look_at(request, (null(), 0), |r| {
        let context = r.context().trace_context();
        context.map_or((null(), 0), |bytes| (bytes.as_ptr(), bytes.len()))
    });
    if !size.is_null() {
        // SAFETY: not null, and the header demands a valid pointer.
        unsafe { size.write(length) };
    }
    context
}
