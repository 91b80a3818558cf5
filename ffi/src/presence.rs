//! Who is inside the caller's code, for whoever wants to wait until nobody is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

/// Of one server: handlers, validators and other callbacks that run.
#[derive(Default)]
pub(crate) struct Presence {
    closed: AtomicBool,
    inside: RwLock<()>,
}

impl Presence {
    /// Runs the caller's code; `None` without running it, once it is closed.
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        // Recursive: a handler that starts another server of the same kind must not wait for who
        // waits for it.
        let _inside = self.inside.read_recursive();
        (!self.closed.load(Ordering::SeqCst)).then(f)
    }

    /// Nothing begins any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until nothing runs; false if that took longer than `limit`. Not from inside.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> bool {
        match limit {
            None => {
                drop(self.inside.write());
                true
            }
            Some(limit) => self.inside.try_write_for(limit).is_some(),
        }
    }
}
