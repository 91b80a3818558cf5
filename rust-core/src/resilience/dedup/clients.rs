//! The marks of libwitrpc clients: "no call below this number will be sent again".

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Numbered;
use crate::time::Time;

#[derive(Debug)]
struct Client {
    mark: u64,
    seen: Time,
    /// Records of this client by number.
    records: BTreeMap<u64, usize>,
}

/// A client is named by its principal too: nobody moves the mark of somebody else.
#[derive(Debug)]
pub(super) struct Clients {
    max: usize,
    clients: HashMap<(Arc<str>, Uuid), Client>,
    swept: Time,
}

impl Clients {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            clients: HashMap::new(),
            swept: Time::ZERO,
        }
    }

    /// Raises the mark of a client to what it states. Returns its records below the mark, which
    /// are no longer followed here.
    ///
    /// A client beyond the bound is not followed: its records live as long as any others.
    pub(super) fn advance(
        &mut self,
        now: Time,
        hold: Duration,
        principal: &Arc<str>,
        stated: Numbered,
    ) -> Vec<usize> {
        let key = (principal.clone(), stated.client);
        if !self.clients.contains_key(&key) {
            if self.clients.len() >= self.max {
                self.sweep(now, hold);
            }
            if self.clients.len() >= self.max {
                return Vec::new();
            }
        }
        let client = self.clients.entry(key).or_insert_with(|| Client {
            mark: 0,
            seen: now,
            records: BTreeMap::new(),
        });
        client.seen = now;
        client.mark = client.mark.max(stated.first_unfinished);
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
        self.clients
            .retain(|_, client| !client.records.is_empty() || now.since(client.seen) < hold);
    }

    pub(super) fn follows(&self, principal: &Arc<str>, client: Uuid) -> bool {
        self.clients.contains_key(&(principal.clone(), client))
    }

    /// The mark of a client; 0 if it is not followed.
    pub(super) fn mark(&self, principal: &Arc<str>, client: Uuid) -> u64 {
        self.clients
            .get(&(principal.clone(), client))
            .map_or(0, |client| client.mark)
    }

    pub(super) fn add(&mut self, principal: &Arc<str>, client: Uuid, number: u64, ticket: usize) {
        if let Some(client) = self.clients.get_mut(&(principal.clone(), client)) {
            client.records.insert(number, ticket);
        }
    }

    pub(super) fn remove(&mut self, principal: &Arc<str>, client: Uuid, number: u64) {
        if let Some(client) = self.clients.get_mut(&(principal.clone(), client)) {
            client.records.remove(&number);
        }
    }
}
