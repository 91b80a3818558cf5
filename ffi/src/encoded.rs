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
use crate::publish;
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
            let user_data = user_data.registered_on(object.service.client().dispatcher());
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

/// Whom an event goes to.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_audience {
    /// All clients that are connected and authorised.
    WITRPC_TO_ALL = 0,
    /// One connection.
    WITRPC_TO_CONNECTION = 1,
    /// All clients but one connection.
    WITRPC_TO_OTHERS = 2,
    /// The connections that are in a group now.
    WITRPC_TO_GROUP = 3,
    /// All connections of one principal, as the token validator named it at the handshake.
    WITRPC_TO_PRINCIPAL = 4,
}

/// As witrpc_server_raise with `count` arguments that are encoded by the server's codec (an empty
/// one is null), to an audience (witrpc_audience): `connection` is the 16 bytes of the id of the
/// connection that it names, `name` (NUL-terminated) the group or principal; either is ignored where
/// the audience has none. `*clients` (may be NULL) is how many connections were meant; 0 is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_raise_encoded(
    server: *const witrpc_server,
    audience: i32,
    connection: *const u8,
    name: *const c_char,
    contract: *const c_char,
    event: *const c_char,
    arguments: *const witrpc_bytes,
    count: usize,
    clients: *mut usize,
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
            let all = &object.publisher;
            let publisher = match audience {
                0 => all.to_all(),
                1 => all.to_connection(publish::id(connection)?),
                2 => all.to_all_except(&[publish::id(connection)?]),
                3 => all.to_group(text::terminated(name, "group")?),
                4 => all.to_principal(text::terminated(name, "principal")?),
                _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
            };
            let meant = publisher.raise_blobs(contract, event, &blobs)?;
            if !clients.is_null() {
                *clients = meant;
            }
            Ok(())
        }) as i32
    }
}
