//! Where records outlive a crash: the boundary between server and store, and a store with a disk
//! made of memory.
//!
//! Owns what is durable when. What a server does before and after a write is in
//! [`server`](crate::server).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::dedup::CallId;

use crate::dice::Dice;

/// Who calls, and the id of the call.
pub type Key = (Arc<str>, Uuid);

/// Names a write until its end has been reported.
pub type Write = u64;

/// What is written about a call.
#[derive(Debug, Clone)]
pub enum Record {
    /// Its method is about to begin.
    Intent {
        /// The call.
        call: CallId,
        /// Stands for its method and arguments.
        digest: u64,
    },
    /// It ended so.
    Answer(Bytes),
    /// It was refused: it is as if it had never come.
    Gone,
}

/// What a store knows of a call after a crash.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The call.
    pub call: CallId,
    /// Stands for its method and arguments.
    pub digest: u64,
    /// Its answer; without one its outcome is unknown.
    pub answer: Option<Bytes>,
}

/// What a server needs of a store. Writes end in the order in which they were begun.
pub trait Store {
    /// Begins to write.
    fn write(&mut self, now: u64, key: &Key, record: Record) -> Write;

    /// When [`ended`](Self::ended) has something new to say.
    fn next(&self) -> Option<u64>;

    /// Writes that have ended by now, and whether they are durable.
    fn ended(&mut self, now: u64) -> Vec<(Write, bool)>;

    /// The machine stops at this moment and comes back: what is left.
    fn crash(&mut self) -> Vec<Recovered>;
}

/// Writes that become durable together.
type Batch = Vec<(Write, Key, Record)>;

/// A journal with group commit: what is written while the disk is busy shares the next sync.
#[derive(Debug)]
pub struct Journal {
    dice: Dice,
    next_write: Write,
    /// Written, and not yet being synced.
    buffered: Batch,
    /// Being synced, until this moment.
    syncing: Option<(u64, Batch)>,
    /// On disk, by the order of the intents.
    disk: BTreeMap<u64, Recovered>,
    places: BTreeMap<Key, u64>,
    next_place: u64,
    /// So many writes fail.
    failing: u64,
    /// The defect: writes are said to be durable when they are buffered.
    acknowledges_early: bool,
    early: Vec<(Write, bool)>,
}

impl Journal {
    /// An empty one.
    pub fn new(dice: Dice, acknowledges_early: bool) -> Self {
        Self {
            dice,
            next_write: 0,
            buffered: Vec::new(),
            syncing: None,
            disk: BTreeMap::new(),
            places: BTreeMap::new(),
            next_place: 0,
            failing: 0,
            acknowledges_early,
            early: Vec::new(),
        }
    }

    /// The next writes fail.
    pub fn fail(&mut self, writes: u64) {
        self.failing += writes;
    }

    /// No more writes fail.
    pub fn heal(&mut self) {
        self.failing = 0;
    }

    fn sync(&mut self, now: u64) {
        if self.syncing.is_none() && !self.buffered.is_empty() {
            let until = now + self.dice.between(100_000, 8_000_000);
            self.syncing = Some((until, std::mem::take(&mut self.buffered)));
        }
    }

    fn apply(&mut self, key: Key, record: Record) {
        match record {
            Record::Intent { call, digest } => {
                let place = self.next_place;
                self.next_place += 1;
                self.disk.insert(
                    place,
                    Recovered {
                        call,
                        digest,
                        answer: None,
                    },
                );
                if let Some(old) = self.places.insert(key, place) {
                    self.disk.remove(&old);
                }
            }
            Record::Answer(answer) => {
                if let Some(place) = self.places.get(&key)
                    && let Some(known) = self.disk.get_mut(place)
                {
                    known.answer = Some(answer);
                }
            }
            Record::Gone => {
                if let Some(place) = self.places.remove(&key) {
                    self.disk.remove(&place);
                }
            }
        }
    }
}

impl Store for Journal {
    fn write(&mut self, now: u64, key: &Key, record: Record) -> Write {
        let write = self.next_write;
        self.next_write += 1;
        self.buffered.push((write, key.clone(), record));
        if self.acknowledges_early {
            self.early.push((write, true));
        }
        self.sync(now);
        write
    }

    fn next(&self) -> Option<u64> {
        if !self.early.is_empty() {
            return Some(0);
        }
        self.syncing.as_ref().map(|(until, _)| *until)
    }

    fn ended(&mut self, now: u64) -> Vec<(Write, bool)> {
        let mut ended = std::mem::take(&mut self.early);
        while let Some((until, writes)) = self.syncing.take_if(|(until, _)| *until <= now) {
            for (write, key, record) in writes {
                let durable = self.failing == 0;
                self.failing -= u64::from(!durable);
                // A write that failed may have reached the disk all the same.
                if durable || self.dice.percent(50) {
                    self.apply(key, record);
                }
                if !self.acknowledges_early {
                    ended.push((write, durable));
                }
            }
            self.sync(until);
        }
        ended
    }

    fn crash(&mut self) -> Vec<Recovered> {
        // What was on its way to the disk is there up to some point; what was buffered is lost.
        if let Some((_, writes)) = self.syncing.take() {
            let reached = self.dice.between(0, writes.len() as u64) as usize;
            for (_, key, record) in writes.into_iter().take(reached) {
                self.apply(key, record);
            }
        }
        self.buffered.clear();
        self.early.clear();
        self.failing = 0;
        self.disk.values().cloned().collect()
    }
}
