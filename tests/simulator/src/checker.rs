//! The history of a life, and whether it kept the promises.
//!
//! Owns what was executed, what was answered to whom, and how calls ended: facts from outside of the
//! parts under test. Violations are collected, with the first one telling the most.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::engine::{Answer, Timeout};
use witrpc::resilience::retry::Repeat;
use witrpc::time::Time;
use witrpc::wire::{Response, status};
use witrpc::{Error, ErrorCode, Outcome};

/// Who sent the request that a method was run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A client under test.
    Client,
    /// A twin that was sent on purpose.
    Twin,
}

/// A request that is about to be executed.
#[derive(Debug, Clone)]
pub struct Begins {
    /// Who calls.
    pub principal: Arc<str>,
    /// The id of the call.
    pub invocation: Uuid,
    /// Its argument, which says whose call it is.
    pub argument: String,
    /// Which memory of calls admitted it.
    pub memory: u64,
    /// Who sent it.
    pub cause: Cause,
    /// It had a number that the server followed.
    pub numbered: bool,
    /// It said that it may have come before.
    pub repeated: bool,
    /// The server's clock.
    pub at: Time,
    /// Something let the clocks run apart, or held bytes back, for longer than promised.
    pub out_of_time: bool,
    /// Tombstones had to give way, so that calls without numbers are not known any more.
    pub dropped_tombstones: bool,
}

#[derive(Debug)]
struct Execution {
    begins: Begins,
    ended: Option<Time>,
    /// It was refused by its own method: that was no execution.
    is_refused: bool,
}

/// What a client under test was asked to do.
#[derive(Debug)]
pub struct Open {
    /// How it may be repeated.
    pub repeat: Repeat,
    /// When it must have ended, by the client's clock.
    pub deadline: Option<Time>,
    /// Its id is the caller's own.
    pub has_own_id: bool,
}

#[derive(Debug)]
struct Ended {
    repeat: Repeat,
    has_own_id: bool,
    result: Result<Answer, Error>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Checker {
    /// What is wrong.
    pub violations: Vec<String>,
    executions: Vec<Execution>,
    by_id: HashMap<(Arc<str>, Uuid), Vec<usize>>,
    answered: HashMap<(Arc<str>, Uuid, u64), String>,
    /// Calls of the clients that have not ended, by client and tag.
    pub open: HashMap<(usize, u32), Open>,
    ended: HashMap<(usize, u32), Ended>,
    /// What each client has stated as its first unfinished call.
    stated: HashMap<usize, u64>,
    /// Calls whose ids twins used for something else.
    pub disturbed: HashSet<(usize, u32)>,
}

impl Checker {
    /// Something is wrong.
    pub fn violation(&mut self, text: impl Into<String>) {
        self.violations.push(text.into());
    }

    /// A method begins. Returns the number of the execution.
    pub fn begins(&mut self, hold: std::time::Duration, begins: Begins) -> usize {
        let number = self.executions.len();
        let key = (begins.principal.clone(), begins.invocation);
        let repeat = call_of(&begins.argument).and_then(|call| {
            let open = self.open.get(&call).map(|open| open.repeat);
            open.or_else(|| self.ended.get(&call).map(|ended| ended.repeat))
        });
        for earlier in self.by_id.get(&key).into_iter().flatten() {
            let earlier = &self.executions[*earlier];
            if earlier.is_refused {
                continue;
            }
            let was = &earlier.begins;
            // One that was killed is held from the next start on: at least from when it began.
            let held_from = earlier.ended.unwrap_or(was.at);
            let time_over = begins.at.since(held_from) >= hold;
            // A user who gives one id to two calls may send it when nothing is known of it any more.
            let is_other = call_of(&was.argument) != call_of(&begins.argument);
            let allowed = if was.memory == begins.memory {
                // Of a call without a number nothing need be left for those who come late, or do not
                // say that they come again.
                let may_be_new = begins.cause == Cause::Twin
                    || begins.out_of_time
                    || is_other
                    || repeat == Some(Repeat::Idempotent);
                let is_gone = begins.dropped_tombstones && (may_be_new || !begins.repeated);
                !begins.numbered && (time_over && may_be_new || is_gone)
            } else {
                begins.cause == Cause::Twin || was.cause == Cause::Twin || is_other
            };
            if !allowed && (was.memory == begins.memory || repeat != Some(Repeat::Idempotent)) {
                self.violations.push(format!(
                    "executed twice: {} of {} with {}",
                    begins.argument, begins.principal, begins.invocation
                ));
                break;
            }
        }
        self.by_id.entry(key).or_default().push(number);
        self.executions.push(Execution {
            begins,
            ended: None,
            is_refused: false,
        });
        number
    }

    /// A method ended; `refused`: before it had done anything.
    pub fn ends(&mut self, execution: usize, at: Time, refused: bool) {
        let execution = &mut self.executions[execution];
        execution.ended = Some(at);
        execution.is_refused = refused;
    }

    /// A server answers a request with what an execution came to.
    pub fn answers(&mut self, principal: &Arc<str>, id: Uuid, memory: u64, response: &Response) {
        let text = match response.status {
            status::OK => response.data.as_deref().map(text),
            _ => response.error_details.clone(),
        };
        let Some(text) = text.filter(|text| text.starts_with('#')) else {
            return;
        };
        let text = text.split('.').next().unwrap_or_default().to_owned();
        let execution = number_of(&text).and_then(|n| self.executions.get(n));
        if execution.is_none_or(|e| e.begins.principal != *principal || e.begins.invocation != id) {
            self.violation(format!(
                "{id} of {principal} was answered with {text}, not its own"
            ));
        }
        let executions = self.by_id.get(&(principal.clone(), id)).map_or(0, Vec::len);
        let key = (principal.clone(), id, memory);
        let first = self.answered.entry(key).or_insert_with(|| text.clone());
        if *first != text {
            // Another execution is another answer; whether it may be is said where it begins.
            if executions < 2 {
                self.violations
                    .push(format!("{id} was answered with {first} and then {text}"));
            }
            *first = text;
        }
    }

    /// A client was asked to make a call.
    pub fn calls(&mut self, client: usize, tag: u32, open: Open) {
        self.open.insert((client, tag), open);
    }

    /// A client sends a request with this number, and states that none below `first_unfinished` will
    /// be sent again: that must be so.
    pub fn numbers(&mut self, client: usize, number: u64, first_unfinished: u64) {
        let stated = self.stated.entry(client).or_default();
        *stated = (*stated).max(first_unfinished);
        if number < *stated {
            let text = format!("client {client} sends number {number}, and stated {stated}");
            self.violations.push(text);
        }
    }

    /// A call of a client ended.
    pub fn ended(&mut self, client: usize, tag: u32, result: Result<Answer, Error>) {
        let call = (client, tag);
        let Some(open) = self.open.remove(&call) else {
            return self.violation(format!("call {client}.{tag} ended twice"));
        };
        if let Ok(answer) = &result {
            let answer = answer.data.as_deref().map(text).unwrap_or_default();
            let execution = number_of(&answer).and_then(|n| self.executions.get(n));
            if execution.is_none_or(|e| call_of(&e.begins.argument) != Some(call)) {
                self.violation(format!(
                    "call {client}.{tag} was given {answer}, not its own"
                ));
            }
        }
        let ended = Ended {
            repeat: open.repeat,
            has_own_id: open.has_own_id,
            result,
        };
        self.ended.insert(call, ended);
    }

    /// All calls of the client whose time is over must have ended.
    pub fn deadlines(&mut self, client: usize, now: Time) {
        let late = |((of, _), open): &(&(usize, u32), &Open)| {
            *of == client && open.deadline.is_some_and(|deadline| deadline <= now)
        };
        if let Some(((_, tag), _)) = self.open.iter().find(late) {
            let text = format!("call {client}.{tag} outlived its deadline");
            self.violations.push(text);
        }
    }

    /// The life is over: nothing is open, and what calls were told is so.
    pub fn finish(&mut self) {
        if let Some((client, tag)) = self.open.keys().min() {
            let text = format!("call {client}.{tag} never ended");
            self.violations.push(text);
        }
        let mut executed: HashMap<(usize, u32), usize> = HashMap::new();
        for execution in &self.executions {
            if let Some(call) = call_of(&execution.begins.argument)
                && execution.begins.cause == Cause::Client
                && !execution.is_refused
            {
                *executed.entry(call).or_default() += 1;
            }
        }
        let mut wrong = Vec::new();
        for ((client, tag), ended) in &self.ended {
            let count = executed.get(&(*client, *tag)).copied().unwrap_or(0);
            if let Err(error) = &ended.result
                && error.outcome() == Outcome::NotSent
                && count > 0
            {
                wrong.push(format!(
                    "call {client}.{tag} ended as not sent ({error}), and was executed"
                ));
            }
            if let Err(error) = &ended.result
                && error.code() == ErrorCode::BadRequest
                && !ended.has_own_id
                && !self.disturbed.contains(&(*client, *tag))
            {
                wrong.push(format!(
                    "call {client}.{tag} was taken for another: {error}"
                ));
            }
        }
        wrong.sort();
        self.violations.append(&mut wrong);
    }

    /// Numbers of calls that ended well and not.
    pub fn endings(&self) -> (u64, u64) {
        let good = self.ended.values().filter(|ended| ended.result.is_ok());
        let good = good.count() as u64;
        (good, self.ended.len() as u64 - good)
    }
}

/// The stored form of an answer.
pub fn stored(bytes: &Bytes) -> Option<Response> {
    Response::decode(bytes).ok().flatten()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `#12.…` is execution 12.
fn number_of(answer: &str) -> Option<usize> {
    answer.strip_prefix('#')?.split('.').next()?.parse().ok()
}

/// `1.7.…` is call 7 of client 1.
pub fn call_of(argument: &str) -> Option<(usize, u32)> {
    let mut parts = argument.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The longest that a call may take.
pub fn limit(
    timeout: Timeout,
    repeat: Repeat,
    options: &witrpc::resilience::engine::EngineOptions,
) -> Option<std::time::Duration> {
    match timeout {
        Timeout::Never => None,
        Timeout::After(limit) => Some(limit),
        Timeout::Default => {
            let attempt = options.attempt_timeout?;
            match &options.retry {
                Some(retry) if repeat != Repeat::Never => {
                    let delays: std::time::Duration =
                        (1..=retry.max_retries).map(|_| retry.max_delay).sum();
                    Some(attempt * (retry.max_retries + 1) + delays)
                }
                _ => Some(attempt),
            }
        }
    }
}
