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

use bytes::{Buf, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
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
    /// Shared, so that nobody has to hold the lock while writing.
    stream: Arc<OwnedWriteHalf>,
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
    stream: OwnedReadHalf,
    write_half: Arc<OwnedWriteHalf>,
    input: BytesMut,
    /// How much is read at once.
    room: usize,
    max_frame: usize,
    stuck: Arc<Notify>,
}

/// Takes a connection apart. `max_frame` limits what is read, in bytes of a frame body.
pub(crate) fn split(stream: TcpStream, max_frame: usize) -> (Reader, Writer) {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let stuck = Arc::new(Notify::new());
    let (read_half, write_half) = stream.into_split();
    let write_half = Arc::new(write_half);
    let writer = Writer {
        id,
        stream: write_half.clone(),
        pending: BytesMut::new(),
        writing: false,
        held: false,
        broken: None,
        stuck: stuck.clone(),
    };
    let reader = Reader {
        id,
        stream: read_half,
        write_half,
        input: BytesMut::new(),
        room: IDLE_BUFFER,
        max_frame,
        stuck,
    };
    (reader, writer)
}

/// Writes what there is to write, unless somebody else does or will.
pub(crate) fn flush<'a, O: Outbox>(outbox: &'a Mutex<O>, mut guard: MutexGuard<'a, O>) {
    loop {
        let Some(writer) = guard.writer().filter(|w| w.is_idle()) else {
            return;
        };
        if writer.pending.is_empty() {
            guard.refill();
        }
        let Some(writer) = guard.writer().filter(|w| !w.pending.is_empty()) else {
            return;
        };
        let (id, stream) = (writer.id, writer.stream.clone());
        let mut bytes = std::mem::take(&mut writer.pending);
        writer.writing = true;
        drop(guard);
        let written = stream.try_write(&bytes);
        guard = outbox.lock();
        let Some(writer) = guard.writer().filter(|w| w.id == id) else {
            return;
        };
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
            let waits = matches!(look(outbox, self.id).map_err(Ending::Io)?, Look::Waits);
            self.make_room();
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.input) => {
                    let n = read.map_err(Ending::Io)?;
                    if n == 0 {
                        let clean = self.input.is_empty();
                        return Err(if clean { Ending::Closed } else { Ending::HalfFrame });
                    }
                    self.adapt(n);
                    with_writer(outbox, self.id, |writer| writer.held = true);
                    return Ok(());
                }
                writable = self.write_half.writable(), if waits => {
                    writable.map_err(Ending::Io)?;
                    flush(outbox, outbox.lock());
                }
                () = self.stuck.notified() => {}
            }
        }
    }

    /// The next whole frame body that has arrived.
    pub(crate) fn next_frame(&mut self) -> Result<Option<BytesMut>, Ending> {
        frame::split(&mut self.input, self.max_frame).map_err(Ending::BadLength)
    }

    /// A new limit for frames that are read from now on, in bytes.
    pub(crate) fn set_max_frame(&mut self, bytes: usize) {
        self.max_frame = bytes;
    }

    /// Sends what has waited since [`fill`](Self::fill).
    pub(crate) fn release<O: Outbox>(&self, outbox: &Mutex<O>) {
        with_writer(outbox, self.id, |writer| writer.held = false);
        flush(outbox, outbox.lock());
    }

    /// Waits until the network has taken everything.
    pub(crate) async fn drain<O: Outbox>(&mut self, outbox: &Mutex<O>) -> io::Result<()> {
        loop {
            self.release(outbox);
            match look(outbox, self.id)? {
                Look::Sent => return Ok(()),
                Look::Waits => self.write_half.writable().await?,
                Look::IsWriting => self.stuck.notified().await,
            }
        }
    }

    /// Says that nothing more will be sent, and waits for the peer to say the same: a socket that
    /// is closed with unread bytes in it would take back what was sent last.
    pub(crate) async fn finish(mut self) {
        let socket = socket2::SockRef::from(AsRef::<TcpStream>::as_ref(&self.stream));
        if socket.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        loop {
            self.input.clear();
            self.input.reserve(IDLE_BUFFER);
            if !matches!(self.stream.read_buf(&mut self.input).await, Ok(1..)) {
                return;
            }
        }
    }

    /// Room for the rest of the frame that has begun, or for as much as came lately. Never much
    /// more than has arrived: a length alone reserves nothing.
    fn make_room(&mut self) {
        let room = match self.input.first_chunk::<{ frame::PREFIX }>() {
            Some(prefix) => {
                let length = usize::try_from(i32::from_le_bytes(*prefix)).unwrap_or(0);
                let missing = (length + frame::PREFIX).saturating_sub(self.input.len());
                missing.min(self.input.len()).clamp(self.room, LARGEST_ROOM)
            }
            None => {
                if self.input.is_empty()
                    && self.input.capacity() > IDLE_BUFFER
                    && self.room == IDLE_BUFFER
                {
                    self.input = BytesMut::new();
                }
                self.room
            }
        };
        self.input.reserve(room);
    }

    /// Reads more at once where much comes, and less where little does.
    fn adapt(&mut self, n: usize) {
        if n >= self.room {
            self.room = (self.room * 2).min(BUSY_ROOM);
        } else if n < self.room / 4 {
            self.room = (self.room / 2).max(IDLE_BUFFER);
        }
    }
}

/// What an idle connection keeps for reading, in bytes.
const IDLE_BUFFER: usize = 4096;
/// Most that is read at once while small frames come.
const BUSY_ROOM: usize = 64 * 1024;
/// Most that is reserved for the rest of a large frame.
const LARGEST_ROOM: usize = 4 * 1024 * 1024;

fn look<O: Outbox>(outbox: &Mutex<O>, id: u64) -> io::Result<Look> {
    let mut guard = outbox.lock();
    let Some(writer) = guard.writer().filter(|w| w.id == id) else {
        return Ok(Look::Sent);
    };
    match writer.broken.take() {
        Some(error) => Err(error),
        None if writer.writing => Ok(Look::IsWriting),
        None if writer.pending.is_empty() => Ok(Look::Sent),
        None => Ok(Look::Waits),
    }
}

fn with_writer<O: Outbox>(outbox: &Mutex<O>, id: u64, change: impl FnOnce(&mut Writer)) {
    if let Some(writer) = outbox.lock().writer().filter(|w| w.id == id) {
        change(writer);
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
