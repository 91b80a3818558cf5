//! Moving frames over one connection, for both ends: a reader that hands out frame bodies, and a
//! writer that whoever has something to send may use at once.
//!
//! A session and its [`Writer`] live behind one lock (an [`Outbox`]). Whoever put bytes into the
//! session calls [`flush`], which writes from the calling thread, without a detour over a task;
//! while the reading task is at work the bytes are left to it, so that many answers or calls share
//! one write.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::WebSocketOptions;
use super::io::{Io, ReadHalf, WriteHalf};
use super::layers::{Layers, Received};
use crate::error::{Error, ErrorCode};
use crate::wire::frame;

/// What an idle connection keeps for reading, in bytes.
const IDLE_BUFFER: usize = 4096;
/// Most that is read at once while small frames come.
const BUSY_ROOM: usize = 64 * 1024;
/// Most that is reserved for the rest of a large frame.
const LARGEST_ROOM: usize = 4 * 1024 * 1024;

/// What a lock guards that bytes are sent from.
pub(crate) trait Outbox {
    /// The writer with this [id](Writer::id), if that connection still is.
    fn writer(&mut self, id: u64) -> Option<&mut Writer>;

    /// Moves bytes from its session into the writer by [`Writer::load`].
    fn refill(&mut self, id: u64);
}

/// The sending half of a connection.
pub(crate) struct Writer {
    /// Tells this connection from those before and after it.
    id: u64,
    half: Arc<WriteHalf>,
    layers: Layers,
    /// For the network, and not taken by it yet.
    wire: BytesMut,
    /// How much of `wire`, and of what is being written, stands for how much of the frames.
    loads: VecDeque<Load>,
    /// Bytes of `wire` ever given to the network.
    written: u64,
    /// Bytes ever put into `wire`.
    loaded: u64,
    /// Somebody is writing; what comes meanwhile it will find.
    writing: bool,
    /// The network took nothing the last time.
    stalled: bool,
    /// The reading task is at work and will write when it is done.
    held: bool,
    /// Writing failed for good.
    broken: Option<Ending>,
    /// The network takes nothing at present, or writing failed: the reading task is to look.
    stuck: Arc<Notify>,
}

/// Frames on their way through layers that change their length.
struct Load {
    begin: u64,
    end: u64,
    frames: usize,
}

/// Why there is nothing more to read.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The peer closed in order.
    Closed,
    /// End of stream within a frame.
    HalfFrame,
    /// A length that is not allowed.
    BadLength(frame::BadLength),
    /// The network failed.
    Io(io::Error),
    /// A layer failed.
    Layer(Error),
    /// No sign of life.
    Silent(Duration),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::HalfFrame => f.write_str("the connection ended in the middle of a message"),
            Self::BadLength(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Layer(error) => error.fmt(f),
            Self::Silent(time) => write!(f, "no sign of life for {time:?}"),
        }
    }
}

impl Ending {
    /// What kind of failure it is.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::BadLength(_) => ErrorCode::Protocol,
            Self::Layer(error) => error.code(),
            _ => ErrorCode::Transport,
        }
    }
}

/// The receiving half of a connection.
pub(crate) struct Reader {
    id: u64,
    half: ReadHalf,
    write_half: Arc<WriteHalf>,
    /// Not decoded yet, where there are layers.
    input: BytesMut,
    has_layers: bool,
    /// Nothing has been read since the handshake.
    is_fresh: bool,
    received: Received,
    /// What [`fill`](Self::fill) met after it had something to give.
    ending: Option<Ending>,
    /// How much is read at once.
    room: usize,
    max_frame: usize,
    /// Bytes ever read.
    read: u64,
    /// Where the transport has a ping.
    liveness: Option<Liveness>,
    stuck: Arc<Notify>,
}

struct Liveness {
    options: WebSocketOptions,
    heard: Instant,
    pinged: bool,
}

impl Liveness {
    fn next(&self) -> Instant {
        let interval = self.options.ping_interval;
        match self.pinged {
            false => self.heard + interval,
            true => self.heard + interval + self.options.ping_timeout,
        }
    }
}

/// Takes a connection apart. `max_frame` limits what is read, in bytes of a frame body; `early` is
/// the part of the stream of frames that arrived with the handshake.
pub(super) fn split(
    io: Io,
    layers: Layers,
    early: BytesMut,
    max_frame: usize,
    websocket: WebSocketOptions,
) -> (Reader, Writer) {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (half, stuck) = (Arc::new(io.write), Arc::new(Notify::new()));
    let reader = Reader {
        id,
        half: io.read,
        write_half: half.clone(),
        input: BytesMut::new(),
        has_layers: !layers.is_empty(),
        is_fresh: !layers.is_empty(),
        received: Received {
            stream: early,
            ..Received::default()
        },
        ending: None,
        room: IDLE_BUFFER,
        max_frame,
        read: 0,
        liveness: layers.websocket.is_some().then(|| Liveness {
            options: websocket,
            heard: Instant::now(),
            pinged: false,
        }),
        stuck: stuck.clone(),
    };
    let writer = Writer {
        id,
        half,
        layers,
        wire: BytesMut::new(),
        loads: VecDeque::new(),
        written: 0,
        loaded: 0,
        writing: false,
        stalled: false,
        held: false,
        broken: None,
        stuck,
    };
    (reader, writer)
}

impl Writer {
    /// Tells this connection from all others.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn is_idle(&self) -> bool {
        !self.writing && !self.held && self.broken.is_none()
    }

    /// The network took nothing the last time.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Takes frames from the session.
    pub(crate) fn load(&mut self, frames: BytesMut) {
        if frames.is_empty() {
            return;
        }
        let (begin, size) = (self.loaded, frames.len());
        let before = self.wire.len();
        if let Err(ending) = self.layers.encode(frames, &mut self.wire) {
            self.broken = Some(ending);
            self.stuck.notify_one();
        }
        self.loaded += (self.wire.len() - before) as u64;
        if !self.layers.is_empty() {
            self.loads.push_back(Load {
                begin,
                end: self.loaded,
                frames: size,
            });
        }
    }

    /// Bytes ever taken by the network.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that wait for the network.
    pub(crate) fn pending(&self) -> usize {
        (self.loaded - self.written) as usize
    }

    /// Bytes of frames that certainly have not reached the peer. What somebody is writing at this
    /// moment counts as sent, and behind layers everything that has been begun.
    pub(crate) fn unsent(&self) -> usize {
        if self.layers.is_empty() {
            return self.wire.len();
        }
        let begun = self.loaded - self.wire.len() as u64;
        let unbegun = self.loads.iter().filter(|load| load.begin >= begun);
        unbegun.map(|load| load.frames).sum()
    }

    /// Adds what a layer has to say.
    fn say(
        &mut self,
        write: impl FnOnce(&mut Layers, &mut BytesMut) -> Result<(), Ending>,
    ) -> Result<(), Ending> {
        let before = self.wire.len();
        let result = write(&mut self.layers, &mut self.wire);
        self.loaded += (self.wire.len() - before) as u64;
        result
    }

    /// Takes leave of the peer, as far as that is possible without waiting.
    pub(crate) fn farewell(&mut self, text: &str) {
        if self.layers.is_empty() || self.writing || self.broken.is_some() {
            return;
        }
        let _ = self.say(|layers, wire| {
            layers.farewell(text, wire);
            Ok(())
        });
        let _ = self.half.try_write(&self.wire);
    }

    fn wrote(&mut self, n: usize) {
        self.written += n as u64;
        while self
            .loads
            .front()
            .is_some_and(|load| load.end <= self.written)
        {
            self.loads.pop_front();
        }
    }
}

/// Writes what there is to write on a connection, unless somebody else does or will.
pub(crate) fn flush<'a, O: Outbox>(outbox: &'a Mutex<O>, guard: MutexGuard<'a, O>, id: u64) {
    drop(write(outbox, guard, id, Writer::is_idle));
}

/// Writes what there is to write on a connection, unless somebody else does; also what was to be
/// left to the reading task. The lock may have been let go of meanwhile.
pub(crate) fn flush_now<'a, O: Outbox>(
    outbox: &'a Mutex<O>,
    guard: MutexGuard<'a, O>,
    id: u64,
) -> MutexGuard<'a, O> {
    write(outbox, guard, id, |w| !w.writing && w.broken.is_none())
}

fn write<'a, O: Outbox>(
    outbox: &'a Mutex<O>,
    mut guard: MutexGuard<'a, O>,
    id: u64,
    may_write: impl Fn(&Writer) -> bool,
) -> MutexGuard<'a, O> {
    loop {
        let Some(writer) = guard.writer(id).filter(|w| may_write(w)) else {
            return guard;
        };
        if writer.wire.is_empty() {
            guard.refill(id);
        }
        let Some(writer) = guard.writer(id).filter(|w| !w.wire.is_empty()) else {
            return guard;
        };
        let half = writer.half.clone();
        let mut bytes = std::mem::take(&mut writer.wire);
        writer.writing = true;
        drop(guard);
        let result = half.try_write(&bytes);
        guard = outbox.lock();
        let Some(writer) = guard.writer(id) else {
            return guard;
        };
        writer.writing = false;
        writer.stalled = result.is_err();
        if let Ok(n) = result {
            bytes.advance(n);
            writer.wrote(n);
        }
        // A layer may have had something to say meanwhile.
        bytes.unsplit(std::mem::take(&mut writer.wire));
        writer.wire = bytes;
        if let Err(error) = result {
            if error.kind() != io::ErrorKind::WouldBlock {
                writer.broken = Some(Ending::Io(error));
            }
            writer.stuck.notify_one();
            return guard;
        }
    }
}

impl Reader {
    /// Waits for bytes, sending meanwhile what got stuck. From its return until
    /// [`release`](Self::release) everything that is to be sent waits.
    pub(crate) async fn fill<O: Outbox>(&mut self, outbox: &Mutex<O>) -> Result<(), Ending> {
        if let Some(ending) = self.ending.take() {
            return Err(ending);
        }
        if std::mem::take(&mut self.is_fresh) {
            // Something may have come right behind the handshake.
            self.decode(outbox)?;
            if self.has_received() {
                return Ok(());
            }
            self.release(outbox);
        }
        loop {
            let waits = matches!(look(outbox, self.id)?, Look::Waits);
            self.make_room();
            let input = if self.has_layers {
                &mut self.input
            } else {
                &mut self.received.stream
            };
            tokio::select! {
                biased;
                read = self.half.read_buf(input) => {
                    let n = read.map_err(Ending::Io)?;
                    if n == 0 {
                        let clean = self.input.is_empty() && self.received.stream.is_empty();
                        return Err(if clean { Ending::Closed } else { Ending::HalfFrame });
                    }
                    self.read += n as u64;
                    self.adapt(n);
                    return self.decode(outbox);
                }
                writable = self.write_half.writable(), if waits => {
                    writable.map_err(Ending::Io)?;
                    flush(outbox, outbox.lock(), self.id);
                }
                () = self.stuck.notified() => {}
                () = at(self.liveness.as_ref().map(Liveness::next)) => self.check_life(outbox)?,
            }
        }
    }

    fn decode<O: Outbox>(&mut self, outbox: &Mutex<O>) -> Result<(), Ending> {
        if let Some(liveness) = &mut self.liveness {
            liveness.heard = Instant::now();
            liveness.pinged = false;
        }
        let (input, received) = (&mut self.input, &mut self.received);
        let decoded = with_writer(outbox, self.id, |writer| {
            writer.held = true;
            if writer.layers.is_empty() {
                return Ok(());
            }
            writer.say(|layers, wire| layers.decode(input, received, wire))
        });
        match decoded {
            // What came before the end is worth having.
            Some(Err(ending)) if self.has_received() => {
                self.ending = Some(ending);
                Ok(())
            }
            Some(Err(ending)) => Err(ending),
            _ => Ok(()),
        }
    }

    fn has_received(&self) -> bool {
        !(self.received.messages.is_empty() && self.received.stream.is_empty())
    }

    /// The peer has been silent: asks, or gives up.
    fn check_life<O: Outbox>(&mut self, outbox: &Mutex<O>) -> Result<(), Ending> {
        let Some(liveness) = &mut self.liveness else {
            return Ok(());
        };
        if liveness.pinged {
            return Err(Ending::Silent(liveness.heard.elapsed()));
        }
        liveness.pinged = true;
        with_writer(outbox, self.id, |writer| {
            writer.say(|layers, wire| layers.ping(wire))
        })
        .unwrap_or(Ok(()))?;
        flush(outbox, outbox.lock(), self.id);
        Ok(())
    }

    /// The next whole frame body that has arrived.
    pub(crate) fn next_frame(&mut self) -> Result<Option<BytesMut>, Ending> {
        if let Some(message) = self.received.messages.pop_front() {
            return if message.len() <= self.max_frame {
                Ok(Some(message.into()))
            } else {
                let length = i32::try_from(message.len()).unwrap_or(i32::MAX);
                Err(Ending::BadLength(frame::BadLength {
                    length,
                    limit: self.max_frame,
                }))
            };
        }
        frame::split(&mut self.received.stream, self.max_frame).map_err(Ending::BadLength)
    }

    /// Bytes ever read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// True if a part of a frame has come and the rest of it has not (never with WebSockets, which
    /// keep parts to themselves).
    pub(crate) fn has_half_a_frame(&self) -> bool {
        !self.received.stream.is_empty()
    }

    /// A new limit for frames that are read from now on, in bytes.
    pub(crate) fn set_max_frame<O: Outbox>(&mut self, outbox: &Mutex<O>, bytes: usize) {
        self.max_frame = bytes;
        with_writer(outbox, self.id, |writer| {
            if let Some(websocket) = &mut writer.layers.websocket {
                websocket.set_max_message(bytes);
            }
        });
    }

    /// Sends what has waited since [`fill`](Self::fill).
    pub(crate) fn release<O: Outbox>(&self, outbox: &Mutex<O>) {
        with_writer(outbox, self.id, |writer| writer.held = false);
        flush(outbox, outbox.lock(), self.id);
    }

    /// Sends what has to be sent and reads nothing, until sending fails.
    pub(crate) async fn send_only<O: Outbox>(&self, outbox: &Mutex<O>) -> Ending {
        loop {
            let waits = match look(outbox, self.id) {
                Ok(look) => matches!(look, Look::Waits),
                Err(ending) => return ending,
            };
            tokio::select! {
                writable = self.write_half.writable(), if waits => {
                    if let Err(error) = writable {
                        return Ending::Io(error);
                    }
                    flush(outbox, outbox.lock(), self.id);
                }
                () = self.stuck.notified() => {}
            }
        }
    }

    /// Waits until the network has taken everything.
    pub(crate) async fn drain<O: Outbox>(&mut self, outbox: &Mutex<O>) -> Result<(), Ending> {
        loop {
            self.release(outbox);
            match look(outbox, self.id)? {
                Look::Sent => return Ok(()),
                Look::Waits => self.write_half.writable().await.map_err(Ending::Io)?,
                Look::IsWriting => self.stuck.notified().await,
            }
        }
    }

    /// Takes leave, says that nothing more will be sent, and waits for the peer to say the same: a
    /// socket that is closed with unread bytes in it would take back what was sent last.
    pub(crate) async fn finish<O: Outbox>(mut self, outbox: &Mutex<O>, text: &str) {
        {
            let mut outlet = outbox.lock();
            if outlet.writer(self.id).is_some() {
                // Behind the leave-taking of a layer nothing can be said any more.
                outlet.refill(self.id);
            }
        }
        with_writer(outbox, self.id, |writer| {
            let _ = writer.say(|layers, wire| {
                layers.farewell(text, wire);
                Ok(())
            });
        });
        if self.drain(outbox).await.is_err() || self.write_half.shut_down().is_err() {
            return;
        }
        loop {
            self.input.clear();
            self.input.reserve(IDLE_BUFFER);
            if !matches!(self.half.read_buf(&mut self.input).await, Ok(1..)) {
                return;
            }
        }
    }

    /// Room for the rest of the frame that has begun, or for as much as came lately. Never much
    /// more than has arrived: a length alone reserves nothing.
    fn make_room(&mut self) {
        let stream = &mut self.received.stream;
        let room = match stream.first_chunk::<{ frame::PREFIX }>() {
            Some(prefix) => {
                let length = usize::try_from(i32::from_le_bytes(*prefix)).unwrap_or(0);
                let missing = (length + frame::PREFIX).saturating_sub(stream.len());
                missing.min(stream.len()).clamp(self.room, LARGEST_ROOM)
            }
            None => self.room,
        };
        let input = if self.has_layers {
            &mut self.input
        } else {
            stream
        };
        if input.is_empty() && input.capacity() > IDLE_BUFFER && self.room == IDLE_BUFFER {
            // An idle connection holds no large buffer.
            *input = BytesMut::new();
        }
        input.reserve(room);
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

/// How sending stands.
enum Look {
    /// Nothing waits in the writer.
    Sent,
    /// Bytes wait for the network.
    Waits,
    /// Somebody is writing right now.
    IsWriting,
}

fn look<O: Outbox>(outbox: &Mutex<O>, id: u64) -> Result<Look, Ending> {
    let mut guard = outbox.lock();
    let Some(writer) = guard.writer(id) else {
        return Ok(Look::Sent);
    };
    match writer.broken.take() {
        Some(ending) => Err(ending),
        None if writer.writing => Ok(Look::IsWriting),
        None if writer.wire.is_empty() => Ok(Look::Sent),
        None => Ok(Look::Waits),
    }
}

fn with_writer<O: Outbox, R>(
    outbox: &Mutex<O>,
    id: u64,
    change: impl FnOnce(&mut Writer) -> R,
) -> Option<R> {
    outbox.lock().writer(id).map(change)
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
