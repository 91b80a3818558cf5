//! The thread of a journal and the queue in front of it.
//!
//! Owns how many requests share one wait for the disk. While the disk is busy, requests gather; when it is free again, those that are sure to come soon (who was just answered has more
//! to write) are waited for a little, which at 64 calls in flight halves the number of waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::core::{Core, Reply, Request};
use crate::server::store::StoreError;
use crate::time::Time;

/// Requests that may wait; more wait for room.
const MOST: usize = 4096;

/// Bytes of answers after which a batch is full.
const BATCH: usize = 8 * 1024 * 1024;

/// The longest that requests are gathered for.
const LONGEST_GATHERING: Duration = Duration::from_millis(5);

struct Waiting {
    request: Request,
    reply: oneshot::Sender<Reply>,
    _room: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The thread is to be woken when so many wait.
    wanted: usize,
    is_closed: bool,
}

/// See the [module](self).
pub(super) struct Writer {
    queue: Mutex<Queue>,
    changed: Condvar,
    room: Arc<Semaphore>,
}

impl Writer {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            changed: Condvar::new(),
            room: Arc::new(Semaphore::new(MOST)),
        })
    }

    /// Has a request done. Requests are done in the order in which this is first polled.
    pub(super) async fn ask(&self, request: Request) -> Reply {
        let closed = || StoreError::new("the journal is closed");
        let room = self.room.clone().acquire_owned().await;
        let (reply, answer) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            let Ok(room) = room else { return Err(closed()) };
            if queue.is_closed {
                return Err(closed());
            }
            queue.waiting.push_back(Waiting {
                request,
                reply,
                _room: room,
            });
            if queue.waiting.len() >= queue.wanted {
                self.changed.notify_one();
            }
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Takes no more requests; the thread ends when those that wait are done.
    pub(super) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.room.close();
        self.changed.notify_one();
    }

    /// Does what is asked until it is closed.
    pub(super) fn run(self: Arc<Self>, mut core: Core, origin: Instant) {
        let _closed = CloseWhenGone(&self);
        let (mut expected, mut until) = (1, origin);
        loop {
            let batch = self.gather(expected, until);
            if batch.is_empty() {
                return core.close();
            }
            let (requests, replies): (Vec<_>, Vec<_>) = batch
                .into_iter()
                .map(|waiting| (waiting.request, (waiting.reply, waiting._room)))
                .unzip();
            let begun = Instant::now();
            let said = core.commit(Time::from_origin(begun - origin), requests);
            let ended = Instant::now();
            until = ended + ((ended - begun) / 2).min(LONGEST_GATHERING);
            // A straggler is not worth the wait of all others.
            expected = (said.len() + self.queue.lock().waiting.len()).div_ceil(8) * 7;
            for ((reply, _), said) in replies.into_iter().zip(said) {
                // Who does not wait any more has been dropped with its call.
                let _ = reply.send(said);
            }
        }
    }

    /// Waits for requests, and then a little for more of them. None when it is closed.
    fn gather(&self, expected: usize, until: Instant) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        queue.wanted = 1;
        while queue.waiting.is_empty() && !queue.is_closed {
            self.changed.wait(&mut queue);
        }
        queue.wanted = expected;
        while queue.waiting.len() < expected && !queue.is_closed {
            if self.changed.wait_until(&mut queue, until).timed_out() {
                break;
            }
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH
            && let Some(waiting) = queue.waiting.pop_front()
        {
            if let Request::End(_, Some(answer)) = &waiting.request {
                bytes += answer.len();
            }
            batch.push(waiting);
        }
        batch
    }
}

/// Nobody waits for a thread that has ended, however it did.
struct CloseWhenGone<'a>(&'a Writer);

impl Drop for CloseWhenGone<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.queue.lock().waiting.clear();
    }
}
