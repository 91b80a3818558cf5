//! The text form of an address, the same in every language and for client and server.
//!
//! ```text
//! endpoint = "tcp://" host ":" port
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
}

impl Endpoint {
    /// What carries the frames.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port; 0 lets a server pick one.
    pub fn port(&self) -> u16 {
        self.port
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
            return fail("it must begin with \"tcp://\"");
        };
        let scheme = match scheme {
            "tcp" => Scheme::Tcp,
            "tls" | "ws" | "wss" | "pipe" => {
                return fail("this transport is not there yet: use \"tcp://\"");
            }
            _ => return fail("unknown scheme: use \"tcp://\""),
        };
        if rest.contains(['?', '#']) {
            return fail("a query or fragment has no meaning here");
        }
        if rest.contains(['/', '@']) {
            return fail("only a host and a port may follow \"tcp://\"");
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
            Ok(port) if digits => Ok(Self { scheme, host, port }),
            _ => fail("the port must be a number from 0 to 65535"),
        }
    }
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
        let Scheme::Tcp = self.scheme;
        write!(f, "tcp://{}:{}", self.host, self.port)
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
            ("tcp://a", "port is missing"),
            ("tcp://:5", "host is missing"),
            ("tcp://a:", "number from 0"),
            ("tcp://a:+5", "number from 0"),
            ("tcp://a:65536", "number from 0"),
            ("tcp://::1:5", "brackets"),
            ("tcp://[::1]", "[IPv6 address]:port"),
            ("tcp://[1.2.3.4]:5", "not an IPv6 address"),
            ("tcp://a:5/x", "only a host and a port"),
            ("tcp://u@a:5", "only a host and a port"),
            ("tcp://a:5?x=1", "query"),
            ("tcp://a:5#f", "query"),
            ("tcp://a b:5", "not a host name"),
            ("tcp://a:1,b:2", "number from 0"),
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
