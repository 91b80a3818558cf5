//! A network: connections as two streams of bytes that arrive late, in pieces, or not at all.
//!
//! Owns when bytes arrive and where they stop. What they mean is the business of both ends.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use witrpc::resilience::engine::LinkId;

use crate::dice::Dice;
use crate::plan::Network;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}

/// How the other end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It closed, after everything that it had sent.
    Closed,
    /// The connection broke.
    Broken,
}

/// What arrives.
#[derive(Debug)]
pub enum Piece {
    /// Bytes.
    Bytes(Bytes),
    /// Nothing more.
    End(End),
}

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client's.
    Client(usize, LinkId),
    /// A sender of twins.
    Twin(usize),
}

/// One direction.
#[derive(Debug, Default)]
pub struct Stream {
    pieces: VecDeque<(u64, Piece)>,
    /// When the last piece arrives.
    last: u64,
    /// Nothing that is sent arrives before this moment.
    stalled: u64,
    /// Bytes on their way.
    pub bytes: usize,
    /// It breaks after so many more bytes.
    pub cut_after: Option<u64>,
    /// That has been counted.
    pub is_counted: bool,
    /// Nothing more is taken.
    pub is_ended: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// Whose.
    pub peer: Peer,
    /// Client to server.
    pub up: Stream,
    /// Server to client.
    pub down: Stream,
    /// The client still has it.
    pub client_has_it: bool,
    /// The server still has it.
    pub server_has_it: bool,
    /// What arrived at the client and is no whole message yet.
    pub client_input: BytesMut,
    dice: Dice,
    fastest: u64,
    slowest: u64,
    splits: bool,
}

impl Connection {
    /// A connection that both ends have.
    pub fn new(peer: Peer, dice: Dice, network: &Network) -> Self {
        Self {
            peer,
            up: Stream::default(),
            down: Stream::default(),
            client_has_it: true,
            server_has_it: true,
            client_input: BytesMut::new(),
            dice,
            fastest: network.fastest,
            slowest: network.slowest,
            splits: network.splits,
        }
    }

    /// One of the directions.
    pub fn stream(&mut self, way: Way) -> &mut Stream {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }

    /// How long the way is for what is sent now.
    pub fn latency(&mut self) -> u64 {
        self.dice.between(self.fastest, self.slowest)
    }

    /// Sends bytes. Returns when pieces arrive, and whether the connection broke under them.
    pub fn send(&mut self, now: u64, way: Way, mut bytes: Bytes) -> (Vec<u64>, bool) {
        let stream = self.stream(way);
        if stream.is_ended {
            return (Vec::new(), false);
        }
        let mut broke = false;
        if let Some(left) = &mut stream.cut_after {
            if *left < bytes.len() as u64 {
                bytes.truncate(*left as usize);
                broke = true;
            } else {
                *left -= bytes.len() as u64;
            }
        }
        let mut arrivals = Vec::new();
        while !bytes.is_empty() {
            let whole = bytes.len() as u64;
            let some = match self.splits && self.dice.percent(40) {
                true => self.dice.between(1, whole),
                false => whole,
            };
            arrivals.push(self.put(now, way, Piece::Bytes(bytes.split_to(some as usize))));
        }
        (arrivals, broke)
    }

    /// The sender of this direction is gone. Returns when that is noticed at the other end.
    pub fn end(&mut self, now: u64, way: Way, end: End) -> Option<u64> {
        if self.stream(way).is_ended {
            return None;
        }
        let at = self.put(now, way, Piece::End(end));
        self.stream(way).is_ended = true;
        Some(at)
    }

    fn put(&mut self, now: u64, way: Way, piece: Piece) -> u64 {
        let arrives = now + self.latency();
        let stream = self.stream(way);
        let at = arrives.max(stream.last).max(stream.stalled);
        stream.last = at;
        if let Piece::Bytes(bytes) = &piece {
            stream.bytes += bytes.len();
        }
        stream.pieces.push_back((at, piece));
        at
    }

    /// What is on its way takes longer. Returns the new moments of arrival.
    pub fn delay(&mut self, now: u64, way: Way, by: u64) -> Vec<u64> {
        let stream = self.stream(way);
        stream.stalled = stream.stalled.max(now + by);
        stream.last = stream.last.max(stream.stalled);
        let stalled = stream.stalled;
        for (at, _) in &mut stream.pieces {
            *at = (*at).max(stalled);
        }
        stream.pieces.iter().map(|(at, _)| *at).collect()
    }

    /// Nothing goes wrong with it any more.
    pub fn heal(&mut self) {
        for stream in [&mut self.up, &mut self.down] {
            stream.cut_after = None;
            stream.stalled = 0;
            stream.last = stream.pieces.back().map_or(0, |(at, _)| *at);
        }
    }

    /// What has arrived by now, one piece at a time.
    pub fn arrived(&mut self, now: u64, way: Way) -> Option<Piece> {
        let stream = self.stream(way);
        if stream.pieces.front()?.0 > now {
            return None;
        }
        let (_, piece) = stream.pieces.pop_front()?;
        if let Piece::Bytes(bytes) = &piece {
            stream.bytes -= bytes.len();
        }
        Some(piece)
    }

    /// All bytes that are on their way are lost.
    pub fn lose(&mut self, way: Way) {
        let stream = self.stream(way);
        stream
            .pieces
            .retain(|(_, piece)| matches!(piece, Piece::End(_)));
        stream.bytes = 0;
    }
}
