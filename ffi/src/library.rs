//! What all objects of the process share: the runtimes, and the thread that ends user data.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use witrpc_core::dispatcher::{Dispatcher, in_callback};
use witrpc_core::runtime::{Runtime, on_living_thread};
use witrpc_core::{Error, ErrorCode, Result};

use crate::client::ClientObject;
use crate::fork;
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

/// What runs the ends of user data.
static LAST: Mutex<Option<Dispatcher>> = Mutex::new(None);

/// Dispatchers whose handles have been freed, and which may still have something to run.
static FREED: Mutex<Freed> = Mutex::new(Freed {
    dispatchers: Vec::new(),
    look_at: 0,
});

struct Freed {
    dispatchers: Vec<Dispatcher>,
    /// How many there must be before those that are done are looked for again.
    look_at: usize,
}

/// The handle of what this dispatcher served has been freed; what it is still to run is seen to by
/// [`witrpc_shutdown`].
pub(crate) fn freed(dispatcher: Dispatcher) {
    let mut freed = FREED.lock();
    // That of a loop may serve many.
    if dispatcher.is_on_loop() && freed.dispatchers.contains(&dispatcher) {
        return;
    }
    freed.dispatchers.push(dispatcher);
    if freed.dispatchers.len() > freed.look_at {
        let (kept, done): (Vec<_>, Vec<_>) = std::mem::take(&mut freed.dispatchers)
            .into_iter()
            .partition(Dispatcher::may_run_more);
        freed.look_at = 2 * kept.len() + 8;
        freed.dispatchers = kept;
        drop(freed);
        drop(done);
    }
}

/// Waits for freed dispatchers, and ends their threads.
fn end_freed(mut left: impl FnMut() -> Duration) -> bool {
    let all = std::mem::take(&mut FREED.lock().dispatchers);
    let mut finished = true;
    for one in all {
        finished &= one.end_thread(left());
        // What is dropped later may have something for it.
        if one.may_run_more() {
            FREED.lock().dispatchers.push(one);
        }
    }
    finished
}

fn last() -> Dispatcher {
    LAST.lock().get_or_insert_default().clone()
}

/// Runs the end of user data, on a thread where user code may run.
pub(crate) fn post(job: impl FnOnce() + Send + 'static) {
    last().post(job);
}

/// Keeps others out while the process forks.
pub(crate) fn lock_for_fork() {
    std::mem::forget(RUNTIMES.lock());
    std::mem::forget(LAST.lock());
    std::mem::forget(FREED.lock());
}

/// Lets others in again. A child forgets the runtimes, whose threads it has not.
///
/// # Safety
/// [`lock_for_fork`] must have been called, on this thread.
pub(crate) unsafe fn unlock_after_fork(is_child: bool) {
    // SAFETY: all are locked, so nobody else looks at them.
    unsafe {
        if is_child {
            std::mem::forget(std::mem::take(&mut *RUNTIMES.data_ptr()));
            std::mem::forget((*LAST.data_ptr()).take());
            std::mem::forget(std::mem::take(&mut (*FREED.data_ptr()).dispatchers));
        }
        FREED.force_unlock();
        LAST.force_unlock();
        RUNTIMES.force_unlock();
    }
}

/// The runtime of all clients, started with the first one.
pub(crate) fn client_runtime() -> Result<Runtime> {
    fork::watch();
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
    fork::watch();
    let mut runtimes = RUNTIMES.lock();
    if let Some(handle) = &runtimes.servers {
        return Ok(handle.clone());
    }
    let problem = |e| Error::new(ErrorCode::Internal, format!("can't start the runtime: {e}"));
    // tokio panics where the system gives it no thread; so ask first.
    let thread = std::thread::Builder::new().spawn(|| ()).map_err(problem)?;
    drop(thread.join());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("witrpc-server")
        .enable_all()
        .build()
        .map_err(problem)?;
    let handle = runtime.handle().clone();
    runtimes.servers = Some(handle.clone());
    runtimes.server_runtime = Some(runtime);
    Ok(handle)
}

/// Waits on this thread for something that a server does.
pub(crate) fn wait_for_server<F>(future: F) -> Result<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = server_runtime()?;
    Ok(on_living_thread(|| runtime.block_on(future)))
}

/// Ends everything that the library runs: closes all clients, stops all servers at once, waits for
/// callbacks and destroys to return, and ends the library's threads and its logging. What is asked of old clients
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
        finished &= end_freed(left);
        let runtimes = std::mem::take(&mut *RUNTIMES.lock());
        if let Some(runtime) = runtimes.server_runtime {
            runtime.shutdown_timeout(left());
        }
        drop(runtimes.clients);
        // What the runtimes dropped may have been the last of a loop's user data.
        finished &= end_freed(left);
        witrpc_core::log::off();
        finished &= witrpc_core::log::dispatcher().end_thread(left());
        finished &= last().end_thread(left());
        Some(if finished {
            witrpc_status::WITRPC_OK
        } else {
            witrpc_status::WITRPC_TIMEOUT
        })
    });
    status as i32
}
