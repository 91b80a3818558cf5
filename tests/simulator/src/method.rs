//! A call that is new, from its admission to its answer: the intent to the store, the method, the
//! answer to the store and to the memory, and only then to all that wait.

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::dedup::{CallId, Ticket};
use witrpc::wire::{Response, status};

use crate::checker::{Begins, Cause, stored};
use crate::model::Begun;
use crate::plan::MS;
use crate::server::{Waiter, encode, outcome_unknown, overloaded};
use crate::store::{Record, Store, Write};
use crate::world::{Event, PlantedHere, World};

/// What follows on a write.
#[derive(Debug)]
pub(crate) enum After {
    Begin(usize),
    Answer(usize, Bytes),
    Nothing,
}

/// A call that was admitted.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) life: u64,
    /// The sender, where there is one.
    pub(crate) waiter: Option<Waiter>,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) begun: Option<Begun>,
    pub(crate) call: CallId,
    pub(crate) argument: String,
    pub(crate) digest: u64,
    pub(crate) cause: Cause,
    pub(crate) execution: usize,
    pub(crate) is_stored: bool,
    /// Who waits for the answer, and under which message; a .NET client can't be told apart.
    pub(crate) parties: Vec<(Option<Uuid>, usize, Uuid)>,
    /// Its method has begun.
    pub(crate) is_begun: bool,
    /// All who waited for its answer wait no more, and the method stops.
    pub(crate) is_cancelled: bool,
    pub(crate) has_ended: bool,
}

impl World {
    /// Writes to the journal, if there is one.
    pub(crate) fn store(&mut self, run: usize, record: Record) -> Option<Write> {
        let journal = self.server.journal.as_mut()?;
        let call = &self.server.runs[run].call;
        let key = (call.principal.clone(), call.invocation);
        let write = journal.write(self.now, &key, record);
        self.await_store();
        Some(write)
    }

    pub(crate) fn await_store(&mut self) {
        if let Some(at) = self.server.journal.as_ref().and_then(Store::next) {
            self.queue
                .push(at.max(self.now), Event::Stored(self.server.life));
        }
    }

    /// Writes have ended.
    pub fn stored(&mut self, life: u64) {
        if life != self.server.life || !self.server.is_up {
            return;
        }
        let Some(journal) = &mut self.server.journal else {
            return;
        };
        for (write, durable) in journal.ended(self.now) {
            match self.server.writes.remove(&write) {
                Some(After::Begin(run)) if durable => self.execute(run),
                Some(After::Begin(run)) => {
                    // It must not run unseen: as if it had never come.
                    self.trace(|| "server: an intent could not be stored".to_owned());
                    self.give_back(run);
                }
                Some(After::Answer(run, answer)) => {
                    self.trace(|| format!("server: an answer is durable: {durable}"));
                    self.finish(run, durable.then_some(answer));
                }
                Some(After::Nothing) | None => {}
            }
        }
        self.await_store();
    }

    pub(crate) fn execute(&mut self, run: usize) {
        let at = self.server_time();
        let it = &self.server.runs[run];
        let is_followed = self.plan.server.dedup.max_clients > 1;
        let begins = Begins {
            principal: it.call.principal.clone(),
            invocation: it.call.invocation,
            argument: it.argument.clone(),
            memory: self.server.memory,
            cause: it.cause,
            numbered: it.call.numbered.is_some() && is_followed,
            repeated: it.call.repeated,
            at,
            out_of_time: self.out_of_time,
            dropped_tombstones: self.server.model.has_dropped_tombstones || !is_followed,
        };
        let execution = self.checker.begins(self.plan.server.dedup.hold, begins);
        self.server.runs[run].execution = execution;
        self.server.runs[run].is_begun = true;
        self.run_method(run, Event::Ends);
    }

    pub(crate) fn run_method(&mut self, run: usize, event: impl FnOnce(u64, usize) -> Event) {
        let argument = &self.server.runs[run].argument;
        let mut takes = argument
            .split('.')
            .nth(3)
            .and_then(|time| time.parse().ok())
            .unwrap_or(0);
        if self.server.slow.1 > 0 {
            self.server.slow.1 -= 1;
            takes += self.server.slow.0;
        }
        let at = self.now + takes;
        self.queue.push(at, event(self.server.life, run));
    }

    /// What a method came to.
    pub(crate) fn outcome(&mut self, run: usize) -> Response {
        let it = &self.server.runs[run];
        let what = it.argument.split('.').nth(2).unwrap_or_default();
        let text = format!("#{}.{}.{}", it.execution, it.call.principal, it.argument);
        match what {
            _ if it.is_cancelled => {
                Response::error(status::INTERNAL_SERVER_ERROR, "cancelled", Some(text))
            }
            "fault" => Response::error(status::INTERNAL_SERVER_ERROR, "thrown", Some(text)),
            "refusal" if self.server.refused.insert(it.argument.clone()) => overloaded(),
            "big" => Response::ok(Some(format!("{text:.<400}").into())),
            _ => Response::ok(Some(text.into())),
        }
    }

    /// A method ends.
    pub fn method_ends(&mut self, life: u64, run: usize) {
        if life != self.server.life || !self.server.is_up {
            return;
        }
        if std::mem::replace(&mut self.server.runs[run].has_ended, true) {
            return;
        }
        let response = self.outcome(run);
        let refused = response.status == status::TRANSPORT_ERROR;
        let at = self.server_time();
        self.checker
            .ends(self.server.runs[run].execution, at, refused);
        if refused {
            if let Some(write) = self.store(run, Record::Gone) {
                self.server.writes.insert(write, After::Nothing);
            }
            return self.give_back(run);
        }
        let answer = encode(&response);
        if self.planted == Some(PlantedHere::SentBeforeStored) {
            self.send_outcome(run, &answer);
            let at = self.now + MS;
            return self.queue.push(at, Event::StoredLate(life, run, answer));
        }
        match self.store(run, Record::Answer(answer.clone())) {
            Some(write) => {
                self.server.writes.insert(write, After::Answer(run, answer));
            }
            None => self.finish(run, Some(answer)),
        }
    }

    /// The defect: an answer is stored after it was sent.
    pub fn stored_late(&mut self, life: u64, run: usize, answer: Bytes) {
        if life == self.server.life && self.server.is_up {
            self.finish(run, Some(answer));
        }
    }

    /// One more waits for a call that runs.
    pub(crate) fn join(&mut self, connection: usize, id: Uuid, invocation: Uuid, argument: &str) {
        let party = (self.party(connection), connection, id);
        let life = self.server.life;
        let run = self.server.runs.iter_mut().rev().find(|run| {
            run.life == life && run.call.invocation == invocation && run.argument == argument
        });
        if let Some(run) = run {
            run.parties.push(party);
        }
    }

    /// A client waits no more for the answer to a request. A method whose answer nobody waits for
    /// stops, in every second case.
    pub(crate) fn withdraw(&mut self, connection: usize, id: Uuid) {
        let life = self.server.life;
        let obeys = self.dice.percent(50);
        let mut stopped = None;
        for (n, run) in self.server.runs.iter_mut().enumerate() {
            if run.life != life || !run.is_begun || run.has_ended || run.ticket.is_none() {
                continue;
            }
            let asked = run
                .parties
                .iter()
                .find(|(_, c, i)| (*c, *i) == (connection, id));
            let Some((Some(party), ..)) = asked.copied() else {
                continue;
            };
            run.parties.retain(|(other, ..)| *other != Some(party));
            if run.parties.is_empty() && obeys {
                run.is_cancelled = true;
                stopped = Some(n);
            }
        }
        if let Some(run) = stopped {
            self.trace(|| "server: a method stops that nobody waits for".to_owned());
            self.queue.push(self.now, Event::Ends(life, run));
        }
    }

    /// Stores what a call came to, then sends it to all that wait.
    pub(crate) fn finish(&mut self, run: usize, answer: Option<Bytes>) {
        let now = self.server_time();
        let it = &mut self.server.runs[run];
        it.is_stored = true;
        let (Some(ticket), Some(begun)) = (it.ticket.take(), it.begun) else {
            return;
        };
        let (argument, waiter) = (it.argument.clone(), it.waiter);
        let (twins, expected) = match &answer {
            Some(answer) => (
                self.server.table.finish(now, ticket, answer),
                self.server.model.end(now, begun, Some(answer.clone())),
            ),
            None => (
                self.server.table.finish_unknown(now, ticket),
                self.server.model.end(now, begun, None),
            ),
        };
        if twins.len() != expected {
            self.checker.violation(format!(
                "{argument}: {} twins were attached, {expected} should be",
                twins.len()
            ));
        }
        self.compare();
        self.server.running -= 1;
        let answer = answer.unwrap_or_else(|| encode(&outcome_unknown()));
        if self.planted != Some(PlantedHere::SentBeforeStored) {
            self.send_outcome(run, &answer);
        }
        for (connection, id) in twins {
            self.send_stored(run, connection, id, &answer);
        }
        self.call_ended(waiter);
    }

    pub(crate) fn send_outcome(&mut self, run: usize, answer: &Bytes) {
        if let Some((connection, id)) = self.server.runs[run].waiter {
            self.send_stored(run, connection, id, answer);
        }
    }

    pub(crate) fn send_stored(&mut self, run: usize, connection: usize, id: Uuid, answer: &Bytes) {
        let Some(response) = stored(answer) else {
            return;
        };
        let it = &self.server.runs[run];
        let argument = it.argument.clone();
        if !it.is_stored {
            self.checker.violation(format!(
                "the answer to {argument} is sent before it is stored"
            ));
        }
        let (principal, invocation) = (it.call.principal.clone(), it.call.invocation);
        self.checker
            .answers(&principal, invocation, self.server.memory, &response);
        self.answer(connection, id, &argument, &response);
    }

    pub(crate) fn call_ended(&mut self, waiter: Option<Waiter>) {
        if let Some((connection, _)) = waiter
            && let Some(end) = &mut self.ends[connection]
        {
            end.running = end.running.saturating_sub(1);
            self.server_reads(connection);
        }
    }

    /// A call is as if it had never come.
    pub(crate) fn give_back(&mut self, run: usize) {
        let it = &mut self.server.runs[run];
        let (Some(ticket), Some(begun)) = (it.ticket.take(), it.begun) else {
            return;
        };
        let (argument, waiter) = (it.argument.clone(), it.waiter);
        let twins = self.server.table.abandon(ticket);
        let expected = self.server.model.refuse(begun);
        if twins.len() != expected {
            self.checker.violation(format!(
                "{argument}: {} twins were refused, {expected} should be",
                twins.len()
            ));
        }
        self.compare();
        self.server.running -= 1;
        for (connection, id) in waiter.into_iter().chain(twins) {
            self.answer(connection, id, &argument, &overloaded());
        }
        self.call_ended(waiter);
    }
}
