//! Error objects.

use std::ffi::{CString, c_char};
use std::ptr::null;

use witrpc_core::Error;

use crate::guard;
use crate::handle::{self, Object};
use crate::text::c_string;

/// Why something failed: code, message, details, what is known of the outcome. Owned by whoever
/// got it; free it with witrpc_error_free. Errors that a callback is given are borrowed until it
/// returns.
pub struct witrpc_error {
    _private: [u8; 0],
}

/// What is known about a call that failed.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_outcome {
    /// The request did not leave this machine: the method did not run.
    WITRPC_NOT_SENT = 0,
    /// The request was sent and no answer came: the method may have run.
    WITRPC_UNKNOWN = 1,
    /// The server answered.
    WITRPC_ANSWERED = 2,
}

pub(crate) struct ErrorObject {
    pub(crate) error: Error,
    message: CString,
    details: Option<CString>,
    name: CString,
}

impl Object for ErrorObject {
    type Opaque = witrpc_error;
    const KIND: usize = 1;
}

impl ErrorObject {
    pub(crate) fn new(error: Error) -> Self {
        Self {
            message: c_string(error.message()),
            details: error.details().map(c_string),
            name: c_string(error.code().name()),
            error,
        }
    }
}

pub(crate) fn look<R>(
    error: *const witrpc_error,
    fallback: R,
    f: impl FnOnce(&ErrorObject) -> R,
) -> R {
    guard::value(fallback, || {
        Some(f(&*handle::get::<ErrorObject>(error).ok()?))
    })
}

/// The status that the error stands for (witrpc_status); WITRPC_INVALID_HANDLE for a bad handle.
/// Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_code(error: *const witrpc_error) -> i32 {
    look(error, 15, |e| e.error.code() as i32)
}

/// The stable name of the code, as "timeout". NUL-terminated, valid until the error is freed; NULL
/// for a bad handle. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_name(error: *const witrpc_error) -> *const c_char {
    look(error, null(), |e| e.name.as_ptr())
}

/// What happened, in words: for a remote failure the server's error message. UTF-8,
/// NUL-terminated, valid until the error is freed; NULL for a bad handle. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_message(error: *const witrpc_error) -> *const c_char {
    look(error, null(), |e| e.message.as_ptr())
}

/// What lies behind it: for a remote failure the message of the exception, for others the
/// underlying cause. UTF-8, NUL-terminated, valid until the error is freed; NULL if there is none.
/// Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_details(error: *const witrpc_error) -> *const c_char {
    look(error, null(), |e| {
        e.details.as_ref().map_or(null(), |d| d.as_ptr())
    })
}

/// What is known about the call (witrpc_outcome); -1 for a bad handle. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_outcome(error: *const witrpc_error) -> i32 {
    look(error, -1, |e| e.error.outcome() as i32)
}

/// How many attempts were begun; 0 where the call never got that far. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_attempts(error: *const witrpc_error) -> u32 {
    look(error, 0, |e| e.error.attempts())
}

/// True if the same call may succeed later and repeating it is known not to execute it twice. Any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_retryable(error: *const witrpc_error) -> bool {
    look(error, false, |e| e.error.is_retryable())
}

/// Frees an error. NULL and a freed one are allowed. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_error_free(error: *mut witrpc_error) {
    guard::value((), || {
        drop(handle::remove::<ErrorObject>(error));
        None
    });
}
