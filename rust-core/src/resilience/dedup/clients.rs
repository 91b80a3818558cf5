//! The marks of libwitrpc clients: "no call below this number will be sent again".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{Equivalent, HashMap};
use slab::Slab;
use uuid::Uuid;

use crate::time::Time;

#[derive(Debug)]
struct Client {
    mark: u64,
    seen: Time,
    /// Records of this client by number.
    records: BTreeMap<u64, usize>,
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
}

impl Clients {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            slots: HashMap::new(),
            clients: Slab::new(),
            swept: Time::ZERO,
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
            mark: 0,
            seen: now,
            records: BTreeMap::new(),
        });
        let principal = principal.clone();
        self.slots.insert(Key { principal, client }, slot);
        Some(ClientSlot(slot))
    }

    /// Raises the mark of a client to what it states. Returns its records below the mark, which
    /// are no longer followed here.
    pub(super) fn advance(&mut self, slot: ClientSlot, first_unfinished: u64) -> Vec<usize> {
        let client = &mut self.clients[slot.0];
        client.mark = client.mark.max(first_unfinished);
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
        let clients = &mut self.clients;
        self.slots.retain(|_, slot| {
            let client = &clients[*slot];
            let stays = !client.records.is_empty() || now.since(client.seen) < hold;
            if !stays {
                clients.remove(*slot);
            }
            stays
        });
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
}
