//! Ids of calls whose answers had to be given up before their time. Exact: a fresh id is never
//! taken for one of them.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use uuid::Uuid;

use crate::time::Time;

#[derive(Debug)]
pub(super) struct Tombstones {
    max: usize,
    /// In the order in which they were put up, which is that of their expiry.
    order: VecDeque<(Time, Arc<str>, Uuid)>,
    ids: HashMap<Arc<str>, HashSet<Uuid>>,
    /// Until when there would be more of them if there were room.
    incomplete_until: Time,
}

impl Tombstones {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            order: VecDeque::new(),
            ids: HashMap::new(),
            incomplete_until: Time::ZERO,
        }
    }

    /// Before this moment a call may have been evicted of which nothing is known here.
    pub(super) fn incomplete_until(&self) -> Time {
        self.incomplete_until
    }

    /// Until this moment a call may have been evicted of which nothing is known here.
    pub(super) fn is_incomplete(&mut self, until: Time) {
        self.incomplete_until = self.incomplete_until.max(until);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Arc<str>, Uuid)> {
        let all = self.order.iter();
        all.map(|(_, principal, invocation)| (principal.clone(), *invocation))
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn contains(&self, principal: &Arc<str>, invocation: Uuid) -> bool {
        self.ids
            .get(principal)
            .is_some_and(|ids| ids.contains(&invocation))
    }

    pub(super) fn add(&mut self, until: Time, principal: Arc<str>, invocation: Uuid) {
        if self.max == 0 {
            self.incomplete_until = until;
            return;
        }
        if self.order.len() >= self.max
            && let Some(dropped) = self.remove_oldest()
        {
            self.incomplete_until = dropped;
        }
        self.ids
            .entry(principal.clone())
            .or_default()
            .insert(invocation);
        self.order.push_back((until, principal, invocation));
    }

    pub(super) fn expire(&mut self, now: Time) {
        while self.order.front().is_some_and(|(until, ..)| *until <= now) {
            self.remove_oldest();
        }
    }

    /// Returns how long it would have stood.
    fn remove_oldest(&mut self) -> Option<Time> {
        let (until, principal, invocation) = self.order.pop_front()?;
        if let Some(ids) = self.ids.get_mut(&principal) {
            ids.remove(&invocation);
            if ids.is_empty() {
                self.ids.remove(&principal);
            }
        }
        Some(until)
    }
}
