//! What the memory of calls should do, said a second time and without its cleverness: every call
//! that was ever seen is in one list, and [`TRANSITIONS`](witrpc::resilience::dedup::states) says
//! what becomes of it.
//!
//! Owns the expected reply to every request and the expected numbers of records. It knows nothing of
//! how the table finds, links and bounds its records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::dedup::states::{Event, Reply, State, transition};
use witrpc::resilience::dedup::{CallId, DedupOptions, DedupStats};
use witrpc::time::Time;

/// Who calls, and the lasting id of the client.
type ClientKey = (Arc<str>, Uuid);

#[derive(Debug)]
struct Known {
    principal: Arc<str>,
    invocation: Uuid,
    digest: u64,
    state: State,
    /// Client and number, where the client is followed.
    numbered: Option<(ClientKey, u64)>,
    /// The table has a record of it, running or ended; else only a trace.
    has_record: bool,
    /// Its client gave it up while it ran.
    is_given_up: bool,
    answer: Option<Bytes>,
    /// When it ended, and the how many-th that was.
    ended: Option<(Time, u64)>,
    /// Until when a tombstone of it stands, and the how many-th that was.
    tombstone: Option<(Time, u64)>,
    waiters: usize,
    begun: u64,
}

#[derive(Debug, Default)]
struct Client {
    mark: u64,
    seen: Time,
    forgotten: BTreeSet<u64>,
    unknown_below: u64,
}

/// The model. `begin`, `end` and the others stand for what is done to the table.
#[derive(Debug)]
pub struct Model {
    options: DedupOptions,
    calls: Vec<Known>,
    clients: BTreeMap<ClientKey, Client>,
    swept: Time,
    has_lost_track: bool,
    incomplete_until: Time,
    /// A tombstone had to give way.
    pub has_dropped_tombstones: bool,
    count: u64,
}

/// A running call of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun(u64);

impl Model {
    /// Knows nothing.
    pub fn new(options: DedupOptions) -> Self {
        Self {
            options,
            calls: Vec::new(),
            clients: BTreeMap::new(),
            swept: Time::ZERO,
            has_lost_track: false,
            incomplete_until: Time::ZERO,
            has_dropped_tombstones: false,
            count: 0,
        }
    }

    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// What is to be answered to this request; with the stored bytes where they are the answer, and
    /// with a name for the call where it is to run.
    pub fn begin(
        &mut self,
        now: Time,
        call: &CallId,
        digest: u64,
        has_room: bool,
    ) -> (Reply, Option<Bytes>, Option<Begun>) {
        self.expire(now);
        let client = self.follow(now, call);
        let number = call.numbered.map_or(0, |stated| stated.number);
        let below_mark = client
            .as_ref()
            .is_some_and(|key| number < self.clients[key].mark);
        let found = self
            .calls
            .iter_mut()
            .find(|known| {
                known.has_record
                    && known.principal == call.principal
                    && known.invocation == call.invocation
            })
            .filter(|_| !below_mark);
        if let Some(known) = found {
            let event = match has_room {
                _ if known.digest != digest => Event::OtherCall,
                true => Event::Call,
                false => Event::CallWithoutRoom,
            };
            // Of an ended call without an answer it is still known what it was.
            let reply = match (known.state, event) {
                (State::Forgotten, Event::OtherCall) => Reply::Mismatch,
                (state, event) => step(state, event).0,
            };
            known.waiters += usize::from(reply == Reply::Attached);
            let stored = known
                .answer
                .clone()
                .filter(|_| reply == Reply::StoredAnswer);
            return (reply, stored, None);
        }
        let event = match has_room {
            true => Event::Call,
            false => Event::CallWithoutRoom,
        };
        let state = match below_mark || self.has_trace(now, call, client.as_ref()) {
            true => State::Forgotten,
            false => State::New,
        };
        let (reply, _) = step(state, event);
        if reply != Reply::Runs {
            return (reply, None, None);
        }
        if let Some(key) = &client
            && !call.repeated
            && let Some(client) = self.clients.get_mut(key)
        {
            client.unknown_below = client.unknown_below.min(number);
        }
        if self.records() >= self.options.max_records && !self.press() {
            return (step(State::New, Event::CallWithoutRoom).0, None, None);
        }
        let begun = self.enter(call, client, digest);
        (reply, None, Some(begun))
    }

    fn enter(&mut self, call: &CallId, client: Option<ClientKey>, digest: u64) -> Begun {
        let begun = self.count();
        self.calls.retain(|known| {
            known.has_record
                || known.tombstone.is_some()
                || known.principal != call.principal
                || known.invocation != call.invocation
        });
        self.calls.push(Known {
            principal: call.principal.clone(),
            invocation: call.invocation,
            digest,
            state: State::Running,
            numbered: client.zip(call.numbered.map(|stated| stated.number)),
            has_record: true,
            is_given_up: false,
            answer: None,
            ended: None,
            tombstone: None,
            waiters: 0,
            begun,
        });
        Begun(begun)
    }

    /// An executed or unknown call of an earlier life.
    pub fn restore(&mut self, now: Time, call: &CallId, digest: u64, answer: Option<Bytes>) {
        let client = self.follow(now, call);
        if self.records() >= self.options.max_records {
            self.press();
        }
        let begun = self.enter(call, client, digest);
        self.end(now, begun, answer);
    }

    /// The call ended; without an answer if it can't be kept. Returns how many twins waited.
    pub fn end(&mut self, now: Time, begun: Begun, answer: Option<Bytes>) -> usize {
        let answer = answer.filter(|bytes| bytes.len() <= self.options.max_answer);
        let ended = (now, self.count());
        let Some(known) = self.calls.iter_mut().find(|known| known.begun == begun.0) else {
            return 0;
        };
        let event = match answer {
            Some(_) => Event::End,
            None => Event::EndWithoutAnswer,
        };
        let waiters = std::mem::take(&mut known.waiters);
        if known.is_given_up {
            known.has_record = false;
        } else {
            known.state = step(known.state, event).1;
            known.ended = Some(ended);
            known.answer = answer;
        }
        while self.bytes() > self.options.max_bytes && self.press() {}
        waiters
    }

    /// The call was refused by its own method. Returns how many twins waited.
    pub fn refuse(&mut self, begun: Begun) -> usize {
        let Some(at) = self.calls.iter().position(|known| known.begun == begun.0) else {
            return 0;
        };
        self.calls.remove(at).waiters
    }

    /// What the table should say about itself.
    pub fn counts(&self) -> DedupStats {
        let running = self.calls.iter().filter(|known| is_running(known)).count();
        DedupStats {
            running,
            done: self.records() - running,
            bytes: self.bytes(),
            tombstones: self.tombstones(),
            ..DedupStats::default()
        }
    }

    /// True if a record of the call is there, with its answer.
    pub fn is_done(&self, principal: &str, invocation: Uuid) -> bool {
        self.calls.iter().any(|known| {
            &*known.principal == principal
                && known.invocation == invocation
                && known.ended.is_some()
        })
    }

    fn records(&self) -> usize {
        self.calls.iter().filter(|known| known.has_record).count()
    }

    fn bytes(&self) -> usize {
        let held = self.calls.iter().filter(|known| known.has_record);
        held.filter_map(|known| known.answer.as_ref().map(Bytes::len))
            .sum()
    }

    fn tombstones(&self) -> usize {
        let calls = self.calls.iter();
        calls.filter(|known| known.tombstone.is_some()).count()
    }

    /// A call without a record that was executed, or may have been.
    fn has_trace(&self, now: Time, call: &CallId, client: Option<&ClientKey>) -> bool {
        let by_number = match (client, call.numbered) {
            (Some(key), Some(stated)) => {
                let client = &self.clients[key];
                client.forgotten.contains(&stated.number)
                    || call.repeated && stated.number < client.unknown_below
            }
            (None, Some(_)) => call.repeated,
            _ => false,
        };
        let by_tombstone = self.calls.iter().any(|known| {
            known.tombstone.is_some()
                && known.principal == call.principal
                && known.invocation == call.invocation
        });
        by_number || by_tombstone || call.repeated && now < self.incomplete_until
    }

    /// The client of a numbered call, if it is followed, with its mark where it states it.
    fn follow(&mut self, now: Time, call: &CallId) -> Option<ClientKey> {
        let stated = call.numbered?;
        let key = (call.principal.clone(), stated.client);
        if !self.clients.contains_key(&key) {
            if self.clients.len() >= self.options.max_clients {
                self.sweep(now);
            }
            if self.clients.len() >= self.options.max_clients {
                return None;
            }
            self.clients.insert(
                key.clone(),
                Client {
                    unknown_below: if self.has_lost_track { u64::MAX } else { 0 },
                    ..Client::default()
                },
            );
        }
        let client = self.clients.get_mut(&key)?;
        client.seen = now;
        client.mark = client.mark.max(stated.first_unfinished);
        let mark = client.mark;
        client.forgotten.retain(|number| *number >= mark);
        for known in &mut self.calls {
            let given_up = known
                .numbered
                .as_ref()
                .is_some_and(|(client, number)| *client == key && *number < mark);
            if given_up && known.has_record {
                known.numbered = None;
                // Who names it by its number finds it forgotten; who does not can still wait for it.
                if is_running(known) {
                    known.is_given_up = true;
                } else {
                    known.has_record = false;
                    known.answer = None;
                }
            }
        }
        Some(key)
    }

    fn sweep(&mut self, now: Time) {
        let hold = self.options.hold;
        if now.since(self.swept) < hold / 4 {
            return;
        }
        self.swept = now;
        let busy: BTreeSet<ClientKey> = self
            .calls
            .iter()
            .filter(|known| known.has_record)
            .filter_map(|known| known.numbered.as_ref().map(|(key, _)| key.clone()))
            .collect();
        let before = self.clients.len();
        self.clients
            .retain(|key, client| busy.contains(key) || now.since(client.seen) < hold);
        self.has_lost_track |= self.clients.len() < before;
    }

    /// Makes room: the call that ended first is given up.
    fn press(&mut self) -> bool {
        let hold = self.options.hold;
        let order = self.count();
        let oldest = self
            .calls
            .iter_mut()
            .filter(|known| known.has_record && known.ended.is_some())
            .min_by_key(|known| known.ended.map(|(_, order)| order));
        let Some(known) = oldest else { return false };
        let until = known.ended.map_or(Time::ZERO, |(at, _)| at) + hold;
        if let Some(row) = transition(known.state, Event::Pressure) {
            known.state = row.to;
        }
        let_go(known, &mut self.clients);
        if self.options.max_tombstones == 0 {
            known.tombstone = None;
            self.incomplete_until = until;
            self.has_dropped_tombstones = true;
            return true;
        }
        known.tombstone = Some((until, order));
        if self.tombstones() > self.options.max_tombstones {
            let standing = self.calls.iter_mut().filter(|k| k.tombstone.is_some());
            let first = standing.min_by_key(|known| known.tombstone.map(|(_, order)| order));
            if let Some((until, _)) = first.and_then(|known| known.tombstone.take()) {
                self.incomplete_until = until;
                self.has_dropped_tombstones = true;
            }
        }
        true
    }

    fn expire(&mut self, now: Time) {
        let hold: Duration = self.options.hold;
        for known in &mut self.calls {
            let event = match known.numbered {
                Some(_) => Event::TimeOver,
                None => Event::TimeOverUnnumbered,
            };
            let over = known.ended.is_some_and(|(at, _)| at + hold <= now);
            if known.has_record && over {
                known.state = step(known.state, event).1;
                let_go(known, &mut self.clients);
            }
            if known.tombstone.is_some_and(|(until, _)| until <= now) {
                known.tombstone = None;
            }
        }
        self.calls
            .retain(|known| known.has_record || known.tombstone.is_some());
    }
}

fn is_running(known: &Known) -> bool {
    known.has_record && known.ended.is_none()
}

/// The record of an ended call goes; its number is remembered.
fn let_go(known: &mut Known, clients: &mut BTreeMap<ClientKey, Client>) {
    known.has_record = false;
    known.answer = None;
    if let Some((key, number)) = &known.numbered
        && let Some(client) = clients.get_mut(key)
    {
        client.forgotten.insert(*number);
    }
}

/// What the state machine says.
fn step(state: State, event: Event) -> (Reply, State) {
    match transition(state, event) {
        Some(row) => (row.reply, row.to),
        None => panic!("the state machine has no row for {event:?} in {state:?}"),
    }
}
