//! What a client tells its user of its link, held against the rules of the resilience page.
//!
//! Owns the expected numbers and delays of attempts, said a second time, and the order in which
//! states and callbacks may come.

use std::time::Duration;

use witrpc::resilience::backoff::Jitter;
use witrpc::resilience::engine::{Notification, State};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::time::Time;

/// See the [module](self).
#[derive(Debug)]
pub struct Watch {
    options: Option<ReconnectOptions>,
    state: State,
    /// Attempts announced since the last authorised link.
    attempt: u32,
    /// What the delays have grown by since the last stable link.
    exponent: u32,
    previous: Duration,
    connected: Time,
    /// The user was told of an attempt, and is owed its end.
    announced: bool,
    /// No attempt may begin earlier.
    not_before: Option<Time>,
    /// The next attempt is the one that the user asked for, without a delay.
    immediate: bool,
    /// What is wrong.
    pub violations: Vec<String>,
}

impl Watch {
    /// Of a client that is not connected.
    pub fn new(options: Option<ReconnectOptions>) -> Self {
        Self {
            options,
            state: State::Disconnected,
            attempt: 0,
            exponent: 0,
            previous: Duration::ZERO,
            connected: Time::ZERO,
            announced: false,
            not_before: None,
            immediate: false,
            violations: Vec::new(),
        }
    }

    /// The user starts anew.
    pub fn starts_over(&mut self) {
        self.attempt = 0;
        self.exponent = 0;
        self.previous = Duration::ZERO;
        self.not_before = None;
    }

    /// The user asks for a reconnection.
    pub fn reconnects(&mut self) {
        self.starts_over();
        self.immediate = true;
    }

    /// The user does not want to wait.
    pub fn hurries(&mut self) {
        self.not_before = None;
    }

    /// The user ends attempts, the link, or the client.
    pub fn stops(&mut self) {
        self.announced = false;
        self.not_before = None;
    }

    /// A link is lost.
    pub fn loses(&mut self, now: Time) {
        if self.state == State::Connected
            && let Some(options) = &self.options
            && now.since(self.connected) >= options.stable_after
        {
            self.exponent = 0;
            self.previous = Duration::ZERO;
        }
    }

    /// An attempt begins.
    pub fn opens(&mut self, now: Time) {
        if self.not_before.take().is_some_and(|at| now < at) {
            self.violations
                .push("an attempt began before its delay was over".into());
        }
    }

    /// The user is told something.
    pub fn told(&mut self, now: Time, notification: &Notification) {
        match notification {
            Notification::StateChanged(state) => self.changes(now, *state),
            Notification::Reconnecting { attempt, delay } => self.announces(now, *attempt, *delay),
            Notification::Reconnected => {
                let was_announced = std::mem::take(&mut self.announced);
                self.expect(
                    was_announced && self.state == State::Connected,
                    "on_reconnected without an attempt, or without a link",
                );
            }
            Notification::ReconnectionFailed(_) => {
                self.announced = false;
                self.expect(
                    self.state == State::Failed,
                    "on_reconnection_failed in another state than Failed",
                );
            }
            _ => {}
        }
    }

    fn expect(&mut self, holds: bool, violation: &str) {
        if !holds {
            self.violations.push(violation.to_owned());
        }
    }

    fn changes(&mut self, now: Time, state: State) {
        if state == self.state {
            self.violations.push("told of the same state twice".into());
        }
        self.state = state;
        if state == State::Connected {
            self.connected = now;
            self.attempt = 0;
        }
    }

    fn announces(&mut self, now: Time, attempt: u32, delay: Duration) {
        self.attempt += 1;
        if attempt != self.attempt {
            self.violations.push(format!(
                "on_reconnecting({attempt}), where it is attempt {}",
                self.attempt
            ));
        }
        if self.state != State::Reconnecting {
            self.violations
                .push("on_reconnecting in another state than Reconnecting".into());
        }
        self.announced = true;
        self.not_before = Some(now + delay);
        if std::mem::take(&mut self.immediate) {
            if !delay.is_zero() {
                self.violations
                    .push("a reconnection that the user asked for waits".into());
            }
            return;
        }
        let Some(options) = self.options else {
            return self
                .violations
                .push("a delay without automatic reconnection".into());
        };
        if options.max_attempts > 0 && attempt > options.max_attempts {
            self.violations
                .push(format!("attempt {attempt} is too many"));
        }
        self.exponent += 1;
        let (low, high) = self.band(&options);
        let slack = Duration::from_nanos(2);
        if delay + slack < low || delay > high + slack {
            self.violations.push(format!(
                "attempt {attempt} waits {delay:?}, not {low:?} to {high:?}"
            ));
        }
        self.previous = delay;
    }

    /// Between which delays the next one must be.
    fn band(&self, options: &ReconnectOptions) -> (Duration, Duration) {
        if self.exponent == 1 && options.random_first_delay {
            return (Duration::ZERO, options.initial_delay);
        }
        let grown = options.initial_delay.as_secs_f64()
            * options.backoff_multiplier.powi(self.exponent as i32 - 1);
        let base = match grown < options.max_delay.as_secs_f64() {
            true => Duration::from_secs_f64(grown),
            false => options.max_delay,
        };
        match options.jitter {
            Jitter::None => (base, base),
            Jitter::Equal => (base / 2, base),
            Jitter::Full => (Duration::ZERO, base),
            Jitter::Decorrelated => {
                let top = self.previous.max(options.initial_delay) * 3;
                (options.initial_delay, top.min(options.max_delay))
            }
        }
    }

    /// Everything that came of one input has been told.
    pub fn settles(&mut self, state: State) {
        if state != self.state {
            self.violations
                .push(format!("{state:?}, and {:?} was told", self.state));
        }
        if self.announced && matches!(state, State::Connected | State::Failed) {
            self.announced = false;
            self.violations
                .push(format!("{state:?}, and an announced attempt has no end"));
        }
    }
}
