//! Raising events to some: to one connection, to a group, to a principal; and who is in a group.

use std::ffi::c_char;

use uuid::Uuid;
use witrpc_core::server::Publisher;

use crate::error::witrpc_error;
use crate::guard::{self, Failure};
use crate::handle;
use crate::request::{RequestObject, witrpc_request};
use crate::server::{ServerObject, witrpc_server};
use crate::text;

/// Raises an event of a server and writes down how many clients were meant.
unsafe fn raise(
    server: *const witrpc_server,
    event: [*const c_char; 3],
    clients: *mut usize,
    error: *mut *mut witrpc_error,
    narrow: impl FnOnce(&Publisher) -> Result<Publisher, Failure>,
) -> i32 {
    // SAFETY: the caller vouches for all pointers.
    unsafe {
        guard::run::<ServerObject>(server, error, || {
            let object = handle::get::<ServerObject>(server)?;
            let [contract, event, arguments] = event;
            let contract = text::terminated(contract, "contract")?;
            let event = text::terminated(event, "event")?;
            let arguments = text::terminated(arguments, "arguments")?;
            let publisher = narrow(&object.publisher)?;
            let meant = publisher.raise_json(contract, event, arguments)?;
            if !clients.is_null() {
                *clients = meant;
            }
            Ok(())
        }) as i32
    }
}

/// The id of a connection.
///
/// # Safety
/// `bytes` must be NULL or point to 16 bytes.
pub(crate) unsafe fn id(bytes: *const u8) -> Result<Uuid, Failure> {
    // SAFETY: the caller vouches for 16 bytes, or NULL.
    let bytes = unsafe { text::bytes(bytes, 16) }?;
    Ok(Uuid::from_slice(bytes).unwrap_or_default())
}

/// Raises an event to one connection, by the 16 bytes of its id. As witrpc_server_raise; `*clients`
/// (may be NULL) is 1 if it is connected, else 0, which is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_raise_to_connection(
    server: *const witrpc_server,
    connection: *const u8,
    contract: *const c_char,
    event: *const c_char,
    arguments: *const c_char,
    clients: *mut usize,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        raise(
            server,
            [contract, event, arguments],
            clients,
            error,
            |all| Ok(all.to_connection(id(connection)?)),
        )
    }
}

/// Raises an event to the connections that are in a group now (its name NUL-terminated). As
/// witrpc_server_raise; `*clients` (may be NULL) is how many those are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_raise_to_group(
    server: *const witrpc_server,
    group: *const c_char,
    contract: *const c_char,
    event: *const c_char,
    arguments: *const c_char,
    clients: *mut usize,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        raise(
            server,
            [contract, event, arguments],
            clients,
            error,
            |all| Ok(all.to_group(text::terminated(group, "group")?)),
        )
    }
}

/// Raises an event to all connections of one principal (NUL-terminated), as the token validator named
/// it at the handshake. As witrpc_server_raise; `*clients` (may be NULL) is how many those are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_raise_to_principal(
    server: *const witrpc_server,
    principal: *const c_char,
    contract: *const c_char,
    event: *const c_char,
    arguments: *const c_char,
    clients: *mut usize,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        raise(
            server,
            [contract, event, arguments],
            clients,
            error,
            |all| Ok(all.to_principal(text::terminated(principal, "principal")?)),
        )
    }
}

/// Puts a connection (the 16 bytes of its id) into a group (NUL-terminated), until it ends. A
/// connection that is gone is no error. A client that reconnects is in no group.
/// WITRPC_OVERLOADED if it is in 1,024 groups. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_group_add(
    server: *const witrpc_server,
    connection: *const u8,
    group: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServerObject>(server, error, || {
            let object = handle::get::<ServerObject>(server)?;
            let (id, group) = (id(connection)?, text::terminated(group, "group")?);
            object.publisher.groups().add(id, group)?;
            Ok(())
        }) as i32
    }
}

/// Takes a connection out of a group, if it is in it. As witrpc_server_group_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_group_remove(
    server: *const witrpc_server,
    connection: *const u8,
    group: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ServerObject>(server, error, || {
            let object = handle::get::<ServerObject>(server)?;
            let (id, group) = (id(connection)?, text::terminated(group, "group")?);
            object.publisher.groups().remove(id, group);
            Ok(())
        }) as i32
    }
}

unsafe fn with(
    request: *const witrpc_request,
    error: *mut *mut witrpc_error,
    f: impl FnOnce(&RequestObject) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller vouches for `error`.
    unsafe {
        guard::run::<RequestObject>(request, error, || {
            f(&*handle::get::<RequestObject>(request)?)
        }) as i32
    }
}

/// Raises an event of the request's contract.
unsafe fn raise_from(
    request: &RequestObject,
    to: &Publisher,
    event: *const c_char,
    arguments: *const c_char,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        let event = text::terminated(event, "event")?;
        let arguments = text::terminated(arguments, "arguments")?;
        let contract = request.context.method().contract_name();
        to.raise_json(contract, event, arguments)?;
        Ok(())
    }
}

/// Raises an event to the connection that the call came on, and to no other. As witrpc_request_raise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_raise_to_caller(
    request: *const witrpc_request,
    event: *const c_char,
    arguments: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(request, error, |request| {
            raise_from(request, &request.context.caller(), event, arguments)
        })
    }
}

/// Raises an event to all but the connection that the call came on. As witrpc_request_raise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_raise_to_others(
    request: *const witrpc_request,
    event: *const c_char,
    arguments: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(request, error, |request| {
            raise_from(request, &request.context.others(), event, arguments)
        })
    }
}

/// Raises an event to the connections that are in a group now (its name NUL-terminated). As
/// witrpc_request_raise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_raise_to_group(
    request: *const witrpc_request,
    group: *const c_char,
    event: *const c_char,
    arguments: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(request, error, |request| {
            let group = text::terminated(group, "group")?;
            let to = request.context.publisher().to_group(group);
            raise_from(request, &to, event, arguments)
        })
    }
}

/// Writes the 16 bytes of the id of the connection that the call came on to `id`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_connection(
    request: *const witrpc_request,
    id: *mut u8,
) -> i32 {
    // SAFETY: the header demands room for 16 bytes; there is no error object.
    unsafe {
        with(request, std::ptr::null_mut(), |request| {
            text::give_id(request.context.connection(), id)
        })
    }
}

/// Puts the connection that the call came on into a group (NUL-terminated), until it ends. Nothing
/// happens if it has. WITRPC_OVERLOADED if it is in 1,024 groups. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_join(
    request: *const witrpc_request,
    group: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(request, error, |request| {
            Ok(request.context.join(text::terminated(group, "group")?)?)
        })
    }
}

/// Takes the connection that the call came on out of a group, if it is in it. As
/// witrpc_request_join.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_request_leave(
    request: *const witrpc_request,
    group: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        with(request, error, |request| {
            request.context.leave(text::terminated(group, "group")?);
            Ok(())
        })
    }
}
