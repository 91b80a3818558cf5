//! A call as its handler in a C server sees it.

use std::ffi::{CString, c_char};
use std::ptr::null;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use witrpc_core::Error;
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

/// Arguments in the form that the handler asked for.
pub(crate) enum Arguments {
    Json(CString),
    Encoded(Vec<Bytes>),
}

/// What a call fails with whose request was freed.
pub(crate) const NO_ANSWER: &str = "The handler gave no answer";

/// A result, in the form of the arguments.
pub(crate) enum Reply {
    Json(String),
    Encoded(Bytes),
}

impl Reply {
    /// As JSON text, for a handler that was given JSON.
    pub(crate) fn into_json(self) -> String {
        match self {
            Self::Json(json) => json,
            Self::Encoded(_) => "null".into(),
        }
    }

    /// As a blob, for a handler that was given blobs.
    pub(crate) fn into_blob(self) -> Option<Bytes> {
        match self {
            Self::Encoded(blob) if !blob.is_empty() => Some(blob),
            _ => None,
        }
    }
}

pub(crate) type Answer = Result<Reply, Fault>;

pub(crate) struct RequestObject {
    pub(crate) context: CallContext,
    method: CString,
    pub(crate) type_arguments: Vec<CString>,
    arguments: Arguments,
    principal: CString,
    peer: CString,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl Object for RequestObject {
    type Opaque = witrpc_request;
    const KIND: usize = 11;
}

impl RequestObject {
    pub(crate) fn new(
        context: CallContext,
        arguments: Arguments,
        answer: oneshot::Sender<Answer>,
    ) -> Self {
        Self {
            method: c_string(context.method().name()),
            type_arguments: type_arguments(context.method()),
            arguments,
            principal: c_string(context.principal()),
            peer: c_string(&context.peer().to_string()),
            answer: Mutex::new(Some(answer)),
            context,
        }
    }

    /// The encoded arguments; `None` if the handler gets JSON text.
    pub(crate) fn encoded(&self) -> Option<&[Bytes]> {
        match &self.arguments {
            Arguments::Encoded(blobs) => Some(blobs),
            Arguments::Json(_) => None,
        }
    }

    pub(crate) fn context(&self) -> &CallContext {
        &self.context
    }

    pub(crate) fn end(&self, answer: Answer) {
        if let Some(sender) = self.answer.lock().take() {
            // Nobody waits any more if the server has been stopped.
            let _ = sender.send(answer);
        }
    }
}

impl Drop for RequestObject {
    fn drop(&mut self) {
        self.end(Err(Fault::new(NO_ANSWER)));
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
/// handle, and for a handler of encoded arguments (see witrpc_request_argument).
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_arguments(request: *const witrpc_request) -> *const c_char {
    look(request, null(), |r| match &r.arguments {
        Arguments::Json(json) => json.as_ptr(),
        Arguments::Encoded(_) => null(),
    })
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
pub(crate) unsafe fn end(
    request: *mut witrpc_request,
    error: *mut *mut witrpc_error,
    answer: impl FnOnce(&RequestObject) -> Result<Answer, Failure>,
) -> i32 {
    // SAFETY: the caller vouches for `error`.
    unsafe {
        guard::run::<RequestObject>(request, error, || {
            let answer = answer(&*handle::get::<RequestObject>(request)?)?;
            if let Some(request) = handle::remove::<RequestObject>(request) {
                request.end(answer);
            }
            Ok(())
        }) as i32
    }
}

fn json(object: &RequestObject, result: &str) -> Result<Answer, Failure> {
    if object.encoded().is_some() {
        let message =
            "the handler gets encoded arguments: answer with witrpc_request_reply_encoded";
        return Err(Error::invalid_argument(message).into());
    }
    Ok(Ok(Reply::Json(result.to_owned())))
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
        end(request, error, |object| {
            let result = match text::sized(result, size, "result")? {
                "" => "null",
                result => result,
            };
            json(object, result)
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
        end(request, error, |object| {
            let result = match result.is_null() {
                true => "null",
                false => text::terminated(result, "result")?,
            };
            json(object, result)
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
        end(request, error, |_| {
            let details = match details.is_null() {
                true => "",
                false => text::terminated(details, "details")?,
            };
            Ok(Err(Fault::new(details)))
        })
    }
}

/// Refuses the call, because it makes no sense: the caller sees status 400 with `message`
/// (NUL-terminated), as for an argument that can't be decoded. Ends the request: the handle is
/// freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_refuse(
    request: *mut witrpc_request,
    message: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        end(request, error, |_| {
            let message = text::terminated(message, "message")?;
            Ok(Err(Fault::bad_request(message)))
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
