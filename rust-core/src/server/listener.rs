//! Accepting connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::{Shared, connection};
use crate::error::{Error, ErrorCode, Result};
use crate::transport::{Endpoint, SocketOptions, tcp};

/// Pause after a failure to accept, which is most often a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Binds an endpoint. Returns it with the port that it got.
pub(super) async fn bind(endpoint: &Endpoint) -> Result<(Endpoint, Vec<TcpListener>)> {
    let listeners = tcp::listen(endpoint).await?;
    let port = listeners.first().map(TcpListener::local_addr);
    match port {
        Some(Ok(address)) => Ok((endpoint.with_port(address.port()), listeners)),
        _ => Err(Error::new(
            ErrorCode::Transport,
            format!("can't listen on {endpoint}"),
        )),
    }
}

/// A socket that listens and the task that accepts from it.
pub(super) struct Listener {
    socket: Arc<TcpListener>,
    task: AbortHandle,
}

impl Listener {
    pub(super) fn start(socket: TcpListener, shared: &Arc<Shared>, options: SocketOptions) -> Self {
        let socket = Arc::new(socket);
        let task = tokio::spawn(accept(socket.clone(), shared.clone(), options)).abort_handle();
        Self { socket, task }
    }

    /// Ends accepting. The port can be listened on again at once, also before the task has noticed
    /// (where the system lets a listening socket be shut down: Linux).
    pub(super) fn close(&self) {
        let _ = socket2::SockRef::from(&*self.socket).shutdown(std::net::Shutdown::Both);
        self.task.abort();
    }
}

/// Accepts for ever. Never waits for a client.
async fn accept(listener: Arc<TcpListener>, shared: Arc<Shared>, socket: SocketOptions) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // As the reference: one too many is accepted and closed without a word.
                if shared.connections.len() >= shared.limits.max_clients {
                    tracing::debug!(%peer, "too many clients");
                    continue;
                }
                if let Err(error) = socket.apply(&stream) {
                    tracing::debug!(%peer, %error, "a connection was gone before it began");
                    continue;
                }
                connection::start(stream, peer, &shared);
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
