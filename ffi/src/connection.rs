//! Connections of a server as it is told of them: who came, who left, and into which groups they are
//! put.

use std::ffi::{CString, c_char, c_void};
use std::ptr::null;
use std::sync::Arc;

use witrpc_core::server::{ConnectionContext, ServerBuilder};

use crate::callback::{UserData, witrpc_destroy};
use crate::error::witrpc_error;
use crate::guard;
use crate::handle::{self, Object};
use crate::presence::Presence;
use crate::server_options::{self, as_handler, witrpc_server_options};
use crate::status::witrpc_status;
use crate::text::{self, c_string};

/// A connection that was authorised, or has ended. Borrowed: valid until the callback that was given
/// it returns.
pub struct witrpc_connection {
    _private: [u8; 0],
}

/// A connection was authorised, and none of its calls has been read yet; or it has ended. Must not
/// block: it runs on an I/O thread, for several connections at once.
pub type witrpc_on_connection =
    Option<unsafe extern "C" fn(user_data: *mut c_void, connection: *const witrpc_connection)>;

struct ConnectionObject {
    context: ConnectionContext,
    principal: CString,
    peer: CString,
}

impl Object for ConnectionObject {
    type Opaque = witrpc_connection;
    const KIND: usize = 20;
}

/// Who is told of connections.
pub(crate) struct Watcher {
    connected: witrpc_on_connection,
    disconnected: witrpc_on_connection,
    user_data: UserData,
}

impl Watcher {
    pub(crate) fn install(
        self: Arc<Self>,
        builder: ServerBuilder,
        presence: &Arc<Presence>,
    ) -> ServerBuilder {
        let (gone, entrance, exit) = (self.clone(), presence.clone(), presence.clone());
        builder
            .on_connected(move |context| {
                entrance.run(|| self.tell(self.connected, context));
            })
            .on_disconnected(move |context| {
                exit.run(|| gone.tell(gone.disconnected, context));
            })
    }

    fn tell(&self, function: witrpc_on_connection, context: ConnectionContext) {
        let Some(function) = function else { return };
        let lent = handle::insert(ConnectionObject {
            principal: c_string(context.principal()),
            peer: c_string(&context.peer().to_string()),
            context,
        });
        // SAFETY: the caller gave the function together with the user data.
        as_handler(|| unsafe { function(self.user_data.pointer(), lent) });
        drop(handle::remove::<ConnectionObject>(lent));
    }
}

/// Tells of connections: of each that was authorised, before its first call is read (the place to
/// put it into groups), and of its end. Either function may be NULL. `destroy` (may be NULL) is
/// called with `user_data` exactly once, after the last call, also when this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_server_options_on_connection(
    options: *mut witrpc_server_options,
    connected: witrpc_on_connection,
    disconnected: witrpc_on_connection,
    user_data: *mut c_void,
    destroy: witrpc_destroy,
) -> i32 {
    let user_data = UserData::new(user_data, destroy);
    server_options::change(options, |o| {
        if connected.is_none() && disconnected.is_none() {
            return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into());
        }
        o.events.watcher = Some(Arc::new(Watcher {
            connected,
            disconnected,
            user_data: user_data.registered(),
        }));
        Ok(())
    })
}

fn look<R>(
    connection: *const witrpc_connection,
    fallback: R,
    f: impl FnOnce(&ConnectionObject) -> R,
) -> R {
    guard::value(fallback, || {
        Some(f(&*handle::get::<ConnectionObject>(connection).ok()?))
    })
}

/// Writes the 16 bytes of the connection's id to `id`, by which it can be sent events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_connection_id(
    connection: *const witrpc_connection,
    id: *mut u8,
) -> i32 {
    // SAFETY: the header demands room for 16 bytes; there is no error object.
    unsafe {
        guard::run::<ConnectionObject>(connection, std::ptr::null_mut(), || {
            let connection = handle::get::<ConnectionObject>(connection)?;
            text::give_id(connection.context.connection(), id)
        }) as i32
    }
}

/// Who the client is, as the token validator said at the handshake; empty without one.
/// NUL-terminated, valid until the callback returns; NULL for a bad handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_connection_principal(
    connection: *const witrpc_connection,
) -> *const c_char {
    look(connection, null(), |c| c.principal.as_ptr())
}

/// Address and port of the client, NUL-terminated, valid until the callback returns; NULL for a bad
/// handle.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_connection_peer(connection: *const witrpc_connection) -> *const c_char {
    look(connection, null(), |c| c.peer.as_ptr())
}

/// Puts the connection into a group (its name NUL-terminated), until it ends. Nothing happens if it
/// has. WITRPC_OVERLOADED if it is in 1,024 groups. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_connection_join(
    connection: *const witrpc_connection,
    group: *const c_char,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<ConnectionObject>(connection, error, || {
            let connection = handle::get::<ConnectionObject>(connection)?;
            Ok(connection.context.join(text::terminated(group, "group")?)?)
        }) as i32
    }
}
