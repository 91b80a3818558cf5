//! One proxied connection: bytes in both directions, through the toxics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::toxics::{End, Toxic, Toxics};

/// Most that is read at once.
const CHUNK: usize = 16 * 1024;

/// See the [module](self).
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    toxics: Mutex<Toxics>,
    ended: watch::Sender<Option<End>>,
    /// Bytes have vanished, by direction.
    holes: [AtomicBool; 2],
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

impl Link {
    pub(super) fn new(client: TcpStream, server: TcpStream, toxics: Toxics) -> Self {
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        Self {
            client,
            server,
            toxics: Mutex::new(toxics),
            ended: watch::Sender::new(None),
            holes: Default::default(),
        }
    }

    pub(super) fn set(&self, toxics: Toxics) {
        *self.toxics.lock() = toxics;
    }

    pub(super) fn end(&self, end: End) {
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(end);
            is_first
        });
    }

    pub(super) fn into_sockets(self) -> (TcpStream, TcpStream) {
        (self.client, self.server)
    }

    /// Moves bytes until both streams have ended or the connection is to end.
    pub(super) async fn run(&self, mut rng: StdRng) -> End {
        let down = StdRng::seed_from_u64(rng.random());
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            end = ended.wait_for(Option::is_some) => end.ok().and_then(|e| *e).unwrap_or(End::Close),
            () = async {
                tokio::join!(self.pump(Direction::Up, rng), self.pump(Direction::Down, down));
            } => End::Close,
        }
    }

    fn toxic(&self, direction: Direction) -> Toxic {
        let toxics = self.toxics.lock();
        match direction {
            Direction::Up => toxics.up.clone(),
            Direction::Down => toxics.down.clone(),
        }
    }

    fn sockets(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::Up => (&self.client, &self.server),
            Direction::Down => (&self.server, &self.client),
        }
    }

    async fn pump(&self, direction: Direction, mut rng: StdRng) {
        let jitter = StdRng::seed_from_u64(rng.random());
        let (sender, receiver) = mpsc::channel(16);
        tokio::join!(
            self.take_in(direction, sender, jitter),
            self.pass_on(direction, receiver, rng)
        );
    }

    /// Reads, and says when each piece is due.
    async fn take_in(
        &self,
        direction: Direction,
        sender: mpsc::Sender<(Instant, Bytes)>,
        mut rng: StdRng,
    ) {
        let (from, _) = self.sockets(direction);
        let hole = &self.holes[direction as usize];
        let mut buffer = vec![0; CHUNK];
        loop {
            match read(from, &mut buffer).await {
                Ok(0) => return,
                Ok(n) => {
                    let toxic = self.toxic(direction);
                    if toxic.black_hole {
                        hole.store(true, Ordering::SeqCst);
                    }
                    if hole.load(Ordering::SeqCst) {
                        continue;
                    }
                    let jitter = rng.random_range(0..=toxic.jitter.as_micros() as u64);
                    let due = Instant::now() + toxic.latency + Duration::from_micros(jitter);
                    if sender
                        .send((due, Bytes::copy_from_slice(&buffer[..n])))
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
                // What one end says is passed on to the other.
                Err(_) => return self.end(End::Reset),
            }
        }
    }

    /// Writes what is due, in pieces, as slowly as wanted, up to the limit.
    async fn pass_on(
        &self,
        direction: Direction,
        mut receiver: mpsc::Receiver<(Instant, Bytes)>,
        mut rng: StdRng,
    ) {
        let (_, to) = self.sockets(direction);
        let mut passed = 0;
        while let Some((due, mut bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            while !bytes.is_empty() {
                let toxic = self.toxic(direction);
                let mut size = toxic.slicer.map_or(bytes.len(), |s| s.piece(&mut rng));
                size = size.min(bytes.len());
                if let Some(limit) = toxic.limit {
                    let left = limit.bytes.saturating_sub(passed) as usize;
                    size = size.min(left);
                }
                if write(to, &bytes[..size]).await.is_err() {
                    return self.end(End::Reset);
                }
                bytes.advance(size);
                passed += size as u64;
                if let Some(limit) = toxic.limit.filter(|limit| passed >= limit.bytes) {
                    return self.end(limit.end);
                }
                if let Some(slicer) = toxic.slicer
                    && !slicer.delay.is_zero()
                {
                    tokio::time::sleep(slicer.delay).await;
                }
                if let Some(rate) = toxic.bandwidth {
                    tokio::time::sleep(Duration::from_secs(size as u64) / rate.max(1)).await;
                }
            }
        }
        tokio::time::sleep(self.toxic(direction).slow_close).await;
        let _ = SockRef::from(to).shutdown(std::net::Shutdown::Write);
    }
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Says that nothing more comes, and reads until the peer says the same.
pub(super) async fn farewell(socket: &TcpStream) {
    let _ = SockRef::from(socket).shutdown(std::net::Shutdown::Write);
    let mut buffer = vec![0; CHUNK];
    while matches!(read(socket, &mut buffer).await, Ok(1..)) {}
}
