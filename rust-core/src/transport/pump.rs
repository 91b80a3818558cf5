//! Moving frames over one connection, for both ends: a reader that hands out frame bodies, and a
//! writer that whoever has something to send may use at once.
//!
//! A session and its [`Writer`] live behind one lock (an [`Outbox`]). Whoever put bytes into the
//! session calls [`flush`], which writes from the calling thread, without a detour over a task;
//! while the reading task is at work the bytes are left to it, so that many answers or calls share
//! one write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::wire::frame;

/// What a lock guards that bytes are sent from.
pub(crate) trait Outbox {
    /// The writer of the present connection.
    fn writer(&mut self) -> Option<&mut Writer>;

    /// Moves bytes from the session into [`Writer::pending`], which is empty.
    fn refill(&mut self);
}

/// The sending half of a connection.
pub(crate) struct Writer {
    /// Tells this connection from those before and after it.
    id: u64,
    stream: Arc<TcpStream>,
    /// Taken from the session, not yet from us by the network.
    pub(crate) pending: BytesMut,
    /// Somebody is writing; what comes meanwhile it will find.
    writing: bool,
    /// The reading task is at work and will write when it is done.
    held: bool,
    /// Writing failed for good.
    broken: Option<io::Error>,
    /// The network takes nothing at present, or writing failed: the reading task is to look.
    stuck: Arc<Notify>,
}

impl Writer {
    fn is_idle(&self) -> bool {
        !self.writing && !self.held && self.broken.is_none()
    }
}

/// Why there is nothing more to read.
#[derive(Debug)]
pub(crate) enum Ending {
    /// End of stream between two frames.
    Closed,
    /// End of stream within a frame.
    HalfFrame,
    /// A length that is not allowed.
    BadLength(frame::BadLength),
    /// The network failed.
    Io(io::Error),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::HalfFrame => f.write_str("the connection ended in the middle of a message"),
            Self::BadLength(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// The receiving half of a connection.
pub(crate) struct Reader {
    id: u64,
    stream: Arc<TcpStream>,
    input: BytesMut,
    max_frame: usize,
    stuck: Arc<Notify>,
}

/// Takes a connection apart. `max_frame` limits what is read, in bytes of a frame body.
pub(crate) fn split(stream: TcpStream, max_frame: usize) -> (Reader, Writer) {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (stream, stuck) = (Arc::new(stream), Arc::new(Notify::new()));
    let writer = Writer {
        id,
        stream: stream.clone(),
        pending: BytesMut::new(),
        writing: false,
        held: false,
        broken: None,
        stuck: stuck.clone(),
    };
    let reader = Reader {
        id,
        stream,
        input: BytesMut::new(),
        max_frame,
        stuck,
    };
    (reader, writer)
}

/// Writes what there is to write, unless somebody else does or will.
pub(crate) fn flush<'a, O: Outbox>(outbox: &'a Mutex<O>, mut guard: MutexGuard<'a, O>) {
    loop {
        let Some(writer) = guard.writer().filter(|w| w.is_idle()) else { return };
        if writer.pending.is_empty() {
            guard.refill();
        }
        let Some(writer) = guard.writer().filter(|w| !w.pending.is_empty()) else { return };
        let (id, stream) = (writer.id, writer.stream.clone());
        let mut bytes = std::mem::take(&mut writer.pending);
        writer.writing = true;
        drop(guard);
        let written = stream.try_write(&bytes);
        guard = outbox.lock();
        let Some(writer) = guard.writer().filter(|w| w.id == id) else { return };
        writer.writing = false;
        if let Ok(n) = written {
            bytes.advance(n);
        }
        writer.pending = bytes;
        if let Err(error) = written {
            if error.kind() != io::ErrorKind::WouldBlock {
                writer.broken = Some(error);
            }
            writer.stuck.notify_one();
            return;
        }
    }
}

impl Reader {
    /// Waits for bytes, sending meanwhile what got stuck. From its return until
    /// [`release`](Self::release) everything that is to be sent waits.
    pub(crate) async fn fill<O: Outbox>(&mut self, outbox: &Mutex<O>) -> Result<(), Ending> {
        loop {
            self.make_room();
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) if self.input.is_empty() => return Err(Ending::Closed),
                Ok(0) => return Err(Ending::HalfFrame),
                Ok(_) => {
                    self.with_writer(outbox, |writer| writer.held = true);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.input.is_empty() {
                        // An idle connection holds no buffer.
                        self.input = BytesMut::new();
                    }
                    self.wait(outbox).await?;
                }
                Err(error) => return Err(Ending::Io(error)),
            }
        }
    }

    /// The next whole frame body that has arrived.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, Ending> {
        frame::split(&mut self.input, self.max_frame).map_err(Ending::BadLength)
    }

    /// Sends what has waited since [`fill`](Self::fill).
    pub(crate) fn release<O: Outbox>(&self, outbox: &Mutex<O>) {
        self.with_writer(outbox, |writer| writer.held = false);
        flush(outbox, outbox.lock());
    }

    /// Waits until the network has taken everything.
    pub(crate) async fn drain<O: Outbox>(&mut self, outbox: &Mutex<O>) -> io::Result<()> {
        loop {
            self.release(outbox);
            match self.look(outbox)? {
                Look::Sent => return Ok(()),
                Look::Waits => self.stream.writable().await?,
                Look::IsWriting => self.stuck.notified().await,
            }
        }
    }

    /// Says that nothing more will be sent, and waits for the peer to say the same: a socket that
    /// is closed with unread bytes in it would take back what was sent last.
    pub(crate) async fn finish(mut self) {
        if socket2::SockRef::from(&*self.stream).shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        loop {
            self.input.clear();
            self.input.reserve(4096);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.stream.readable().await.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Waits until there is something to read; sends what got stuck.
    async fn wait<O: Outbox>(&self, outbox: &Mutex<O>) -> Result<(), Ending> {
        loop {
            let waits = matches!(self.look(outbox).map_err(Ending::Io)?, Look::Waits);
            tokio::select! {
                biased;
                readable = self.stream.readable() => return readable.map_err(Ending::Io),
                writable = self.stream.writable(), if waits => {
                    writable.map_err(Ending::Io)?;
                    flush(outbox, outbox.lock());
                }
                () = self.stuck.notified() => {}
            }
        }
    }

    fn look<O: Outbox>(&self, outbox: &Mutex<O>) -> io::Result<Look> {
        let mut guard = outbox.lock();
        let Some(writer) = guard.writer().filter(|w| w.id == self.id) else {
            return Ok(Look::Sent);
        };
        match writer.broken.take() {
            Some(error) => Err(error),
            None if writer.writing => Ok(Look::IsWriting),
            None if writer.pending.is_empty() => Ok(Look::Sent),
            None => Ok(Look::Waits),
        }
    }

    fn with_writer<O: Outbox>(&self, outbox: &Mutex<O>, change: impl FnOnce(&mut Writer)) {
        if let Some(writer) = outbox.lock().writer().filter(|w| w.id == self.id) {
            change(writer);
        }
    }

    /// Room for the rest of the frame that has begun, or for a few small ones. Never much more than
    /// has arrived: a length alone reserves nothing.
    fn make_room(&mut self) {
        const SMALL: usize = 8 * 1024;
        const LARGE: usize = 1024 * 1024;
        let wanted = match self.input.first_chunk::<{ frame::PREFIX }>() {
            Some(prefix) => {
                let length = usize::try_from(i32::from_le_bytes(*prefix)).unwrap_or(0);
                (length + frame::PREFIX).saturating_sub(self.input.len())
            }
            None => SMALL,
        };
        let arrived = self.input.len().max(SMALL);
        self.input.reserve(wanted.clamp(SMALL / 2, LARGE.min(arrived)));
    }
}

/// How sending stands.
enum Look {
    /// Nothing waits in the writer.
    Sent,
    /// Bytes wait for the network.
    Waits,
    /// Somebody is writing right now.
    IsWriting,
}
