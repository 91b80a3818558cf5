//! The leases of calls that run here.
//!
//! Owns which they are, and renewing them while their handlers run; with that it looks now and then whether the
//! epoch is still the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::link::Link;
use super::scripts::{self, Keys, Times};

/// Leases that are renewed by one request.
const AT_ONCE: usize = 256;

/// Time between looks at the epoch.
const LOOK: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Tokens by the keys of calls.
    held: Mutex<HashMap<Vec<u8>, u64>>,
    lost: AtomicU64,
}

impl Leases {
    pub(super) fn add(&self, call: Vec<u8>, token: u64) {
        self.held.lock().insert(call, token);
    }

    /// The call has ended here.
    pub(super) fn remove(&self, call: &[u8], token: u64) {
        let mut held = self.held.lock();
        if held.get(call) == Some(&token) {
            held.remove(call);
        }
    }

    /// Nothing runs here any more.
    pub(super) fn clear(&self) {
        self.held.lock().clear();
    }

    pub(super) fn count(&self) -> usize {
        self.held.lock().len()
    }

    /// Calls whose leases passed on while they ran here.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn note_loss(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> Vec<(Vec<u8>, u64)> {
        let held = self.held.lock();
        held.iter()
            .map(|(call, token)| (call.clone(), *token))
            .collect()
    }

    /// Renews them for ever, three times in the life of a lease, and looks at the epoch between.
    pub(super) async fn renew(self: Arc<Self>, link: Link, keys: Keys, times: Times) {
        let third = Duration::from_millis(times.lease / 3);
        let mut tick = tokio::time::interval(third.min(LOOK).max(Duration::from_millis(1)));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut renewed: Option<Instant> = None;
        loop {
            tick.tick().await;
            let is_due = renewed.is_none_or(|at| at.elapsed() + LOOK > third);
            let held = if is_due { self.all() } else { Vec::new() };
            if is_due {
                renewed = Some(Instant::now());
            }
            // One request also if there is none: it asks for the epoch.
            for start in (0..held.len().max(1)).step_by(AT_ONCE) {
                let some = &held[start.min(held.len())..(start + AT_ONCE).min(held.len())];
                let request = scripts::renew(&keys, times, some);
                let Ok(answer) = link.ask(request, true).await else {
                    continue;
                };
                let Some((epoch, ours)) = scripts::renewed(&answer) else {
                    continue;
                };
                if epoch != *link.epoch().borrow() {
                    link.suspect_epoch();
                }
                for ((call, token), is_ours) in some.iter().zip(ours) {
                    // One that has ended meanwhile is not ours any more, either.
                    if !is_ours && self.held.lock().get(call) == Some(token) {
                        tracing::warn!("a call that runs here has lost its lease");
                    }
                }
            }
        }
    }
}
