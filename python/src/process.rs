//! The process: which one this is, its runtimes, and its end.
//!
//! Owns what must not be used after a fork, or while the interpreter ends. A fork keeps the memory
//! and loses the threads, so what was made before it can't work in the child: it is refused there,
//! and never taken apart.

use std::mem::ManuallyDrop;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::prelude::*;
use witrpc::runtime::Runtime;
use witrpc::{Error, ErrorCode};

use crate::errors;

/// How long the end of the interpreter waits for callbacks that are running.
const LAST_CALLBACKS: Duration = Duration::from_millis(500);
/// How long a wait without the GIL goes on before signals are looked at.
const SIGNALS: Duration = Duration::from_millis(50);

/// The interpreter is about to end: no thread of ours may enter it any more.
static ENDING: AtomicBool = AtomicBool::new(false);

/// What is used by one process only.
struct Runtimes {
    pid: u32,
    /// Of clients whose callers wait: they drive it themselves.
    blocking: Option<Runtime>,
    /// Of clients and servers on event loops: a thread of its own drives it.
    loops: Option<tokio::runtime::Handle>,
    /// To be closed at the end.
    closing: Vec<Weak<dyn Closing>>,
}

static RUNTIMES: Mutex<Runtimes> = Mutex::new(Runtimes {
    pid: 0,
    blocking: None,
    loops: None,
    closing: Vec::new(),
});

/// What has threads or sockets.
pub(crate) trait Closing: Send + Sync {
    /// Lets go of everything. Without the GIL.
    fn close(&self, limit: Duration);
}

impl Runtimes {
    /// Only ever locked with the GIL held, and a fork holds it too: so nobody else can have held
    /// this lock at the moment of the fork.
    fn of_this_process(&mut self) -> &mut Self {
        let pid = std::process::id();
        if self.pid != pid {
            std::mem::forget((
                self.blocking.take(),
                self.loops.take(),
                std::mem::take(&mut self.closing),
            ));
            self.pid = pid;
        }
        self
    }
}

/// The runtime of blocking clients, started with the first one.
pub(crate) fn blocking_runtime(_: Python<'_>) -> PyResult<Runtime> {
    let mut runtimes = RUNTIMES.lock();
    let runtimes = runtimes.of_this_process();
    if let Some(runtime) = &runtimes.blocking {
        return Ok(runtime.clone());
    }
    let runtime = Runtime::new().map_err(errors::raise)?;
    runtimes.blocking = Some(runtime.clone());
    Ok(runtime)
}

/// The runtime behind event loops, started with the first client or server that needs it. It lives
/// as long as the process.
pub(crate) fn loop_runtime(_: Python<'_>) -> PyResult<tokio::runtime::Handle> {
    let mut runtimes = RUNTIMES.lock();
    let runtimes = runtimes.of_this_process();
    if let Some(handle) = &runtimes.loops {
        return Ok(handle.clone());
    }
    // One thread is enough: all it does is to move bytes, and one interpreter takes them.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("witrpc-io")
        .enable_all()
        .build()
        .map_err(|e| {
            errors::raise(Error::invalid_argument(format!(
                "can't start the runtime: {e}"
            )))
        })?;
    let handle = runtime.handle().clone();
    // Its thread ends with the process: there is no moment at which nothing could need it.
    std::mem::forget(runtime);
    runtimes.loops = Some(handle.clone());
    Ok(handle)
}

/// Notes what is to be closed when the interpreter ends.
pub(crate) fn close_at_end(_: Python<'_>, closing: Weak<dyn Closing>) {
    let mut runtimes = RUNTIMES.lock();
    let list = &mut runtimes.of_this_process().closing;
    if list.len() == list.capacity() {
        list.retain(|entry| entry.strong_count() > 0);
    }
    list.push(closing);
}

/// Closes all clients and servers of this process, and keeps our threads out of the interpreter
/// from now on. Called when it ends.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let closing = std::mem::take(&mut RUNTIMES.lock().of_this_process().closing);
    ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let end = Instant::now() + LAST_CALLBACKS;
        for entry in closing.iter().filter_map(Weak::upgrade) {
            entry.close(end.saturating_duration_since(Instant::now()));
        }
    });
}

/// Runs `f` in the interpreter, on a thread of ours; `None` if that ends or has ended.
pub(crate) fn attach<R>(f: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    if ENDING.load(Ordering::SeqCst) {
        return None;
    }
    Python::try_attach(f)
}

/// Waits for a future without the GIL, on this thread. A signal whose handler raises (`Ctrl+C`)
/// ends the wait and drops the future.
pub(crate) fn wait<F>(py: Python<'_>, runtime: &Runtime, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = Box::pin(future);
    loop {
        let outcome = py.detach(|| {
            runtime.block_on(async { tokio::time::timeout(SIGNALS, future.as_mut()).await.ok() })
        });
        match outcome {
            Some(output) => return Ok(output),
            None => py.check_signals()?,
        }
    }
}

/// Something that only the process may use that made it.
pub(crate) struct Own<T> {
    pid: u32,
    value: ManuallyDrop<T>,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            pid: std::process::id(),
            value: ManuallyDrop::new(value),
        }
    }

    /// The value, if this process made it.
    pub(crate) fn peek(&self) -> Option<&T> {
        (self.pid == std::process::id()).then_some(&*self.value)
    }

    /// The value, or the error that says that this is another process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.peek().ok_or_else(errors::forked)
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        // Its locks may be held by threads that this process does not have.
        if self.pid == std::process::id() {
            // SAFETY: it is dropped here and nowhere else, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// The error of what was closed.
pub(crate) fn closed(what: &str) -> Error {
    Error::new(ErrorCode::Closed, format!("the {what} is closed"))
}
