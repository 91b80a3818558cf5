//! Arguments and results that the caller encodes and decodes itself: events, requests, raising.
//! (Calls are in `call`.)

use std::ffi::{c_char, c_void};
use std::ptr::null;

use bytes::Bytes;
use witrpc_core::Error;

use crate::call::{blobs, witrpc_bytes};
use crate::callback::{UserData, witrpc_destroy};
use crate::client::{ServiceObject, witrpc_service};
use crate::error::witrpc_error;
use crate::event::{SubscriptionObject, witrpc_subscription};
use crate::guard;
use crate::handle;
use crate::request::{Reply, end, look, witrpc_request};
use crate::server::{ServerObject, witrpc_server};
use crate::status::witrpc_status;
use crate::text;

/// An event happened. `arguments` are `count` encoded arguments, an empty one is null; all are
/// borrowed until the callback returns.
pub type witrpc_encoded_event_handler = Option<
    unsafe extern "C" fn(user_data: *mut c_void, arguments: *const witrpc_bytes, count: usize),
>;

/// As witrpc_service_subscribe with a handler that gets the arguments as they came, encoded by the
/// server's codec. Nothing is checked of them, and there may be more or fewer than the event has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_service_subscribe_encoded(
    service: *const witrpc_service,
    event: *const c_char,
    size: usize,
    handler: witrpc_encoded_event_handler,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
    out: *mut *mut witrpc_subscription,
    error: *mut *mut witrpc_error,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServiceObject>(service, error, || {
            let object = handle::get::<ServiceObject>(service)?;
            let event = text::sized(event, size, "event")?;
            let out = guard::out(out)?;
            let function = handler.ok_or(witrpc_status::WITRPC_INVALID_ARGUMENT)?;
            let user_data = user_data.registered();
            let subscription = object.service.on_event(event, move |arguments| {
                let blobs = arguments.blobs();
                let lent: Vec<_> = blobs.iter().map(|blob| lend(blob)).collect();
                // SAFETY: the caller gave the function together with the user data; the blobs
                // outlive the call.
                function(user_data.pointer(), lent.as_ptr(), lent.len());
            })?;
            guard::give(out, SubscriptionObject::of_blobs(subscription))
        }) as i32
    }
}

fn lend(blob: &[u8]) -> witrpc_bytes {
    witrpc_bytes {
        data: blob.as_ptr(),
        size: blob.len(),
    }
}

/// How many encoded arguments there are; 0 for a bad handle, and for a handler of JSON text (see
/// witrpc_request_arguments).
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_request_argument_count(request: *const witrpc_request) -> usize {
    look(request, 0, |r| r.encoded().map_or(0, <[Bytes]>::len))
}

/// The `index`-th encoded argument, from 0: writes its size in bytes to `*size` and returns it,
/// valid until the request is ended. Size 0 is null. NULL, and size 0, for a bad handle, an index
/// that there is none of, and a handler of JSON text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_argument(
    request: *const witrpc_request,
    index: usize,
    size: *mut usize,
) -> *const u8 {
    if size.is_null() {
        return null();
    }
    let argument = look(request, (null(), 0), |r| {
        let blob = r.encoded().and_then(|blobs| blobs.get(index));
        blob.map_or((null(), 0), |b| (b.as_ptr(), b.len()))
    });
    // SAFETY: not null, and the header demands a valid pointer.
    unsafe { size.write(argument.1) };
    argument.0
}

/// Answers with a result that is encoded by the server's codec, `size` bytes (0 for void and null),
/// and ends the request: the handle is freed. Only for handlers of encoded arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_reply_encoded(
    request: *mut witrpc_request,
    result: *const u8,
    size: usize,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        end(request, error, |object| {
            if object.encoded().is_none() {
                let message = "the handler gets JSON text: answer with witrpc_request_reply";
                return Err(Error::invalid_argument(message).into());
            }
            let result = text::bytes(result, size)?;
            Ok(Ok(Reply::Encoded(Bytes::copy_from_slice(result))))
        })
    }
}

/// As witrpc_server_raise with `count` arguments that are encoded by the server's codec; an empty
/// one is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_raise_encoded(
    server: *const witrpc_server,
    contract: *const c_char,
    event: *const c_char,
    arguments: *const witrpc_bytes,
    count: usize,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServerObject>(server, error, || {
            let object = handle::get::<ServerObject>(server)?;
            let contract = text::terminated(contract, "contract")?;
            let event = text::terminated(event, "event")?;
            let blobs: Vec<_> = blobs(arguments, count)?
                .into_iter()
                .map(Bytes::copy_from_slice)
                .collect();
            object.publisher.raise_blobs(contract, event, &blobs)?;
            Ok(())
        }) as i32
    }
}
