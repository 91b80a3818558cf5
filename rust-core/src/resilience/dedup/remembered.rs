//! What a table knows, in pieces that can be written down and given to another table.
//!
//! Owns what must outlive a table for its promises to hold in the next one: everything that is not New. Ages are no part of it: what was held is held
//! from now on. Running calls are the business of whoever runs them.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::records::State;
use super::*;

/// A piece of what a table knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// A call that ended, or whose outcome is unknown: with its answer, if there is one.
    Call {
        /// The call. Its mark is that of its client.
        call: CallId,
        /// Stands for its method and arguments.
        digest: u64,
        /// Its answer.
        answer: Option<Bytes>,
    },
    /// A client whose calls are followed by their numbers.
    Client {
        /// Its principal.
        principal: Arc<str>,
        /// Its lasting id.
        client: Uuid,
        /// No call below this number will be sent again.
        mark: u64,
        /// What was known of calls below this number is lost.
        unknown_below: u64,
        /// Numbers of calls that were let go of, first to last.
        forgotten: Vec<(u64, u64)>,
    },
    /// A call that was evicted before its time.
    Tombstone {
        /// Its principal.
        principal: Arc<str>,
        /// Its id.
        invocation: Uuid,
    },
    /// Calls were evicted of which nothing is known: repetitions are told that the outcome is unknown while answers would be held.
    Incomplete,
    /// Clients had to make room: others that come may have been here before.
    LostTrack,
}

impl CallId {
    fn of<W>(record: &Record<W>, clients: &Clients) -> Self {
        let numbered = record.numbered.and_then(|(slot, number)| {
            let (client, first_unfinished) = clients.named(slot)?;
            Some(Numbered {
                client,
                number,
                first_unfinished,
            })
        });
        Self {
            principal: record.principal.clone(),
            invocation: record.invocation,
            numbered,
            repeated: false,
            elsewhere: false,
        }
    }
}

impl<W> Table<W> {
    /// Everything but the running calls, in the order in which another table should [recall](Self::recall) it.
    pub fn remembered(&self, now: Time) -> Vec<Remembered> {
        let mut all = Vec::new();
        if self.clients.has_lost_track() {
            all.push(Remembered::LostTrack);
        }
        if now < self.tombstones.incomplete_until() {
            all.push(Remembered::Incomplete);
        }
        self.clients.remembered(&mut all);
        all.extend(
            self.tombstones
                .all()
                .map(|(principal, invocation)| Remembered::Tombstone {
                    principal,
                    invocation,
                }),
        );
        all.extend(self.records.ended().map(|record| Remembered::Call {
            call: CallId::of(record, &self.clients),
            digest: record.digest,
            answer: match &record.state {
                State::Done { answer, .. } => answer.clone(),
                State::Running(_) => None,
            },
        }));
        all
    }

    /// Takes over a piece of what another table knew.
    pub fn recall(&mut self, now: Time, piece: Remembered) {
        match piece {
            Remembered::Call {
                call,
                digest,
                answer,
            } => self.restore(now, &call, digest, answer),
            Remembered::Client {
                principal,
                client,
                mark,
                unknown_below,
                forgotten,
            } => {
                let hold = self.options.hold;
                if let Some(slot) = self.clients.follow(now, hold, &principal, client) {
                    self.clients.recall(slot, mark, unknown_below, &forgotten);
                }
            }
            Remembered::Tombstone {
                principal,
                invocation,
            } => self
                .tombstones
                .add(now + self.options.hold, principal, invocation),
            Remembered::Incomplete => self.tombstones.is_incomplete(now + self.options.hold),
            Remembered::LostTrack => self.clients.lose_track(),
        }
    }

    /// A running call and what stands for its method and arguments, as it is to be written down.
    pub fn running(&self, Ticket(ticket): Ticket) -> (CallId, u64) {
        let record = self.records.get(ticket);
        (CallId::of(record, &self.clients), record.digest)
    }

    /// Enters a call that an earlier life of the server has begun, whatever is known of it, as running. It is to be ended like any other.
    pub fn reenter(&mut self, now: Time, call: &CallId, digest: u64) -> Ticket {
        if let Some(ticket) = self.records.ticket(&call.principal, call.invocation) {
            self.remove(ticket);
        }
        // What its mark gives up makes room first, as when it began.
        let numbered = self.follow(now, call);
        if self.records.len() >= self.options.max_records {
            self.evict_oldest();
        }
        self.enter(call, numbered, digest)
    }

    /// A call that ended without an answer turns out not to have been executed: it is as if it had never come.
    pub fn undo(&mut self, principal: &str, invocation: Uuid, digest: u64) {
        if let Some(ticket) = self.records.ticket(principal, invocation) {
            let record = self.records.get(ticket);
            if record.digest == digest && matches!(record.state, State::Done { answer: None, .. }) {
                self.remove(ticket);
            }
        }
    }
}
