//! A whole client as one state machine: its link, its calls, their retries.
//!
//! Everything that happens comes in as a method call with the present [`Time`]; everything that is
//! to be done comes out of [`Engine::poll_action`]. A driver connects what is to be opened, moves
//! bytes, calls [`Engine::tick`] at [`Engine::next_wakeup`], and tells callers and callbacks. The
//! same machine runs under the tokio driver and under the simulator.
//!
//! * `link`: one connection after the other, the reconnection loop, the four states.
//! * `calls`: attempts, time limits, retries, the queue in front of a missing link.

mod calls;
mod link;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::BytesMut;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use slab::Slab;
use uuid::Uuid;

use self::calls::Entry;
use self::link::{Link, Ready};
pub use self::types::{
    Action, Answer, CallKey, CallSpec, EngineOptions, LinkId, Loss, Notification, State, Timeout,
};
use super::budget::Budget;
use super::reconnect::Reconnector;
use crate::error::{Error, Result};
use crate::session::PeerInfo;
use crate::time::Time;
use crate::wire::Request;

/// See the [module](self). `T` is what the driver needs to tell a caller the end of its call.
#[derive(Debug)]
pub struct Engine<T> {
    options: EngineOptions,
    rng: StdRng,
    /// Lasting id of this client, told to libwitrpc servers.
    client_id: Uuid,
    closed: bool,
    actions: VecDeque<Action<T>>,

    state: State,
    link: Link,
    /// Links that their servers are about to close: what runs there is still answered.
    leaving: Vec<Ready>,
    next_link: u64,
    /// Which of the endpoints is tried next.
    endpoint: usize,
    reconnector: Option<Reconnector>,
    /// Attempts go on by themselves until one succeeds or they are used up.
    looping: bool,
    /// The user was told of an attempt, and is owed its end.
    announced: bool,
    /// A failed handshake with a token from a provider is tried once more with a fresh one.
    token_retried: bool,
    token: String,
    /// Grows with each token, so that a call knows whether it was refused with the newest.
    token_version: u64,
    refreshing_token: bool,
    /// Why the last link or attempt failed.
    last_failure: Option<Error>,
    stats: EngineStats,

    calls: Slab<Entry<T>>,
    next_number: u64,
    next_serial: u32,
    /// Calls that wait for a link or for room, in order.
    queue: BTreeMap<u64, usize>,
    next_ticket: u64,
    queued_bytes: usize,
    in_flight: usize,
    /// One moment a call: when it must be looked at.
    timers: BTreeSet<(Time, usize)>,
    /// Numbers of calls that may be sent again.
    unfinished: BTreeSet<u64>,
    budget: Option<Budget>,
}

/// What the client has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Reconnections that succeeded.
    pub reconnects: u64,
    /// Calls in flight now.
    pub in_flight: usize,
    /// Calls that wait for a link or for room now.
    pub queued: usize,
    /// Attempts after the first one, over all calls.
    pub retries: u64,
    /// How long the last ping and its answer took on the present link; `None` without a link, or
    /// with a .NET server.
    pub round_trip: Option<Duration>,
}

impl<T> Engine<T> {
    /// A client that is not connected. `seed` feeds all randomness: ids and jitter.
    pub fn new(options: EngineOptions, seed: [u8; 32]) -> Self {
        let mut rng = StdRng::from_seed(seed);
        Self {
            client_id: random_id(&mut rng),
            rng,
            closed: false,
            actions: VecDeque::new(),
            state: State::Disconnected,
            link: Link::Idle,
            leaving: Vec::new(),
            next_link: 1,
            endpoint: 0,
            reconnector: options.reconnect.map(Reconnector::new),
            looping: false,
            announced: false,
            token_retried: false,
            token: String::new(),
            token_version: 0,
            refreshing_token: false,
            last_failure: None,
            stats: EngineStats::default(),
            calls: Slab::new(),
            next_number: 1,
            next_serial: 0,
            queue: BTreeMap::new(),
            next_ticket: 1,
            queued_bytes: 0,
            in_flight: 0,
            timers: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            budget: options
                .retry
                .as_ref()
                .and_then(|r| r.budget)
                .map(Budget::new),
            options,
        }
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<Action<T>> {
        self.actions.pop_front()
    }

    /// True if something is to be done.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// When [`Engine::tick`] must be called at the latest; `None` for "not before something
    /// happens".
    pub fn next_wakeup(&self) -> Option<Time> {
        let call = self.timers.first().map(|(at, _)| *at);
        let leaving = self.leaving.iter().map(|ready| ready.alive.deadline());
        [call, self.link.deadline()]
            .into_iter()
            .flatten()
            .chain(leaving)
            .min()
            .filter(|at| *at < Time::NEVER)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        self.tick_link(now);
        self.tick_leaving(now);
        self.tick_calls(now);
        self.close_left();
    }

    /// The state, as WitRPC numbers it.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why the last link or attempt to connect failed.
    pub fn last_failure(&self) -> Option<&Error> {
        self.last_failure.as_ref()
    }

    /// What the client has done.
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            in_flight: self.in_flight,
            queued: self.queue.len(),
            round_trip: self.link.ready().and_then(|r| r.alive.round_trip()),
            ..self.stats
        }
    }

    /// What the server of the present link said about itself.
    pub fn peer(&self) -> Option<PeerInfo> {
        self.link.ready().map(|ready| *ready.session.peer())
    }

    /// True once the server of the present link has answered the client's introduction.
    pub fn is_initialized(&self) -> bool {
        match &self.link {
            Link::Handshaking { session, .. } => session.is_initialized(),
            Link::Ready(_) => true,
            _ => false,
        }
    }

    /// How long ago the server of the present link gave its last sign of life; `None` without a
    /// link.
    pub fn silence(&self, now: Time) -> Option<Duration> {
        self.link.ready().map(|ready| ready.alive.silence(now))
    }

    fn notify(&mut self, notification: Notification) {
        self.actions.push_back(Action::Notify(notification));
    }

    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            self.notify(Notification::StateChanged(state));
        }
    }
}

fn random_id(rng: &mut StdRng) -> Uuid {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
