//! The server's side of the upgrade: which request is served, and what the others are told.

use bytes::BytesMut;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::Role;

use super::super::io::Io;
use super::super::layers::{Layers, Received};
use super::super::{Endpoint, Host, TransportOptions};
use super::WebSocket;
use crate::error::{Error, ErrorCode, Result};

/// Largest request for an upgrade, in bytes.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// What a request for an upgrade is measured by.
pub(in super::super) struct Upgrade<'a> {
    pub(in super::super) endpoint: &'a Endpoint,
    /// There is no room for one more client.
    pub(in super::super) is_full: bool,
    /// Largest message before the client is authorised.
    pub(in super::super) max_message: usize,
}

/// Reads the request and answers it. `layers` holds TLS if there is any, and is given the WebSocket.
pub(in super::super) async fn accept(
    io: &mut Io,
    layers: &mut Layers,
    early: BytesMut,
    upgrade: &Upgrade<'_>,
    options: &TransportOptions,
) -> Result<()> {
    let (mut plain, mut wire, mut input) = (early, BytesMut::new(), BytesMut::new());
    let mut received = Received::default();
    let answer = loop {
        match judge(&plain, upgrade) {
            Judgement::Incomplete if plain.len() > MAX_HEAD => break Err(Status::TooLarge),
            Judgement::Incomplete => {}
            Judgement::Refused(status) => break Err(status),
            Judgement::Served { head, accept } => break Ok((head, accept)),
        }
        if io.read(&mut input).await.map_err(gone)? == 0 {
            return Err(gone("the client closed the connection"));
        }
        let decoded = layers.decode(&mut input, &mut received, &mut wire);
        plain.unsplit(received.stream.split());
        decoded.map_err(gone)?;
        io.write_all(&wire.split()).await.map_err(gone)?;
    };
    let text = match &answer {
        Ok((_, accept)) => format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ),
        Err(status) => status.response(),
    };
    layers
        .encode(BytesMut::from(text.as_bytes()), &mut wire)
        .map_err(gone)?;
    io.write_all(&wire).await.map_err(gone)?;
    match answer {
        Ok((head, _)) => {
            let early = plain.split_off(head).to_vec();
            let websocket =
                WebSocket::new(Role::Server, early, upgrade.max_message, options.websocket);
            layers.websocket = Some(Box::new(websocket));
            Ok(())
        }
        Err(status) => {
            io.linger().await;
            Err(gone(format!("refused: HTTP {}", status.line())))
        }
    }
}

fn gone(cause: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::Transport, "no WebSocket").with_details(Some(cause.to_string()))
}

enum Judgement {
    Incomplete,
    Refused(Status),
    Served { head: usize, accept: String },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    BadRequest,
    NotFound,
    UpgradeRequired,
    TooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::UpgradeRequired => "426 Upgrade Required",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    fn response(self) -> String {
        let body = match self {
            Self::NotFound => "<h1>Not Found (Not Found)</h1>",
            _ => "",
        };
        let version = match self {
            Self::UpgradeRequired => "Sec-WebSocket-Version: 13\r\n",
            _ => "",
        };
        format!(
            "HTTP/1.1 {}\r\nConnection: close\r\n{version}Content-Type: text/html\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.line(),
            body.len()
        )
    }
}

fn judge(head: &[u8], upgrade: &Upgrade<'_>) -> Judgement {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(head) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Judgement::Incomplete,
        Err(httparse::Error::TooManyHeaders) => return Judgement::Refused(Status::TooLarge),
        Err(_) => return Judgement::Refused(Status::BadRequest),
    };
    match serve(&request, upgrade) {
        Ok(accept) => Judgement::Served {
            head: length,
            accept,
        },
        Err(status) => Judgement::Refused(status),
    }
}

/// The accept key, if the request is one that this endpoint serves.
fn serve(
    request: &httparse::Request<'_, '_>,
    upgrade: &Upgrade<'_>,
) -> std::result::Result<String, Status> {
    let header = |name: &str| {
        let found = request
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name));
        found
            .and_then(|h| std::str::from_utf8(h.value).ok())
            .map(str::trim)
    };
    let host = header("Host").ok_or(Status::BadRequest)?;
    let target = request.path.ok_or(Status::BadRequest)?;
    // An absolute target is allowed: what counts of it is the path.
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    if !host_matches(host, upgrade.endpoint.host()) || !path_matches(path, upgrade.endpoint.path())
    {
        return Err(Status::NotFound);
    }
    let asks = |name: &str, token: &str| {
        header(name).is_some_and(|v| v.split(',').any(|t| t.trim().eq_ignore_ascii_case(token)))
    };
    if request.method != Some("GET")
        || !asks("Upgrade", "websocket")
        || !asks("Connection", "upgrade")
    {
        return Err(Status::BadRequest);
    }
    if header("Sec-WebSocket-Version") != Some("13") {
        return Err(Status::UpgradeRequired);
    }
    let key = header("Sec-WebSocket-Key")
        .filter(|key| key.len() == 24)
        .ok_or(Status::BadRequest)?;
    if upgrade.is_full {
        return Err(Status::Unavailable);
    }
    Ok(derive_accept_key(key.as_bytes()))
}

/// The name must be that of the endpoint; its port is not looked at.
fn host_matches(header: &str, host: &Host) -> bool {
    let name = match header.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => header.rsplit_once(':').map_or(header, |(name, _)| name),
    };
    match host {
        Host::Any => true,
        Host::Ip(address) => name.parse() == Ok(*address),
        Host::Name(expected) => name.eq_ignore_ascii_case(expected),
    }
}

/// The path must be the endpoint's or lie below it, case-sensitively. (The reference also serves
/// `/apix` under `/api`.)
fn path_matches(path: &str, endpoint: &str) -> bool {
    let Some(path) = normalise(path) else {
        return false;
    };
    let prefix = endpoint.strip_suffix('/').unwrap_or(endpoint);
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Without query, percent-decoded, without `.` and `..`.
fn normalise(path: &str) -> Option<String> {
    let path = path.split(['?', '#']).next()?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            byte => byte,
        });
    }
    let decoded = String::from_utf8(bytes).ok()?;
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.strip_prefix('/')?.split('/') {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    Some(format!("/{}", segments.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str, endpoint: &str, is_full: bool) -> Option<Status> {
        let endpoint: Endpoint = endpoint.parse().unwrap();
        let upgrade = Upgrade {
            endpoint: &endpoint,
            is_full,
            max_message: 1000,
        };
        match judge(request.as_bytes(), &upgrade) {
            Judgement::Served { head, accept } => {
                assert_eq!((head, accept.len()), (request.len(), 28));
                None
            }
            Judgement::Refused(status) => Some(status),
            Judgement::Incomplete => panic!("incomplete"),
        }
    }

    fn request(path: &str, host: &str) -> String {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    }

    #[test]
    fn paths_at_or_below_the_endpoint_are_served() {
        for path in [
            "/api",
            "/api/",
            "/api/x/y",
            "/%61pi/",
            "/zz/../api",
            "/api%2Fx",
            "/api?x=1",
            "http://localhost/api/",
        ] {
            assert_eq!(
                status(&request(path, "localhost"), "ws://localhost:1/api/", false),
                None,
                "{path}"
            );
        }
        for path in ["/apix", "/ap", "/", "/API/", "/x/api/", "//api/", "/%zz"] {
            let found = status(&request(path, "localhost"), "ws://localhost:1/api", false);
            assert_eq!(found, Some(Status::NotFound), "{path}");
        }
        assert_eq!(
            status(
                &request("/anything", "localhost"),
                "ws://localhost:1/",
                false
            ),
            None
        );
    }

    #[test]
    fn the_host_must_be_the_endpoints_and_its_port_does_not_matter() {
        for (host, endpoint, served) in [
            ("localhost", "ws://localhost:5/", true),
            ("LOCALHOST:1", "ws://localhost:5/", true),
            ("127.0.0.1", "ws://localhost:5/", false),
            ("127.0.0.1:9", "ws://127.0.0.1:5/", true),
            ("localhost", "ws://127.0.0.1:5/", false),
            ("[::1]:5", "ws://[::1]:5/", true),
            ("whatever", "ws://*:5/", true),
        ] {
            let found = status(&request("/", host), endpoint, false);
            assert_eq!(found.is_none(), served, "{host} at {endpoint}");
        }
    }

    #[test]
    fn what_is_no_upgrade_is_told_so() {
        let good = request("/", "localhost");
        for (from, to, expected) in [
            ("Host: localhost\r\n", "", Status::BadRequest),
            ("Upgrade: websocket\r\n", "", Status::BadRequest),
            ("GET", "POST", Status::BadRequest),
            ("Version: 13", "Version: 8", Status::UpgradeRequired),
            ("dGhlIHNhbXBsZSBub25jZQ==", "short", Status::BadRequest),
            ("HTTP/1.1", "SMTP", Status::BadRequest),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_eq!(
                status(&bad, "ws://localhost:1/", false),
                Some(expected),
                "{bad}"
            );
        }
        assert_eq!(
            status(&good, "ws://localhost:1/", true),
            Some(Status::Unavailable)
        );
    }
}
