//! TCP: connecting to a name with several addresses, listening, and the socket options that make a
//! dead link known.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Endpoint, Host};
use crate::error::{Error, ErrorCode, Result};

/// How long an address gets before the next one is tried beside it (RFC 8305).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Options of TCP sockets, on both ends. `TCP_NODELAY` is always on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// Silence after which the kernel probes the peer; `None` = no probes. Default 10 s.
    pub keepalive_idle: Option<Duration>,
    /// Time between probes. Default 5 s.
    pub keepalive_interval: Duration,
    /// Unanswered probes until the link is dead. Default 3: a peer that vanished without a word is
    /// noticed after 25 s, on Linux with the default `user_timeout` after 20 s.
    pub keepalive_probes: u32,
    /// How long sent bytes may stay unacknowledged until the link is dead (Linux); `None` = the
    /// kernel's own limit of some 15 minutes. Default 20 s.
    ///
    /// Linux has one clock for this and for unanswered probes, and the shorter time counts for
    /// both: `keepalive_idle + keepalive_interval × keepalive_probes`, or this.
    pub user_timeout: Option<Duration>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            keepalive_idle: Some(Duration::from_secs(10)),
            keepalive_interval: Duration::from_secs(5),
            keepalive_probes: 3,
            user_timeout: Some(Duration::from_secs(20)),
        }
    }
}

impl SocketOptions {
    pub(crate) fn apply(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(stream);
        if let Some(idle) = self.keepalive_idle {
            let keepalive = TcpKeepalive::new()
                .with_time(idle)
                .with_interval(self.keepalive_interval)
                .with_retries(self.keepalive_probes);
            socket.set_tcp_keepalive(&keepalive)?;
        }
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(self.effective_user_timeout())?;
        Ok(())
    }

    /// Where a user timeout is set, Linux no longer counts probes but waits for that time.
    #[cfg(target_os = "linux")]
    fn effective_user_timeout(&self) -> Option<Duration> {
        let probed = self.keepalive_idle.map(|idle| {
            idle + self
                .keepalive_interval
                .saturating_mul(self.keepalive_probes)
        });
        self.user_timeout
            .map(|limit| probed.map_or(limit, |probed| limit.min(probed)))
    }
}

/// Connects to the first address that answers. A later one is tried as soon as an earlier one
/// failed or took 250 ms. The caller limits the time of the whole.
pub(crate) async fn connect(endpoint: &Endpoint, options: SocketOptions) -> Result<TcpStream> {
    let addresses = resolve(endpoint).await?;
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.into_iter();
    let mut next_at = Instant::now();
    let mut last_error = None;
    loop {
        if attempts.is_empty() || Instant::now() >= next_at {
            if let Some(address) = waiting.next() {
                attempts.spawn(async move { (address, open(address).await) });
                next_at = Instant::now() + NEXT_ADDRESS;
            } else if attempts.is_empty() {
                break;
            }
        }
        let outcome = tokio::select! {
            outcome = attempts.join_next() => outcome,
            () = sleep_until(next_at), if waiting.len() > 0 => continue,
        };
        match outcome {
            Some(Ok((_, Ok(stream)))) => {
                options
                    .apply(&stream)
                    .map_err(|e| failed(endpoint, &e.to_string()))?;
                return Ok(stream);
            }
            Some(Ok((address, Err(error)))) => {
                last_error = Some(format!("{address}: {error}"));
                next_at = Instant::now();
            }
            Some(Err(error)) => last_error = Some(error.to_string()),
            None => {}
        }
    }
    Err(failed(
        endpoint,
        last_error.as_deref().unwrap_or("no address"),
    ))
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    if stream.local_addr()? == stream.peer_addr()? {
        // Nobody listens on a port of this machine, the system chose that very port for our end, and
        // TCP let the connection meet itself. It must go without a trace, or it would keep the
        // server from its port.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        return Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "connection refused (it met itself)",
        ));
    }
    Ok(stream)
}

fn failed(endpoint: &Endpoint, cause: &str) -> Error {
    Error::new(ErrorCode::Transport, format!("can't connect to {endpoint}"))
        .with_details(Some(cause.to_owned()))
}

/// All addresses of a host, families taking turns, in the resolver's order of preference.
async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>> {
    let port = endpoint.port();
    let name = match endpoint.host() {
        Host::Ip(address) => return Ok(vec![SocketAddr::new(*address, port)]),
        Host::Any => return Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]),
        Host::Name(name) => name,
    };
    let found = tokio::net::lookup_host((name.as_str(), port)).await;
    let found: Vec<_> = found
        .map_err(|e| {
            Error::new(
                ErrorCode::Transport,
                format!("can't find the host \"{name}\""),
            )
            .with_details(Some(e.to_string()))
        })?
        .collect();
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut preferred, mut others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    preferred.reverse();
    others.reverse();
    let mut mixed = Vec::with_capacity(preferred.len() + others.len());
    while !(preferred.is_empty() && others.is_empty()) {
        mixed.extend(preferred.pop());
        mixed.extend(others.pop());
    }
    mixed.dedup();
    Ok(mixed)
}

/// Listens on every address that the endpoint stands for: `*` on IPv6 and IPv4 together where the
/// machine has both.
pub(crate) async fn listen(endpoint: &Endpoint) -> Result<Vec<TcpListener>> {
    let port = endpoint.port();
    let candidates = match endpoint.host() {
        Host::Any => vec![
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
        ],
        _ => resolve(endpoint).await?,
    };
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut last_error = None;
    for mut address in candidates {
        if let Some(first) = listeners.first().and_then(|l| l.local_addr().ok()) {
            let covers_all = first.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            if covers_all {
                break;
            }
            // With port 0, all addresses get the port that the first one was given.
            address.set_port(first.port());
        }
        match bind(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) => last_error = Some(format!("{address}: {error}")),
        }
    }
    if listeners.is_empty() {
        let cause = last_error.unwrap_or_else(|| "no address".to_owned());
        return Err(
            Error::new(ErrorCode::Transport, format!("can't listen on {endpoint}"))
                .with_details(Some(cause)),
        );
    }
    Ok(listeners)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    // On Windows the option means that others may take the port over.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_both_limits_counts() {
        let seconds = Duration::from_secs;
        let limit = |idle: Option<u64>, user: Option<u64>| {
            let options = SocketOptions {
                keepalive_idle: idle.map(seconds),
                keepalive_interval: seconds(1),
                keepalive_probes: 2,
                user_timeout: user.map(seconds),
            };
            options.effective_user_timeout()
        };
        assert_eq!(limit(Some(1), Some(20)), Some(seconds(3)));
        assert_eq!(limit(Some(1), Some(2)), Some(seconds(2)));
        assert_eq!(limit(None, Some(20)), Some(seconds(20)));
        // Then the kernel counts probes by itself.
        assert_eq!(limit(Some(1), None), None);
    }
}
