//! The retry policy: which failures of which calls are worth another attempt, and after which
//! delay.
//!
//! Inert until methods are declared. Which method is declared what belongs to the client; here a
//! call only says how it may be [repeated](Repeat).

use std::collections::BTreeSet;
use std::time::Duration;

use super::backoff::{Backoff, BackoffType, Jitter};
use super::budget::BudgetOptions;
use crate::error::Result;
use crate::wire::status;

/// How a call may be repeated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// Not at all.
    #[default]
    Never,
    /// Only where the server recognises the repetition: within the announced reach of its
    /// de-duplication. Elsewhere the call ends as outcome unknown.
    Deduplicated,
    /// Anywhere: the method may run twice.
    Idempotent,
}

/// Options of the retry policy. The defaults are those of WitRPC.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryOptions {
    /// Attempts after the first one. Default 3.
    pub max_retries: u32,
    /// Delay before the first retry. Default 500 ms.
    pub initial_delay: Duration,
    /// Cap of the delays. Default 30 s.
    pub max_delay: Duration,
    /// How delays grow. Default exponential.
    pub backoff: BackoffType,
    /// Growth of exponential delays. Default 2.0.
    pub backoff_multiplier: f64,
    /// How delays are spread. Default none.
    pub jitter: Jitter,
    /// Status numbers that are retried. Default 408 (no answer in time) and 503 (the connection
    /// failed, or a libwitrpc server refused for load). 500 (the method threw) only if added.
    pub retryable_statuses: BTreeSet<i32>,
    /// Limit of retries per time; `None` for no limit. Default 10 a second plus 20 % of the calls.
    pub budget: Option<BudgetOptions>,
    /// Ask a user's predicate about failures that no status covers. Default false.
    pub has_predicate: bool,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            backoff: BackoffType::Exponential,
            backoff_multiplier: 2.0,
            jitter: Jitter::None,
            retryable_statuses: [status::TIMEOUT, status::TRANSPORT_ERROR].into(),
            budget: Some(BudgetOptions::default()),
            has_predicate: false,
        }
    }
}

impl RetryOptions {
    /// The rule for delays.
    pub fn rule(&self) -> Backoff {
        Backoff {
            kind: self.backoff,
            initial: self.initial_delay,
            max: self.max_delay,
            multiplier: self.backoff_multiplier,
            jitter: self.jitter,
        }
    }

    /// Checks the numbers.
    pub fn validate(&self) -> Result<()> {
        self.rule().validate("retry.")
    }

    /// The longest that all delays of a call can take together.
    pub fn longest_delays(&self) -> Duration {
        if self.jitter == Jitter::Decorrelated {
            return self.max_delay.saturating_mul(self.max_retries);
        }
        let rule = self.rule();
        (1..=self.max_retries.min(64))
            .map(|n| rule.base(n))
            .chain((self.max_retries > 64).then(|| rule.max.saturating_mul(self.max_retries - 64)))
            .fold(Duration::ZERO, Duration::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_wait_half_a_second_one_and_two() {
        let options = RetryOptions::default();
        let rule = options.rule();
        assert_eq!(
            [1, 2, 3].map(|n| rule.base(n).as_millis()),
            [500, 1000, 2000]
        );
        assert_eq!(options.longest_delays(), Duration::from_millis(3500));
    }

    #[test]
    fn the_bound_of_many_retries_does_not_take_long_to_find() {
        let options = RetryOptions {
            max_retries: u32::MAX,
            ..RetryOptions::default()
        };
        assert!(options.longest_delays() > Duration::from_secs(1_000_000));
    }
}
