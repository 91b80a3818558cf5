//! Taking a running call back: the token that its handler sees, and who may pull it.
//!
//! A call belongs to all who wait for its answer: the client that began it, and those that attached
//! a repetition to it. The token is pulled when the last of them has taken the call back. Who has
//! lost its connection still waits (it may come back), and a .NET client always does: it has no
//! way to say that it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

/// Says whether a call's answer is still wanted. Clones are the same. Only libwitrpc clients take
/// calls back; for others it is never cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    changed: Notify,
    /// Who waits for the answer. A .NET client is nobody who could be found here again.
    waiting: Mutex<Vec<Uuid>>,
}

impl CancellationToken {
    /// True once all who waited for the answer have taken the call back: what the handler comes to
    /// is of no use to anybody.
    pub fn is_cancelled(&self) -> bool {
        let state = self.0.as_ref();
        state.is_some_and(|state| state.cancelled.load(Ordering::SeqCst))
    }

    /// Waits until then; for ever, if it never happens.
    pub async fn cancelled(&self) {
        let Some(state) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            let changed = state.changed.notified();
            if state.cancelled.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }

    /// Of a call that `client` has begun.
    pub(super) fn of(client: Uuid) -> Self {
        Self(Some(Arc::new(State {
            waiting: Mutex::new(vec![client]),
            ..State::default()
        })))
    }

    /// One more waits for the answer.
    pub(super) fn join(&self, client: Uuid) {
        if let Some(state) = &self.0 {
            state.waiting.lock().push(client);
        }
    }

    /// `client` waits no more, whatever it has sent for this call.
    pub(super) fn withdraw(&self, client: Uuid) {
        let Some(state) = &self.0 else { return };
        let mut waiting = state.waiting.lock();
        let before = waiting.len();
        waiting.retain(|other| *other != client);
        if waiting.is_empty() && before > 0 {
            state.cancelled.store(true, Ordering::SeqCst);
            state.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_one_who_withdraws_pulls_the_token() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let token = CancellationToken::of(one);
        let waiter = tokio::spawn({
            let token = token.clone();
            async move { token.cancelled().await }
        });
        token.join(two);
        token.join(one);
        token.withdraw(Uuid::from_u128(3));
        token.withdraw(one);
        assert!(!token.is_cancelled());
        token.withdraw(two);
        assert!(token.is_cancelled());
        waiter.await.unwrap();
        token.cancelled().await;
    }

    #[test]
    fn a_call_that_nobody_can_take_back_never_is() {
        let token = CancellationToken::default();
        token.withdraw(Uuid::nil());
        assert!(!token.is_cancelled());
    }
}
