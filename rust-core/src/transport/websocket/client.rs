//! The client's side of the upgrade.

use bytes::BytesMut;
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::Role;

use super::super::io::Io;
use super::super::layers::Layers;
use super::super::pump::Ending;
use super::super::{Endpoint, TransportOptions};
use super::WebSocket;
use crate::error::{Error, ErrorCode, Result};

/// Largest answer to the upgrade, in bytes.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// Asks for the upgrade and waits for it. `layers` holds TLS if there is any, and is given the
/// WebSocket.
pub(in super::super) async fn connect(
    io: &mut Io,
    layers: &mut Layers,
    early: BytesMut,
    endpoint: &Endpoint,
    options: &TransportOptions,
) -> Result<()> {
    let key = generate_key();
    // Neither sub-protocols nor extensions are offered: the reference answers an offer wrongly.
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n",
        endpoint.path(),
        endpoint.authority(),
    );
    let (mut wire, mut plain) = (BytesMut::new(), early);
    let request = BytesMut::from(request.as_bytes());
    layers
        .encode(request, &mut wire)
        .map_err(|ending| failed(endpoint, ending))?;
    io.write_all(&wire.split())
        .await
        .map_err(|e| refused(endpoint, e.to_string()))?;
    let (mut input, mut received) = (BytesMut::new(), super::super::layers::Received::default());
    loop {
        if let Some(length) = check(&plain, endpoint, &key)? {
            let early = plain.split_off(length);
            let websocket = WebSocket::new(
                Role::Client,
                early.to_vec(),
                options.max_frame,
                options.websocket,
            );
            layers.websocket = Some(Box::new(websocket));
            return Ok(());
        }
        if plain.len() > MAX_HEAD {
            return Err(refused(endpoint, "its answer to the upgrade is too long"));
        }
        match io.read(&mut input).await {
            Ok(0) => return Err(refused(endpoint, "it closed the connection")),
            Ok(_) => {}
            Err(error) => return Err(refused(endpoint, error.to_string())),
        }
        let decoded = layers.decode(&mut input, &mut received, &mut wire);
        plain.unsplit(received.stream.split());
        decoded.map_err(|ending| failed(endpoint, ending))?;
        io.write_all(&wire.split())
            .await
            .map_err(|e| refused(endpoint, e.to_string()))?;
    }
}

/// Length of the head of the answer once it is whole and says yes.
fn check(head: &[u8], endpoint: &Endpoint, key: &str) -> Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(head) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => {
            return Err(refused(
                endpoint,
                format!("its answer is not HTTP: {error}"),
            ));
        }
    };
    let code = response.code.unwrap_or_default();
    if code != 101 {
        let what = match code {
            404 => "HTTP 404: nothing is served at this path or under this host name".to_owned(),
            503 => "HTTP 503: it has too many clients".to_owned(),
            code => format!("HTTP {code} instead of an upgrade to WebSocket"),
        };
        return Err(refused(endpoint, what));
    }
    let header = |name: &str| {
        let found = response
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name));
        found
            .and_then(|h| std::str::from_utf8(h.value).ok())
            .unwrap_or_default()
            .trim()
    };
    if header("Sec-WebSocket-Accept") != derive_accept_key(key.as_bytes())
        || !header("Upgrade").eq_ignore_ascii_case("websocket")
    {
        return Err(refused(endpoint, "its upgrade is not one to WebSocket"));
    }
    Ok(Some(length))
}

/// A certificate that was refused, which a server of TLS 1.3 says behind its handshake, stays what it
/// is.
fn failed(endpoint: &Endpoint, ending: Ending) -> Error {
    match ending {
        Ending::Layer(error) if error.code() == ErrorCode::Certificate => error,
        ending => refused(endpoint, ending.to_string()),
    }
}

fn refused(endpoint: &Endpoint, cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::Transport, format!("can't connect to {endpoint}"))
        .with_details(Some(cause.into()))
}
