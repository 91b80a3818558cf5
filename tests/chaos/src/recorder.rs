//! What a client's callbacks said, in order, and whether two of them ever ran at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use witrpc::Error;
use witrpc::client::{ClientBuilder, RetryNotice};
use witrpc::resilience::engine::State;

/// One callback.
#[derive(Debug, Clone)]
pub enum Said {
    /// `on_reconnecting`.
    Reconnecting {
        /// Number of the attempt.
        attempt: u32,
        /// The delay announced.
        delay: Duration,
    },
    /// `on_reconnected`.
    Reconnected,
    /// `on_reconnection_failed`.
    Failed(Error),
    /// `on_state_changed`.
    State(State),
    /// `on_retry`.
    Retry(RetryNotice),
}

/// See the [module](self). Clones share what was recorded.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Inner>);

#[derive(Default)]
struct Inner {
    said: Mutex<Vec<Said>>,
    inside: AtomicBool,
    overlapped: AtomicBool,
}

impl Recorder {
    /// Sets all callbacks of a client.
    pub fn attach(&self, builder: ClientBuilder) -> ClientBuilder {
        let [a, b, c, d, e] = std::array::from_fn(|_| self.clone());
        builder
            .on_reconnecting(move |attempt, delay| {
                a.note(Said::Reconnecting { attempt, delay });
            })
            .on_reconnected(move || b.note(Said::Reconnected))
            .on_reconnection_failed(move |error| c.note(Said::Failed(error)))
            .on_state_changed(move |state| d.note(Said::State(state)))
            .on_retry(move |notice| e.note(Said::Retry(notice)))
    }

    fn note(&self, said: Said) {
        if self.0.inside.swap(true, Ordering::SeqCst) {
            self.0.overlapped.store(true, Ordering::SeqCst);
        }
        // Room for another one to come in, if it could.
        std::thread::yield_now();
        self.0.said.lock().push(said);
        self.0.inside.store(false, Ordering::SeqCst);
    }

    /// Everything so far.
    pub fn said(&self) -> Vec<Said> {
        assert!(
            !self.0.overlapped.load(Ordering::SeqCst),
            "two callbacks at once"
        );
        self.0.said.lock().clone()
    }

    /// How often `on_reconnected` was called.
    pub fn reconnected(&self) -> usize {
        self.count(|said| matches!(said, Said::Reconnected))
    }

    /// How many callbacks were of some kind.
    pub fn count(&self, wanted: impl Fn(&Said) -> bool) -> usize {
        self.0.said.lock().iter().filter(|s| wanted(s)).count()
    }

    /// The states, in order.
    pub fn states(&self) -> Vec<State> {
        let said = self.said();
        let states = said.iter().filter_map(|s| match s {
            Said::State(state) => Some(*state),
            _ => None,
        });
        states.collect()
    }

    /// The attempts announced, with their delays.
    pub fn attempts(&self) -> Vec<(u32, Duration)> {
        let said = self.said();
        let attempts = said.iter().filter_map(|s| match s {
            Said::Reconnecting { attempt, delay } => Some((*attempt, *delay)),
            _ => None,
        });
        attempts.collect()
    }

    /// The error of the last `on_reconnection_failed`.
    pub fn failure(&self) -> Option<Error> {
        self.said().iter().rev().find_map(|s| match s {
            Said::Failed(error) => Some(error.clone()),
            _ => None,
        })
    }

    /// Checks the grammar of reconnections: attempts counted up from 1, then reconnected or failed,
    /// and again. Returns how often the link came back, and by how many attempts.
    pub fn check_cycles(&self) -> (usize, usize) {
        let (mut cycles, mut attempts, mut open) = (0, 0, 0);
        for said in self.said() {
            match said {
                Said::Reconnecting { attempt, .. } => {
                    assert_eq!(attempt, open + 1, "attempts are not counted up from 1");
                    open = attempt;
                    attempts += 1;
                }
                Said::Reconnected => {
                    assert!(open > 0, "reconnected without an attempt");
                    open = 0;
                    cycles += 1;
                }
                Said::Failed(_) => {
                    assert!(open > 0, "failed without an attempt");
                    open = 0;
                }
                Said::State(_) | Said::Retry(_) => {}
            }
        }
        assert_eq!(open, 0, "the last attempt came to no end");
        (cycles, attempts)
    }
}
