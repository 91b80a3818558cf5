//! The runtime of programs that have none: C, Python, .NET.
//!
//! Owns one tokio runtime and decides which thread drives it. A thread that waits for a call drives
//! it itself, so that a lone blocking call costs no thread switch: it writes, waits in the kernel,
//! reads, and returns. While nobody waits, a keeper thread drives it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::error::{Error, ErrorCode, Result};

/// How long the keeper looks on after it has made room for blocking callers: as long as they come
/// more often than this, it stays out of their way. What arrives unasked (events, the end of a
/// reconnection's delay) is then handled this much later at most.
const GRACE: Duration = Duration::from_millis(1);

/// See the [module](self). Clones share the runtime; it ends with the last of them.
#[derive(Clone)]
pub struct Runtime(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    keeper: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    tokio: tokio::runtime::Runtime,
    /// Threads in [`Runtime::block_on`].
    callers: AtomicUsize,
    /// Calls of it so far.
    calls: AtomicU64,
    /// The keeper drives, or is about to.
    kept: AtomicBool,
    /// Asks the keeper to let go.
    leave: Notify,
    /// Asks the keeper to take over at once.
    wanted: Mutex<bool>,
    wake: Condvar,
    ended: AtomicBool,
}

impl Runtime {
    /// Starts a runtime and its keeper.
    pub fn new() -> Result<Self> {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .thread_name("witrpc-blocking")
            .enable_all()
            .build()
            .map_err(|e| no_thread(&e))?;
        let shared = Arc::new(Shared {
            tokio,
            callers: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            kept: AtomicBool::new(true),
            leave: Notify::new(),
            wanted: Mutex::new(false),
            wake: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let keeper = std::thread::Builder::new()
            .name("witrpc-io".into())
            .spawn({
                let shared = shared.clone();
                move || shared.keep()
            })
            .map_err(|e| no_thread(&e))?;
        Ok(Self(Arc::new(Owner {
            shared,
            keeper: Mutex::new(Some(keeper)),
        })))
    }

    /// For [`ClientBuilder::runtime`](crate::client::ClientBuilder::runtime).
    pub fn handle(&self) -> &Handle {
        self.0.shared.tokio.handle()
    }

    /// Waits for a future on this thread, driving the runtime meanwhile. Not for use inside tokio.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let shared = &*self.0.shared;
        shared.callers.fetch_add(1, Ordering::SeqCst);
        shared.calls.fetch_add(1, Ordering::SeqCst);
        if shared.kept.load(Ordering::SeqCst) {
            shared.leave.notify_one();
        }
        let output = shared.tokio.block_on(future);
        shared.callers.fetch_sub(1, Ordering::SeqCst);
        output
    }

    /// The same, on a thread of its own where this one is ending: in the static destructors of a program.
    pub fn block_on_anywhere<F>(&self, future: F) -> F::Output
    where
        F: Future + Send,
        F::Output: Send,
    {
        on_living_thread(|| self.block_on(future))
    }

    /// Something was started that nobody waits for: sees to it that the runtime is driven at once.
    pub fn kick(&self) {
        let shared = &*self.0.shared;
        if !shared.kept.load(Ordering::SeqCst) {
            *shared.wanted.lock() = true;
            shared.wake.notify_one();
        }
    }
}

/// True on a thread whose thread-local variables are gone, which tokio can't do without: in the static
/// destructors of a program, after its main function.
fn is_thread_ending() -> bool {
    matches!(Handle::try_current(), Err(e) if e.is_thread_local_destroyed())
}

/// Runs `f` here, or on a thread of its own where this one is ending (in the static destructors of a program), and
/// waits for it.
pub fn on_living_thread<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if !is_thread_ending() {
        return f();
    }
    std::thread::scope(|scope| match scope.spawn(f).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

impl Shared {
    fn keep(&self) {
        loop {
            self.kept.store(true, Ordering::SeqCst);
            // A caller that came before the flag was up has not asked us to leave.
            if self.callers.load(Ordering::SeqCst) == 0 {
                self.tokio.block_on(self.leave.notified());
            }
            self.kept.store(false, Ordering::SeqCst);
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            self.look_on();
        }
    }

    /// Waits until there was no blocking caller for a while, or somebody asks.
    fn look_on(&self) {
        let mut wanted = self.wanted.lock();
        let mut seen = None;
        loop {
            let callers = self.callers.load(Ordering::SeqCst);
            let calls = self.calls.load(Ordering::SeqCst);
            let quiet = callers == 0 && seen == Some(calls);
            let asked = std::mem::take(&mut *wanted) && callers == 0;
            if quiet || asked || self.ended.load(Ordering::SeqCst) {
                return;
            }
            seen = Some(calls);
            self.wake.wait_for(&mut wanted, GRACE);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.leave.notify_one();
        self.shared.wake.notify_one();
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper.filter(|k| k.thread().id() != std::thread::current().id()) {
            let _ = keeper.join();
        }
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorCode::Internal, "can't start the runtime").with_details(Some(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tasks_run_while_nobody_waits() {
        let runtime = Runtime::new().unwrap();
        let (sender, receiver) = mpsc::channel();
        for n in 0..3 {
            runtime.block_on(async {});
            let sender = sender.clone();
            runtime
                .handle()
                .spawn(async move { sender.send(n).unwrap() });
            assert_eq!(receiver.recv(), Ok(n));
        }
    }

    #[test]
    fn many_threads_may_wait_at_once_for_each_other() {
        let runtime = Runtime::new().unwrap();
        let pairs: Vec<_> = (0..8).map(|_| (Notify::new(), Notify::new())).collect();
        std::thread::scope(|scope| {
            for (first, second) in &pairs {
                let runtime = &runtime;
                scope.spawn(move || {
                    for _ in 0..200 {
                        runtime.block_on(async {
                            first.notify_one();
                            second.notified().await;
                        });
                    }
                });
                scope.spawn(move || {
                    for _ in 0..200 {
                        runtime.block_on(async {
                            first.notified().await;
                            second.notify_one();
                        });
                    }
                });
            }
        });
    }

    #[test]
    fn a_blocking_call_runs_tasks_on_its_own_thread() {
        let runtime = Runtime::new().unwrap();
        let here = std::thread::current().id();
        let mut own = 0;
        for _ in 0..100 {
            let task = runtime
                .handle()
                .spawn(async { std::thread::current().id() });
            own += usize::from(runtime.block_on(task).unwrap() == here);
        }
        assert!(own > 0, "the keeper never let go");
    }

    #[test]
    fn a_thread_that_ends_may_still_wait() {
        /// Waits in the destructor of a thread-local variable that goes after tokio's.
        struct Last(Option<(Runtime, mpsc::Sender<(bool, i32)>)>);
        impl Drop for Last {
            fn drop(&mut self) {
                if let Some((runtime, sender)) = self.0.take() {
                    let answer = runtime.block_on_anywhere(async { 42 });
                    sender.send((is_thread_ending(), answer)).unwrap();
                }
            }
        }
        thread_local! {
            static LAST: std::cell::RefCell<Last> = const { std::cell::RefCell::new(Last(None)) };
        }
        let runtime = Runtime::new().unwrap();
        let (sender, receiver) = mpsc::channel();
        let own = runtime.clone();
        std::thread::spawn(move || {
            // It was there before tokio's, so it goes after them.
            LAST.with_borrow_mut(|last| last.0 = Some((own.clone(), sender)));
            own.block_on(async {});
        })
        .join()
        .unwrap();
        assert_eq!(receiver.recv(), Ok((true, 42)));
        drop(runtime);
    }
}
