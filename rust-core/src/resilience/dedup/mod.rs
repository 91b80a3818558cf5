//! The server's memory of calls: what makes a retried call execute at most once.
//!
//! ```text
//! New ──► Running ──► Done ──► Forgotten
//! ```
//!
//! * A twin of a **Running** call attaches to it and gets the same answer.
//! * A twin of a **Done** call gets the stored bytes again.
//! * A **Forgotten** call is one that was evicted under pressure (a tombstone of its id is left),
//!   that its client declared finished (its number is below the client's mark), or whose answer was
//!   held for its time (a libwitrpc client's calls are known by their numbers even then). A twin of
//!   it is told that the outcome is unknown; it never runs.
//! * While tombstones have had to give way too, no call is begun that its client says may have come
//!   before.
//! * The same id with another method or other arguments is an error.
//! * A call that its own handler refused before it did anything is New again.
//!
//! Owns the table and its bounds; a Running record is never evicted. What is not in here: how calls
//! are run and answered, and where records outlive the process.

mod clients;
mod records;
mod remembered;
#[doc(hidden)]
pub mod states;
mod tombstones;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use self::clients::{ClientSlot, Clients};
use self::records::{Record, Records, State};
pub use self::remembered::Remembered;
use self::tombstones::Tombstones;
use crate::mutant::{Mutant, planted};
use crate::time::Time;

/// Bounds of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupOptions {
    /// Records held at the same time, running calls included. Default 65,536.
    pub max_records: usize,
    /// Bytes of stored answers. Default 64 MiB.
    pub max_bytes: usize,
    /// How long an answer is held after its call ended. Default 10 min.
    pub hold: Duration,
    /// A bigger answer is not stored: a twin is told that the outcome is unknown. Default 1 MiB.
    pub max_answer: usize,
    /// Ids of calls evicted before their time that are remembered, 16 bytes each; beyond it the
    /// oldest is dropped, and until its time is over repeated calls that are not known are told that
    /// their outcome is unknown. Default 1,048,576.
    pub max_tombstones: usize,
    /// Clients whose call numbers are followed. Default 65,536.
    pub max_clients: usize,
}

impl Default for DedupOptions {
    fn default() -> Self {
        Self {
            max_records: 65_536,
            max_bytes: 64 * 1024 * 1024,
            hold: Duration::from_secs(600),
            max_answer: 1024 * 1024,
            max_tombstones: 1 << 20,
            max_clients: 65_536,
        }
    }
}

/// Numbers that a libwitrpc client adds to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// The lasting id of the client.
    pub client: Uuid,
    /// Number of this call within the client.
    pub number: u64,
    /// The client will never send a call below this number again.
    pub first_unfinished: u64,
}

/// Who calls, and which call it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallId {
    /// Who the caller is, as the token validator said.
    pub principal: Arc<str>,
    /// Stable over the attempts of one call. Must not be nil.
    pub invocation: Uuid,
    /// What a libwitrpc client adds.
    pub numbered: Option<Numbered>,
    /// The client says that an earlier attempt may have arrived, and that it must not run twice.
    pub repeated: bool,
    /// An earlier attempt may have been executed where this table can't know of it: without a record
    /// here the outcome is unknown.
    pub elsewhere: bool,
}

/// A running call's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(usize);

impl Ticket {
    /// A small number that no other running call has.
    pub fn index(self) -> usize {
        self.0
    }
}

/// What is to be done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Run it, then [finish](Table::finish) it.
    New(Ticket),
    /// It is running: the waiter is handed back when it ends.
    Attached,
    /// It has been executed; this was its answer.
    Replay(Bytes),
    /// It was seen before and can't be answered any more.
    OutcomeUnknown,
    /// The id belongs to another call.
    Mismatch,
    /// The table holds only running calls and has no room.
    Full,
    /// It would have to run, and the server has no room for that.
    NoRoom,
}

/// What the table has done and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DedupStats {
    /// Calls running now.
    pub running: usize,
    /// Answers held now.
    pub done: usize,
    /// Bytes of answers held now.
    pub bytes: usize,
    /// Ids of evicted calls remembered now.
    pub tombstones: usize,
    /// Calls answered from the table.
    pub replayed: u64,
    /// Calls attached to a running twin.
    pub attached: u64,
    /// Calls refused because their id belonged to another call.
    pub mismatched: u64,
    /// Calls answered with "outcome unknown".
    pub unknown: u64,
    /// Answers given up before their time to make room.
    pub evicted: u64,
    /// Answers given up early because their client said so.
    pub released: u64,
    /// Calls refused because there was no room.
    pub refused: u64,
}

/// See the [module](self). `W` is whatever the driver needs to answer an attached twin.
#[derive(Debug)]
pub struct Table<W> {
    options: DedupOptions,
    records: Records<W>,
    tombstones: Tombstones,
    clients: Clients,
    stats: DedupStats,
}

impl<W> Table<W> {
    /// An empty table.
    pub fn new(options: DedupOptions) -> Self {
        Self {
            records: Records::default(),
            tombstones: Tombstones::new(options.max_tombstones),
            clients: Clients::new(options.max_clients),
            options,
            stats: DedupStats::default(),
        }
    }

    /// The bounds in force.
    pub fn options(&self) -> &DedupOptions {
        &self.options
    }

    /// What the table has done and holds.
    pub fn stats(&self) -> DedupStats {
        DedupStats {
            running: self.records.len() - self.records.done(),
            done: self.records.done(),
            bytes: self.records.bytes(),
            tombstones: self.tombstones.len(),
            ..self.stats
        }
    }

    /// A call arrived and everything that can refuse it before it begins has been checked, but for
    /// whether there is room to run it: repetitions are welcome also where there is none, as they
    /// begin nothing. `digest` stands for its method and arguments.
    pub fn begin(
        &mut self,
        now: Time,
        call: &CallId,
        digest: u64,
        waiter: W,
        has_room: bool,
    ) -> Admission {
        self.expire(now);
        let numbered = self.follow(now, call);
        if let Some((slot, number)) = numbered
            && number < self.clients.mark(slot)
        {
            self.stats.unknown += 1;
            return Admission::OutcomeUnknown;
        }
        if let Some(record) = self.records.find(&call.principal, call.invocation) {
            if record.digest != digest && !planted(Mutant::DigestIgnored) {
                self.stats.mismatched += 1;
                return Admission::Mismatch;
            }
            return match &mut record.state {
                State::Running(_) if planted(Mutant::TwinRefused) => Admission::Full,
                State::Running(waiters) => {
                    waiters.push(waiter);
                    self.stats.attached += 1;
                    Admission::Attached
                }
                State::Done {
                    answer: Some(answer),
                    ..
                } => {
                    self.stats.replayed += 1;
                    Admission::Replay(answer.clone())
                }
                State::Done { answer: None, .. } => {
                    self.stats.unknown += 1;
                    Admission::OutcomeUnknown
                }
            };
        }
        if self.has_forgotten(now, call, numbered) {
            self.stats.unknown += 1;
            return Admission::OutcomeUnknown;
        }
        if !has_room {
            return Admission::NoRoom;
        }
        if let Some((slot, number)) = numbered
            && !call.repeated
        {
            self.clients.began(slot, number);
        }
        if self.records.len() >= self.options.max_records
            && !self.evict_oldest()
            && !planted(Mutant::RunningEvicted)
        {
            self.stats.refused += 1;
            return Admission::Full;
        }
        Admission::New(self.enter(call, numbered, digest))
    }

    /// A call ended with this answer (an encoded response). Returns its attached twins, who get
    /// the same.
    pub fn finish(&mut self, now: Time, ticket: Ticket, answer: &Bytes) -> Vec<W> {
        self.end(now, ticket, Some(answer.clone()))
    }

    /// A call ended, or may have, and its answer can't be kept: its twins are told that the outcome
    /// is unknown. Returns those that are attached, who are told the same.
    pub fn finish_unknown(&mut self, now: Time, ticket: Ticket) -> Vec<W> {
        self.end(now, ticket, None)
    }

    /// Enters a call that an earlier life of the server has executed, or may have: with its answer,
    /// or without one if its outcome is unknown. It is held as if it had ended now.
    pub fn restore(&mut self, now: Time, call: &CallId, digest: u64, answer: Option<Bytes>) {
        let ticket = self.reenter(now, call, digest);
        self.end(now, ticket, answer);
    }

    fn enter(&mut self, call: &CallId, numbered: Option<(ClientSlot, u64)>, digest: u64) -> Ticket {
        let ticket = self.records.insert(Record {
            principal: call.principal.clone(),
            invocation: call.invocation,
            numbered,
            released: false,
            digest,
            state: State::Running(Vec::new()),
        });
        if let Some((slot, number)) = numbered {
            self.clients.add(slot, number, ticket);
        }
        Ticket(ticket)
    }

    fn end(&mut self, now: Time, Ticket(ticket): Ticket, answer: Option<Bytes>) -> Vec<W> {
        let kept = answer.filter(|answer| answer.len() <= self.options.max_answer);
        let waiters = self.records.finish(ticket, now, kept);
        if self.records.get_mut(ticket).released {
            self.stats.released += 1;
            self.remove(ticket);
        }
        while self.records.bytes() > self.options.max_bytes && self.evict_oldest() {}
        waiters
    }

    /// The ticket of a call that is in the table.
    pub fn ticket(&self, principal: &str, invocation: Uuid) -> Option<Ticket> {
        self.records.ticket(principal, invocation).map(Ticket)
    }

    /// A call was refused by its own handler, before it had done anything: it is as if it had never
    /// come. Returns its attached twins, who are refused too.
    pub fn abandon(&mut self, ticket: Ticket) -> Vec<W> {
        let Ticket(ticket) = ticket;
        match self.remove(ticket).state {
            State::Running(waiters) => waiters,
            State::Done { .. } => Vec::new(),
        }
    }

    /// Takes note of a client's mark, and lets go of what is below it. Returns where the call is to
    /// be entered, if its client is followed.
    fn follow(&mut self, now: Time, call: &CallId) -> Option<(ClientSlot, u64)> {
        let stated = call.numbered?;
        let hold = self.options.hold;
        let slot = self
            .clients
            .follow(now, hold, &call.principal, stated.client)?;
        for ticket in self.clients.advance(slot, stated.first_unfinished) {
            let record = self.records.get_mut(ticket);
            record.numbered = None;
            record.released = true;
            if matches!(record.state, State::Done { .. }) {
                self.records.remove(ticket);
                self.stats.released += 1;
            }
        }
        Some((slot, stated.number))
    }

    /// True if a call of which there is no record was executed, or may have been.
    fn has_forgotten(&self, now: Time, call: &CallId, numbered: Option<(ClientSlot, u64)>) -> bool {
        let by_number = match numbered {
            Some((slot, number)) => self.clients.has_forgotten(slot, number, call.repeated),
            // A client beyond the bound leaves no trace when its time is over.
            None => call.repeated && call.numbered.is_some(),
        };
        by_number
            || call.elsewhere
            || self.tombstones.contains(&call.principal, call.invocation)
            || call.repeated && now < self.tombstones.incomplete_until()
    }

    /// Gives up the oldest answer and leaves a tombstone; false if there is none.
    fn evict_oldest(&mut self) -> bool {
        let Some((ticket, at)) = self.records.oldest_done() else {
            return false;
        };
        let record = self.forget(ticket);
        self.tombstones
            .add(at + self.options.hold, record.principal, record.invocation);
        self.stats.evicted += 1;
        true
    }

    /// Lets go of everything whose time has come.
    fn expire(&mut self, now: Time) {
        while let Some((ticket, at)) = self.records.oldest_done() {
            if at + self.options.hold > now {
                break;
            }
            self.forget(ticket);
        }
        self.tombstones.expire(now);
    }

    /// Lets go of an answer. A libwitrpc client's call is known by its number from now on, however
    /// late it comes: its clock may have stood still, or a connection may have held it back.
    fn forget(&mut self, ticket: usize) -> Record<W> {
        let record = self.records.remove(ticket);
        if let Some((slot, number)) = record.numbered {
            match planted(Mutant::TimeForgotten) {
                true => self.clients.remove(slot, number),
                false => self.clients.forget(slot, number),
            }
        }
        record
    }

    fn remove(&mut self, ticket: usize) -> Record<W> {
        let record = self.records.remove(ticket);
        if let Some((slot, number)) = record.numbered {
            self.clients.remove(slot, number);
        }
        record
    }
}

#[cfg(test)]
mod tests;
