//! Accepting connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

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

/// Accepts for ever. Never waits for a client.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, socket: SocketOptions) {
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
