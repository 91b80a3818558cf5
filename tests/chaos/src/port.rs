//! A port that stays ours while nobody listens on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// A port of 127.0.0.1. It is bound but not listened on, so that the system gives it to nobody else;
/// connecting to it is refused until somebody listens (which a socket with `SO_REUSEADDR` may).
pub struct ReservedPort {
    address: SocketAddr,
    _holder: Socket,
}

impl ReservedPort {
    /// Takes a free port.
    pub fn new() -> Self {
        let holder = bound(0).unwrap();
        let address = holder.local_addr().unwrap().as_socket().unwrap();
        Self {
            address,
            _holder: holder,
        }
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a client names it.
    pub fn endpoint(&self) -> String {
        format!("tcp://{}", self.address)
    }

    /// Listens on it. Inside a tokio runtime.
    pub fn listen(&self) -> TcpListener {
        let socket = bound(self.address.port()).unwrap();
        socket.listen(1024).unwrap();
        socket.set_nonblocking(true).unwrap();
        TcpListener::from_std(socket.into()).unwrap()
    }
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}

fn bound(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    Ok(socket)
}
