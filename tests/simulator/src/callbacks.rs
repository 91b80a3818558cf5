//! The thread that runs a client's callbacks: one after the other, each for a while.
//!
//! Owns the order in which they were posted and were run, and that nothing follows destroy.

use std::collections::{HashSet, VecDeque};

use crate::plan::{Call, Work};
use crate::world::{Event, World};

/// What the callback thread is to run.
#[derive(Debug)]
pub(crate) enum Job {
    Told,
    Reconnected,
    Completed(u32),
    Destroy,
}

/// The thread that runs callbacks.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    jobs: VecDeque<(u64, Job)>,
    posted: u64,
    begun: u64,
    is_running: bool,
    is_destroyed: bool,
    completed: HashSet<u32>,
    /// Calls that were made of a closed client: their callbacks are their own.
    after_close: HashSet<u32>,
}

impl Callbacks {
    /// True if nothing is left to be run.
    pub(crate) fn is_silent(&self) -> bool {
        !self.is_running && self.jobs.is_empty()
    }

    /// True if nothing may follow but what was asked for later.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.is_destroyed
    }

    /// A call was made of a closed client.
    pub(crate) fn called_after_close(&mut self, tag: u32) {
        self.after_close.insert(tag);
    }
}

impl World {
    pub(crate) fn post(&mut self, client: usize, job: Job) {
        let callbacks = &mut self.clients[client].callbacks;
        let is_own = matches!(&job, Job::Completed(tag) if callbacks.after_close.contains(tag));
        if callbacks.is_destroyed && !is_own {
            self.checker.violation(format!(
                "client {client}: a callback after destroy: {job:?}"
            ));
            return;
        }
        callbacks.is_destroyed |= matches!(job, Job::Destroy);
        callbacks.posted += 1;
        callbacks.jobs.push_back((callbacks.posted, job));
        if !callbacks.is_running {
            self.run_callback(client);
        }
    }

    fn run_callback(&mut self, client: usize) {
        let callbacks = &mut self.clients[client].callbacks;
        let Some((order, job)) = callbacks.jobs.pop_front() else {
            return;
        };
        callbacks.begun += 1;
        let in_order =
            callbacks.begun == order && !std::mem::replace(&mut callbacks.is_running, true);
        let first = match &job {
            Job::Completed(tag) => callbacks.completed.insert(*tag),
            _ => true,
        };
        if !in_order || !first {
            self.checker.violation(format!(
                "client {client}: {job:?} is out of order, or came twice"
            ));
        }
        let takes = self.plan.clients[client].callback;
        self.queue.push(
            self.now + takes,
            Event::CallbackDone(client, matches!(job, Job::Reconnected)),
        );
    }

    /// A callback returns.
    pub fn callback_done(&mut self, client: usize, was_reconnected: bool) {
        if was_reconnected && self.plan.clients[client].calls_back {
            // Refreshing state in `on_reconnected` is what it is for.
            self.clients[client].called_back += 1;
            let call = Call {
                tag: 1000 + self.clients[client].called_back,
                repeat: witrpc::resilience::retry::Repeat::Deduplicated,
                own_id: None,
                timeout: witrpc::resilience::engine::Timeout::Default,
                work: Work::Answer(0),
            };
            self.call(client, &call);
        }
        self.clients[client].callbacks.is_running = false;
        self.run_callback(client);
    }
}
