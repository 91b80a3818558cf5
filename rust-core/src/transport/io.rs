//! A byte stream: TCP, or a local socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::{TcpStream, tcp};

#[cfg(unix)]
use tokio::net::{UnixStream, unix};

#[cfg(windows)]
use super::pipe::windows;

/// How long a peer that is refused may take to read why.
const LINGER: Duration = Duration::from_secs(1);

/// The receiving half.
pub(super) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    #[cfg(unix)]
    Unix(unix::OwnedReadHalf),
    #[cfg(windows)]
    Pipe(windows::ReadHalf),
}

/// The sending half; may be used by several threads.
pub(super) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    #[cfg(unix)]
    Unix(unix::OwnedWriteHalf),
    #[cfg(windows)]
    Pipe(windows::WriteHalf),
}

/// Both halves of a connection.
pub(crate) struct Io {
    pub(super) read: ReadHalf,
    pub(super) write: WriteHalf,
}

impl From<TcpStream> for Io {
    fn from(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            read: ReadHalf::Tcp(read),
            write: WriteHalf::Tcp(write),
        }
    }
}

#[cfg(unix)]
impl From<UnixStream> for Io {
    fn from(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            read: ReadHalf::Unix(read),
            write: WriteHalf::Unix(write),
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(half) => Pin::new(half).poll_read(cx, buffer),
            #[cfg(unix)]
            Self::Unix(half) => Pin::new(half).poll_read(cx, buffer),
            #[cfg(windows)]
            Self::Pipe(half) => Pin::new(half).poll_read(cx, buffer),
        }
    }
}

impl WriteHalf {
    /// Writes what the network takes without waiting.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.try_write(bytes),
            #[cfg(unix)]
            Self::Unix(half) => half.try_write(bytes),
            #[cfg(windows)]
            Self::Pipe(half) => half.try_write(bytes),
        }
    }

    /// Waits until the network may take something.
    pub(super) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(half) => half.writable().await,
            #[cfg(unix)]
            Self::Unix(half) => half.writable().await,
            #[cfg(windows)]
            Self::Pipe(half) => half.writable().await,
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        match self {
            Self::Tcp(half) => {
                let stream: &TcpStream = half.as_ref();
                socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write)
            }
            #[cfg(unix)]
            Self::Unix(half) => {
                let stream: &UnixStream = half.as_ref();
                socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write)
            }
            // A Windows pipe has no half-close: it ends when it is dropped.
            #[cfg(windows)]
            Self::Pipe(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// For handshakes, before a connection has a pump.
impl Io {
    /// Reads what there is, waiting for at least one byte. 0 at the end of the stream.
    pub(super) async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        input.reserve(4096);
        self.read.read_buf(input).await
    }

    /// Says that nothing more will come, and waits a moment for the peer to have read it: a socket
    /// that is closed with unread bytes in it takes back what was sent last.
    pub(super) async fn linger(&mut self) {
        if self.write.shut_down().is_err() {
            return;
        }
        let wait = async {
            let mut rest = BytesMut::new();
            while matches!(self.read(&mut rest).await, Ok(1..)) {
                rest.clear();
            }
        };
        let _ = tokio::time::timeout(LINGER, wait).await;
    }

    /// Writes all of it.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.write.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
