//! Accepting connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::{Shared, connection};
use crate::transport;

/// Pause after a failure to accept, which is most often a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// So many more may be on their way to be told that there is no room.
const BEING_TOLD: usize = 64;

/// A socket that listens and the task that accepts from it.
pub(super) struct Listener {
    socket: Arc<transport::Listener>,
    task: AbortHandle,
}

impl Listener {
    pub(super) fn start(socket: transport::Listener, shared: &Arc<Shared>) -> Self {
        let socket = Arc::new(socket);
        let task = tokio::spawn(accept(socket.clone(), shared.clone())).abort_handle();
        Self { socket, task }
    }

    /// Ends accepting. The port can be listened on again at once.
    pub(super) fn close(&self) {
        self.socket.shut_down();
        self.task.abort();
    }
}

/// Accepts for ever. Never waits for a client: handshakes are the connections' own.
async fn accept(socket: Arc<transport::Listener>, shared: Arc<Shared>) {
    loop {
        match socket.accept().await {
            Ok(incoming) => {
                let clients = shared.connections.len();
                let is_full = clients >= shared.limits.max_clients;
                if !shared
                    .connections
                    .have_room(incoming.peer(), &shared.limits)
                {
                    tracing::debug!(peer = %incoming.peer(), "too many from this address");
                    continue;
                }
                if is_full {
                    tracing::debug!(peer = %incoming.peer(), "too many clients");
                }
                // As the reference: one too many is accepted and closed without a word, where there
                // is no way to say it.
                let is_told =
                    incoming.can_be_told() && clients < shared.limits.max_clients + BEING_TOLD;
                if !is_full || is_told {
                    connection::start(incoming, &shared, is_full);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
