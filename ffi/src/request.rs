//! A call as its handler in a C server sees it.

use std::ffi::{CString, c_char};
use std::ptr::null;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use witrpc_core::server::{CallContext, Fault};

use crate::error::witrpc_error;
use crate::guard::{self, Failure};
use crate::handle::{self, Object};
use crate::naming::type_arguments;
use crate::text::{self, c_string};

/// A call to be answered. The handler owns it: it must end it with witrpc_request_reply or
/// witrpc_request_fail, now or later, on any thread. Freeing it without an answer fails the call.
pub struct witrpc_request {
    _private: [u8; 0],
}

pub(crate) struct RequestObject {
    pub(crate) context: CallContext,
    method: CString,
    pub(crate) type_arguments: Vec<CString>,
    arguments: CString,
    principal: CString,
    peer: CString,
    answer: Mutex<Option<oneshot::Sender<Result<String, Fault>>>>,
}

impl Object for RequestObject {
    type Opaque = witrpc_request;
    const KIND: usize = 11;
}

impl RequestObject {
    pub(crate) fn new(
        context: CallContext,
        arguments: &str,
        answer: oneshot::Sender<Result<String, Fault>>,
    ) -> Self {
        Self {
            method: c_string(context.method().name()),
            type_arguments: type_arguments(context.method()),
            arguments: c_string(arguments),
            principal: c_string(context.principal()),
            peer: c_string(&context.peer().to_string()),
            answer: Mutex::new(Some(answer)),
            context,
        }
    }

    pub(crate) fn context(&self) -> &CallContext {
        &self.context
    }

    pub(crate) fn end(&self, answer: Result<String, Fault>) {
        if let Some(sender) = self.answer.lock().take() {
            // Nobody waits any more if the server has been stopped.
            let _ = sender.send(answer);
        }
    }
}

impl Drop for RequestObject {
    fn drop(&mut self) {
        self.end(Err(Fault::new("The handler gave no answer")));
    }
}

pub(crate) fn look<R>(
    request: *const witrpc_request,
    fallback: R,
    f: impl FnOnce(&RequestObject) -> R,
) -> R {
    guard::value(fallback, || {
        Some(f(&*handle::get::<RequestObject>(request).ok()?))
    })
}

/// Name of the method, NUL-terminated, valid until the request is ended; NULL for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_method(request: *const witrpc_request) -> *const c_char {
    look(request, null(), |r| r.method.as_ptr())
}

/// The arguments as a JSON array, NUL-terminated, valid until the request is ended; NULL for a bad
/// handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_arguments(request: *const witrpc_request) -> *const c_char {
    look(request, null(), |r| r.arguments.as_ptr())
}

/// Who calls, as the token validator said; empty without one. NUL-terminated, valid until the
/// request is ended; NULL for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_principal(request: *const witrpc_request) -> *const c_char {
    look(request, null(), |r| r.principal.as_ptr())
}

/// Address and port of the client, NUL-terminated, valid until the request is ended; NULL for a bad
/// handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_peer(request: *const witrpc_request) -> *const c_char {
    look(request, null(), |r| r.peer.as_ptr())
}

/// The call's id, stable over its attempts: writes 16 bytes to `id`, in the order in which a UUID is
/// printed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_invocation_id(
    request: *const witrpc_request,
    id: *mut u8,
) -> i32 {
    // SAFETY: the header demands room for 16 bytes; there is no error object.
    unsafe {
        guard::run::<RequestObject>(request, std::ptr::null_mut(), || {
            let request = handle::get::<RequestObject>(request)?;
            text::give_id(request.context.invocation_id(), id)
        }) as i32
    }
}

/// Ends a request, and its handle, with an answer.
unsafe fn end(
    request: *mut witrpc_request,
    error: *mut *mut witrpc_error,
    answer: impl FnOnce() -> Result<Result<String, Fault>, Failure>,
) -> i32 {
    // SAFETY: the caller vouches for `error`.
    unsafe {
        guard::run::<RequestObject>(request, error, || {
            handle::get::<RequestObject>(request)?;
            let answer = answer()?;
            if let Some(request) = handle::remove::<RequestObject>(request) {
                request.end(answer);
            }
            Ok(())
        }) as i32
    }
}

/// Answers with a result as JSON text, `size` bytes ("null" or size 0 for void), and ends the
/// request: the handle is freed. A text that does not fit the method's return type makes the call
/// fail with a message that says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_reply_n(
    request: *mut witrpc_request,
    result: *const c_char,
    size: usize,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        end(request, error, || {
            let result = match text::sized(result, size, "result")? {
                "" => "null",
                result => result,
            };
            Ok(Ok(result.to_owned()))
        })
    }
}

/// The same with a NUL-terminated text; NULL for void.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_reply(
    request: *mut witrpc_request,
    result: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        end(request, error, || {
            let result = match result.is_null() {
                true => "null",
                false => text::terminated(result, "result")?,
            };
            Ok(Ok(result.to_owned()))
        })
    }
}

/// Fails the call: the caller sees status 500 with `details` (NUL-terminated, may be NULL) as the
/// message of the exception. Ends the request: the handle is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_fail(
    request: *mut witrpc_request,
    details: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        end(request, error, || {
            let details = match details.is_null() {
                true => "",
                false => text::terminated(details, "details")?,
            };
            Ok(Err(Fault::new(details)))
        })
    }
}

/// Raises an event of the request's contract to all clients: each gets it before the answer of this
/// call. `event` is a line or a listed name, `arguments` a JSON array, both NUL-terminated. Never
/// blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_raise(
    request: *const witrpc_request,
    event: *const c_char,
    arguments: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<RequestObject>(request, error, || {
            let object = handle::get::<RequestObject>(request)?;
            let event = text::terminated(event, "event")?;
            let arguments = text::terminated(arguments, "arguments")?;
            let contract = object.context.method().contract_name();
            let publisher = object.context.publisher();
            publisher.raise_json(contract, event, arguments)?;
            Ok(())
        }) as i32
    }
}

/// Frees a request; without an answer the call fails. NULL and an ended one are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_free(request: *mut witrpc_request) {
    guard::value((), || {
        drop(handle::remove::<RequestObject>(request));
        None
    });
}
