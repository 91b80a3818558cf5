//! Where user code runs: a thread of the library's own that calls callbacks one after the other, or
//! a loop of the user's (`on_loop`) that asks for them.
//!
//! Owns the threads and the order. A thread is started with the first callback and leaves when there
//! was nothing to do for a while, so that a client without callbacks costs none.
//!
//! Jobs that belong to a lane may be overtaken: one that has run for longer than the patience of
//! its dispatcher no longer holds up the others, which go on in order on a second thread. Jobs of one
//! lane never overlap and keep their order: those of an overtaken lane wait behind it.

mod on_loop;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

pub use self::on_loop::Signal;
use self::on_loop::{LOOP, OnLoop};

/// How long an idle thread stays.
const LINGER: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce(Ticket) + Send>;

thread_local! {
    /// Address of the dispatcher whose callbacks this thread runs.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// Number of this thread.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Jobs that belong together; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Lane(u64);

impl Lane {
    /// A lane of its own.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A job's place in the order of all jobs of its dispatcher.
pub(crate) type Ticket = u64;

struct Entry {
    lane: Option<Lane>,
    job: Job,
}

/// The job that the leader runs.
struct Current {
    lane: Option<Lane>,
    since: Instant,
    /// It waits for something that the library does meanwhile.
    is_blocked: bool,
}

struct Queue {
    /// Who runs the jobs instead of threads.
    on_loop: Option<OnLoop>,
    jobs: BTreeMap<Ticket, Entry>,
    next_ticket: Ticket,
    /// Lanes whose job was overtaken, and what waits behind it.
    overtaken: HashMap<Lane, BTreeMap<Ticket, Job>>,
    /// The thread that takes jobs out of the queue.
    leader: Option<u64>,
    current: Option<Current>,
    /// The thread that takes the place of a leader whose job takes too long.
    deputy: Option<u64>,
    /// The deputy watches the clock; else it waits to be called.
    is_watched: bool,
    /// How long a job with a lane may hold up the others; `None` = for ever.
    patience: Option<Duration>,
    /// Threads that have not left.
    threads: usize,
    /// To be joined.
    handles: Vec<JoinHandle<()>>,
    /// Jobs that run, the overtaken ones included.
    running: usize,
    /// Threads are to leave when they have nothing to do.
    is_leaving: bool,
}

struct Inner {
    queue: Mutex<Queue>,
    /// For the leader.
    wake: Condvar,
    /// For the deputy.
    watch: Condvar,
    /// For those who wait until nothing runs, or until a thread has left.
    idle: Condvar,
    /// A loop runs the jobs, or once did. Spares others a look into the queue.
    has_loop: AtomicBool,
}

/// See the [module](self). Clones share the queue; what is in it when the last of them is dropped
/// is still run.
#[derive(Clone)]
pub struct Dispatcher(Arc<Owner>);

/// What all clones share, and the threads do not.
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.queue.lock().is_leaving = true;
        self.0.wake.notify_one();
        self.0.watch.notify_one();
    }
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self::new(None)
    }
}

impl PartialEq for Dispatcher {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// True on a thread of any dispatcher: user code is running.
pub fn in_callback() -> bool {
    CURRENT.get() != 0
}

impl Dispatcher {
    /// A dispatcher. `patience`: how long a job with a lane may hold up the others; `None` = for ever.
    pub(crate) fn new(patience: Option<Duration>) -> Self {
        Self(Arc::new(Owner(Arc::new(Inner {
            queue: Mutex::new(Queue {
                on_loop: None,
                jobs: BTreeMap::new(),
                next_ticket: 1,
                overtaken: HashMap::new(),
                leader: None,
                current: None,
                deputy: None,
                is_watched: false,
                patience,
                threads: 0,
                handles: Vec::new(),
                running: 0,
                is_leaving: false,
            }),
            wake: Condvar::new(),
            watch: Condvar::new(),
            idle: Condvar::new(),
            has_loop: AtomicBool::new(false),
        }))))
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// Runs `job` after all that were posted before.
    pub fn post(&self, job: impl FnOnce() + Send + 'static) {
        self.enter(None, Box::new(|_| job()));
    }

    /// Runs `job` with its ticket after all that were posted before, but for those that take too
    /// long.
    pub(crate) fn post_in(&self, lane: Lane, job: impl FnOnce(Ticket) + Send + 'static) -> Ticket {
        self.enter(Some(lane), Box::new(job))
    }

    fn enter(&self, lane: Option<Lane>, job: Job) -> Ticket {
        let inner = self.inner();
        let mut queue = inner.queue.lock();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.jobs.insert(ticket, Entry { lane, job });
        if let Some(on_loop) = &mut queue.on_loop {
            on_loop.ring();
            inner.wake.notify_all();
        } else if queue.leader.is_some() {
            inner.wake.notify_one();
            inner.call_deputy(&mut queue);
        } else {
            queue.leader = inner.start_thread(&mut queue);
        }
        ticket
    }

    /// Takes jobs of a lane back that have not begun.
    pub(crate) fn withdraw(&self, lane: Lane, tickets: impl IntoIterator<Item = Ticket>) {
        let mut withdrawn = Vec::new();
        let mut queue = self.inner().queue.lock();
        for ticket in tickets {
            withdrawn.extend(queue.jobs.remove(&ticket).map(|entry| entry.job));
            let behind = queue.overtaken.get_mut(&lane);
            withdrawn.extend(behind.and_then(|jobs| jobs.remove(&ticket)));
        }
        if queue.is_idle() {
            self.inner().idle.notify_all();
        }
        drop(queue);
        // What is the user's in them is dropped outside the lock.
        drop(withdrawn);
    }

    /// False if nothing is to be run, nor can anybody else post anything.
    pub fn may_run_more(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || !self.inner().queue.lock().is_idle()
    }

    /// Waits until all callbacks that were posted have returned. False if that took longer than
    /// `limit`, and at once on a thread of this dispatcher. On the thread of a loop it runs them.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        if self.is_current() {
            return false;
        }
        let end = Instant::now().checked_add(limit);
        self.run_on_loops_thread(end);
        let mut queue = self.inner().queue.lock();
        while !queue.is_idle() {
            if !wait(&self.inner().idle, &mut queue, end) {
                return queue.is_idle();
            }
        }
        true
    }

    /// Waits as [`wait_idle`](Self::wait_idle) and ends the threads. They are started again by the
    /// next callback.
    pub fn end_thread(&self, limit: Duration) -> bool {
        if !self.wait_idle(limit) {
            return false;
        }
        let inner = self.inner();
        let mut queue = inner.queue.lock();
        queue.is_leaving = true;
        inner.wake.notify_one();
        inner.watch.notify_one();
        let end = Instant::now().checked_add(limit);
        while queue.threads > 0 {
            if !wait(&inner.idle, &mut queue, end) && queue.threads > 0 {
                return false;
            }
        }
        queue.is_leaving = false;
        let handles = std::mem::take(&mut queue.handles);
        drop(queue);
        // They have let go of the queue and do nothing more.
        let joined = handles.into_iter().map(|thread| thread.join().is_ok());
        joined.filter(|ended| !ended).count() == 0
    }

    /// Runs `wait`, which waits for the library. On this dispatcher's own thread, and on that of a
    /// loop, it is noted that no callback can run meanwhile.
    pub fn while_waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        struct Unblock<'a>(&'a Inner);
        impl Drop for Unblock<'_> {
            fn drop(&mut self) {
                self.0.set_blocked(false);
            }
        }
        if !self.is_current() && !self.is_loops_thread() {
            return wait();
        }
        self.inner().set_blocked(true);
        let _unblock = Unblock(self.inner());
        wait()
    }

    /// True if a callback, or the loop's thread, waits for the library: nothing that it waits for may
    /// be posted here.
    pub(crate) fn is_blocked(&self) -> bool {
        let queue = self.inner().queue.lock();
        if queue.on_loop.as_ref().is_some_and(OnLoop::is_blocked) {
            return true;
        }
        queue.current.as_ref().is_some_and(|job| job.is_blocked)
    }

    /// True if the caller is one of this dispatcher's callbacks.
    pub fn is_current(&self) -> bool {
        CURRENT.get() == self.inner().address()
    }
}

/// Waits for `changed`. False if it is too late.
fn wait(changed: &Condvar, queue: &mut MutexGuard<'_, Queue>, end: Option<Instant>) -> bool {
    match end {
        Some(end) => !changed.wait_until(queue, end).timed_out(),
        None => {
            changed.wait(queue);
            true
        }
    }
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.jobs.is_empty() && self.overtaken.is_empty()
    }

    /// The next job that may run; those of overtaken lanes are put aside.
    fn next(&mut self) -> Option<(Ticket, Entry)> {
        loop {
            let (ticket, entry) = self.jobs.pop_first()?;
            match entry.lane.and_then(|lane| self.overtaken.get_mut(&lane)) {
                Some(behind) => drop(behind.insert(ticket, entry.job)),
                None => return Some((ticket, entry)),
            }
        }
    }

    /// When the leader is to be overtaken; `None` if it holds up nobody, or may.
    fn overtaking(&self) -> Option<Instant> {
        let current = self.current.as_ref()?;
        if self.leader == Some(LOOP) || current.lane.is_none() || self.jobs.is_empty() {
            return None;
        }
        current.since.checked_add(self.patience?)
    }
}

impl Inner {
    fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    fn set_blocked(&self, blocked: bool) {
        let mut queue = self.queue.lock();
        if let Some(on_loop) = &mut queue.on_loop {
            on_loop.set_blocked(blocked);
        }
        // Whoever was overtaken holds up nobody.
        if queue.leader == Some(THREAD.get())
            && let Some(current) = &mut queue.current
        {
            current.is_blocked = blocked;
        }
    }

    /// Starts a thread and returns its number.
    fn start_thread(self: &Arc<Self>, queue: &mut Queue) -> Option<u64> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let inner = self.clone();
        let started = std::thread::Builder::new()
            .name("witrpc-callbacks".into())
            .spawn(move || inner.run(number));
        match started {
            Ok(handle) => {
                queue.handles.retain(|handle| !handle.is_finished());
                queue.handles.push(handle);
                queue.threads += 1;
                Some(number)
            }
            // The next callback tries again. Running them here would break the promise that no
            // callback runs inside the call that caused it.
            Err(error) => {
                tracing::error!(%error, "no thread for callbacks: they have to wait");
                None
            }
        }
    }

    /// Has somebody watch the clock, if the leader may have to be overtaken.
    fn call_deputy(self: &Arc<Self>, queue: &mut Queue) {
        if queue.overtaking().is_none() {
            return;
        }
        if queue.deputy.is_none() {
            queue.deputy = self.start_thread(queue);
        } else if !queue.is_watched {
            self.watch.notify_one();
        }
        queue.is_watched = queue.deputy.is_some();
    }

    fn run(self: Arc<Self>, number: u64) {
        CURRENT.set(self.address());
        THREAD.set(number);
        let mut queue = self.queue.lock();
        loop {
            let stays = if queue.leader == Some(number) {
                self.lead(&mut queue, number)
            } else {
                self.stand_by(&mut queue, number)
            };
            if !stays {
                queue.threads -= 1;
                self.idle.notify_all();
                return;
            }
        }
    }

    /// Takes jobs out of the queue until there are none, or this thread was overtaken. False if it
    /// is to leave.
    fn lead(self: &Arc<Self>, queue: &mut MutexGuard<'_, Queue>, number: u64) -> bool {
        let Some((ticket, Entry { lane, job })) = queue.next() else {
            let late = !queue.is_leaving && self.wake.wait_for(queue, LINGER).timed_out();
            if queue.jobs.is_empty() && (late || queue.is_leaving) {
                queue.leader = None;
                return false;
            }
            return true;
        };
        queue.current = Some(Current {
            lane,
            since: Instant::now(),
            is_blocked: false,
        });
        self.call_deputy(queue);
        self.carry_out(queue, ticket, job);
        if queue.leader == Some(number) {
            queue.current = None;
        } else if let Some(lane) = lane {
            while let Some((ticket, job)) =
                queue.overtaken.get_mut(&lane).and_then(BTreeMap::pop_first)
            {
                self.carry_out(queue, ticket, job);
            }
            queue.overtaken.remove(&lane);
        }
        if queue.is_idle() {
            self.idle.notify_all();
        }
        true
    }

    fn carry_out(&self, queue: &mut MutexGuard<'_, Queue>, ticket: Ticket, job: Job) {
        queue.running += 1;
        MutexGuard::unlocked(queue, || run(ticket, job));
        queue.running -= 1;
    }

    /// Waits until the leader takes too long, and takes its place. False if this thread is to leave.
    fn stand_by(&self, queue: &mut MutexGuard<'_, Queue>, number: u64) -> bool {
        // Leaders that were overtaken come here when they are done; one deputy is enough.
        if *queue.deputy.get_or_insert(number) != number {
            return false;
        }
        let overtaking = queue.overtaking();
        queue.is_watched = overtaking.is_some();
        let Some(at) = overtaking else {
            let late = !queue.is_leaving && self.watch.wait_for(queue, LINGER).timed_out();
            if queue.overtaking().is_none() && (late || queue.is_leaving) {
                queue.deputy = None;
                return false;
            }
            return true;
        };
        if Instant::now() < at {
            self.watch.wait_until(queue, at);
            return true;
        }
        if let Some(lane) = queue.current.take().and_then(|current| current.lane) {
            queue.overtaken.insert(lane, BTreeMap::new());
        }
        queue.leader = Some(number);
        queue.deputy = None;
        true
    }
}

fn run(ticket: Ticket, job: Job) {
    if catch_unwind(AssertUnwindSafe(|| job(ticket))).is_err() {
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
            assert_eq!(dispatcher.inner().queue.lock().threads, 0);
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
    const PATIENCE: Duration = Duration::from_millis(20);

    #[test]
    fn a_job_of_a_lane_that_blocks_is_overtaken_and_its_lane_waits_behind_it() {
        let dispatcher = Dispatcher::new(Some(PATIENCE));
        let (sender, receiver) = mpsc::channel();
        let (slow, other) = (Lane::new(), Lane::new());
        let (go, wait) = mpsc::channel::<()>();
        let post = |lane, what| {
            let sender = sender.clone();
            dispatcher.post_in(lane, move |_| sender.send(what).unwrap())
        };
        dispatcher.post_in(slow, move |_| wait.recv().unwrap());
        post(slow, 1);
        let withdrawn = post(slow, 2);
        post(other, 10);
        post(slow, 3);
        let begun = Instant::now();
        assert_eq!(receiver.recv(), Ok(10));
        assert!(begun.elapsed() >= PATIENCE / 2);
        // From now on nothing else waits.
        post(other, 11);
        assert_eq!(receiver.recv(), Ok(11));
        dispatcher.withdraw(slow, [withdrawn]);
        assert!(receiver.try_recv().is_err());
        assert!(!dispatcher.wait_idle(PATIENCE));
        go.send(()).unwrap();
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(3)));
        assert!(dispatcher.end_thread(Duration::from_secs(10)));
    }

    #[test]
    fn every_lane_may_block_and_each_is_overtaken() {
        let dispatcher = Dispatcher::new(Some(PATIENCE));
        let gates: Vec<_> = (0..4)
            .map(|_| {
                let (go, wait) = mpsc::channel::<()>();
                dispatcher.post_in(Lane::new(), move |_| wait.recv().unwrap());
                go
            })
            .collect();
        let (sender, receiver) = mpsc::channel();
        dispatcher.post(move || sender.send(()).unwrap());
        assert_eq!(receiver.recv(), Ok(()));
        for go in gates {
            go.send(()).unwrap();
        }
        assert!(dispatcher.end_thread(Duration::from_secs(10)));
    }

    #[test]
    fn a_job_without_a_lane_is_never_overtaken_nor_any_without_patience() {
        for (patience, lane) in [(Some(PATIENCE), None), (None, Some(Lane::new()))] {
            let dispatcher = Dispatcher::new(patience);
            let (sender, receiver) = mpsc::channel();
            let slow = {
                let sender = sender.clone();
                move |_| {
                    std::thread::sleep(PATIENCE * 3);
                    sender.send(1).unwrap();
                }
            };
            dispatcher.enter(lane, Box::new(slow));
            dispatcher.post_in(Lane::new(), move |_| sender.send(2).unwrap());
            assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
        }
    }

    #[test]
    fn jobs_of_one_lane_never_overlap_and_all_run_once_in_order() {
        let dispatcher = Dispatcher::new(Some(Duration::from_millis(1)));
        let lanes: Vec<_> = (0..4).map(|_| (Lane::new(), Arc::default())).collect();
        for n in 0..400_usize {
            let (lane, state) = &lanes[n % 4];
            let state: Arc<Mutex<Vec<usize>>> = Arc::clone(state);
            dispatcher.post_in(*lane, move |_| {
                let mut seen = state.try_lock().expect("two of one lane at once");
                if n % 37 == 0 {
                    std::thread::sleep(Duration::from_millis(3));
                }
                seen.push(n);
            });
        }
        assert!(dispatcher.wait_idle(Duration::from_secs(20)));
        for (first, (_, state)) in lanes.iter().enumerate() {
            let expected: Vec<_> = (first..400).step_by(4).collect();
            assert_eq!(*state.lock(), expected);
        }
    }
}
