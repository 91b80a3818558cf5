//! The retry policy as a user writes it: numbers, and which methods may be repeated.

use std::sync::Arc;
use std::time::Duration;

use super::callbacks::Predicate;
use crate::contract::{Contract, Method};
use crate::error::{Error, Result};
use crate::resilience::backoff::{BackoffType, Jitter};
use crate::resilience::budget::BudgetOptions;
use crate::resilience::retry::{Repeat, RetryOptions};

/// When a failed call is tried again. Inert until methods are declared: nothing runs twice that
/// was not said to be safe.
///
/// A method is named by its name (all overloads) or by its line (that overload), as
/// `"Add"` or `"int Add(int, int)"`; the open line of a generic method stands for all type arguments.
#[derive(Clone, Default)]
#[must_use]
pub struct RetryPolicy {
    off: bool,
    options: RetryOptions,
    idempotent: Vec<String>,
    deduplicated: Vec<String>,
    all: bool,
    predicate: Option<Predicate>,
}

impl RetryPolicy {
    /// The defaults: 3 retries after 500 ms, 1 s and 2 s, on statuses 408 and 503, for no method.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn off() -> Self {
        Self {
            off: true,
            ..Self::default()
        }
    }

    /// Attempts after the first one. Default 3.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.max_retries = retries;
        self
    }

    /// Delay before the first retry. Default 500 ms.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.options.initial_delay = delay;
        self
    }

    /// Cap of the delays. Default 30 s.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.options.max_delay = delay;
        self
    }

    /// How delays grow. Default exponential.
    pub fn backoff(mut self, kind: BackoffType) -> Self {
        self.options.backoff = kind;
        self
    }

    /// Growth of exponential delays. Default 2.0.
    pub fn backoff_multiplier(mut self, multiplier: f64) -> Self {
        self.options.backoff_multiplier = multiplier;
        self
    }

    /// How delays are spread. Default not at all.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.options.jitter = jitter;
        self
    }

    /// Which status numbers are retried. Default 408 and 503.
    pub fn retryable_statuses(mut self, statuses: impl IntoIterator<Item = i32>) -> Self {
        self.options.retryable_statuses = statuses.into_iter().collect();
        self
    }

    /// One more status number that is retried; 500 for methods that threw.
    pub fn retry_on_status(mut self, status: i32) -> Self {
        self.options.retryable_statuses.insert(status);
        self
    }

    /// Asks about failures that no status covers. Runs on the callback thread.
    pub fn retry_if(mut self, f: impl Fn(&Error) -> bool + Send + Sync + 'static) -> Self {
        self.options.has_predicate = true;
        self.predicate = Some(Arc::new(f));
        self
    }

    /// Limit of retries over time; `None` = none. Default 10 a second plus 20 % of the calls.
    pub fn budget(mut self, budget: Option<BudgetOptions>) -> Self {
        self.options.budget = budget;
        self
    }

    /// These methods may run twice: they are repeated anywhere.
    pub fn mark_idempotent<S: Into<String>>(
        mut self,
        methods: impl IntoIterator<Item = S>,
    ) -> Self {
        self.idempotent.extend(methods.into_iter().map(Into::into));
        self
    }

    /// These methods must not run twice: they are repeated only where the server recognises the
    /// repetition. Where it would not, the call ends as
    /// [`OutcomeUnknown`](crate::ErrorCode::OutcomeUnknown).
    pub fn mark_deduplicated<S: Into<String>>(
        mut self,
        methods: impl IntoIterator<Item = S>,
    ) -> Self {
        self.deduplicated
            .extend(methods.into_iter().map(Into::into));
        self
    }

    /// All methods may run twice, but those marked deduplicated.
    pub fn retry_all_methods(mut self) -> Self {
        self.all = true;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        for mark in self.idempotent.iter().chain(&self.deduplicated) {
            let is_name = !mark.is_empty() && mark.chars().all(|c| c.is_alphanumeric() || c == '_');
            if !is_name && !is_line(mark) {
                return Err(Error::invalid_argument(format!(
                    "retry: \"{mark}\" is neither the name of a method nor a method line"
                )));
            }
        }
        self.options.validate()
    }

    pub(super) fn engine_options(&self) -> Option<RetryOptions> {
        (!self.off).then(|| self.options.clone())
    }

    pub(super) fn predicate(&self) -> Option<Predicate> {
        self.predicate.clone()
    }

    /// How a method may be repeated. Fails where a line of that name can't be read in its contract.
    pub(super) fn repeat(&self, contract: &Contract, method: &Method) -> Result<Repeat> {
        if any_matches(&self.deduplicated, contract, method)? {
            Ok(Repeat::Deduplicated)
        } else if self.all || any_matches(&self.idempotent, contract, method)? {
            Ok(Repeat::Idempotent)
        } else {
            Ok(Repeat::Never)
        }
    }
}

/// True if a mark is a method line; else it is a name.
fn is_line(mark: &str) -> bool {
    mark.contains('(')
}

/// True if a line could be one of a method of that name: the name stands in front of a list.
fn may_name(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].trim_start().chars().next();
        !before.is_some_and(is_word) && matches!(after, Some('(' | '<'))
    })
}

fn any_matches(marks: &[String], contract: &Contract, method: &Method) -> Result<bool> {
    for mark in marks {
        if !is_line(mark) {
            if mark == method.name() {
                return Ok(true);
            }
        } else if may_name(mark, method.name()) {
            let marked = contract
                .method(mark)
                .map_err(|e| Error::invalid_argument(format!("retry: \"{mark}\": {e}")))?;
            if marked.covers(method) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
