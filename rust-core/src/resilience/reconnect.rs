//! The numbers of automatic reconnection: which attempt comes next, after which delay.
//!
//! Owns the attempt counter and the backoff exponent, which start over at different moments; the
//! link itself belongs to the [engine](super::engine).

use std::time::Duration;

use rand::Rng;

use super::backoff::{Backoff, BackoffType, Jitter, between};
use crate::error::Result;
use crate::mutant::{Mutant, planted};

/// Options of automatic reconnection. The defaults are those of WitRPC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReconnectOptions {
    /// Attempts until the client gives up and is Failed; 0 = unlimited. Default 10.
    pub max_attempts: u32,
    /// Delay before the first attempt. Default 1 s.
    pub initial_delay: Duration,
    /// Cap of the delays. Default 2 min.
    pub max_delay: Duration,
    /// Growth of the delays. Default 2.0.
    pub backoff_multiplier: f64,
    /// How the delays are spread. Default none: the resilience page promises 1, 2, 4, 8 … 120 s.
    pub jitter: Jitter,
    /// Draw the very first delay after a loss between nothing and `initial_delay`, so that a fleet
    /// which lost its server at one moment does not come back at one moment. Default false.
    pub random_first_delay: bool,
    /// Reconnect also when the server closed the connection in order (end of stream between
    /// frames). Resets, half a frame and silence count as drops and are always covered.
    /// Default true.
    pub reconnect_on_disconnect: bool,
    /// Cover the very first connect too. Default false.
    pub retry_first_connect: bool,
    /// A link that stood this long ends the growth of the delays. Default 10 s.
    pub stable_after: Duration,
}

impl Default for ReconnectOptions {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(120),
            backoff_multiplier: 2.0,
            jitter: Jitter::None,
            random_first_delay: false,
            reconnect_on_disconnect: true,
            retry_first_connect: false,
            stable_after: Duration::from_secs(10),
        }
    }
}

impl ReconnectOptions {
    /// For long-running clients, of which there may be many: unlimited attempts, decorrelated
    /// jitter, a random first delay, the first connect covered.
    pub fn fleet() -> Self {
        Self {
            max_attempts: 0,
            jitter: Jitter::Decorrelated,
            random_first_delay: true,
            retry_first_connect: true,
            ..Self::default()
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff {
            kind: BackoffType::Exponential,
            initial: self.initial_delay,
            max: self.max_delay,
            multiplier: self.backoff_multiplier,
            jitter: self.jitter,
        }
    }

    /// Checks the numbers.
    pub fn validate(&self) -> Result<()> {
        self.backoff().validate("reconnect.")
    }
}

/// Counts attempts and gives delays.
#[derive(Debug, Clone)]
pub struct Reconnector {
    options: ReconnectOptions,
    /// Attempts since the last authorised link.
    attempt: u32,
    /// Attempts since the last stable link: what the backoff grows by.
    exponent: u32,
    /// The delay used last.
    previous: Duration,
}

impl Reconnector {
    /// At the beginning.
    pub fn new(options: ReconnectOptions) -> Self {
        Self {
            options,
            attempt: 0,
            exponent: 0,
            previous: Duration::ZERO,
        }
    }

    /// The options given.
    pub fn options(&self) -> &ReconnectOptions {
        &self.options
    }

    /// The next attempt (from 1) and the delay before it; `None` when all attempts are used up.
    pub fn next(&mut self, rng: &mut impl Rng) -> Option<(u32, Duration)> {
        if self.options.max_attempts > 0 && self.attempt >= self.options.max_attempts {
            return None;
        }
        self.attempt = self.attempt.saturating_add(1);
        self.exponent = self.exponent.saturating_add(1);
        let delay = if self.exponent == 1 && self.options.random_first_delay {
            between(Duration::ZERO, self.options.initial_delay, rng)
        } else {
            self.options
                .backoff()
                .delay(self.exponent, self.previous, rng)
        };
        self.previous = delay;
        Some((self.attempt, delay))
    }

    /// An attempt without a delay, asked for by the user: its number.
    pub fn immediate(&mut self) -> u32 {
        self.attempt = self.attempt.saturating_add(1);
        self.attempt
    }

    /// A link was authorised: attempts start over.
    pub fn authorised(&mut self) {
        if planted(Mutant::AttemptsNotReset) {
            return;
        }
        self.attempt = 0;
    }

    /// A link that stood for `stood` is gone: if it was stable, the delays start over too.
    pub fn lost(&mut self, stood: Duration) {
        if stood >= self.options.stable_after {
            self.exponent = 0;
            self.previous = Duration::ZERO;
        }
    }

    /// The user asked for a new start.
    pub fn reset(&mut self) {
        *self = Self::new(self.options);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn delays(machine: &mut Reconnector, n: usize) -> Vec<(u32, u64)> {
        let mut rng = StdRng::seed_from_u64(1);
        (0..n)
            .map_while(|_| machine.next(&mut rng))
            .map(|(attempt, delay)| (attempt, delay.as_secs()))
            .collect()
    }

    #[test]
    fn ten_attempts_with_the_documented_delays_and_no_more() {
        let mut machine = Reconnector::new(ReconnectOptions::default());
        let expected: Vec<_> = (1..).zip([1, 2, 4, 8, 16, 32, 64, 120, 120, 120]).collect();
        assert_eq!(delays(&mut machine, 20), expected);
    }

    #[test]
    fn an_authorised_link_resets_attempts_and_only_a_stable_one_resets_delays() {
        let mut machine = Reconnector::new(ReconnectOptions::default());
        assert_eq!(delays(&mut machine, 3), [(1, 1), (2, 2), (3, 4)]);
        machine.authorised();
        machine.lost(Duration::from_secs(9));
        assert_eq!(delays(&mut machine, 2), [(1, 8), (2, 16)]);
        machine.authorised();
        machine.lost(Duration::from_secs(10));
        assert_eq!(delays(&mut machine, 2), [(1, 1), (2, 2)]);
    }

    #[test]
    fn zero_attempts_means_unlimited() {
        let options = ReconnectOptions {
            max_attempts: 0,
            ..ReconnectOptions::default()
        };
        assert_eq!(delays(&mut Reconnector::new(options), 1000).len(), 1000);
    }

    #[test]
    fn a_fleet_spreads_its_first_delay() {
        let mut rng = StdRng::seed_from_u64(3);
        let firsts: Vec<_> = (0..500)
            .map(|_| {
                Reconnector::new(ReconnectOptions::fleet())
                    .next(&mut rng)
                    .unwrap()
                    .1
            })
            .collect();
        assert!(firsts.iter().all(|d| *d <= Duration::from_secs(1)));
        assert!(firsts.iter().any(|d| *d < Duration::from_millis(50)));
        assert!(firsts.iter().any(|d| *d > Duration::from_millis(950)));
    }
}
