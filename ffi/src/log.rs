//! What the library has to say, told to a function of the caller's.

use std::ffi::{c_char, c_void};

use witrpc_core::log::{self, Level};

use crate::callback::{UserData, witrpc_destroy};
use crate::error::witrpc_error;
use crate::guard;
use crate::server::ServerObject;
use crate::status::witrpc_status;
use crate::text::c_string;

/// How much a record matters. Numbers never change.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_log_level {
    /// What should not happen.
    WITRPC_LOG_ERROR = 1,
    /// What a user may want to mend.
    WITRPC_LOG_WARN = 2,
    /// Connections come and go.
    WITRPC_LOG_INFO = 3,
    /// Retries, single connections.
    WITRPC_LOG_DEBUG = 4,
    /// Everything.
    WITRPC_LOG_TRACE = 5,
}

/// A record: its level (witrpc_log_level), which part of the library says it, and the text; both
/// NUL-terminated, valid until the callback returns. Runs on a thread of its own, in order.
pub type witrpc_log = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        level: i32,
        target: *const c_char,
        message: *const c_char,
    ),
>;

/// Has what the library says at `level` (witrpc_log_level) and above told to a function; it replaces the
/// one before. No token, key or argument is ever in it. While 1,024 records wait for the function, more
/// are dropped and counted.
///
/// `destroy` (may be NULL) is called with `user_data` exactly once, after the last record, also when this
/// function fails. Default: nothing is told. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_log_to(
    level: i32,
    function: witrpc_log,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServerObject>(std::ptr::null(), error, || {
            let function = function.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            let level = match level {
                1 => Level::Error,
                2 => Level::Warn,
                3 => Level::Info,
                4 => Level::Debug,
                5 => Level::Trace,
                _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
            };
            let user_data = user_data.registered();
            log::to_function(level, move |record| {
                let (target, message) = (c_string(record.target), c_string(&record.message));
                // SAFETY: the caller gave the function together with the user data; the texts
                // outlive the call.
                function(
                    user_data.pointer(),
                    record.level as i32,
                    target.as_ptr(),
                    message.as_ptr(),
                );
            })?;
            Ok(())
        }) as i32
    }
}

/// Tells nobody any more; what waits is still told. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_log_off() {
    guard::value((), || {
        log::off();
        None
    });
}

/// Records that were dropped because the function was too slow.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_log_dropped() -> u64 {
    guard::value(0, || Some(log::dropped()))
}
