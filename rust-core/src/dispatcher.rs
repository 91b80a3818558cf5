//! Where user code runs: a thread of the library's own that calls callbacks one after the other.
//!
//! Owns the thread and the order. The thread is started with the first callback and leaves when
//! there was nothing to do for a while, so that a client without callbacks costs none.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long an idle thread stays.
const LINGER: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    has_thread: bool,
    /// To be joined.
    thread: Option<std::thread::JoinHandle<()>>,
    /// A job is running.
    is_running: bool,
    /// Its job waits for something that the library does meanwhile.
    is_blocked: bool,
    /// The thread is to leave when it has nothing to do.
    is_leaving: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    wake: Condvar,
    idle: Condvar,
}

/// See the [module](self). Clones share the queue; what is in it when the last of them is dropped
/// is still run.
#[derive(Clone, Default)]
pub struct Dispatcher(Arc<Owner>);

/// What all clones share, and the thread does not.
#[derive(Default)]
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.queue.lock().is_leaving = true;
        self.0.wake.notify_one();
    }
}

/// True on the thread of any dispatcher: user code is running.
pub fn in_callback() -> bool {
    CURRENT.get() != 0
}

impl Dispatcher {
    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// Runs `job` after all that were posted before.
    pub fn post(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.inner().queue.lock();
        queue.jobs.push_back(Box::new(job));
        if queue.has_thread {
            self.inner().wake.notify_one();
            return;
        }
        let inner = self.inner().clone();
        let started = std::thread::Builder::new()
            .name("witrpc-callbacks".into())
            .spawn(move || inner.run());
        match started {
            Ok(thread) => {
                queue.has_thread = true;
                queue.thread = Some(thread);
            }
            // The next callback tries again. Running them here would break the promise that no
            // callback runs inside the call that caused it.
            Err(error) => tracing::error!(%error, "no thread for callbacks: they have to wait"),
        }
    }

    /// Waits until all callbacks that were posted have returned. False if that took longer than
    /// `limit`, and at once on this dispatcher's own thread.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        if self.is_current() {
            return false;
        }
        let end = Instant::now().checked_add(limit);
        let mut queue = self.inner().queue.lock();
        while queue.is_running || !queue.jobs.is_empty() {
            let timed_out = match end {
                Some(end) => self.inner().idle.wait_until(&mut queue, end).timed_out(),
                None => {
                    self.inner().idle.wait(&mut queue);
                    false
                }
            };
            if timed_out {
                return !queue.is_running && queue.jobs.is_empty();
            }
        }
        true
    }

    /// Waits as [`wait_idle`](Self::wait_idle) and ends the thread. It is started again by the next
    /// callback.
    pub fn end_thread(&self, limit: Duration) -> bool {
        if !self.wait_idle(limit) {
            return false;
        }
        let inner = self.inner();
        let mut queue = inner.queue.lock();
        queue.is_leaving = true;
        inner.wake.notify_one();
        let end = Instant::now().checked_add(limit);
        while queue.has_thread {
            match end {
                Some(end) if inner.idle.wait_until(&mut queue, end).timed_out() => return false,
                Some(_) => {}
                None => inner.idle.wait(&mut queue),
            }
        }
        queue.is_leaving = false;
        let thread = queue.thread.take();
        drop(queue);
        // It has let go of the queue and does nothing more.
        thread.is_none_or(|thread| thread.join().is_ok())
    }

    /// Runs `wait`, which waits for the library. On this dispatcher's own thread it is noted that
    /// no callback can run meanwhile.
    pub fn while_waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        struct Unblock<'a>(&'a Inner);
        impl Drop for Unblock<'_> {
            fn drop(&mut self) {
                self.0.queue.lock().is_blocked = false;
            }
        }
        if !self.is_current() {
            return wait();
        }
        self.inner().queue.lock().is_blocked = true;
        let _unblock = Unblock(self.inner());
        wait()
    }

    /// True if a callback waits for the library: nothing that it waits for may be posted here.
    pub(crate) fn is_blocked(&self) -> bool {
        self.inner().queue.lock().is_blocked
    }

    /// True if the caller is one of this dispatcher's callbacks.
    pub fn is_current(&self) -> bool {
        CURRENT.get() == self.inner().address()
    }
}

impl Inner {
    fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    fn run(self: Arc<Self>) {
        CURRENT.set(self.address());
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.is_running = true;
                drop(queue);
                run(job);
                queue = self.queue.lock();
                queue.is_running = false;
                if queue.jobs.is_empty() {
                    self.idle.notify_all();
                }
                continue;
            }
            let timed_out = !queue.is_leaving && self.wake.wait_for(&mut queue, LINGER).timed_out();
            if queue.jobs.is_empty() && (timed_out || queue.is_leaving) {
                queue.has_thread = false;
                self.idle.notify_all();
                return;
            }
        }
    }
}

fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a callback panicked");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_in_order_on_one_thread_that_knows_itself() {
        let dispatcher = Dispatcher::default();
        let (sender, receiver) = mpsc::channel();
        for n in 0..100 {
            let (sender, dispatcher2) = (sender.clone(), dispatcher.clone());
            dispatcher.post(move || {
                sender
                    .send((n, std::thread::current().id(), dispatcher2.is_current()))
                    .unwrap();
            });
        }
        let seen: Vec<_> = receiver.iter().take(100).collect();
        assert!(
            seen.iter()
                .enumerate()
                .all(|(i, (n, thread, here))| { i == *n && *thread == seen[0].1 && *here })
        );
        assert!(!dispatcher.is_current());
        assert_ne!(seen[0].1, std::thread::current().id());
    }

    #[test]
    fn the_thread_can_be_ended_and_comes_back() {
        let dispatcher = Dispatcher::default();
        let (sender, receiver) = mpsc::channel();
        for n in 0..3 {
            let sender = sender.clone();
            dispatcher.post(move || sender.send(n).unwrap());
            assert!(dispatcher.end_thread(Duration::from_secs(10)));
            assert_eq!(receiver.try_recv(), Ok(n));
            assert!(dispatcher.inner().queue.lock().thread.is_none());
        }
    }

    #[test]
    fn waiting_for_oneself_is_refused_and_a_slow_callback_is_not_waited_for_too_long() {
        let dispatcher = Dispatcher::default();
        let (sender, receiver) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let own = dispatcher.clone();
        dispatcher.post(move || {
            sender.send(own.wait_idle(Duration::MAX)).unwrap();
            wait.recv().unwrap();
        });
        assert_eq!(receiver.recv(), Ok(false));
        assert!(!dispatcher.wait_idle(Duration::from_millis(1)));
        go.send(()).unwrap();
        assert!(dispatcher.wait_idle(Duration::MAX));
    }

    #[test]
    fn a_panicking_callback_harms_no_other() {
        let dispatcher = Dispatcher::default();
        let (sender, receiver) = mpsc::channel();
        dispatcher.post(|| panic!("on purpose"));
        dispatcher.post(move || sender.send(1).unwrap());
        assert_eq!(receiver.recv(), Ok(1));
    }
}
