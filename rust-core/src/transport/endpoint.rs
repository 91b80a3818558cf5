//! The text form of an address, the same in every language and for client and server.
//!
//! ```text
//! endpoint = ( "tcp://" | "tls://" ) host ":" port
//!          | ( "ws://" | "wss://" ) host ":" port [ path ]
//!          | "pipe://" ( name | absolute path )
//! host     = name | IPv4 | "[" IPv6 "]" | "*"
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::error::{Error, Result};

/// What carries the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `tcp://host:port`
    Tcp,
    /// `tls://host:port`: the same within TLS.
    Tls,
    /// `ws://host:port/path`: WebSocket.
    Ws,
    /// `wss://host:port/path`: WebSocket within TLS.
    Wss,
    /// `pipe://name`: a named pipe.
    Pipe,
}

impl Scheme {
    const ALL: [Self; 5] = [Self::Tcp, Self::Tls, Self::Ws, Self::Wss, Self::Pipe];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Pipe => "pipe",
        }
    }

    pub(crate) fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    pub(crate) fn has_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// The host part of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// `*`: all addresses of this machine. For servers only.
    Any,
    /// An address.
    Ip(IpAddr),
    /// A name to be looked up.
    Name(String),
}

/// Where a server listens, or a client connects to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    scheme: Scheme,
    host: Host,
    port: u16,
    path: String,
}

impl Endpoint {
    /// What carries the frames.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host; [`Host::Any`] for a pipe, which has none.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port; 0 lets a server pick one. 0 for a pipe, which has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of a WebSocket, `/` if none was given; the name or absolute path of a pipe; else
    /// empty.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and port as HTTP writes them.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The same endpoint on another port.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        Self {
            port,
            ..self.clone()
        }
    }

    /// Fails where a client could not connect.
    pub(crate) fn check_for_client(&self) -> Result<()> {
        if self.scheme == Scheme::Pipe {
            return Ok(());
        }
        if self.host == Host::Any {
            return Err(self.wrong("\"*\" is for servers: name the host to connect to"));
        }
        if self.port == 0 {
            return Err(self.wrong("port 0 is for servers: name the port to connect to"));
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> Error {
        wrong(&self.to_string(), what)
    }
}

fn wrong(text: &str, what: &str) -> Error {
    Error::invalid_argument(format!("endpoint \"{text}\": {what}"))
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail = |what: &str| Err(wrong(text, what));
        let Some((scheme, rest)) = text.split_once("://") else {
            return fail("it must begin with a scheme, as \"tcp://\"");
        };
        let Some(scheme) = Scheme::ALL.into_iter().find(|s| s.name() == scheme) else {
            return fail("unknown scheme: use tcp, tls, ws, wss or pipe");
        };
        if scheme == Scheme::Pipe {
            let what = check_pipe(rest);
            return match what {
                None => Ok(Self {
                    scheme,
                    host: Host::Any,
                    port: 0,
                    path: rest.to_owned(),
                }),
                Some(what) => fail(what),
            };
        }
        if rest.contains(['?', '#']) {
            return fail("a query or fragment has no meaning here");
        }
        if rest.contains('@') {
            return fail("a user name has no meaning here");
        }
        let (rest, path) = match rest.find('/') {
            None if scheme.has_websocket() => (rest, "/"),
            None => (rest, ""),
            Some(at) if scheme.has_websocket() => rest.split_at(at),
            Some(_) => return fail("only a host and a port may follow the scheme"),
        };
        if !path.bytes().all(|b| b.is_ascii_graphic()) {
            return fail("the path must be percent-encoded ASCII");
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let Some((address, port)) = rest.split_once("]:") else {
                    return fail("expected \"[IPv6 address]:port\"");
                };
                match address.parse::<Ipv6Addr>() {
                    Ok(address) => (Host::Ip(address.into()), port),
                    Err(_) => return fail("what stands in brackets is not an IPv6 address"),
                }
            }
            None => {
                let Some((host, port)) = rest.rsplit_once(':') else {
                    return fail("the port is missing: expected \"host:port\"");
                };
                if host.contains(':') {
                    return fail("an IPv6 address must stand in brackets");
                }
                (parse_host(host).map_err(|what| wrong(text, what))?, port)
            }
        };
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        match port.parse() {
            Ok(port) if digits => Ok(Self {
                scheme,
                host,
                port,
                path: path.to_owned(),
            }),
            _ => fail("the port must be a number from 0 to 65535"),
        }
    }
}

/// What is wrong with the name of a pipe.
fn check_pipe(name: &str) -> Option<&'static str> {
    if name.is_empty() || name == "/" {
        return Some("the name of the pipe is missing");
    }
    if name.contains('\0') {
        return Some("the name of a pipe can't hold a NUL");
    }
    let is_path = name.starts_with('/');
    (!is_path && name.contains(['/', '\\'])).then_some("the name of a pipe can't hold a slash")
}

fn parse_host(text: &str) -> std::result::Result<Host, &'static str> {
    if text == "*" {
        return Ok(Host::Any);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Host::Ip(address));
    }
    if text.is_empty() {
        return Err("the host is missing");
    }
    let labels_fit = text.len() <= 253 && text.split('.').all(|label| label.len() <= 63);
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    if labels_fit && plain {
        Ok(Host::Name(text.to_ascii_lowercase()))
    } else {
        Err("not a host name")
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Pipe => write!(f, "pipe://{}", self.path),
            scheme => write!(f, "{}://{}{}", scheme.name(), self.authority(), self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_endpoints_read_and_print_alike() {
        for text in [
            "tcp://127.0.0.1:5000",
            "tcp://[::1]:1",
            "tcp://*:0",
            "tcp://server.example.com:65535",
            "tcp://my_host-1:80",
            "tls://server.example.com:443",
            "ws://localhost:80/",
            "wss://localhost:443/a/b%20c/",
            "pipe://Demo.Pipe",
            "pipe:///run/demo.sock",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!(
            "tcp://LOCALHOST:1".parse::<Endpoint>().unwrap().host(),
            &Host::Name("localhost".into())
        );
    }

    #[test]
    fn bad_endpoints_say_what_is_wrong() {
        for (text, what) in [
            ("", "begin with"),
            ("127.0.0.1:5000", "begin with"),
            ("http://a:1", "unknown scheme"),
            ("TCP://a:1", "unknown scheme"),
            ("ws://a:1/x?y", "query"),
            ("ws://a:1/\u{e9}", "percent-encoded"),
            ("ws://a/x:1", "port is missing"),
            ("pipe://", "missing"),
            ("pipe://a/b", "slash"),
            ("tcp://a", "port is missing"),
            ("tcp://:5", "host is missing"),
            ("tcp://a:", "number from 0"),
            ("tcp://a:+5", "number from 0"),
            ("tcp://a:65536", "number from 0"),
            ("tcp://::1:5", "brackets"),
            ("tcp://[::1]", "[IPv6 address]:port"),
            ("tcp://[1.2.3.4]:5", "not an IPv6 address"),
            ("tcp://a:5/x", "only a host and a port"),
            ("tcp://u@a:5", "user name"),
            ("tcp://a:5?x=1", "query"),
            ("tcp://a:5#f", "query"),
            ("tcp://a b:5", "not a host name"),
            ("tcp://a:1,b:2", "brackets"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn a_client_needs_a_host_and_a_port() {
        for text in ["tcp://*:1", "tcp://a:0"] {
            assert!(
                text.parse::<Endpoint>()
                    .unwrap()
                    .check_for_client()
                    .is_err()
            );
        }
    }
}
