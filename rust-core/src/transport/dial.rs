//! Connecting to an endpoint of any kind.

use bytes::BytesMut;

use super::io::Io;
use super::layers::Layers;
use super::pump::{self, Reader, Writer};
use super::{Endpoint, Scheme, TransportOptions, tcp, tls, websocket};
use crate::error::{Error, ErrorCode, Result};

/// Connects and makes the handshakes of the layers. The caller limits the time of the whole.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    options: &TransportOptions,
) -> Result<(Reader, Writer)> {
    let mut io = match endpoint.scheme() {
        Scheme::Pipe => pipe(endpoint).await?,
        _ => tcp::connect(endpoint, options.socket).await?.into(),
    };
    let (mut layers, mut early) = (Layers::default(), BytesMut::new());
    if endpoint.scheme().has_tls() {
        let config = options.tls_client.as_ref().ok_or_else(|| {
            Error::new(
                ErrorCode::Internal,
                "no TLS options were loaded for this endpoint",
            )
        })?;
        let (tls, plain) = tls::connect(&mut io, config, &endpoint.host().to_string()).await?;
        layers.tls = Some(Box::new(tls));
        early = plain;
    }
    if endpoint.scheme().has_websocket() {
        let plain = std::mem::take(&mut early);
        websocket::connect(&mut io, &mut layers, plain, endpoint, options).await?;
    }
    Ok(pump::split(
        io,
        layers,
        early,
        options.max_frame,
        options.websocket,
    ))
}

async fn pipe(endpoint: &Endpoint) -> Result<Io> {
    let name = endpoint.path();
    #[cfg(unix)]
    let connected = super::pipe::unix::connect(name).await.map(Io::from);
    #[cfg(windows)]
    let connected = super::pipe::windows::connect(name)
        .await
        .map(|(read, write)| Io {
            read: super::io::ReadHalf::Pipe(read),
            write: super::io::WriteHalf::Pipe(write),
        });
    connected.map_err(|e| {
        Error::new(ErrorCode::Transport, format!("can't connect to {endpoint}"))
            .with_details(Some(e.to_string()))
    })
}
