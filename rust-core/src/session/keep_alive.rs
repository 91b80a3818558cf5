//! Whether the peer still lives: when to ping it, and when its silence means death.
//!
//! Owns the moments and the round-trip time of one connection, and sends nothing itself. Any byte
//! from the peer is a sign of life, and so is one that it took from what was waiting for it.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::time::Time;

/// When the peer is pinged, and how long it may take to answer. Works with libwitrpc peers only:
/// WitRPC has no ping (but WebSockets have).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAliveOptions {
    /// Silence after which the peer is pinged. While it is not silent it is pinged every fourth of
    /// these, for the round-trip time. Default 15 s: a NAT forgets an idle connection after 30 s at
    /// the earliest.
    pub interval: Duration,
    /// Silence after a ping until the connection is dead. Default 20 s, as for unacknowledged
    /// bytes: a peer whose process is frozen is noticed after 35 s.
    pub timeout: Duration,
}

impl Default for KeepAliveOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(20),
        }
    }
}

impl KeepAliveOptions {
    /// Checks the numbers.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in [("interval", self.interval), ("timeout", self.timeout)] {
            if value.is_zero() {
                return Err(Error::invalid_argument(format!(
                    "keep_alive.{name} must not be zero"
                )));
            }
        }
        Ok(())
    }

    /// The longest silence that is not taken for death.
    pub fn patience(&self) -> Duration {
        self.interval.saturating_add(self.timeout)
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// Nothing.
    Nothing,
    /// Send a ping with this number.
    Ping(u64),
    /// The peer is dead: it has been silent for so long.
    Dead(Duration),
}

/// A ping without an answer.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u64,
    sent: Time,
}

/// Whether the peer of one connection lives.
#[derive(Debug)]
pub struct KeepAlive {
    /// `None`: the peer is never pinged, and never dead.
    options: Option<KeepAliveOptions>,
    heard: Time,
    /// When the last ping was sent.
    pinged: Time,
    waiting: Option<Waiting>,
    number: u64,
    round_trip: Option<Duration>,
}

impl KeepAlive {
    /// A peer that has just been heard.
    pub fn new(now: Time, options: Option<KeepAliveOptions>) -> Self {
        Self {
            options,
            heard: now,
            pinged: now,
            waiting: None,
            number: 0,
            round_trip: None,
        }
    }

    /// The peer is to be pinged now, not after the first silence: so the round-trip time is known
    /// from the start. Returns the number of the ping, if the peer is pinged at all.
    pub fn ping_now(&mut self, now: Time) -> Option<u64> {
        self.options.is_some().then(|| self.ping(now))
    }

    /// Something came from the peer, or went to it that had been waiting.
    pub fn heard(&mut self, now: Time) {
        self.heard = self.heard.max(now);
    }

    /// When [`tick`](Self::tick) must be called at the latest; never, if the peer is not pinged.
    pub fn deadline(&self) -> Time {
        let Some(options) = self.options else {
            return Time::NEVER;
        };
        match self.waiting {
            Some(waiting) => self.heard.max(waiting.sent) + options.timeout,
            None => {
                let idle = self.heard + options.interval;
                idle.min(self.pinged + options.interval.saturating_mul(4))
            }
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) -> Pulse {
        let deadline = self.deadline();
        let Some(options) = self.options.filter(|_| now >= deadline) else {
            return Pulse::Nothing;
        };
        // Called much too late, it was this process that was frozen: what the peer answered
        // meanwhile has not been read yet.
        let overslept = now.since(deadline) > options.timeout / 2;
        if self.waiting.is_some() && !overslept {
            return Pulse::Dead(now.since(self.heard));
        }
        Pulse::Ping(self.ping(now))
    }

    fn ping(&mut self, now: Time) -> u64 {
        self.number += 1;
        self.pinged = now;
        self.waiting = Some(Waiting {
            number: self.number,
            sent: now,
        });
        self.number
    }

    /// A ping was answered.
    pub fn pong(&mut self, now: Time, number: u64) {
        self.heard(now);
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.number == number) {
            self.round_trip = Some(now.since(waiting.sent));
        }
    }

    /// How long the last ping and its answer took; `None` before the first answer.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// How long ago the last sign of life was.
    pub fn silence(&self, now: Time) -> Duration {
        now.since(self.heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Time = |s| Time::from_origin(Duration::from_secs(s));

    fn alive() -> KeepAlive {
        KeepAlive::new(S(0), Some(KeepAliveOptions::default()))
    }

    #[test]
    fn silence_is_answered_by_a_ping_and_then_by_death() {
        let mut alive = alive();
        assert_eq!(alive.deadline(), S(15));
        assert_eq!(alive.tick(S(14)), Pulse::Nothing);
        assert_eq!(alive.tick(S(15)), Pulse::Ping(1));
        assert_eq!(alive.deadline(), S(35));
        assert_eq!(alive.tick(S(34)), Pulse::Nothing);
        assert_eq!(alive.tick(S(35)), Pulse::Dead(Duration::from_secs(35)));
    }

    #[test]
    fn an_answer_gives_the_round_trip_and_a_new_interval() {
        let mut alive = alive();
        assert_eq!(alive.ping_now(S(0)), Some(1));
        alive.pong(S(2), 7);
        assert_eq!(alive.round_trip(), None, "another ping's answer");
        alive.pong(S(3), 1);
        assert_eq!(alive.round_trip(), Some(Duration::from_secs(3)));
        alive.pong(S(9), 1);
        assert_eq!(alive.round_trip(), Some(Duration::from_secs(3)), "twice");
        assert_eq!(alive.deadline(), S(24));
        assert_eq!(alive.silence(S(10)), Duration::from_secs(1));
    }

    #[test]
    fn any_sign_of_life_puts_death_off() {
        let mut alive = alive();
        assert_eq!(alive.tick(S(15)), Pulse::Ping(1));
        for s in 16..200 {
            alive.heard(S(s));
            assert_eq!(alive.tick(S(s)), Pulse::Nothing);
        }
        assert_eq!(alive.tick(S(218)), Pulse::Nothing);
        assert_eq!(alive.tick(S(219)), Pulse::Dead(Duration::from_secs(20)));
    }

    #[test]
    fn a_busy_peer_is_pinged_now_and_then_for_the_round_trip() {
        let mut alive = alive();
        let pings = (1..=600).filter(|s| {
            alive.heard(S(*s));
            match alive.tick(S(*s)) {
                Pulse::Ping(number) => {
                    alive.pong(S(*s), number);
                    true
                }
                _ => false,
            }
        });
        assert_eq!(pings.count(), 10);
    }

    #[test]
    fn who_was_frozen_itself_does_not_blame_the_peer() {
        let mut alive = alive();
        assert_eq!(alive.tick(S(15)), Pulse::Ping(1));
        assert_eq!(alive.tick(S(100)), Pulse::Ping(2));
        alive.pong(S(101), 1);
        alive.pong(S(101), 2);
        assert_eq!(alive.tick(S(102)), Pulse::Nothing);
    }

    #[test]
    fn a_peer_that_can_not_be_pinged_never_dies() {
        let mut alive = KeepAlive::new(S(0), None);
        assert_eq!(alive.deadline(), Time::NEVER);
        assert_eq!(alive.ping_now(S(0)), None);
        assert_eq!(alive.tick(S(1_000_000)), Pulse::Nothing);
    }
}
