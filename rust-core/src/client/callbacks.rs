//! The callbacks of a client: who is told of which notification.

use std::sync::Arc;
use std::time::Duration;

use crate::dispatcher::Dispatcher;
use crate::error::Error;
use crate::resilience::engine::{Notification, State};

/// A retry that is about to happen.
#[derive(Debug, Clone)]
pub struct RetryNotice {
    /// Name of the method.
    pub method: Arc<str>,
    /// Why the attempt failed.
    pub error: Error,
    /// Number of the attempt that failed, from 1.
    pub attempt: u32,
    /// The delay that follows.
    pub delay: Duration,
}

/// Says whether a failure is worth a retry.
pub(super) type Predicate = Arc<dyn Fn(&Error) -> bool + Send + Sync>;

type Callback<A> = Option<Arc<dyn Fn(A) + Send + Sync>>;

/// All run on the client's callback thread, one after the other, in the order in which things
/// happened.
#[derive(Clone, Default)]
pub(super) struct Callbacks {
    pub(super) reconnecting: Callback<(u32, Duration)>,
    pub(super) reconnected: Callback<()>,
    pub(super) reconnection_failed: Callback<Error>,
    pub(super) state_changed: Callback<State>,
    pub(super) retry: Callback<RetryNotice>,
    pub(super) retryable: Option<Predicate>,
}

impl Callbacks {
    /// Queues the callback of a notification, if there is one.
    pub(super) fn post(&self, dispatcher: &Dispatcher, notification: Notification) {
        fn post<A: Send + 'static>(dispatcher: &Dispatcher, callback: &Callback<A>, argument: A) {
            if let Some(callback) = callback.clone() {
                dispatcher.post(move || callback(argument));
            }
        }
        match notification {
            Notification::StateChanged(state) => post(dispatcher, &self.state_changed, state),
            Notification::Reconnecting { attempt, delay } => {
                tracing::info!(attempt, ?delay, "reconnecting");
                post(dispatcher, &self.reconnecting, (attempt, delay));
            }
            Notification::Reconnected => {
                tracing::info!("reconnected");
                post(dispatcher, &self.reconnected, ());
            }
            Notification::ReconnectionFailed(error) => {
                tracing::warn!(%error, "reconnection failed");
                post(dispatcher, &self.reconnection_failed, error);
            }
            Notification::Retrying {
                method_name: method,
                error,
                attempt,
                delay,
            } => {
                tracing::debug!(%method, %error, attempt, ?delay, "retrying");
                post(
                    dispatcher,
                    &self.retry,
                    RetryNotice {
                        method,
                        error,
                        attempt,
                        delay,
                    },
                );
            }
            // Events go to their subscribers.
            Notification::Event(_) => {}
        }
    }
}
