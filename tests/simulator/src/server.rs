//! The server of a life: sessions and the memory of calls, and a driver that does for them what the
//! tokio driver does.
//!
//! Owns the order of a request's checks, what is written to the store before and after a method, and
//! the comparison of every reply with the [model](crate::model). A .NET server is played here too.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use witrpc::OUTCOME_UNKNOWN_TEXT;
use witrpc::resilience::dedup::states::Reply;
use witrpc::resilience::dedup::{Admission, CallId, Numbered, Table, Ticket};
use witrpc::security::Keys;
use witrpc::session::{ServerReceived, ServerSession, Violation};
use witrpc::time::Time;
use witrpc::wire::extension::{Extension, Reach};
use witrpc::wire::{Envelope, InitializationRequest, Kind, Request, Response, frame, status};

use crate::checker::{Begins, Cause, call_of, stored};
use crate::client::{Stage, argument_of};
use crate::fault::{Phase, Twins};
use crate::model::{Begun, Model};
use crate::network::{End, Peer, Way};
use crate::plan::MS;
use crate::store::{Journal, Record, Store, Write};
use crate::world::{Event, PlantedHere, World};

/// Answers that a .NET server keeps for a connection.
const DOTNET_KEEPS: usize = 64;

/// Where an answer goes: a connection and the id of the message.
type Waiter = (usize, Uuid);

/// See the [module](self).
#[derive(Debug)]
pub struct Server {
    /// It runs.
    pub is_up: bool,
    /// Grows with each start.
    pub life: u64,
    /// Grows whenever its memory of calls is lost.
    pub memory: u64,
    /// What it tells clients of that.
    pub epoch: u64,
    /// How far its clock is ahead.
    pub ahead: u64,
    /// The part under test.
    pub table: Table<Waiter>,
    /// What that should do.
    pub model: Model,
    /// Where records outlive a crash.
    pub journal: Option<Journal>,
    writes: HashMap<Write, After>,
    /// Methods that run.
    pub running: usize,
    /// Calls that were begun.
    runs: Vec<Run>,
    /// Methods that are to take longer, in ns, and how many of them.
    pub slow: (u64, u32),
    /// Tokens older than this are refused.
    pub oldest_token: u64,
    refused: HashSet<String>,
}

/// What follows on a write.
#[derive(Debug)]
enum After {
    Begin(usize),
    Answer(usize, Bytes),
    Nothing,
}

/// A call that was admitted.
#[derive(Debug)]
struct Run {
    life: u64,
    /// The sender, where there is one.
    waiter: Option<Waiter>,
    ticket: Option<Ticket>,
    begun: Option<Begun>,
    call: CallId,
    argument: String,
    digest: u64,
    cause: Cause,
    execution: usize,
    is_stored: bool,
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct ServerEnd {
    session: ServerSession,
    input: BytesMut,
    client_id: Option<Uuid>,
    /// A message whose token is being checked.
    checking: Option<ServerReceived>,
    running: usize,
    /// The client has closed its end.
    is_ended: bool,
    /// What a .NET server keeps, and whether it is busy.
    dotnet: VecDeque<(Uuid, Bytes)>,
    is_busy: bool,
}

impl Server {
    /// A server that has just started for the first time.
    pub fn new(options: witrpc::resilience::dedup::DedupOptions, journal: Option<Journal>) -> Self {
        Self {
            is_up: true,
            life: 1,
            memory: 1,
            epoch: 1,
            ahead: 0,
            table: Table::new(options),
            model: Model::new(options),
            journal,
            writes: HashMap::new(),
            running: 0,
            runs: Vec::new(),
            slow: (0, 0),
            oldest_token: 0,
            refused: HashSet::new(),
        }
    }
}

impl World {
    /// The clock of the server.
    pub fn server_time(&self) -> Time {
        Time::from_origin(std::time::Duration::from_nanos(
            self.now + self.server.ahead,
        ))
    }

    /// The server has a new connection.
    pub fn server_accepts(&mut self, connection: usize) {
        let id = self.dice.id();
        let session = match &self.key {
            None => ServerSession::new(id),
            Some(_) => {
                let bytes = self.dice.bytes();
                match Keys::from_bytes(&bytes, &bytes[..16]) {
                    Some(keys) => ServerSession::encrypted(id, keys),
                    None => unreachable!("keys have these lengths"),
                }
            }
        };
        self.ends[connection] = Some(ServerEnd {
            session,
            input: BytesMut::new(),
            client_id: None,
            checking: None,
            running: 0,
            is_ended: false,
            dotnet: VecDeque::new(),
            is_busy: false,
        });
    }

    /// Something arrived at the server.
    pub fn server_gets(&mut self, connection: usize, bytes: &Bytes) {
        if let Some(end) = &mut self.ends[connection] {
            end.input.extend_from_slice(bytes);
            self.server_reads(connection);
        }
    }

    /// The client's end is gone.
    pub fn server_notices(&mut self, connection: usize) {
        if let Some(end) = &mut self.ends[connection] {
            end.is_ended = true;
            self.server_reads(connection);
        }
    }

    /// Handles whole messages, as long as nothing holds it up.
    fn server_reads(&mut self, connection: usize) {
        let limit = self.plan.server.max_running_per_connection;
        while let Some(end) = &mut self.ends[connection] {
            if end.checking.is_some() || end.running >= limit || end.is_busy {
                break;
            }
            let body = match frame::split(&mut end.input, 1 << 24) {
                Ok(Some(body)) => body,
                Ok(None) => {
                    if end.is_ended {
                        self.server_closes(connection, End::Closed);
                    }
                    return;
                }
                Err(bad) => {
                    self.checker.violation(format!("the server got {bad}"));
                    return;
                }
            };
            let is_dotnet = match self.connections[connection].peer {
                Peer::Client(client, _) => self.plan.clients[client].is_dotnet,
                Peer::Twin(twin) => self.twins[twin].way == Twins::Plain,
            };
            let body = match is_dotnet || self.plan.server.is_dotnet {
                true => without_extension(body),
                false => body,
            };
            match end.session.receive(body) {
                Ok(ServerReceived::Nothing) => self.flush(connection),
                Ok(received) => {
                    if self.plan.server.token_check == 0 {
                        self.checked(connection, received);
                    } else {
                        end.checking = Some(received);
                        let at = self.now + self.plan.server.token_check;
                        self.queue
                            .push(at, Event::Checked(connection, self.server.life));
                    }
                }
                Err(Violation(reason)) => {
                    self.trace(|| format!("connection {connection} breaks a rule: {reason}"));
                    self.flush(connection);
                    return self.server_closes(connection, End::Closed);
                }
            }
        }
    }

    /// The check of a token is over.
    pub fn check_ends(&mut self, connection: usize, life: u64) {
        if life == self.server.life
            && let Some(end) = &mut self.ends[connection]
            && let Some(received) = end.checking.take()
        {
            self.checked(connection, received);
            self.server_reads(connection);
        }
    }

    /// Who a token stands for, if it is good.
    fn principal(&self, token: &str) -> Option<Arc<str>> {
        let (principal, generation) = token.split_once('/')?;
        let good = generation.parse::<u64>().ok()? >= self.server.oldest_token;
        good.then(|| principal.into())
    }

    fn checked(&mut self, connection: usize, received: ServerReceived) {
        match received {
            ServerReceived::Nothing => {}
            ServerReceived::Authorize { token, client_id } => {
                let accepted = self.principal(&token).is_some();
                let reach = Some(Reach {
                    epoch: self.server.epoch,
                    hold_ms: self.plan.server.dedup.hold.as_millis() as u64,
                });
                let Some(end) = &mut self.ends[connection] else {
                    return;
                };
                end.client_id = client_id;
                let answered = end.session.authorize(accepted, reach);
                if let (Peer::Client(client, _), Some(id)) =
                    (self.connections[connection].peer, client_id)
                {
                    self.clients[client].id = Some(id);
                }
                self.flush(connection);
                if answered.is_err() {
                    self.server_closes(connection, End::Closed);
                }
            }
            ServerReceived::Request(id, request) => {
                let token = request.token.clone().unwrap_or_default();
                let principal = self.principal(&token);
                if self.plan.server.is_dotnet {
                    self.dotnet_call(connection, id, principal, &request);
                } else {
                    self.admit(connection, id, principal, &request);
                }
            }
        }
    }

    fn cause(&self, connection: usize) -> Cause {
        match self.connections[connection].peer {
            Peer::Client(..) => Cause::Client,
            Peer::Twin(_) => Cause::Twin,
        }
    }

    fn stage(&mut self, connection: usize, argument: &str, stage: Stage) {
        if let Peer::Client(client, _) = self.connections[connection].peer
            && let Some((_, tag)) = call_of(argument)
            && let Some(place) = self.clients[client].stages.get_mut(&tag)
        {
            *place = stage;
        }
    }

    fn admit(&mut self, connection: usize, id: Uuid, who: Option<Arc<str>>, request: &Request) {
        let argument = argument_of(request);
        self.stage(connection, &argument, Stage::Executing);
        let Some(principal) = who else {
            let refusal = Response::error(status::UNAUTHORIZED, "Token is not valid", None);
            return self.answer(connection, id, &argument, &refusal);
        };
        let fields = request.extension.as_deref().and_then(Extension::decode);
        let fields = fields.unwrap_or_default();
        let client_id = self.ends[connection].as_ref().and_then(|end| end.client_id);
        let numbered = client_id
            .zip(fields.call_number)
            .zip(fields.first_unfinished);
        let call = CallId {
            principal,
            invocation: request.invocation_id,
            numbered: numbered.map(|((client, number), first_unfinished)| Numbered {
                client,
                number,
                first_unfinished,
            }),
            repeated: fields.attempt.is_some_and(|attempt| attempt > 1),
        };
        let cause = self.cause(connection);
        let waiter = (connection, id);
        match self.begin(Some(waiter), call, argument.clone(), cause) {
            Admission::New(_) => {
                if let Some(end) = &mut self.ends[connection] {
                    end.running += 1;
                }
            }
            Admission::Attached => {}
            Admission::Replay(stored) => {
                let extension = Extension {
                    replayed: true,
                    ..Extension::default()
                };
                if let Ok(Some(response)) = Response::decode(&stored) {
                    let response = Response {
                        extension: Some(extension.encode().into()),
                        ..response
                    };
                    self.answer(connection, id, &argument, &response);
                }
            }
            Admission::OutcomeUnknown => {
                self.answer(connection, id, &argument, &outcome_unknown());
            }
            Admission::Mismatch => {
                let text = "The invocation id belongs to another call";
                let refusal = Response::error(status::BAD_REQUEST, text, None);
                self.answer(connection, id, &argument, &refusal);
            }
            Admission::Full | Admission::NoRoom => {
                self.answer(connection, id, &argument, &overloaded());
            }
        }
    }

    /// Asks the table and the model, and begins a call that is new.
    pub fn begin(
        &mut self,
        waiter: Option<Waiter>,
        call: CallId,
        argument: String,
        cause: Cause,
    ) -> Admission {
        let now = self.server_time();
        let digest = digest(&argument);
        let has_room = self.server.running < self.plan.server.max_running;
        let place = waiter.unwrap_or((usize::MAX, Uuid::nil()));
        let admission = self.server.table.begin(now, &call, digest, place, has_room);
        let (reply, stored, begun) = self.server.model.begin(now, &call, digest, has_room);
        let as_expected = match &admission {
            Admission::New(_) => reply == Reply::Runs,
            Admission::Attached => reply == Reply::Attached,
            Admission::Replay(bytes) => {
                reply == Reply::StoredAnswer && stored.as_ref() == Some(bytes)
            }
            Admission::OutcomeUnknown => reply == Reply::Unknown,
            Admission::Mismatch => reply == Reply::Mismatch,
            Admission::Full | Admission::NoRoom => reply == Reply::Refused,
        };
        let short = match &admission {
            Admission::Replay(_) => "Replay".to_owned(),
            other => format!("{other:?}"),
        };
        self.trace(|| {
            format!(
                "server: {argument} of {} as {} ({:?}, repeated: {}): {short}",
                call.principal, call.invocation, call.numbered, call.repeated
            )
        });
        if !as_expected {
            self.checker.violation(format!(
                "{argument} as {}: the table says {short}, the model {reply:?}",
                call.invocation
            ));
        }
        self.compare();
        if let Admission::New(ticket) = admission {
            let run = self.server.runs.len();
            self.server.running += 1;
            self.server.runs.push(Run {
                life: self.server.life,
                waiter,
                ticket: Some(ticket),
                begun,
                digest,
                call,
                argument,
                cause,
                execution: 0,
                is_stored: false,
            });
            let intent = Record::Intent {
                call: self.server.runs[run].call.clone(),
                digest: self.server.runs[run].digest,
            };
            match self.store(run, intent) {
                Some(write) => {
                    self.server.writes.insert(write, After::Begin(run));
                }
                None => self.execute(run),
            }
        }
        admission
    }

    /// Writes to the journal, if there is one.
    fn store(&mut self, run: usize, record: Record) -> Option<Write> {
        let journal = self.server.journal.as_mut()?;
        let call = &self.server.runs[run].call;
        let key = (call.principal.clone(), call.invocation);
        let write = journal.write(self.now, &key, record);
        self.await_store();
        Some(write)
    }

    fn await_store(&mut self) {
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

    fn execute(&mut self, run: usize) {
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
            at,
            out_of_time: self.out_of_time,
            dropped_tombstones: self.server.model.has_dropped_tombstones || !is_followed,
        };
        let execution = self.checker.begins(self.plan.server.dedup.hold, begins);
        self.server.runs[run].execution = execution;
        self.run_method(run, |life, run| Event::Ends(life, run));
    }

    fn run_method(&mut self, run: usize, event: impl FnOnce(u64, usize) -> Event) {
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
    fn outcome(&mut self, run: usize) -> Response {
        let it = &self.server.runs[run];
        let what = it.argument.split('.').nth(2).unwrap_or_default();
        let text = format!("#{}.{}.{}", it.execution, it.call.principal, it.argument);
        match what {
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

    /// Stores what a call came to, then sends it to all that wait.
    fn finish(&mut self, run: usize, answer: Option<Bytes>) {
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

    fn send_outcome(&mut self, run: usize, answer: &Bytes) {
        if let Some((connection, id)) = self.server.runs[run].waiter {
            self.send_stored(run, connection, id, answer);
        }
    }

    fn send_stored(&mut self, run: usize, connection: usize, id: Uuid, answer: &Bytes) {
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

    fn call_ended(&mut self, waiter: Option<Waiter>) {
        if let Some((connection, _)) = waiter
            && let Some(end) = &mut self.ends[connection]
        {
            end.running = end.running.saturating_sub(1);
            self.server_reads(connection);
        }
    }

    /// A call is as if it had never come.
    fn give_back(&mut self, run: usize) {
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

    /// The table must hold what the model holds.
    fn compare(&mut self) {
        let (is, should) = (self.server.table.stats(), self.server.model.counts());
        let numbers =
            |s: &witrpc::resilience::dedup::DedupStats| [s.running, s.done, s.bytes, s.tombstones];
        if numbers(&is) != numbers(&should) {
            self.checker.violation(format!(
                "running, done, bytes, tombstones: {:?} in the table, {:?} in the model",
                numbers(&is),
                numbers(&should)
            ));
        }
    }

    /// Sends an answer, if anybody is there to have it.
    fn answer(&mut self, connection: usize, id: Uuid, argument: &str, response: &Response) {
        let Some(end) = self.ends.get_mut(connection).and_then(Option::as_mut) else {
            return;
        };
        end.session.respond(id, &encode(response));
        self.stage(connection, argument, Stage::Answering);
        self.flush(connection);
    }

    fn flush(&mut self, connection: usize) {
        if let Some(end) = &mut self.ends[connection]
            && end.session.pending_output() > 0
        {
            let output = end.session.take_output().freeze();
            self.send(connection, Way::Down, output);
        }
    }

    /// The server closes a connection.
    pub fn server_closes(&mut self, connection: usize, how: End) {
        if self.ends[connection].take().is_none() {
            return;
        }
        self.connections[connection].server_has_it = false;
        if let Some(at) = self.connections[connection].end(self.now, Way::Down, how) {
            self.queue.push(at, Event::Arrives(connection, Way::Down));
        }
    }

    /// The server is killed, and starts again after a while.
    pub fn restart(&mut self, away: u64, silent: bool) {
        if !self.server.is_up {
            return;
        }
        self.trace(|| "server: killed".to_owned());
        self.server.is_up = false;
        self.server.life += 1;
        for connection in 0..self.connections.len() {
            if self.ends[connection].take().is_none() {
                continue;
            }
            let it = &mut self.connections[connection];
            it.server_has_it = false;
            it.lose(Way::Up);
            if silent {
                // Its machine is gone: what was on its way is, too, and nobody says so.
                it.lose(Way::Down);
                let silence = self.dice.between(0, 25_000) * MS;
                for at in self.connections[connection].delay(self.now, Way::Down, silence) {
                    self.queue.push(at, Event::Arrives(connection, Way::Down));
                }
            }
            if let Some(at) = self.connections[connection].end(self.now, Way::Down, End::Broken) {
                self.queue.push(at, Event::Arrives(connection, Way::Down));
            }
        }
        self.server.running = 0;
        self.server.writes.clear();
        self.server.slow = (0, 0);
        let options = self.plan.server.dedup;
        self.server.table = Table::new(options);
        self.server.model = Model::new(options);
        self.queue
            .push(self.now + away, Event::Starts(self.server.life));
    }

    /// The server is back.
    pub fn starts(&mut self, life: u64) {
        if life != self.server.life || self.server.is_up {
            return;
        }
        self.server.is_up = true;
        let now = self.server_time();
        match &mut self.server.journal {
            None => {
                self.server.memory += 1;
                self.server.epoch += 1;
            }
            Some(journal) => {
                for known in journal.crash() {
                    let (call, digest) = (&known.call, known.digest);
                    self.server
                        .table
                        .restore(now, call, digest, known.answer.clone());
                    self.server.model.restore(now, call, digest, known.answer);
                }
            }
        }
        let memory = self.server.memory;
        self.trace(|| format!("server: started, memory {memory}"));
        self.compare();
    }

    /// A .NET server: one call after the other, and 64 answers kept for the connection.
    fn dotnet_call(
        &mut self,
        connection: usize,
        id: Uuid,
        principal: Option<Arc<str>>,
        request: &Request,
    ) {
        let argument = argument_of(request);
        self.stage(connection, &argument, Stage::Executing);
        let Some(end) = &mut self.ends[connection] else {
            return;
        };
        let kept = end
            .dotnet
            .iter()
            .find(|(id, _)| *id == request.invocation_id);
        if let Some(response) = kept.and_then(|(_, answer)| stored(answer)) {
            return self.answer(connection, id, &argument, &response);
        }
        let Some(principal) = principal else {
            let refusal = Response::error(status::UNAUTHORIZED, "Token is not valid", None);
            self.dotnet_keeps(connection, request.invocation_id, &refusal);
            return self.answer(connection, id, &argument, &refusal);
        };
        end.is_busy = true;
        let run = self.server.runs.len();
        let at = self.server_time();
        let execution = self.checker.begins(
            self.plan.server.dedup.hold,
            Begins {
                principal: principal.clone(),
                invocation: request.invocation_id,
                argument: argument.clone(),
                // Its memory is that of the connection.
                memory: 1_000_000 + connection as u64,
                cause: Cause::Client,
                numbered: false,
                at,
                out_of_time: false,
                dropped_tombstones: false,
            },
        );
        self.server.runs.push(Run {
            life: self.server.life,
            waiter: Some((connection, id)),
            ticket: None,
            begun: None,
            call: CallId {
                principal,
                invocation: request.invocation_id,
                numbered: None,
                repeated: false,
            },
            digest: 0,
            argument,
            cause: Cause::Client,
            execution,
            is_stored: true,
        });
        self.run_method(run, |life, run| Event::DotnetEnds(life, run));
    }

    fn dotnet_keeps(&mut self, connection: usize, id: Uuid, response: &Response) {
        if let Some(end) = &mut self.ends[connection] {
            end.dotnet.push_back((id, encode(response)));
            if end.dotnet.len() > DOTNET_KEEPS {
                end.dotnet.pop_front();
            }
        }
    }

    /// A method of a .NET server ends.
    pub fn dotnet_ends(&mut self, life: u64, run: usize) {
        if life != self.server.life || !self.server.is_up {
            return;
        }
        let response = match self.outcome(run) {
            // A .NET server refuses nothing for load.
            refusal if refusal.status == status::TRANSPORT_ERROR => self.outcome(run),
            response => response,
        };
        let at = self.server_time();
        let it = &self.server.runs[run];
        let invocation = it.call.invocation;
        self.checker.ends(it.execution, at, false);
        let Some((connection, id)) = it.waiter else {
            return;
        };
        self.dotnet_keeps(connection, invocation, &response);
        self.send_stored(run, connection, id, &encode(&response));
        if let Some(end) = &mut self.ends[connection] {
            end.is_busy = false;
            self.server_reads(connection);
        }
    }

    /// Where a fault that hits the server as a whole would hit this client.
    pub fn phase_of(&self, client: usize) -> Phase {
        self.clients[client].phase()
    }

    /// True if nothing of the present life runs.
    pub fn server_is_idle(&self) -> bool {
        self.server.is_up && self.server.running == 0 && self.server.writes.is_empty()
    }

    /// Calls of the present life that were begun and have not ended.
    pub fn unended_runs(&self) -> usize {
        let runs = self.server.runs.iter();
        runs.filter(|run| run.life == self.server.life && run.ticket.is_some())
            .count()
    }
}

/// Stands for a method and its arguments (FNV-1a).
fn digest(argument: &str) -> u64 {
    argument.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn encode(response: &Response) -> Bytes {
    let mut out = Vec::new();
    response.encode(&mut out);
    out.into()
}

fn outcome_unknown() -> Response {
    Response::error(status::INTERNAL_SERVER_ERROR, OUTCOME_UNKNOWN_TEXT, None)
}

fn overloaded() -> Response {
    Response::error(status::TRANSPORT_ERROR, "overloaded", None)
}

/// What a .NET peer makes of a message: it skips the members it does not know, and sends none.
fn without_extension(body: BytesMut) -> BytesMut {
    let Ok(Some(mut envelope)) = Envelope::decode(&body.clone().freeze()) else {
        return body;
    };
    if envelope.kind != Kind::INITIALIZATION {
        return body;
    }
    if let Some(Ok(Some(mut request))) = envelope
        .data
        .as_ref()
        .map(|d| InitializationRequest::decode(d))
    {
        request.extension = None;
        let mut data = Vec::new();
        request.encode(&mut data);
        envelope.data = Some(data.into());
    }
    let mut out = BytesMut::new();
    envelope.encode(&mut out);
    out
}
