//! What all objects of the process share: the runtimes, and the thread that ends user data.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use witrpc_core::dispatcher::{Dispatcher, in_callback};
use witrpc_core::runtime::Runtime;
use witrpc_core::{Error, ErrorCode, Result};

use crate::client::ClientObject;
use crate::guard;
use crate::handle;
use crate::server::ServerObject;
use crate::status::witrpc_status;

#[derive(Default)]
struct Runtimes {
    clients: Option<Runtime>,
    servers: Option<tokio::runtime::Handle>,
    /// Ended by dropping it.
    server_runtime: Option<tokio::runtime::Runtime>,
}

static RUNTIMES: Mutex<Runtimes> = Mutex::new(Runtimes {
    clients: None,
    servers: None,
    server_runtime: None,
});

static LAST: LazyLock<Dispatcher> = LazyLock::new(Dispatcher::default);

/// Runs the end of user data, on a thread where user code may run.
pub(crate) fn post(job: impl FnOnce() + Send + 'static) {
    LAST.post(job);
}

/// The runtime of all clients, started with the first one.
pub(crate) fn client_runtime() -> Result<Runtime> {
    let mut runtimes = RUNTIMES.lock();
    if let Some(runtime) = &runtimes.clients {
        return Ok(runtime.clone());
    }
    let runtime = Runtime::new()?;
    runtimes.clients = Some(runtime.clone());
    Ok(runtime)
}

/// The runtime of all servers, started with the first one: a thread for each core, and as many
/// more as handlers need.
pub(crate) fn server_runtime() -> Result<tokio::runtime::Handle> {
    let mut runtimes = RUNTIMES.lock();
    if let Some(handle) = &runtimes.servers {
        return Ok(handle.clone());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("witrpc-server")
        .enable_all()
        .build()
        .map_err(|e| Error::new(ErrorCode::Internal, format!("can't start the runtime: {e}")))?;
    let handle = runtime.handle().clone();
    runtimes.servers = Some(handle.clone());
    runtimes.server_runtime = Some(runtime);
    Ok(handle)
}

/// Ends everything that the library runs: closes all clients, stops all servers at once, waits for
/// callbacks and destroys to return, and ends the library's threads. What is asked of old clients
/// and servers afterwards is refused as WITRPC_CLOSED; new ones start the library again. A program
/// need not call it; a leak checker is glad of it.
///
/// Blocks for at most about `timeout_ms`. WITRPC_TIMEOUT if something took longer (it goes on in
/// the background); WITRPC_WOULD_DEADLOCK from a callback or handler. Any other thread.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_shutdown(timeout_ms: u64) -> i32 {
    let status = guard::value(witrpc_status::WITRPC_INTERNAL, || {
        let end = Instant::now().checked_add(Duration::from_millis(timeout_ms));
        let left = || {
            end.map_or(Duration::MAX, |e| {
                e.saturating_duration_since(Instant::now())
            })
        };
        if in_callback() || crate::server::in_handler() {
            return Some(witrpc_status::WITRPC_WOULD_DEADLOCK);
        }
        let clients = handle::all::<ClientObject>();
        clients.iter().for_each(|c| c.client.close());
        let mut finished = true;
        for server in handle::all::<ServerObject>() {
            server.abort();
        }
        for client in &clients {
            finished &= client.client.dispatcher().end_thread(left());
        }
        drop(clients);
        let runtimes = std::mem::take(&mut *RUNTIMES.lock());
        if let Some(runtime) = runtimes.server_runtime {
            runtime.shutdown_timeout(left());
        }
        drop(runtimes.clients);
        finished &= LAST.end_thread(left());
        Some(if finished {
            witrpc_status::WITRPC_OK
        } else {
            witrpc_status::WITRPC_TIMEOUT
        })
    });
    status as i32
}
