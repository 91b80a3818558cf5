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
    waiting: Mutex<Vec<Waiting>>,
}

/// Somebody who waits for the answer of a call: a request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The same over all connections of a client.
    pub(super) client: Uuid,
    pub(super) connection: Uuid,
    /// Id of the request's message.
    pub(super) message: Uuid,
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

    /// Of a call that this request begins.
    pub(super) fn of(request: Waiting) -> Self {
        Self(Some(Arc::new(State {
            waiting: Mutex::new(vec![request]),
            ..State::default()
        })))
    }

    /// One more waits for the answer.
    pub(super) fn join(&self, request: Waiting) {
        if let Some(state) = &self.0 {
            state.waiting.lock().push(request);
        }
    }

    /// This request is taken back, and with it what its client has sent for the call on earlier
    /// connections. Another request of the same client on the same connection is another call of
    /// its own, which still waits.
    pub(super) fn withdraw(&self, request: Waiting) {
        let Some(state) = &self.0 else { return };
        let mut waiting = state.waiting.lock();
        let before = waiting.len();
        waiting.retain(|other| {
            let is_earlier =
                other.client == request.client && other.connection != request.connection;
            *other != request && !is_earlier
        });
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
        let request = |client, connection, message| Waiting {
            client: Uuid::from_u128(client),
            connection: Uuid::from_u128(connection),
            message: Uuid::from_u128(message),
        };
        let one = request(1, 1, 1);
        let token = CancellationToken::of(one);
        let waiter = tokio::spawn({
            let token = token.clone();
            async move { token.cancelled().await }
        });
        token.join(request(2, 2, 2));
        token.withdraw(request(3, 3, 3));
        token.withdraw(one);
        assert!(!token.is_cancelled());
        // The same client twice on one connection, and once on an earlier one.
        token.join(request(2, 4, 5));
        token.join(request(2, 4, 6));
        token.withdraw(request(2, 4, 5));
        assert!(!token.is_cancelled());
        token.withdraw(request(2, 4, 6));
        assert!(token.is_cancelled());
        waiter.await.unwrap();
        token.cancelled().await;
    }

    #[test]
    fn a_call_that_nobody_can_take_back_never_is() {
        let token = CancellationToken::default();
        token.withdraw(Waiting {
            client: Uuid::nil(),
            connection: Uuid::nil(),
            message: Uuid::nil(),
        });
        assert!(!token.is_cancelled());
    }
}
