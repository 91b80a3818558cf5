//! How long to wait before the n-th try.

use std::time::Duration;

use rand::{Rng, RngExt};

use crate::error::{Error, Result};

/// How delays grow from one try to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum BackoffType {
    /// Always the initial delay.
    Fixed = 0,
    /// The initial delay times the number of the try.
    Linear = 1,
    /// The initial delay times `multiplier` to the power of the tries before.
    Exponential = 2,
}

/// How a delay is spread, so that many clients do not come back at the same moment. Each is drawn
/// from the delay that the backoff gives, so that it still spreads once that has reached its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Jitter {
    /// The delay as it is.
    None = 0,
    /// Between half of it and all of it.
    Equal = 1,
    /// Between nothing and all of it.
    Full = 2,
    /// Between the initial delay and three times the delay before, at most the cap: the best at
    /// spreading a fleet, and not tied to the number of the try.
    Decorrelated = 3,
}

/// A rule for delays. Pure: the same numbers and the same random generator give the same delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// How delays grow.
    pub kind: BackoffType,
    /// Delay of the first try.
    pub initial: Duration,
    /// Cap of every delay.
    pub max: Duration,
    /// Growth of exponential delays, at least 1.
    pub multiplier: f64,
    /// How delays are spread.
    pub jitter: Jitter,
}

impl Backoff {
    /// Checks the numbers. The error names the option by `prefix` (as `reconnect.`).
    pub fn validate(&self, prefix: &str) -> Result<()> {
        if !(self.multiplier >= 1.0 && self.multiplier.is_finite()) {
            return Err(Error::invalid_argument(format!(
                "{prefix}backoff_multiplier is {}: it must be a number of at least 1",
                self.multiplier
            )));
        }
        if self.max < self.initial {
            return Err(Error::invalid_argument(format!(
                "{prefix}max_delay ({:?}) is below {prefix}initial_delay ({:?})",
                self.max, self.initial
            )));
        }
        Ok(())
    }

    /// The delay before try `n` (from 1) without jitter, capped.
    pub fn base(&self, n: u32) -> Duration {
        let n = n.max(1);
        let factor = match self.kind {
            BackoffType::Fixed => 1.0,
            BackoffType::Linear => f64::from(n),
            BackoffType::Exponential => self
                .multiplier
                .powi(i32::try_from(n - 1).unwrap_or(i32::MAX)),
        };
        let nanos = self.initial.as_nanos() as f64 * factor;
        if nanos < self.max.as_nanos() as f64 {
            Duration::from_nanos(nanos.round() as u64)
        } else {
            self.max
        }
    }

    /// The delay before try `n` (from 1), spread. `previous` is the delay used before, zero if
    /// there was none.
    pub fn delay(&self, n: u32, previous: Duration, rng: &mut impl Rng) -> Duration {
        let base = self.base(n);
        match self.jitter {
            Jitter::None => base,
            Jitter::Equal => between(base / 2, base, rng),
            Jitter::Full => between(Duration::ZERO, base, rng),
            Jitter::Decorrelated => {
                let top = previous.max(self.initial).saturating_mul(3).min(self.max);
                between(self.initial, top, rng)
            }
        }
    }
}

/// Uniform between the two, both included.
pub(super) fn between(low: Duration, high: Duration, rng: &mut impl Rng) -> Duration {
    let (low, high) = (low.as_nanos() as u64, high.as_nanos() as u64);
    Duration::from_nanos(rng.random_range(low..=high.max(low)))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn backoff(kind: BackoffType, jitter: Jitter) -> Backoff {
        Backoff {
            kind,
            initial: seconds(1),
            max: seconds(120),
            multiplier: 2.0,
            jitter,
        }
    }

    #[test]
    fn the_default_table_of_the_resilience_page_is_exact() {
        let rule = backoff(BackoffType::Exponential, Jitter::None);
        let table: Vec<_> = (1..=10).map(|n| rule.base(n).as_secs_f64()).collect();
        assert_eq!(table, [1., 2., 4., 8., 16., 32., 64., 120., 120., 120.]);
    }

    #[test]
    fn linear_and_fixed_delays_grow_as_named() {
        let linear = backoff(BackoffType::Linear, Jitter::None);
        let fixed = backoff(BackoffType::Fixed, Jitter::None);
        assert_eq!(
            (1..=3).map(|n| linear.base(n)).collect::<Vec<_>>(),
            [1, 2, 3].map(seconds)
        );
        assert_eq!(
            (1..=3).map(|n| fixed.base(n)).collect::<Vec<_>>(),
            [1, 1, 1].map(seconds)
        );
        assert_eq!(linear.base(500), seconds(120));
    }

    #[test]
    fn no_number_of_tries_overflows() {
        for kind in [
            BackoffType::Fixed,
            BackoffType::Linear,
            BackoffType::Exponential,
        ] {
            let mut rule = backoff(kind, Jitter::None);
            rule.max = Duration::MAX;
            rule.multiplier = 1e300;
            for n in [0, 1, 64, u32::MAX] {
                assert!(rule.base(n) >= seconds(1));
            }
        }
    }

    #[test]
    fn jitter_stays_in_its_band_and_still_spreads_at_the_cap() {
        let mut rng = StdRng::seed_from_u64(1);
        for (jitter, low) in [
            (Jitter::Equal, 60),
            (Jitter::Full, 0),
            (Jitter::Decorrelated, 1),
        ] {
            let rule = backoff(BackoffType::Exponential, jitter);
            let draws: Vec<_> = (0..2000)
                .map(|_| rule.delay(30, seconds(120), &mut rng))
                .collect();
            assert!(
                draws
                    .iter()
                    .all(|d| (seconds(low)..=seconds(120)).contains(d))
            );
            let (min, max) = (draws.iter().min().unwrap(), draws.iter().max().unwrap());
            assert!(
                *min < seconds(low) + seconds(2) && *max > seconds(118),
                "{jitter:?} {min:?} {max:?}"
            );
        }
    }

    #[test]
    fn decorrelated_jitter_never_exceeds_three_times_the_delay_before() {
        let rule = backoff(BackoffType::Exponential, Jitter::Decorrelated);
        let mut rng = StdRng::seed_from_u64(2);
        let mut previous = Duration::ZERO;
        for n in 1..200 {
            let delay = rule.delay(n, previous, &mut rng);
            assert!(
                delay >= seconds(1) && delay <= (previous.max(seconds(1)) * 3).min(seconds(120))
            );
            previous = delay;
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let mut rule = backoff(BackoffType::Exponential, Jitter::None);
        rule.multiplier = f64::NAN;
        assert!(
            rule.validate("retry.")
                .unwrap_err()
                .to_string()
                .contains("retry.backoff_multiplier")
        );
        rule.multiplier = 2.0;
        rule.max = Duration::ZERO;
        assert!(
            rule.validate("retry.")
                .unwrap_err()
                .to_string()
                .contains("retry.max_delay")
        );
    }
}
