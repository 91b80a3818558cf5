//! What a connection's task looks at now and then: whether the client lives, and whether bytes move.

use std::time::Duration;

use super::ServerLimits;
use crate::session::{KeepAlive, KeepAliveOptions, Pace, Pulse};
use crate::time::Time;

/// What has moved on a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    /// A message has come in part.
    pub(super) half_read: bool,
    /// Messages ever read.
    pub(super) messages: u64,
    /// Bytes ever read.
    pub(super) read: u64,
    /// Something waits for the network.
    pub(super) unsent: bool,
    /// Bytes ever written.
    pub(super) written: u64,
}

/// See the [module](self).
pub(super) struct Watch {
    alive: KeepAlive,
    input: Pace,
    output: Pace,
    window: Duration,
    next_look: Time,
    last: Traffic,
    /// Silence that the client takes for death.
    patience: Option<Duration>,
}

impl Watch {
    pub(super) fn new(now: Time, limits: &ServerLimits) -> Self {
        let window = limits.rate_window.max(Duration::from_millis(2));
        Self {
            alive: KeepAlive::new(now, None),
            input: Pace::new(limits.min_rate, window),
            output: Pace::new(limits.min_rate, window),
            window,
            next_look: now + window / 2,
            last: Traffic::default(),
            patience: None,
        }
    }

    /// The client is authorised, and pinged from now on if it understands that.
    pub(super) fn authorized(
        &mut self,
        now: Time,
        options: Option<KeepAliveOptions>,
        patience: Option<Duration>,
    ) {
        self.alive = KeepAlive::new(now, options);
        self.patience = patience;
    }

    /// Something came from the client.
    pub(super) fn heard(&mut self, now: Time) {
        self.alive.heard(now);
    }

    /// A ping was answered.
    pub(super) fn pong(&mut self, now: Time, number: u64) {
        self.alive.pong(now, number);
    }

    /// Nothing was read for a while, for reasons of our own.
    pub(super) fn was_busy(&mut self, now: Time) {
        self.alive.heard(now);
        self.input.restart();
    }

    /// How often the client is to be given a sign of life while nothing is read of it.
    pub(super) fn life_sign(&self) -> Option<Duration> {
        self.patience.map(|patience| patience / 3)
    }

    /// When to look at the latest.
    pub(super) fn next(&self) -> Time {
        self.next_look.min(self.alive.deadline())
    }

    /// Looks. Returns the number of a ping to send, or why the connection is to be closed.
    pub(super) fn look(&mut self, now: Time, traffic: Traffic) -> Result<Option<u64>, String> {
        self.next_look = now + self.window / 2;
        if self.last.unsent && traffic.written > self.last.written {
            // It takes what is sent to it.
            self.alive.heard(now);
        }
        self.last = traffic;
        let Traffic {
            half_read,
            messages,
            read,
            unsent,
            written,
        } = traffic;
        if self.input.is_too_slow(now, half_read, messages, read) {
            return Err("the client sends a message too slowly".to_owned());
        }
        if self.output.is_too_slow(now, unsent, 0, written) {
            return Err("the client reads too slowly".to_owned());
        }
        match self.alive.tick(now) {
            Pulse::Nothing => Ok(None),
            Pulse::Ping(number) => Ok(Some(number)),
            Pulse::Dead(silence) => Err(format!("no sign of life for {silence:?}")),
        }
    }
}
