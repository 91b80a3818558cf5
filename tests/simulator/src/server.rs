//! The server of a life: sessions and the memory of calls, and a driver that does for them what the
//! tokio driver does.
//!
//! Owns its connections, the order of a request's checks, and the comparison of every reply with the
//! [model](crate::model). What is done with a call that is new is in [`method`](crate::method).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use witrpc::OUTCOME_UNKNOWN_TEXT;
use witrpc::resilience::dedup::states::Reply;
use witrpc::resilience::dedup::{Admission, CallId, Numbered, Table};
use witrpc::security::Keys;
use witrpc::session::{ServerReceived, ServerSession, Violation};
use witrpc::time::Time;
use witrpc::wire::extension::{Capabilities, Extension, Reach};
use witrpc::wire::{Request, Response, frame, status};

use crate::checker::{Cause, call_of};
use crate::client::{Stage, argument_of};
use crate::dotnet::without_extension;
use crate::fault::{Phase, Twins};
use crate::method::{After, Run};
use crate::model::Model;
use crate::network::{End, Peer, Way};
use crate::plan::MS;
use crate::store::{Journal, Record, Store, Write};
use crate::world::{Event, World};

/// Where an answer goes: a connection and the id of the message.
pub(crate) type Waiter = (usize, Uuid);

/// See the [module](self).
#[derive(Debug)]
pub struct Server {
    /// It runs.
    pub is_up: bool,
    /// It has said that it is going away, and takes no more connections.
    pub is_leaving: bool,
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
    pub(crate) writes: HashMap<Write, After>,
    /// Methods that run.
    pub running: usize,
    /// Calls that were begun.
    pub(crate) runs: Vec<Run>,
    /// Methods that are to take longer, in ns, and how many of them.
    pub slow: (u64, u32),
    /// Tokens older than this are refused.
    pub oldest_token: u64,
    pub(crate) refused: HashSet<String>,
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct ServerEnd {
    session: ServerSession,
    input: BytesMut,
    client_id: Option<Uuid>,
    /// A message whose token is being checked, and when it arrived.
    checking: Option<(Time, ServerReceived)>,
    /// Calls that wait for others of the connection to end, and when they arrived.
    inbox: VecDeque<(Time, ServerReceived)>,
    pub(crate) running: usize,
    /// The client has closed its end.
    is_ended: bool,
    /// What a .NET server keeps, and whether it is busy.
    pub(crate) dotnet: VecDeque<(Uuid, Bytes)>,
    pub(crate) is_busy: bool,
}

impl Server {
    /// A server that has just started for the first time.
    pub fn new(options: witrpc::resilience::dedup::DedupOptions, journal: Option<Journal>) -> Self {
        Self {
            is_up: true,
            is_leaving: false,
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
            inbox: VecDeque::new(),
            running: 0,
            is_ended: false,
            dotnet: VecDeque::new(),
            is_busy: false,
        });
    }

    /// Who waits for the answers of a connection's calls, if that can be said.
    pub(crate) fn party(&self, connection: usize) -> Option<Uuid> {
        let end = self.ends[connection].as_ref()?;
        let capabilities = end.session.peer().capabilities;
        let can_withdraw = capabilities.has(Capabilities::CANCELLATION);
        can_withdraw.then(|| end.client_id.unwrap_or(end.session.id()))
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
    pub(crate) fn server_reads(&mut self, connection: usize) {
        let now = self.server_time();
        loop {
            self.begin_waiting(connection);
            let Some(end) = &mut self.ends[connection] else {
                return;
            };
            if end.checking.is_some() || end.is_busy {
                return;
            }
            let body = match frame::split(&mut end.input, 1 << 24) {
                Ok(Some(body)) => body,
                Ok(None) => {
                    if end.is_ended && end.inbox.is_empty() {
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
                Ok(ServerReceived::Pong(_) | ServerReceived::Leaves) => {}
                Ok(ServerReceived::Cancel(id)) => self.take_back(connection, id),
                Ok(received @ ServerReceived::Request(..)) => {
                    end.inbox.push_back((now, received));
                }
                Ok(received @ ServerReceived::Authorize { .. }) => {
                    self.check(connection, now, received);
                }
                Err(Violation(reason)) => {
                    self.trace(|| format!("connection {connection} breaks a rule: {reason}"));
                    self.flush(connection);
                    return self.server_closes(connection, End::Closed);
                }
            }
        }
    }

    /// Begins calls that wait, while there is room for them.
    fn begin_waiting(&mut self, connection: usize) {
        let limit = self.plan.server.max_running_per_connection;
        while let Some(end) = &mut self.ends[connection]
            && end.checking.is_none()
            && end.running < limit
            && !end.is_busy
            && let Some((arrived, received)) = end.inbox.pop_front()
        {
            self.check(connection, arrived, received);
        }
    }

    /// Has the token of a message checked.
    fn check(&mut self, connection: usize, arrived: Time, received: ServerReceived) {
        if self.plan.server.token_check == 0 {
            return self.checked(connection, arrived, received);
        }
        if let Some(end) = &mut self.ends[connection] {
            end.checking = Some((arrived, received));
            let at = self.now + self.plan.server.token_check;
            let life = self.server.life;
            self.queue.push(at, Event::Checked(connection, life));
        }
    }

    /// A client waits no more for the answer to a request.
    fn take_back(&mut self, connection: usize, id: Uuid) {
        let Some(end) = &mut self.ends[connection] else {
            return;
        };
        let waiting = end.inbox.iter().position(
            |(_, received)| matches!(received, ServerReceived::Request(other, _) if *other == id),
        );
        match waiting {
            Some(at) => drop(end.inbox.remove(at)),
            None => self.withdraw(connection, id),
        }
    }

    /// The check of a token is over.
    pub fn check_ends(&mut self, connection: usize, life: u64) {
        if life == self.server.life
            && let Some(end) = &mut self.ends[connection]
            && let Some((arrived, received)) = end.checking.take()
        {
            self.checked(connection, arrived, received);
            self.server_reads(connection);
        }
    }

    /// Who a token stands for, if it is good.
    fn principal(&self, token: &str) -> Option<Arc<str>> {
        let (principal, generation) = token.split_once('/')?;
        let good = generation.parse::<u64>().ok()? >= self.server.oldest_token;
        good.then(|| principal.into())
    }

    fn checked(&mut self, connection: usize, arrived: Time, received: ServerReceived) {
        match received {
            ServerReceived::Authorize {
                token, client_id, ..
            } => {
                let accepted = self.principal(&token).is_some();
                let reach = Some(Reach {
                    epoch: self.server.epoch,
                    hold_ms: self.plan.server.dedup.hold.as_millis() as u64,
                    life: None,
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
                    self.admit(connection, id, arrived, principal, &request);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn cause(&self, connection: usize) -> Cause {
        match self.connections[connection].peer {
            Peer::Client(..) => Cause::Client,
            Peer::Twin(_) => Cause::Twin,
        }
    }

    pub(crate) fn stage(&mut self, connection: usize, argument: &str, stage: Stage) {
        if let Peer::Client(client, _) = self.connections[connection].peer
            && let Some((_, tag)) = call_of(argument)
            && let Some(place) = self.clients[client].stages.get_mut(&tag)
        {
            *place = stage;
        }
    }

    fn admit(
        &mut self,
        connection: usize,
        id: Uuid,
        arrived: Time,
        who: Option<Arc<str>>,
        request: &Request,
    ) {
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
            elsewhere: false,
        };
        let cause = self.cause(connection);
        let remaining = fields.remaining_ms.map(u64::from);
        let remaining = remaining.map(Duration::from_millis);
        let is_over = remaining.is_some_and(|time| self.server_time().since(arrived) >= time);
        let waiter = (connection, id);
        match self.begin(Some(waiter), call, argument.clone(), cause, is_over) {
            Admission::New(_) => {
                if let Some(end) = &mut self.ends[connection] {
                    end.running += 1;
                }
            }
            Admission::Attached => self.join(connection, id, request.invocation_id, &argument),
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

    /// Asks the table and the model, and begins a call that is new. `is_over`: its caller has given
    /// up, so that it is not to be begun.
    pub fn begin(
        &mut self,
        waiter: Option<Waiter>,
        call: CallId,
        argument: String,
        cause: Cause,
        is_over: bool,
    ) -> Admission {
        let now = self.server_time();
        let digest = digest(&argument);
        let has_room = self.server.running < self.plan.server.max_running && !is_over;
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
                parties: waiter
                    .map(|(connection, id)| (self.party(connection), connection, id))
                    .into_iter()
                    .collect(),
                is_begun: false,
                is_cancelled: false,
                has_ended: false,
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

    /// The table must hold what the model holds.
    pub(crate) fn compare(&mut self) {
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
    pub(crate) fn answer(
        &mut self,
        connection: usize,
        id: Uuid,
        argument: &str,
        response: &Response,
    ) {
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
        self.server.is_leaving = false;
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

    /// The server says that it is going away, and stops after a while.
    pub fn leave(&mut self, after: u64) -> bool {
        if !self.server.is_up || std::mem::replace(&mut self.server.is_leaving, true) {
            return false;
        }
        for connection in 0..self.connections.len() {
            if let Some(end) = &mut self.ends[connection] {
                end.session.going_away();
                self.flush(connection);
            }
        }
        let life = self.server.life;
        self.queue.push(self.now + after, Event::Stops(life));
        true
    }

    /// The server stops in order, and starts again soon.
    pub fn stops(&mut self, life: u64) {
        if life != self.server.life || !self.server.is_up {
            return;
        }
        for connection in 0..self.connections.len() {
            self.server_closes(connection, End::Closed);
        }
        self.restart(50 * MS, false);
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

pub(crate) fn encode(response: &Response) -> Bytes {
    let mut out = Vec::new();
    response.encode(&mut out);
    out.into()
}

pub(crate) fn outcome_unknown() -> Response {
    Response::error(status::INTERNAL_SERVER_ERROR, OUTCOME_UNKNOWN_TEXT, None)
}

pub(crate) fn overloaded() -> Response {
    Response::error(status::TRANSPORT_ERROR, "overloaded", None)
}
