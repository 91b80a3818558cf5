//! Jobs on a loop of the user's: they wait until it asks for them.
//!
//! Owns the bell of a loop, and how its thread takes the place of the threads. A job on a loop is never
//! overtaken: there is one thread.

use std::sync::atomic::Ordering;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{CURRENT, Current, Dispatcher, Entry, THREAD};

/// Number of a thread that is none of ours: that of a loop, as leader.
pub(super) const LOOP: u64 = 0;

/// How a loop is told that callbacks wait for it. Called under a lock: must not block, and must not
/// call the dispatcher.
pub trait Signal: Send + 'static {
    /// There is something to do. Called once, until it is lowered.
    fn raise(&self);
    /// There is nothing more to do.
    fn lower(&self);
}

/// The loop that runs the jobs.
pub(super) struct OnLoop {
    signal: Box<dyn Signal>,
    is_raised: bool,
    /// Which thread has run jobs last.
    thread: Option<ThreadId>,
    /// It waits for something that the library does meanwhile.
    is_blocked: bool,
}

impl OnLoop {
    /// A job has come.
    pub(super) fn ring(&mut self) {
        if !std::mem::replace(&mut self.is_raised, true) {
            self.signal.raise();
        }
    }

    /// There are no jobs.
    fn silence(&mut self) {
        if std::mem::take(&mut self.is_raised) {
            self.signal.lower();
        }
    }

    pub(super) fn set_blocked(&mut self, blocked: bool) {
        self.is_blocked = blocked;
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }
}

impl Dispatcher {
    /// One whose jobs a loop of the user's runs, which `signal` tells of them.
    pub fn for_loop(signal: impl Signal) -> Self {
        let dispatcher = Self::default();
        dispatcher.inner().queue.lock().on_loop = Some(OnLoop {
            signal: Box::new(signal),
            is_raised: false,
            thread: None,
            is_blocked: false,
        });
        dispatcher.inner().has_loop.store(true, Ordering::Relaxed);
        dispatcher
    }

    /// True if a loop of the user's runs the jobs.
    pub fn is_on_loop(&self) -> bool {
        self.inner().has_loop.load(Ordering::Relaxed) && self.inner().queue.lock().on_loop.is_some()
    }

    /// The loop is gone: threads of this dispatcher's own run the jobs from now on.
    pub fn leave_loop(&self) {
        let inner = self.inner();
        let mut queue = inner.queue.lock();
        if queue.on_loop.take().is_some() {
            if queue.leader.is_none() && !queue.jobs.is_empty() {
                queue.leader = inner.start_thread(&mut queue);
            }
            inner.wake.notify_all();
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
        while queue.on_loop.is_some() && (queue.leader.is_some() || queue.jobs.is_empty()) {
            if !super::wait(&inner.wake, &mut queue, end) {
                break;
            }
        }
        let Some(on_loop) = queue.on_loop.as_mut() else {
            return Some(0);
        };
        on_loop.thread = Some(std::thread::current().id());
        if queue.leader.is_some() {
            return Some(0);
        }
        // Until the end, so that nobody else begins to run jobs between two of them.
        queue.leader = Some(LOOP);
        let (outer, number) = (CURRENT.replace(inner.address()), THREAD.replace(LOOP));
        let most = most.min(queue.jobs.len());
        let mut ran = 0;
        while ran < most
            && let Some((ticket, Entry { lane, job })) = queue.next()
        {
            queue.current = Some(Current {
                lane,
                since: Instant::now(),
                is_blocked: false,
            });
            inner.carry_out(&mut queue, ticket, job);
            queue.current = None;
            ran += 1;
        }
        CURRENT.set(outer);
        THREAD.set(number);
        queue.leader = None;
        let is_empty = queue.jobs.is_empty();
        match &mut queue.on_loop {
            Some(on_loop) if is_empty => on_loop.silence(),
            Some(_) => {}
            // It has gone meanwhile.
            None if is_empty => {}
            None => queue.leader = inner.start_thread(&mut queue),
        }
        if queue.is_idle() {
            inner.idle.notify_all();
        }
        inner.wake.notify_all();
        Some(ran)
    }

    /// True on the thread that has dispatched last, or may: nothing is run while it waits.
    pub(super) fn is_loops_thread(&self) -> bool {
        if !self.inner().has_loop.load(Ordering::Relaxed) {
            return false;
        }
        let queue = self.inner().queue.lock();
        let on_loop = queue.on_loop.as_ref();
        on_loop.is_some_and(|l| l.thread.is_none_or(|t| t == std::thread::current().id()))
    }

    /// On a loop's thread, runs jobs until there are none, or it is too late.
    pub(super) fn run_on_loops_thread(&self, end: Option<Instant>) {
        while self.is_loops_thread() && self.dispatch(Duration::ZERO, usize::MAX) != Some(0) {
            if end.is_some_and(|end| Instant::now() >= end) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use parking_lot::Mutex;

    use super::*;
    use crate::dispatcher::{Lane, in_callback};

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

    #[test]
    fn a_job_of_a_lane_is_not_overtaken_on_a_loop_and_one_taken_back_is_not_run() {
        let bell = Bell::default();
        let dispatcher = Dispatcher::for_loop(bell.clone());
        let lane = Lane::new();
        let ticket = dispatcher.post_in(lane, |_| panic!("it was taken back"));
        dispatcher.withdraw(lane, [ticket]);
        assert_eq!(dispatcher.dispatch(Duration::ZERO, 9), Some(0));
        assert!(!bell.0.lock().1, "there is nothing to do");
        let (sender, receiver) = mpsc::channel();
        for n in 0..3 {
            let sender = sender.clone();
            dispatcher.post_in(lane, move |_| sender.send(n).unwrap());
        }
        assert_eq!(dispatcher.dispatch(Duration::ZERO, 9), Some(3));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
