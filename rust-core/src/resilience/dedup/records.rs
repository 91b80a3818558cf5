//! The records of running and ended calls: found by caller and id, ended ones also by age.

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;
use uuid::Uuid;

use super::clients::ClientSlot;
use crate::mutant::{Mutant, planted};
use crate::time::Time;

#[derive(Debug)]
pub(super) enum State<W> {
    /// With the twins that wait for its answer.
    Running(Vec<W>),
    /// `answer` is `None` where it was too big to keep.
    Done { answer: Option<Bytes>, at: Time },
}

#[derive(Debug)]
pub(super) struct Record<W> {
    pub(super) principal: Arc<str>,
    pub(super) invocation: Uuid,
    /// Client and number, while they are followed.
    pub(super) numbered: Option<(ClientSlot, u64)>,
    /// Its client has declared it finished: the answer is not to be kept.
    pub(super) released: bool,
    pub(super) digest: u64,
    pub(super) state: State<W>,
}

impl<W> Record<W> {
    fn hash(&self, hasher: &DefaultHashBuilder) -> u64 {
        hash(hasher, &self.principal, self.invocation)
    }
}

fn hash(hasher: &DefaultHashBuilder, principal: &str, invocation: Uuid) -> u64 {
    if planted(Mutant::KeyWithoutPrincipal) {
        return hasher.hash_one(invocation);
    }
    hasher.hash_one((principal, invocation))
}

#[derive(Debug)]
struct Entry<W> {
    record: Record<W>,
    /// Neighbours in the list of ended calls.
    older: Option<usize>,
    newer: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Records<W> {
    entries: Slab<Entry<W>>,
    /// Tickets by principal and invocation, which the entries hold.
    index: HashTable<usize>,
    hasher: DefaultHashBuilder,
    oldest: Option<usize>,
    newest: Option<usize>,
    done: usize,
    bytes: usize,
}

impl<W> Default for Records<W> {
    fn default() -> Self {
        Self {
            entries: Slab::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            oldest: None,
            newest: None,
            done: 0,
            bytes: 0,
        }
    }
}

impl<W> Records<W> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Bytes of stored answers.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn ticket(&self, principal: &str, invocation: Uuid) -> Option<usize> {
        let hash = hash(&self.hasher, principal, invocation);
        let found = self.index.find(hash, |ticket| {
            let record = &self.entries[*ticket].record;
            record.invocation == invocation
                && (*record.principal == *principal || planted(Mutant::KeyWithoutPrincipal))
        });
        found.copied()
    }

    pub(super) fn find(&mut self, principal: &str, invocation: Uuid) -> Option<&mut Record<W>> {
        let ticket = self.ticket(principal, invocation)?;
        Some(&mut self.entries[ticket].record)
    }

    pub(super) fn get(&self, ticket: usize) -> &Record<W> {
        &self.entries[ticket].record
    }

    /// Calls that have ended, the first one first.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Record<W>> {
        std::iter::successors(self.oldest, |ticket| self.entries[*ticket].newer)
            .map(|ticket| &self.entries[ticket].record)
    }

    pub(super) fn get_mut(&mut self, ticket: usize) -> &mut Record<W> {
        &mut self.entries[ticket].record
    }

    pub(super) fn insert(&mut self, record: Record<W>) -> usize {
        let hash = record.hash(&self.hasher);
        let ticket = self.entries.insert(Entry {
            record,
            older: None,
            newer: None,
        });
        self.index.insert_unique(hash, ticket, |ticket| {
            self.entries[*ticket].record.hash(&self.hasher)
        });
        ticket
    }

    /// Running → Done. Returns the twins.
    pub(super) fn finish(&mut self, ticket: usize, at: Time, answer: Option<Bytes>) -> Vec<W> {
        self.bytes += answer.as_ref().map_or(0, Bytes::len);
        self.done += 1;
        let older = self.newest.replace(ticket);
        match older {
            Some(older) => self.entries[older].newer = Some(ticket),
            None => self.oldest = Some(ticket),
        }
        let entry = &mut self.entries[ticket];
        entry.older = older;
        match std::mem::replace(&mut entry.record.state, State::Done { answer, at }) {
            State::Running(waiters) => waiters,
            State::Done { .. } => unreachable!("a call ends once"),
        }
    }

    /// The answer that has been held longest, and since when.
    pub(super) fn oldest_done(&self) -> Option<(usize, Time)> {
        let ticket = self.oldest?;
        match self.entries[ticket].record.state {
            State::Done { at, .. } => Some((ticket, at)),
            State::Running(_) => unreachable!("only ended calls are in the list"),
        }
    }

    pub(super) fn remove(&mut self, ticket: usize) -> Record<W> {
        let entry = self.entries.remove(ticket);
        let hash = entry.record.hash(&self.hasher);
        if let Ok(indexed) = self.index.find_entry(hash, |other| *other == ticket) {
            indexed.remove();
        }
        if let State::Done { answer, .. } = &entry.record.state {
            self.bytes -= answer.as_ref().map_or(0, Bytes::len);
            self.done -= 1;
            match entry.older {
                Some(older) => self.entries[older].newer = entry.newer,
                None => self.oldest = entry.newer,
            }
            match entry.newer {
                Some(newer) => self.entries[newer].older = entry.older,
                None => self.newest = entry.older,
            }
        }
        entry.record
    }
}
