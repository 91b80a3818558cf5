//! Outages at an exact call.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which calls meet an outage. Calls are counted from 1 when they are about to run; repetitions that
/// are answered from memory are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultSwitches {
    /// This call closes its connection instead of running.
    pub close_before: Option<u64>,
    /// This call runs, then its connection is closed without an answer.
    pub close_after: Option<u64>,
    /// As `close_before`, for every call whose number is a multiple of this.
    pub close_every: Option<u64>,
    /// The process ends itself when this many calls have run; the last one is not answered.
    pub exit_after: Option<u64>,
}

/// The switches with the counters that they look at. By default there are no outages.
#[derive(Debug, Default)]
pub struct Faults {
    switches: FaultSwitches,
    begun: AtomicU64,
    executed: AtomicU64,
}

impl Faults {
    /// Counts from now on.
    pub fn new(switches: FaultSwitches) -> Self {
        Self {
            switches,
            ..Self::default()
        }
    }

    /// The number of a call that is about to run.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn close_before(&self, number: u64) -> bool {
        let every = self.switches.close_every;
        self.switches.close_before == Some(number)
            || every.is_some_and(|n| number.is_multiple_of(n))
    }

    pub(super) fn close_after(&self, number: u64) -> bool {
        self.switches.close_after == Some(number)
    }

    /// A call has run.
    pub(super) fn executed(&self) {
        let executed = self.executed.fetch_add(1, Ordering::SeqCst) + 1;
        if self.switches.exit_after == Some(executed) {
            // As a killed process ends: without a word to anybody.
            std::process::exit(137);
        }
    }
}
