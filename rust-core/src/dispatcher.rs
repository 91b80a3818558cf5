//! Where user code runs: a thread of the library's own that calls callbacks one after the other, or
//! a loop of the user's that asks for them.
//!
//! Owns the thread and the order. The thread is started with the first callback and leaves when
//! there was nothing to do for a while, so that a client without callbacks costs none. A
//! [`Signal`] tells a loop that there is something to [`dispatch`](Dispatcher::dispatch).

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long an idle thread stays.
const LINGER: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// How a loop is told that callbacks wait for it. Called under a lock: must not block, and must not
/// call the dispatcher.
pub trait Signal: Send + 'static {
    /// There is something to do. Called once, until it is lowered.
    fn raise(&self);
    /// There is nothing more to do.
    fn lower(&self);
}

/// The loop that runs the jobs.
struct OnLoop {
    signal: Box<dyn Signal>,
    is_raised: bool,
    /// Which thread has run jobs last.
    thread: Option<ThreadId>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Instead of the thread.
    on_loop: Option<OnLoop>,
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
    /// A loop runs the jobs, or once did. Spares others a look into the queue.
    has_loop: AtomicBool,
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
    /// One whose jobs a loop of the user's runs, which `signal` tells of them.
    pub fn for_loop(signal: impl Signal) -> Self {
        let dispatcher = Self::default();
        dispatcher.inner().queue.lock().on_loop = Some(OnLoop {
            signal: Box::new(signal),
            is_raised: false,
            thread: None,
        });
        dispatcher.inner().has_loop.store(true, Ordering::Relaxed);
        dispatcher
    }

    /// True if a loop of the user's runs the jobs.
    pub fn is_on_loop(&self) -> bool {
        self.inner().has_loop.load(Ordering::Relaxed) && self.inner().queue.lock().on_loop.is_some()
    }

    /// The loop is gone: a thread of this dispatcher's own runs the jobs from now on.
    pub fn leave_loop(&self) {
        let mut queue = self.inner().queue.lock();
        if queue.on_loop.take().is_some() {
            self.inner().start_if_needed(&mut queue);
            self.inner().wake.notify_all();
        }
    }

    /// Runs the jobs of a loop on this thread: those that wait now, at most `most`. Waits for the
    /// first one for at most `wait`; while another thread dispatches, too. Returns how many have
    /// been run; `None`, at once, from one of them.
    pub fn dispatch(&self, wait: Duration, most: usize) -> Option<usize> {
        if self.is_current() {
            return None;
        }
        let inner = self.inner();
        let end = Instant::now().checked_add(wait);
        let mut queue = inner.queue.lock();
        while queue.on_loop.is_some() && (queue.is_running || queue.jobs.is_empty()) {
            match end {
                Some(end) if inner.wake.wait_until(&mut queue, end).timed_out() => break,
                Some(_) => {}
                None => inner.wake.wait(&mut queue),
            }
        }
        let Some(on_loop) = queue.on_loop.as_mut() else {
            return Some(0);
        };
        on_loop.thread = Some(std::thread::current().id());
        if queue.is_running {
            return Some(0);
        }
        let outer = CURRENT.replace(inner.address());
        let most = most.min(queue.jobs.len());
        let mut ran = 0;
        // Between two jobs, too, so that nobody else begins to run them.
        queue.is_running = true;
        while ran < most
            && let Some(job) = queue.jobs.pop_front()
        {
            drop(queue);
            run(job);
            ran += 1;
            queue = inner.queue.lock();
        }
        queue.is_running = false;
        CURRENT.set(outer);
        let Queue { jobs, on_loop, .. } = &mut *queue;
        if let Some(on_loop) = on_loop
            && jobs.is_empty()
            && std::mem::take(&mut on_loop.is_raised)
        {
            on_loop.signal.lower();
        }
        inner.start_if_needed(&mut queue);
        if queue.jobs.is_empty() {
            inner.idle.notify_all();
        }
        inner.wake.notify_all();
        Some(ran)
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// Runs `job` after all that were posted before.
    pub fn post(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.inner().queue.lock();
        queue.jobs.push_back(Box::new(job));
        if let Some(on_loop) = &mut queue.on_loop {
            if !std::mem::replace(&mut on_loop.is_raised, true) {
                on_loop.signal.raise();
            }
            self.inner().wake.notify_all();
        } else if queue.has_thread {
            self.inner().wake.notify_one();
        } else {
            self.inner().start_if_needed(&mut queue);
        }
    }

    /// True on the thread that has dispatched last, or may: nothing is run while it waits.
    fn is_loop_thread(&self) -> bool {
        if !self.inner().has_loop.load(Ordering::Relaxed) {
            return false;
        }
        let queue = self.inner().queue.lock();
        let on_loop = queue.on_loop.as_ref();
        on_loop.is_some_and(|l| l.thread.is_none_or(|t| t == std::thread::current().id()))
    }

    /// Waits until all callbacks that were posted have returned. False if that took longer than
    /// `limit`, and at once on this dispatcher's own thread. On the thread of a loop it runs them.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        if self.is_current() {
            return false;
        }
        let end = Instant::now().checked_add(limit);
        while self.is_loop_thread() && self.dispatch(Duration::ZERO, usize::MAX) != Some(0) {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
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

    /// Runs `wait`, which waits for the library. On this dispatcher's own thread, and on that of a
    /// loop, it is noted that no callback can run meanwhile.
    pub fn while_waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        struct Unblock<'a>(&'a Inner);
        impl Drop for Unblock<'_> {
            fn drop(&mut self) {
                self.0.queue.lock().is_blocked = false;
            }
        }
        if !self.is_current() && !self.is_loop_thread() {
            return wait();
        }
        self.inner().queue.lock().is_blocked = true;
        let _unblock = Unblock(self.inner());
        wait()
    }

    /// True if a callback, or the loop's thread, waits for the library: nothing that it waits for may be posted here.
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

    /// Starts a thread if there are jobs that nobody else is to run.
    fn start_if_needed(self: &Arc<Self>, queue: &mut Queue) {
        if queue.on_loop.is_some() || queue.has_thread || queue.is_running || queue.jobs.is_empty()
        {
            return;
        }
        let inner = self.clone();
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

    /// Counts what it is told.
    #[derive(Clone, Default)]
    struct Bell(Arc<Mutex<(usize, bool)>>);

    impl Signal for Bell {
        fn raise(&self) {
            let mut bell = self.0.lock();
            assert!(!bell.1, "raised twice");
            *bell = (bell.0 + 1, true);
        }
        fn lower(&self) {
            assert!(std::mem::take(&mut self.0.lock().1), "lowered twice");
        }
    }

    #[test]
    fn a_loop_runs_jobs_when_it_asks_for_them() {
        let bell = Bell::default();
        let dispatcher = Dispatcher::for_loop(bell.clone());
        let (sender, receiver) = mpsc::channel();
        for n in 0..3 {
            let (sender, own) = (sender.clone(), dispatcher.clone());
            dispatcher.post(move || {
                assert!(own.is_current() && in_callback());
                assert_eq!(own.dispatch(Duration::MAX, 1), None, "from a job");
                sender.send((n, std::thread::current().id())).unwrap();
            });
        }
        assert_eq!(*bell.0.lock(), (1, true));
        assert!(receiver.try_recv().is_err(), "nobody has asked yet");
        assert_eq!(dispatcher.dispatch(Duration::MAX, 2), Some(2));
        assert_eq!(*bell.0.lock(), (1, true), "one is left");
        assert_eq!(dispatcher.dispatch(Duration::MAX, 9), Some(1));
        assert_eq!(*bell.0.lock(), (1, false));
        assert_eq!(dispatcher.dispatch(Duration::ZERO, 9), Some(0));
        let here = std::thread::current().id();
        let seen: Vec<_> = receiver.try_iter().collect();
        assert_eq!(seen, [(0, here), (1, here), (2, here)]);
        assert!(!in_callback());
    }

    #[test]
    fn a_loop_waits_for_a_job_and_what_jobs_post_comes_next_time() {
        let dispatcher = Dispatcher::for_loop(Bell::default());
        let own = dispatcher.clone();
        let poster = std::thread::spawn(move || {
            let again = own.clone();
            own.post(move || again.post(|| {}));
        });
        assert_eq!(dispatcher.dispatch(Duration::MAX, 9), Some(1));
        assert_eq!(dispatcher.dispatch(Duration::ZERO, 9), Some(1));
        poster.join().unwrap();
    }

    #[test]
    fn waiting_on_the_loops_thread_runs_what_waits() {
        let dispatcher = Dispatcher::for_loop(Bell::default());
        let (sender, receiver) = mpsc::channel();
        dispatcher.post(move || sender.send(1).unwrap());
        assert!(dispatcher.end_thread(Duration::from_secs(10)));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert!(!dispatcher.is_blocked());
        dispatcher.while_waiting(|| assert!(dispatcher.is_blocked()));
        let other = dispatcher.clone();
        let elsewhere = std::thread::spawn(move || {
            other.while_waiting(|| assert!(!other.is_blocked()));
            other.post(|| {});
            other.wait_idle(Duration::from_millis(1))
        });
        assert!(!elsewhere.join().unwrap(), "the loop has not come by");
    }

    #[test]
    fn without_its_loop_a_dispatcher_has_a_thread() {
        let dispatcher = Dispatcher::for_loop(Bell::default());
        let (sender, receiver) = mpsc::channel();
        let second = sender.clone();
        dispatcher.post(move || sender.send(1).unwrap());
        dispatcher.leave_loop();
        assert_eq!(receiver.recv(), Ok(1));
        dispatcher.post(move || second.send(2).unwrap());
        assert_eq!(receiver.recv(), Ok(2));
        assert_eq!(dispatcher.dispatch(Duration::MAX, 9), Some(0));
        assert!(dispatcher.end_thread(Duration::MAX));
    }
}
