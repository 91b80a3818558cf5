//! What is known of libwitrpc clients by the numbers of their calls: the marks ("no call below this
//! number will be sent again"), and which calls above them were executed and let go of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{Equivalent, HashMap};
use slab::Slab;
use uuid::Uuid;

use super::Remembered;
use crate::mutant::{Mutant, planted};
use crate::time::Time;

/// Gaps between forgotten numbers that are remembered for one client. The gaps of an honest one are
/// calls that were never numbered; of more than these the lowest is taken for forgotten too.
const MAX_RANGES: usize = 32;

#[derive(Debug)]
struct Client {
    id: Uuid,
    mark: u64,
    seen: Time,
    /// Records of this client by number.
    records: BTreeMap<u64, usize>,
    /// Numbers from the mark on whose records were let go of.
    forgotten: Ranges,
    /// It may have been followed before, and what was known of calls below this number is lost.
    unknown_below: u64,
}

/// A set of numbers as ranges, first to last.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn contains(&self, number: u64) -> bool {
        let below = self.0.range(..=number).next_back();
        below.is_some_and(|(_, last)| *last >= number)
    }

    fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let after = number
            .checked_add(1)
            .and_then(|after| self.0.remove(&after));
        let last = after.unwrap_or(number);
        match self.0.range_mut(..number).next_back() {
            Some((_, end)) if *end + 1 == number => *end = last,
            _ => {
                self.0.insert(number, last);
            }
        }
        if self.0.len() > MAX_RANGES
            && let Some((first, _)) = self.0.pop_first()
            && let Some((_, last)) = self.0.pop_first()
        {
            self.0.insert(first, last);
        }
    }

    /// Lets go of what is below.
    fn cut(&mut self, mark: u64) {
        while let Some(entry) = self.0.first_entry() {
            if *entry.key() >= mark {
                return;
            }
            let last = entry.remove();
            if last >= mark {
                self.0.insert(mark, last);
            }
        }
    }
}

/// A client is named by its principal too: nobody moves the mark of somebody else.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    principal: Arc<str>,
    client: Uuid,
}

/// A [`Key`] that has not been copied.
#[derive(Hash)]
struct KeyRef<'a> {
    principal: &'a str,
    client: Uuid,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.client == key.client && *self.principal == *key.principal
    }
}

/// Where a client is found: good while one of its records is followed, or until the next call of
/// [`Clients::follow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientSlot(usize);

#[derive(Debug)]
pub(super) struct Clients {
    max: usize,
    slots: HashMap<Key, usize>,
    clients: Slab<Client>,
    swept: Time,
    /// A client that was silent for long had to make room for a new one: it may come back.
    has_lost_track: bool,
}

impl Clients {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            slots: HashMap::new(),
            clients: Slab::new(),
            swept: Time::ZERO,
            has_lost_track: false,
        }
    }

    /// Finds the client that a call names, or takes it in.
    ///
    /// A client beyond the bound is not followed: its records live as long as any others.
    pub(super) fn follow(
        &mut self,
        now: Time,
        hold: Duration,
        principal: &Arc<str>,
        client: Uuid,
    ) -> Option<ClientSlot> {
        let key = KeyRef { principal, client };
        if let Some(slot) = self.slots.get(&key) {
            self.clients[*slot].seen = now;
            return Some(ClientSlot(*slot));
        }
        if self.clients.len() >= self.max {
            self.sweep(now, hold);
        }
        if self.clients.len() >= self.max {
            return None;
        }
        let slot = self.clients.insert(Client {
            id: client,
            mark: 0,
            seen: now,
            records: BTreeMap::new(),
            forgotten: Ranges::default(),
            unknown_below: if self.has_lost_track { u64::MAX } else { 0 },
        });
        let principal = principal.clone();
        self.slots.insert(Key { principal, client }, slot);
        Some(ClientSlot(slot))
    }

    /// Raises the mark of a client to what it states. Returns its records below the mark, which
    /// are no longer followed here.
    pub(super) fn advance(&mut self, slot: ClientSlot, first_unfinished: u64) -> Vec<usize> {
        let first_unfinished = first_unfinished + u64::from(planted(Mutant::MarkTooHigh));
        let client = &mut self.clients[slot.0];
        client.mark = client.mark.max(first_unfinished);
        client.forgotten.cut(client.mark);
        let mut below = Vec::new();
        while let Some(entry) = client.records.first_entry() {
            if *entry.key() >= client.mark {
                break;
            }
            below.push(entry.remove());
        }
        below
    }

    /// Forgets clients that have been silent for as long as answers are held. Looking at all of
    /// them is dear, so it is done at most once in a quarter of that time.
    fn sweep(&mut self, now: Time, hold: Duration) {
        if now.since(self.swept) < hold / 4 {
            return;
        }
        self.swept = now;
        let (clients, has_lost_track) = (&mut self.clients, &mut self.has_lost_track);
        self.slots.retain(|_, slot| {
            let client = &clients[*slot];
            let stays = !client.records.is_empty() || now.since(client.seen) < hold;
            if !stays {
                *has_lost_track = true;
                clients.remove(*slot);
            }
            stays
        });
    }

    /// A call comes for the first time: those that its client begins later do too.
    pub(super) fn began(&mut self, slot: ClientSlot, number: u64) {
        let client = &mut self.clients[slot.0];
        client.unknown_below = client.unknown_below.min(number);
    }

    pub(super) fn has_lost_track(&self) -> bool {
        self.has_lost_track
    }

    pub(super) fn lose_track(&mut self) {
        self.has_lost_track = true;
    }

    /// The id of a client and its mark.
    pub(super) fn named(&self, slot: ClientSlot) -> Option<(Uuid, u64)> {
        let client = self.clients.get(slot.0)?;
        Some((client.id, client.mark))
    }

    pub(super) fn remembered(&self, all: &mut Vec<Remembered>) {
        all.extend(self.slots.iter().map(|(key, slot)| {
            let client = &self.clients[*slot];
            Remembered::Client {
                principal: key.principal.clone(),
                client: key.client,
                mark: client.mark,
                unknown_below: client.unknown_below,
                forgotten: client.forgotten.0.iter().map(|(a, b)| (*a, *b)).collect(),
            }
        }));
    }

    /// What another table knew of a client.
    pub(super) fn recall(
        &mut self,
        slot: ClientSlot,
        mark: u64,
        unknown_below: u64,
        forgotten: &[(u64, u64)],
    ) {
        let client = &mut self.clients[slot.0];
        client.mark = mark;
        client.unknown_below = unknown_below;
        client.forgotten = Ranges(forgotten.iter().copied().collect());
    }

    pub(super) fn mark(&self, slot: ClientSlot) -> u64 {
        self.clients[slot.0].mark
    }

    pub(super) fn add(&mut self, slot: ClientSlot, number: u64, ticket: usize) {
        self.clients[slot.0].records.insert(number, ticket);
    }

    pub(super) fn remove(&mut self, slot: ClientSlot, number: u64) {
        self.clients[slot.0].records.remove(&number);
    }

    /// Lets go of an executed call, for good: it will never be taken for a new one.
    pub(super) fn forget(&mut self, slot: ClientSlot, number: u64) {
        let client = &mut self.clients[slot.0];
        client.records.remove(&number);
        client.forgotten.insert(number);
    }

    /// True if a call of which there is no record was executed, or may have been: `repeated` says
    /// that an earlier attempt may have come.
    pub(super) fn has_forgotten(&self, slot: ClientSlot, number: u64, repeated: bool) -> bool {
        let client = &self.clients[slot.0];
        client.forgotten.contains(number) || repeated && number < client.unknown_below
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn ranges_are_the_set_of_what_was_put_in() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..200 {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            let top = rng.random_range(1..50);
            for _ in 0..60 {
                let number = rng.random_range(0..top);
                ranges.insert(number);
                set.insert(number);
                if rng.random_bool(0.05) {
                    let mark = rng.random_range(0..top);
                    ranges.cut(mark);
                    set.retain(|n| *n >= mark);
                }
                for n in 0..=top {
                    assert_eq!(ranges.contains(n), set.contains(&n), "{n}: {ranges:?}");
                }
                assert!(
                    ranges
                        .0
                        .iter()
                        .zip(ranges.0.keys().skip(1))
                        .all(|((_, a), b)| a + 1 < *b)
                );
            }
        }
        let mut ranges = Ranges::default();
        ranges.insert(u64::MAX);
        ranges.insert(u64::MAX - 1);
        assert_eq!(ranges.0.len(), 1);
    }

    #[test]
    fn ranges_are_bounded_and_lose_no_number() {
        let mut ranges = Ranges::default();
        for n in 0..10_000 {
            ranges.insert(n * 2);
        }
        assert_eq!(ranges.0.len(), MAX_RANGES);
        assert!((0..10_000).all(|n| ranges.contains(n * 2)));
        assert!(!ranges.contains(19_997));
    }
}
