//! Callbacks on a loop of the caller's: a descriptor to poll, and the function that runs what waits.

use std::sync::Arc;

use witrpc_core::dispatcher::{Dispatcher, Signal};
use witrpc_core::{Error, ErrorCode};

use crate::client_options::{change as change_client, limit, witrpc_client_options};
use crate::error::witrpc_error;
use crate::guard;
use crate::handle::{self, Object};
use crate::library;
use crate::server_options::{change as change_server, witrpc_server_options};
use crate::status::witrpc_status;

/// A queue of callbacks that a loop of the caller's runs: its epoll, libuv, GLib or game loop. Clients
/// and servers that were given it have their callbacks run by witrpc_dispatch, on the thread that calls
/// it, and nowhere else. Any number of clients and servers may share one.
pub struct witrpc_loop {
    _private: [u8; 0],
}

pub(crate) struct LoopObject {
    pub(crate) dispatcher: Dispatcher,
    #[cfg(unix)]
    pair: Arc<Pair>,
}

impl Object for LoopObject {
    type Opaque = witrpc_loop;
    const KIND: usize = 30;
}

/// Two ends of a socket: a byte in it says that callbacks wait.
#[cfg(unix)]
struct Pair {
    reader: std::os::unix::net::UnixStream,
    writer: std::os::unix::net::UnixStream,
}

struct Bell(#[cfg(unix)] Arc<Pair>);

#[cfg(unix)]
impl Signal for Bell {
    fn raise(&self) {
        use std::io::Write;
        // There is room: one byte at most is in it.
        if let Err(error) = (&self.0.writer).write_all(&[1]) {
            tracing::error!(%error, "a loop can't be told of its callbacks");
        }
    }
    fn lower(&self) {
        use std::io::Read;
        if let Err(error) = (&self.0.reader).read_exact(&mut [0]) {
            tracing::error!(%error, "a loop's descriptor can't be emptied");
        }
    }
}

#[cfg(not(unix))]
impl Signal for Bell {
    fn raise(&self) {}
    fn lower(&self) {}
}

impl LoopObject {
    fn new() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            let pair = Arc::new(Pair { reader, writer });
            Ok(Self {
                dispatcher: Dispatcher::for_loop(Bell(pair.clone())),
                pair,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {
            dispatcher: Dispatcher::for_loop(Bell()),
        })
    }
}

/// Makes a queue for a loop. On success `*out` is a new handle, to be freed with witrpc_loop_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_loop_new(
    out: *mut *mut witrpc_loop,
    error: *mut *mut witrpc_error,
) -> i32 {
    // SAFETY: the header demands valid pointers.
    unsafe {
        guard::run::<LoopObject>(std::ptr::null(), error, || {
            let out = guard::out(out)?;
            let made = LoopObject::new().map_err(|e| {
                Error::new(
                    ErrorCode::Internal,
                    format!("can't make a loop's descriptor: {e}"),
                )
            })?;
            guard::give(out, made)
        }) as i32
    }
}

/// A descriptor that is readable while callbacks wait: poll it for reading and call witrpc_dispatch;
/// never read from it or close it. Valid until the queue is freed. -1 for a bad handle, and on
/// Windows, where witrpc_dispatch with a timeout does the waiting.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_loop_descriptor(queue: *const witrpc_loop) -> i32 {
    guard::value(-1, || {
        let object = handle::get::<LoopObject>(queue).ok()?;
        #[cfg(unix)]
        {
            use std::os::fd::AsRawFd;
            Some(object.pair.reader.as_raw_fd())
        }
        #[cfg(not(unix))]
        {
            drop(object);
            None
        }
    })
}

/// Runs the callbacks that wait now, at most `most` of them (0 = all), on this thread and in order;
/// what they queue comes with the next call. Waits for the first one for at most `timeout_ms` (0 = not
/// at all; WITRPC_NO_TIMEOUT). `*count` (may be NULL) is how many were run.
///
/// Call it on one thread, the loop's. WITRPC_WOULD_DEADLOCK from a callback of this queue. Functions
/// that wait for callbacks of this queue (witrpc_client_close_and_wait, witrpc_shutdown) run them
/// themselves if they are called on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn witrpc_dispatch(
    queue: *const witrpc_loop,
    timeout_ms: u64,
    most: usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: there is no error object.
    unsafe {
        guard::run::<LoopObject>(queue, std::ptr::null_mut(), || {
            if !count.is_null() {
                // SAFETY: not null, and the header demands a valid pointer.
                count.write(0);
            }
            let object = handle::get::<LoopObject>(queue)?;
            let wait = limit(timeout_ms).unwrap_or(std::time::Duration::MAX);
            let most = if most == 0 { usize::MAX } else { most };
            let Some(ran) = object.dispatcher.dispatch(wait, most) else {
                return Err(witrpc_status::WITRPC_WOULD_DEADLOCK.into());
            };
            if !count.is_null() {
                // SAFETY: as above.
                count.write(ran);
            }
            Ok(())
        }) as i32
    }
}

/// Frees a queue. Clients and servers that were given it go on: what waits in it and what comes later
/// is run by a thread of the library's own. NULL and a freed one are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_loop_free(queue: *mut witrpc_loop) {
    guard::value((), || {
        if let Some(object) = handle::remove::<LoopObject>(queue) {
            object.dispatcher.leave_loop();
            library::freed(object.dispatcher.clone());
        }
        None
    });
}

/// Has all callbacks of clients that are made from these options, and every `destroy`, run by
/// witrpc_dispatch with this queue; NULL = by a thread of the library's own, as is the default. Token
/// providers run on threads for blocking work all the same. Set it before callbacks are set.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_loop(
    options: *mut witrpc_client_options,
    queue: *const witrpc_loop,
) -> i32 {
    change_client(options, |o| {
        o.dispatcher = match queue.is_null() {
            true => None,
            false => Some(handle::get::<LoopObject>(queue)?.dispatcher.clone()),
        };
        Ok(())
    })
}

/// Has handlers run by witrpc_dispatch with this queue, one at a time; NULL = on threads for blocking
/// work, side by side, as is the default. Validators stay where they are.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_loop(
    options: *mut witrpc_server_options,
    queue: *const witrpc_loop,
) -> i32 {
    change_server(options, |o| {
        o.dispatcher = match queue.is_null() {
            true => None,
            false => Some(handle::get::<LoopObject>(queue)?.dispatcher.clone()),
        };
        Ok(())
    })
}
