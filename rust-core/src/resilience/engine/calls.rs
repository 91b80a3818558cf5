//! Calls: from the caller's request to exactly one end.
//!
//! Owns attempts and their time limits, the retry policy's decisions, the bounded queue in front of
//! a missing or busy link, and what is known about a call that fails.

use super::link::Ready;
use super::*;
use crate::error::{ErrorCode, Outcome};
use crate::mutant::{Mutant, planted};
use crate::resilience::retry::Repeat;
use crate::session::{Call as SessionCall, Slot};
use crate::wire::extension::Extension;
use crate::wire::{Response, status};

/// Bytes that may wait in front of the network before calls are held back: what is still here can
/// be said to be not sent.
const OUTPUT_HIGH_WATER: usize = 256 * 1024;

/// A .NET server remembers this many calls of a connection.
const DOTNET_REACH: u64 = 64;

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// On its way from one stage to the next.
    Moving,
    /// In the queue, under this ticket.
    Queued(u64),
    /// Sent.
    InFlight(Attempt),
    /// Waiting before the next attempt.
    Delaying { until: Time },
    /// The user's predicate is being asked.
    Judging,
    /// The token provider is being asked.
    AwaitingToken,
}

/// An attempt on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attempt {
    serial: u32,
    /// Position of its last byte in the output of its link.
    frame_end: u64,
    sent: Time,
    deadline: Time,
    link: LinkId,
    /// How many requests had been sent on the link, this one included.
    requests: u64,
    /// The server's epoch, if it told one.
    epoch: Option<u64>,
    /// Which life of it, if its epoch outlasts that.
    life: Option<u64>,
}

/// Attempts that ended without an answer: the server may have executed the call.
#[derive(Debug, Clone, Copy)]
struct Unsettled {
    /// The first of them.
    first: Attempt,
    /// They went to servers that do not share a memory.
    scattered: bool,
    /// They went to more than one life of the servers that do.
    has_many_lives: bool,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    spec: CallSpec,
    tag: T,
    number: u64,
    invocation_id: Uuid,
    /// What servers know the id by, too: a new id gets a new number.
    id_number: u64,
    stage: Stage,
    deadline: Time,
    /// When the entry is in `timers`; `NEVER` if it is not.
    wake: Time,
    /// Attempts begun.
    attempts: u32,
    /// Retries that the policy granted.
    retries: u32,
    /// Unanswered attempts on links that stand, by their serial numbers: an answer is welcome,
    /// however late.
    late: Vec<(LinkId, u32)>,
    unsettled: Option<Unsettled>,
    /// An attempt was executed and answered, and is being repeated at the user's wish.
    was_executed: bool,
    /// Why the last attempt failed.
    last_error: Option<Error>,
    token_version: u64,
    token_refreshed: bool,
}

impl<T> Entry<T> {
    /// What is known about the call if it ends now.
    fn outcome(&self) -> Outcome {
        if self.unsettled.is_some() || matches!(self.stage, Stage::InFlight(_)) {
            return Outcome::Unknown;
        }
        match &self.last_error {
            Some(error) if error.outcome() == Outcome::Answered => Outcome::Answered,
            _ if self.was_executed => Outcome::Answered,
            _ => Outcome::NotSent,
        }
    }

    /// Numbers are for calls that may be sent again by this client and nobody else.
    fn is_numbered(&self) -> bool {
        self.spec.repeat != Repeat::Never && self.spec.invocation_id.is_none()
    }

    /// Number of the attempt that begins, if the server must recognise it.
    fn repetition(&self) -> Option<u32> {
        let must = self.spec.repeat == Repeat::Deduplicated && self.unsettled.is_some();
        must.then_some(self.attempts)
    }

    /// An earlier attempt may have been executed by a process that is not the one at the end of this
    /// link, and of which that knows only what is in their store.
    fn was_elsewhere(&self, life: Option<u64>) -> bool {
        let Some(unsettled) = &self.unsettled else {
            return false;
        };
        life.is_some() && (unsettled.has_many_lives || unsettled.first.life != life)
    }

    /// Forgets an attempt that is no longer unanswered.
    fn forget(&mut self, slot: Slot) {
        self.late.retain(|(_, serial)| *serial != slot.serial);
    }

    /// Until when an answer is of use: a call that can be repeated may find it later.
    fn until(&self, attempt_deadline: Time) -> Time {
        match self.spec.repeat {
            Repeat::Never => self.deadline.min(attempt_deadline),
            _ => self.deadline,
        }
    }

    /// The attempt in flight ended without an answer.
    fn unsettle(&mut self) {
        let Stage::InFlight(attempt) = self.stage else {
            return;
        };
        self.late.push((attempt.link, attempt.serial));
        self.unsettled = Some(match self.unsettled {
            None => Unsettled {
                first: attempt,
                scattered: false,
                has_many_lives: false,
            },
            Some(Unsettled {
                first,
                scattered,
                has_many_lives,
            }) => Unsettled {
                first,
                has_many_lives: has_many_lives || first.life != attempt.life,
                scattered: scattered
                    || (first.link != attempt.link
                        && (first.epoch.is_none() || first.epoch != attempt.epoch)),
            },
        });
    }

    /// True if sending the call on this link can't execute it a second time, or may.
    fn may_be_sent_on(&self, now: Time, link: &Ready) -> bool {
        let Some(Unsettled {
            first, scattered, ..
        }) = self.unsettled
        else {
            return true;
        };
        match (self.spec.repeat, link.session.peer().reach) {
            (Repeat::Idempotent, _) => true,
            (Repeat::Never, _) => false,
            (Repeat::Deduplicated, _) if scattered && !planted(Mutant::EpochNotCompared) => false,
            (Repeat::Deduplicated, Some(reach)) => {
                // A tenth is left for the way to the server.
                let hold = Duration::from_millis(reach.hold_ms - reach.hold_ms / 10);
                let same_memory =
                    first.epoch == Some(reach.epoch) || planted(Mutant::EpochNotCompared);
                same_memory && now.since(first.sent) < hold
            }
            (Repeat::Deduplicated, None) => {
                first.link == link.id && link.requests - first.requests < DOTNET_REACH
            }
        }
    }

    /// A server that recognises the call and can't answer it any more may be asked under a new id.
    fn may_be_asked_anew(&self) -> bool {
        self.spec.repeat == Repeat::Idempotent && self.spec.invocation_id.is_none()
    }
}

impl<T> Engine<T> {
    /// Makes a call. It ends with one [`Action::Complete`], also when it is refused at once: then
    /// there is no key.
    pub fn call(&mut self, now: Time, spec: CallSpec, tag: T) -> Option<CallKey> {
        if let Err(error) = self.admit(&spec) {
            self.actions.push_back(Action::Complete {
                tag,
                result: Err(error),
            });
            return None;
        }
        if let Some(budget) = &mut self.budget {
            budget.deposit(now);
        }
        let number = self.next_number;
        self.next_number += 1;
        let entry = Entry {
            tag,
            number,
            id_number: number,
            invocation_id: match spec.invocation_id {
                Some(id) => id,
                None => random_id(&mut self.rng),
            },
            stage: Stage::Moving,
            deadline: self.limit(&spec).map_or(Time::NEVER, |limit| now + limit),
            wake: Time::NEVER,
            attempts: 0,
            retries: 0,
            late: Vec::new(),
            unsettled: None,
            was_executed: false,
            last_error: None,
            token_version: 0,
            token_refreshed: false,
            spec,
        };
        if entry.is_numbered() {
            self.unfinished.insert(number);
        }
        let index = self.calls.insert(entry);
        self.submit(now, index);
        Some(CallKey { index, number })
    }

    /// Ends a call at once for its caller. What is on its way may still be executed.
    pub fn cancel(&mut self, key: CallKey) {
        if let Some(index) = self.index_of(key) {
            self.fail(
                index,
                Error::new(ErrorCode::Cancelled, "the call was cancelled"),
            );
            self.close_left();
        }
    }

    fn index_of(&self, key: CallKey) -> Option<usize> {
        self.calls
            .get(key.index)
            .filter(|entry| entry.number == key.number)
            .map(|_| key.index)
    }

    fn admit(&self, spec: &CallSpec) -> Result<()> {
        if spec.invocation_id.is_some_and(|id| id.is_nil()) && !spec.is_probe() {
            return Err(Error::invalid_argument(
                "an invocation id of all zeros would switch de-duplication off: give another or none",
            ));
        }
        let tries_later = self.options.retry.is_some() && spec.repeat != Repeat::Never;
        if self.closed || !(self.has_or_awaits_link() || tries_later) {
            return Err(self.no_link());
        }
        if !self.can_send()
            && (self.queue.len() >= self.options.max_queued_calls
                || self.queued_bytes + spec.arguments.size() > self.options.max_queued_bytes)
        {
            return Err(Error::new(
                ErrorCode::Overloaded,
                format!(
                    "too many calls are waiting: {} with {} bytes of arguments",
                    self.queue.len(),
                    self.queued_bytes
                ),
            ));
        }
        Ok(())
    }

    /// The limit of the whole call, if there is one.
    fn limit(&self, spec: &CallSpec) -> Option<Duration> {
        match spec.timeout {
            Timeout::After(limit) => Some(limit),
            Timeout::Never => None,
            Timeout::Default => {
                let attempt = self.options.attempt_timeout?;
                Some(match &self.options.retry {
                    Some(retry) if spec.repeat != Repeat::Never => attempt
                        .saturating_mul(retry.max_retries.saturating_add(1))
                        .saturating_add(retry.longest_delays()),
                    _ => attempt,
                })
            }
        }
    }

    /// True if a call can go out right now.
    fn can_send(&self) -> bool {
        self.queue.is_empty() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.options.max_in_flight
            && self
                .link
                .ready()
                .is_some_and(|r| r.session.pending_output() < OUTPUT_HIGH_WATER)
    }

    /// Sends a call now, or lets it wait for the link or for room, or fails this attempt.
    fn submit(&mut self, now: Time, index: usize) {
        if self.can_send() {
            self.begin_attempt(now, index);
        } else if self.has_or_awaits_link() {
            self.enqueue(index);
        } else {
            self.calls[index].attempts += 1;
            self.attempt_ended(now, index, self.no_link());
        }
    }

    fn enqueue(&mut self, index: usize) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.insert(ticket, index);
        self.queued_bytes += self.calls[index].spec.arguments.size();
        self.set_stage(index, Stage::Queued(ticket));
    }

    /// Sends waiting calls while there is room.
    pub(super) fn pump(&mut self, now: Time) {
        while self.has_room() {
            let Some((_, index)) = self.queue.first_key_value() else {
                return;
            };
            let index = *index;
            self.leave_stage(index);
            self.begin_attempt(now, index);
        }
    }

    fn begin_attempt(&mut self, now: Time, index: usize) {
        let first_unfinished = self.unfinished.first().copied().unwrap_or(self.next_number);
        let Some(ready) = self.link.ready_mut() else {
            return;
        };
        let entry = &mut self.calls[index];
        if !entry.may_be_sent_on(now, ready) {
            return self.end_as_unknown(index);
        }
        entry.attempts += 1;
        entry.token_version = self.token_version;
        self.next_serial = self.next_serial.wrapping_add(1);
        let serial = self.next_serial;
        let limit = self.options.attempt_timeout;
        let deadline = limit.map_or(Time::NEVER, |limit| now + limit);
        let until = entry.until(deadline);
        let reach = ready.session.peer().reach;
        let life = reach.and_then(|reach| reach.life);
        let frame_end = ready.session.request(
            Slot {
                index: index as u32,
                serial,
            },
            &SessionCall {
                method_name: &entry.spec.method_name,
                arguments: &entry.spec.arguments,
                types: entry.spec.types.as_deref(),
                invocation_id: entry.invocation_id,
                contract_id: entry.spec.contract_id,
                method_id: entry.spec.method_id,
                number: entry.is_numbered().then_some(entry.id_number),
                first_unfinished,
                attempt: entry.repetition(),
                elsewhere: entry.was_elsewhere(life),
                may_have_come: entry.spec.repeat == Repeat::Idempotent && entry.unsettled.is_some(),
                remaining: (until != Time::NEVER).then(|| until.since(now)),
                trace_context: entry.spec.trace_context.as_deref(),
            },
        );
        ready.requests += 1;
        ready.in_flight += 1;
        let attempt = Attempt {
            serial,
            frame_end,
            sent: now,
            deadline,
            link: ready.id,
            requests: ready.requests,
            epoch: reach.map(|reach| reach.epoch),
            life,
        };
        self.in_flight += 1;
        self.set_stage(index, Stage::InFlight(attempt));
    }

    /// An answer, or bytes that should have been one.
    pub(super) fn answered(
        &mut self,
        now: Time,
        slot: Slot,
        answer: Result<(Response, Extension)>,
    ) {
        let index = slot.index as usize;
        let Some(entry) = self.calls.get_mut(index) else {
            return;
        };
        let current = matches!(entry.stage, Stage::InFlight(a) if a.serial == slot.serial);
        let is_late = entry.late.iter().any(|(_, serial)| *serial == slot.serial);
        if !current && !is_late && !planted(Mutant::SerialNotCompared) {
            return;
        }
        let (response, extension) = match answer {
            Ok(answer) => answer,
            Err(error) if current => {
                entry.unsettle();
                return self.attempt_ended(now, index, error);
            }
            Err(_) => return,
        };
        let Some(error) = Error::from_response(&response) else {
            let answer = Answer {
                data: response.data,
                attempts: entry.attempts,
                replayed: extension.replayed,
            };
            return self.complete(index, Ok(answer));
        };
        let error = error
            .with_replayed(extension.replayed)
            .with_retry_after(extension.retry_after_ms);
        match error.code() {
            ErrorCode::OutcomeUnknown if entry.may_be_asked_anew() => {
                entry.forget(slot);
                if current {
                    entry.unsettle();
                    self.attempt_ended(now, index, error);
                }
            }
            ErrorCode::OutcomeUnknown => {
                entry.forget(slot);
                if current {
                    self.leave_stage(index);
                }
                self.complete_failed(index, error);
            }
            // Refused before it began: says nothing about other attempts.
            ErrorCode::Overloaded | ErrorCode::Unauthorized if !current => {
                entry.forget(slot);
            }
            ErrorCode::Unauthorized if self.options.token_is_provided && !entry.token_refreshed => {
                self.refresh_token_for(now, index, error);
            }
            ErrorCode::Overloaded | ErrorCode::Unauthorized => {
                self.attempt_ended(now, index, error);
            }
            // It was executed, and this settles all attempts under this id.
            _ => {
                entry.unsettled = None;
                entry.was_executed = true;
                entry.late.clear();
                // With an id of the caller's own, a stored answer stands: it must not be asked for
                // again where it may not be stored.
                let is_waiting = !matches!(entry.stage, Stage::InFlight(_))
                    && entry.spec.invocation_id.is_none();
                if is_waiting && self.is_retryable(&error) {
                    // The retry is on its way already; it only must be a new question.
                    self.renew_id(index);
                } else {
                    self.attempt_ended(now, index, error);
                }
            }
        }
    }

    /// The call is to be asked anew after an answer. Both kinds of server would answer the old id
    /// from their memory; but while an earlier attempt may have been executed, only the old id
    /// keeps a deduplicated call from being executed twice.
    fn renew_id(&mut self, index: usize) {
        let entry = &mut self.calls[index];
        let own_id = entry.spec.invocation_id.is_none();
        if !own_id || (entry.unsettled.is_some() && entry.spec.repeat != Repeat::Idempotent) {
            return;
        }
        entry.invocation_id = random_id(&mut self.rng);
        // A server forgets by number what it knows of the old id; it must not mean the new one.
        let number = self.next_number;
        self.next_number += 1;
        let old = std::mem::replace(&mut entry.id_number, number);
        if self.unfinished.remove(&old) {
            self.unfinished.insert(number);
        }
    }

    fn refresh_token_for(&mut self, now: Time, index: usize, error: Error) {
        self.leave_stage(index);
        let entry = &mut self.calls[index];
        entry.token_refreshed = true;
        entry.last_error = Some(error);
        self.renew_id(index);
        let entry = &mut self.calls[index];
        if entry.token_version < self.token_version {
            // A newer one has been fetched meanwhile.
            return self.submit(now, index);
        }
        self.set_stage(index, Stage::AwaitingToken);
        if !std::mem::replace(&mut self.refreshing_token, true) {
            self.actions.push_back(Action::RefreshToken);
        }
    }

    /// The token provider has answered.
    pub fn token_refreshed(&mut self, now: Time, token: Result<&str>) {
        self.refreshing_token = false;
        if let Ok(token) = token {
            token.clone_into(&mut self.token);
            self.token_version += 1;
            if let Some(ready) = self.link.ready_mut() {
                ready.session.set_token(token);
            }
        }
        for index in self.indices(|stage| stage == Stage::AwaitingToken) {
            match &token {
                Ok(_) => self.submit(now, index),
                Err(failure) => {
                    let refusal = self.calls[index].last_error.take();
                    let refusal = refusal.unwrap_or_else(|| failure.clone());
                    let details = format!("and the token provider failed: {failure}");
                    self.complete_failed(index, refusal.with_details(Some(details)));
                }
            }
        }
    }

    /// The user's predicate has answered.
    pub fn judged(&mut self, now: Time, key: CallKey, retry: bool) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        if self.calls[index].stage != Stage::Judging {
            return;
        }
        let Some(error) = self.calls[index].last_error.clone() else {
            return;
        };
        if retry {
            self.retry(now, index, error);
        } else {
            self.complete_failed(index, error);
        }
    }

    fn is_retryable(&self, error: &Error) -> bool {
        let options = self.options.retry.as_ref();
        options.is_some_and(|o| {
            // That a server says so comes here only where the call may be asked anew.
            error.code() == ErrorCode::OutcomeUnknown
                || o.retryable_statuses.contains(&error.code().status())
        })
    }

    /// An attempt is over without success: another one, or the end.
    fn attempt_ended(&mut self, now: Time, index: usize, error: Error) {
        self.leave_stage(index);
        let entry = &mut self.calls[index];
        let error = match entry.outcome() {
            // Whatever this attempt came to, an earlier one may have been executed.
            Outcome::Unknown => error.with_outcome(Outcome::Unknown),
            _ if entry.was_executed => error.with_outcome(Outcome::Answered),
            _ => error,
        };
        entry.last_error = Some(error.clone());
        let granted = match &self.options.retry {
            Some(options) => {
                entry.spec.repeat != Repeat::Never && entry.retries < options.max_retries
            }
            None => false,
        };
        // With an id of the caller's own, a stored answer stands, whatever it is.
        let stands = entry.spec.invocation_id.is_some()
            && error.outcome() == Outcome::Answered
            && error.code() != ErrorCode::Overloaded;
        if !granted || stands {
            self.complete_failed(index, error);
        } else if self.is_retryable(&error) {
            self.retry(now, index, error);
        } else if self.options.retry.as_ref().is_some_and(|o| o.has_predicate) {
            let call = CallKey {
                index,
                number: self.calls[index].number,
            };
            self.set_stage(index, Stage::Judging);
            self.actions.push_back(Action::Judge { call, error });
        } else {
            self.complete_failed(index, error);
        }
    }

    fn retry(&mut self, now: Time, index: usize, error: Error) {
        let Some(options) = &self.options.retry else {
            return;
        };
        let entry = &mut self.calls[index];
        let rule = options.rule();
        let previous = match entry.retries {
            0 => Duration::ZERO,
            n => rule.base(n),
        };
        let mut delay = rule.delay(entry.retries + 1, previous, &mut self.rng);
        if let Some(ms) = error.retry_after_ms() {
            delay = delay.max(Duration::from_millis(u64::from(ms)));
        }
        // To wait for longer than the call may take would only hide the error.
        let too_late = now + delay >= entry.deadline;
        if too_late
            || self
                .budget
                .as_mut()
                .is_some_and(|budget| !budget.withdraw(now))
        {
            return self.complete_failed(index, error);
        }
        entry.retries += 1;
        self.stats.retries += 1;
        let answered = error.outcome() == Outcome::Answered
            && error.code().status() != status::TRANSPORT_ERROR;
        if answered || error.code() == ErrorCode::OutcomeUnknown {
            self.renew_id(index);
        }
        let entry = &self.calls[index];
        let (method_name, attempt) = (entry.spec.method_name.clone(), entry.attempts);
        self.set_stage(index, Stage::Delaying { until: now + delay });
        self.notify(Notification::Retrying {
            method_name,
            error,
            attempt,
            delay,
        });
    }

    /// A link is gone (`None`: there was none). `sent` is how many of its bytes can have reached the
    /// network.
    pub(super) fn calls_lost_link(
        &mut self,
        now: Time,
        link: Option<LinkId>,
        cause: &Error,
        sent: u64,
    ) {
        let lost = Error::new(
            ErrorCode::Transport,
            "Connection was lost before a response arrived",
        )
        .with_details(Some(cause.to_string()));
        for (_, entry) in &mut self.calls {
            entry.late.retain(|(on, _)| Some(*on) != link);
        }
        let will_return = self.has_or_awaits_link();
        let mut unsent = Vec::new();
        for index in self.indices(|s| matches!(s, Stage::InFlight(a) if Some(a.link) == link)) {
            let entry = &mut self.calls[index];
            let Stage::InFlight(attempt) = entry.stage else {
                continue;
            };
            if attempt.frame_end <= sent {
                entry.unsettle();
                entry.late.retain(|(on, _)| Some(*on) != link);
                self.attempt_ended(now, index, lost.clone());
            } else if will_return {
                // It never left: that was no attempt.
                entry.attempts -= 1;
                self.leave_stage(index);
                unsent.push(index);
            } else {
                self.leave_stage(index);
                self.attempt_ended(now, index, lost.clone());
            }
        }
        self.resubmit(now, unsent);
    }

    /// Sends calls, or lets them wait anew: those that have left the queue already go first, in
    /// their old order. Without a link, and none to come, this is the end of an attempt.
    pub(super) fn resubmit(&mut self, now: Time, first: Vec<usize>) {
        let waiting = std::mem::take(&mut self.queue);
        self.queued_bytes = 0;
        for index in first.into_iter().chain(waiting.into_values()) {
            self.submit(now, index);
        }
    }

    /// A new link stands. Calls that can't be repeated on it will never be: their callers are told
    /// now.
    pub(super) fn end_unrepeatable_calls(&mut self, now: Time) {
        let Some(ready) = self.link.ready() else {
            return;
        };
        let stranded: BTreeSet<_> = self
            .calls
            .iter()
            .filter(|(_, entry)| match entry.stage {
                // Another link, that is about to be closed, may still bring an answer.
                Stage::InFlight(attempt) if attempt.link != ready.id => false,
                _ => !entry.may_be_sent_on(now, ready),
            })
            .map(|(index, entry)| (entry.number, index))
            .collect();
        for (_, index) in stranded {
            self.end_as_unknown(index);
        }
    }

    fn end_as_unknown(&mut self, index: usize) {
        let cause = self.calls[index]
            .last_error
            .as_ref()
            .map(ToString::to_string);
        let error = Error::new(
            ErrorCode::OutcomeUnknown,
            "the call was sent and not answered, and repeating it here could execute it twice",
        );
        self.fail(index, error.with_details(cause));
    }

    /// Nothing more can come of any call, but for those on links that are about to be closed.
    pub(super) fn end_all_calls(&mut self, error: &Error) {
        let leaving: Vec<_> = self.leaving.iter().map(|ready| ready.id).collect();
        let ends = |s| !matches!(s, Stage::InFlight(a) if leaving.contains(&a.link));
        for index in self.indices(ends) {
            self.fail(index, error.clone());
        }
    }

    pub(super) fn tick_calls(&mut self, now: Time) {
        while let Some((at, index)) = self.timers.first().copied() {
            if at > now {
                return;
            }
            self.timers.pop_first();
            let entry = &mut self.calls[index];
            entry.wake = Time::NEVER;
            if entry.deadline <= now {
                self.out_of_time(index);
                continue;
            }
            match entry.stage {
                Stage::InFlight(attempt) if attempt.deadline <= now => {
                    entry.unsettle();
                    let error = Error::new(
                        ErrorCode::Timeout,
                        "No response arrived within the configured timeout",
                    );
                    self.attempt_ended(now, index, error);
                }
                Stage::Delaying { until } if until <= now => self.submit(now, index),
                stage => self.set_stage(index, stage),
            }
        }
    }

    fn out_of_time(&mut self, index: usize) {
        let entry = &self.calls[index];
        let (what, cause) = match (entry.stage, &entry.last_error) {
            (Stage::InFlight(_), None) => {
                ("No response arrived within the configured timeout", None)
            }
            (_, None) => (
                "the call's time ended before it could be sent",
                self.last_failure.as_ref(),
            ),
            (_, last) => ("the call's time ended", last.as_ref()),
        };
        let details = cause.map(ToString::to_string);
        self.fail(
            index,
            Error::new(ErrorCode::Timeout, what).with_details(details),
        );
    }

    /// Calls in some stage, oldest first.
    fn indices(&self, wanted: impl Fn(Stage) -> bool) -> Vec<usize> {
        let mut found: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, entry)| wanted(entry.stage))
            .map(|(index, entry)| (entry.number, index))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, index)| index).collect()
    }

    /// Takes a call out of the books of its stage.
    fn leave_stage(&mut self, index: usize) {
        let entry = &mut self.calls[index];
        match std::mem::replace(&mut entry.stage, Stage::Moving) {
            Stage::InFlight(attempt) => {
                self.in_flight -= 1;
                if let Some(ready) = self.ready_of(attempt.link) {
                    ready.in_flight -= 1;
                }
            }
            Stage::Queued(ticket) => {
                if self.queue.remove(&ticket).is_some() {
                    self.queued_bytes -= entry.spec.arguments.size();
                }
            }
            Stage::Moving | Stage::Delaying { .. } | Stage::Judging | Stage::AwaitingToken => {}
        }
    }

    /// Puts a call into a stage and sets its timer.
    fn set_stage(&mut self, index: usize, stage: Stage) {
        let entry = &mut self.calls[index];
        entry.stage = stage;
        let wake = entry.deadline.min(match stage {
            Stage::InFlight(attempt) => attempt.deadline,
            Stage::Delaying { until } => until,
            _ => Time::NEVER,
        });
        if wake != entry.wake {
            self.timers.remove(&(entry.wake, index));
            if wake != Time::NEVER {
                self.timers.insert((wake, index));
            }
            entry.wake = wake;
        }
    }

    /// Ends a call with an error whose outcome is what is known now.
    fn fail(&mut self, index: usize, error: Error) {
        let outcome = self.calls[index].outcome();
        self.complete_failed(index, error.with_outcome(outcome));
    }

    /// Tells servers that nobody waits for their answers to a call any more. One with an id of the
    /// caller's own may be asked for again, unless its caller cancelled it.
    fn take_back(&mut self, index: usize, error: &Error) {
        let entry = &self.calls[index];
        if entry.spec.invocation_id.is_some() && error.code() != ErrorCode::Cancelled {
            return;
        }
        let current = match entry.stage {
            Stage::InFlight(attempt) => Some((attempt.link, attempt.serial)),
            _ => None,
        };
        let unanswered: Vec<_> = entry.late.iter().copied().chain(current).collect();
        for (link, serial) in unanswered {
            if let Some(ready) = self.ready_of(link) {
                let index = index as u32;
                ready.session.cancel(Slot { index, serial });
            }
        }
    }

    fn complete_failed(&mut self, index: usize, error: Error) {
        self.take_back(index, &error);
        let attempts = self.calls[index].attempts;
        self.complete(index, Err(error.with_attempts(attempts)));
    }

    fn complete(&mut self, index: usize, result: Result<Answer>) {
        self.leave_stage(index);
        let entry = self.calls.remove(index);
        if entry.wake != Time::NEVER {
            self.timers.remove(&(entry.wake, index));
        }
        if entry.is_numbered() {
            self.unfinished.remove(&entry.id_number);
        }
        self.actions.push_back(Action::Complete {
            tag: entry.tag,
            result,
        });
    }
}
