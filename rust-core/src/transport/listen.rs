//! Listening at an endpoint of any kind, and the handshakes of those who come.

use std::io;

use bytes::BytesMut;
use tokio::net::TcpListener;

use super::io::Io;
use super::layers::Layers;
use super::pump::{self, Reader, Writer};
use super::{Endpoint, PeerAddr, Scheme, TransportOptions, tcp, tls, websocket};
use crate::error::{Error, ErrorCode, Result};

/// Permissions of a pipe's socket file unless told otherwise: its owner's alone.
const PIPE_MODE: u32 = 0o600;

/// A socket that listens.
pub(crate) struct Listener {
    endpoint: Endpoint,
    socket: Socket,
}

enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Pipe(super::pipe::unix::Listener),
    #[cfg(windows)]
    Pipe(super::pipe::windows::Listener),
}

/// Somebody who has connected and not made any handshake yet.
pub(crate) struct Incoming {
    io: Io,
    peer: PeerAddr,
    endpoint: Endpoint,
}

impl Listener {
    /// Binds an endpoint: one socket, or several for a host with several addresses.
    pub(crate) async fn bind(endpoint: &Endpoint, options: &TransportOptions) -> Result<Vec<Self>> {
        if endpoint.scheme().has_tls() && options.tls_server.is_none() {
            return Err(Error::invalid_argument(format!(
                "endpoint \"{endpoint}\" needs a certificate: set the server's TLS options"
            )));
        }
        if endpoint.scheme() == Scheme::Pipe {
            let mode = options.pipe_mode.unwrap_or(PIPE_MODE);
            #[cfg(unix)]
            let bound = super::pipe::unix::listen(endpoint.path(), mode).await;
            #[cfg(windows)]
            let bound = super::pipe::windows::listen(endpoint.path(), mode).await;
            let socket = bound.map_err(|e| {
                Error::new(ErrorCode::Transport, format!("can't listen on {endpoint}"))
                    .with_details(Some(e.to_string()))
            })?;
            return Ok(vec![Self {
                endpoint: endpoint.clone(),
                socket: Socket::Pipe(socket),
            }]);
        }
        let sockets = tcp::listen(endpoint).await?;
        let port = sockets.first().map(TcpListener::local_addr);
        let Some(Ok(address)) = port else {
            return Err(Error::new(
                ErrorCode::Transport,
                format!("can't listen on {endpoint}"),
            ));
        };
        let endpoint = endpoint.with_port(address.port());
        let listeners = sockets.into_iter().map(|socket| Self {
            endpoint: endpoint.clone(),
            socket: Socket::Tcp(socket),
        });
        Ok(listeners.collect())
    }

    /// Where it listens, with the port that it was given.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for the next one.
    pub(crate) async fn accept(&self) -> io::Result<Incoming> {
        let (io, peer) = match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                (stream.into(), PeerAddr::Ip(peer))
            }
            #[cfg(unix)]
            Socket::Pipe(listener) => {
                let (stream, _) = listener.socket.accept().await?;
                (stream.into(), PeerAddr::Local)
            }
            #[cfg(windows)]
            Socket::Pipe(listener) => {
                let (read, write) = listener.accept().await?;
                let read = super::io::ReadHalf::Pipe(read);
                (
                    Io {
                        read,
                        write: super::io::WriteHalf::Pipe(write),
                    },
                    PeerAddr::Local,
                )
            }
        };
        Ok(Incoming {
            io,
            peer,
            endpoint: self.endpoint.clone(),
        })
    }

    /// Listens no more, at once: the port, or the name, is free before the task that accepts has
    /// noticed (where the system lets a listening socket be shut down: Linux).
    pub(crate) fn shut_down(&self) {
        match &self.socket {
            Socket::Tcp(listener) => {
                let socket = socket2::SockRef::from(listener);
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
            #[cfg(unix)]
            Socket::Pipe(listener) => listener.hide(),
            #[cfg(windows)]
            Socket::Pipe(_) => {}
        }
    }
}

impl Incoming {
    /// Who it is.
    pub(crate) fn peer(&self) -> PeerAddr {
        self.peer
    }

    /// True if a refusal has a form in this transport. Elsewhere a connection is just closed.
    pub(crate) fn can_be_told(&self) -> bool {
        self.endpoint.scheme().has_websocket()
    }

    /// Makes the handshakes of the layers. `is_full`: there is no room for it, and it is to be told
    /// so. The caller limits the time.
    pub(crate) async fn accept(
        self,
        options: &TransportOptions,
        max_frame: usize,
        is_full: bool,
    ) -> Result<(Reader, Writer)> {
        let Self {
            mut io, endpoint, ..
        } = self;
        if let super::io::WriteHalf::Tcp(half) = &io.write {
            let applied = options.socket.apply(half.as_ref());
            applied.map_err(|e| Error::new(ErrorCode::Transport, e.to_string()))?;
        }
        let (mut layers, mut early) = (Layers::default(), BytesMut::new());
        if let Some(config) = options
            .tls_server
            .as_ref()
            .filter(|_| endpoint.scheme().has_tls())
        {
            let (tls, plain) = tls::accept(&mut io, config.clone()).await?;
            layers.tls = Some(Box::new(tls));
            early = plain;
        }
        if endpoint.scheme().has_websocket() {
            let upgrade = websocket::Upgrade {
                endpoint: &endpoint,
                is_full,
                max_message: max_frame,
            };
            let plain = std::mem::take(&mut early);
            websocket::accept(&mut io, &mut layers, plain, &upgrade, options).await?;
        }
        Ok(pump::split(io, layers, early, max_frame, options.websocket))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// On Linux a listening local socket that was shut down is readable for ever, so that accepting
    /// from it never gives its thread back.
    #[test]
    fn a_pipe_that_listens_no_more_is_free_and_keeps_no_thread_busy() {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let endpoint = format!("pipe://witrpc-listen-{:x}", rand::random::<u64>());
                let endpoint: Endpoint = endpoint.parse().unwrap();
                let options = TransportOptions::default();
                let listeners = Listener::bind(&endpoint, &options).await.unwrap();
                listeners[0].shut_down();
                let wait = tokio::time::timeout(Duration::from_millis(20), listeners[0].accept());
                assert!(wait.await.is_err(), "there is nobody to accept");
                // The name is free, although the old socket is still there.
                let again = Listener::bind(&endpoint, &options).await.unwrap();
                drop(listeners);
                let connected = super::super::connect(&endpoint, &options).await;
                assert!(
                    connected.is_ok(),
                    "the first one took the second one's file away"
                );
                drop(again);
                sender.send(()).unwrap();
            });
        });
        receiver
            .recv_timeout(Duration::from_secs(20))
            .expect("accepting never gives its thread back");
    }
}
