//! A client of a life: the engine, and a driver that does for it what the tokio driver does.
//!
//! Owns the order of the driver's steps and the writer's buffer in front of the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use witrpc::resilience::engine::{
    Action, CallKey, CallSpec, Engine, LinkId, Loss, Notification, State,
};
use witrpc::time::Time;
use witrpc::wire::extension::Extension;
use witrpc::wire::{Arguments, Envelope, Kind, Request, frame};
use witrpc::{Error, ErrorCode};

use crate::callbacks::{Callbacks, Job};
use crate::checker::{self, Open, call_of};
use crate::fault::Phase;
use crate::network::{Connection, End, Peer, Way};
use crate::plan::{Call, MS, Work};
use crate::watch::Watch;
use crate::world::{Event, PlantedHere, World};

/// Where the newest attempt of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// On its way to the server, or waiting for it.
    Requesting,
    /// At the server.
    Executing,
    /// Its answer is on its way.
    Answering,
}

/// A request as it was seen on its way out.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The id of the call.
    pub invocation: Uuid,
    /// Its argument.
    pub argument: String,
    /// What a libwitrpc client adds.
    pub extension: Extension,
}

/// The network side of a link.
#[derive(Debug)]
struct Io {
    connection: usize,
    /// Bytes that the engine has handed out and the network has not taken.
    writer: BytesMut,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Client {
    /// The part under test.
    pub engine: Engine<u32>,
    /// How far its clock is ahead.
    pub ahead: u64,
    /// Links that stand: the present one, and those that the server has announced to close.
    links: BTreeMap<LinkId, Io>,
    /// The link that is being made.
    opening: Option<LinkId>,
    /// When the engine will be woken.
    armed: u64,
    /// Its calls in progress.
    pub keys: BTreeMap<u32, CallKey>,
    /// Where they are.
    pub stages: BTreeMap<u32, Stage>,
    pub(crate) callbacks: Callbacks,
    /// What its user should be told of the link.
    pub watch: Watch,
    /// The newest request.
    pub seen: Option<Seen>,
    /// The lasting id, as the server was told.
    pub id: Option<Uuid>,
    /// The user has closed it.
    pub is_closed: bool,
    /// The token that a fixed source gives.
    token: u64,
    /// How its next connection is to go wrong.
    pub next_connection: NextConnection,
    pub(crate) called_back: u32,
}

/// How the next connection of a client is to go wrong.
#[derive(Debug, Default)]
pub struct NextConnection {
    /// It is refused.
    pub refused: bool,
    /// It is accepted and closed.
    pub closed: bool,
    /// It takes so much longer, in ns.
    pub delay: u64,
    /// It breaks after so many bytes.
    pub cut: Option<(Way, u64)>,
}

impl Client {
    /// A client that does nothing yet.
    pub fn new(engine: Engine<u32>, watch: Watch) -> Self {
        Self {
            engine,
            ahead: 0,
            links: BTreeMap::new(),
            opening: None,
            armed: u64::MAX,
            keys: BTreeMap::new(),
            stages: BTreeMap::new(),
            callbacks: Callbacks::default(),
            watch,
            seen: None,
            id: None,
            is_closed: false,
            token: 0,
            next_connection: NextConnection::default(),
            called_back: 0,
        }
    }

    /// Its present connection.
    pub fn connection(&self) -> Option<usize> {
        let link = self.engine.open_link()?;
        self.links.get(&link).map(|io| io.connection)
    }

    /// Where a fault would hit it.
    pub fn phase(&self) -> Phase {
        if self.engine.peer().is_some() {
            return match self.stages.last_key_value().map(|(_, stage)| *stage) {
                None => Phase::Idle,
                Some(Stage::Requesting) => Phase::Requesting,
                Some(Stage::Executing) => Phase::Executing,
                Some(Stage::Answering) => Phase::Answering,
            };
        }
        match (self.opening, self.engine.open_link()) {
            (Some(_), _) => Phase::Connecting,
            (None, Some(_)) => Phase::Handshake,
            (None, None) => Phase::Down,
        }
    }

    /// No link, and none on its way.
    fn is_idle(&self) -> bool {
        self.opening.is_none()
            && self.engine.open_link().is_none()
            && self.engine.state() != State::Reconnecting
    }

    /// It connects, or waits to.
    pub fn is_on_its_way(&self) -> bool {
        self.opening.is_some()
            || self.engine.state() == State::Reconnecting
            || (self.engine.open_link().is_some() && self.engine.peer().is_none())
    }

    /// True if nothing is left to be told.
    pub fn is_silent(&self) -> bool {
        self.callbacks.is_silent()
    }
}

/// The argument of a call says what its method is to do.
fn argument(client: usize, call: &Call) -> String {
    let (what, time) = match call.work {
        Work::Answer(time) => ("answer", time),
        Work::BigAnswer(time) => ("big", time),
        Work::Fault(time) => ("fault", time),
        Work::Refusal(time) => ("refusal", time),
    };
    format!("{client}.{}.{what}.{time}", call.tag)
}

impl World {
    /// The clock of a client.
    pub fn client_time(&self, client: usize) -> Time {
        Time::from_origin(std::time::Duration::from_nanos(
            self.now + self.clients[client].ahead,
        ))
    }

    /// Makes a call.
    pub fn call(&mut self, client: usize, call: &Call) {
        let now = self.client_time(client);
        let options = &self.plan.clients[client].options;
        let deadline = checker::limit(call.timeout, call.repeat, options).map(|limit| now + limit);
        let argument = argument(client, call);
        let spec = CallSpec {
            contract_id: 1,
            method_id: 2,
            method_name: Arc::from("Work"),
            arguments: Arguments::from_blobs(&[argument.as_bytes()]),
            types: None,
            repeat: call.repeat,
            invocation_id: call.own_id,
            timeout: call.timeout,
            trace_context: None,
        };
        self.checker.calls(
            client,
            call.tag,
            Open {
                repeat: call.repeat,
                deadline,
                has_own_id: call.own_id.is_some(),
            },
        );
        let it = &mut self.clients[client];
        it.stages.insert(call.tag, Stage::Requesting);
        if it.is_closed {
            it.callbacks.called_after_close(call.tag);
        }
        if let Some(key) = it.engine.call(now, spec, call.tag) {
            it.keys.insert(call.tag, key);
        }
        self.settle(client);
    }

    /// Has the user do something to the link.
    pub fn steer(&mut self, client: usize, how: impl FnOnce(&mut Client, Time)) {
        let now = self.client_time(client);
        how(&mut self.clients[client], now);
        self.settle(client);
    }

    /// Connects.
    pub fn connect(&mut self, client: usize) {
        self.steer(client, |it, now| {
            if it.is_idle() {
                it.watch.starts_over();
            }
            it.engine.connect(now);
        });
    }

    /// Closes for good.
    pub fn close(&mut self, client: usize) {
        if std::mem::replace(&mut self.clients[client].is_closed, true) {
            return;
        }
        self.steer(client, |it, _| {
            it.watch.stops();
            it.engine.close();
        });
        self.post(client, Job::Destroy);
    }

    /// Wakes the engine if its time has come.
    pub fn wake(&mut self, client: usize) {
        self.wakes -= 1;
        // Else it was armed for an earlier moment meanwhile, and looked then.
        if self.clients[client].armed == self.now {
            self.clients[client].armed = u64::MAX;
            self.look_at_clock(client);
        }
    }

    /// The same, when its clock has jumped.
    pub fn look_at_clock(&mut self, client: usize) {
        let now = self.client_time(client);
        if self.clients[client]
            .engine
            .next_wakeup()
            .is_some_and(|at| at <= now)
        {
            self.clients[client].engine.tick(now);
            self.settle(client);
            self.checker.deadlines(client, now);
        } else {
            self.arm(client);
        }
    }

    fn arm(&mut self, client: usize) {
        let it = &mut self.clients[client];
        if let Some(at) = it.engine.next_wakeup() {
            let at = (at.since_origin().as_nanos() as u64)
                .saturating_sub(it.ahead)
                .max(self.now);
            if at < it.armed {
                it.armed = at;
                self.wakes += 1;
                self.queue.push(at, Event::Wake(client));
            }
        }
    }

    /// Carries out what the engine wants, and writes what it has to send.
    pub fn settle(&mut self, client: usize) {
        let now = self.client_time(client);
        let it = &mut self.clients[client];
        if it.engine.state() != State::Connected {
            it.watch.loses(now);
        }
        while let Some(action) = self.clients[client].engine.poll_action() {
            self.carry_out(client, action);
        }
        let it = &mut self.clients[client];
        it.watch.settles(it.engine.state());
        let wrong: Vec<_> = it.watch.violations.drain(..).collect();
        for text in wrong {
            self.checker.violation(format!("client {client}: {text}"));
        }
        let links: Vec<_> = self.clients[client].links.keys().copied().collect();
        for link in links {
            self.write(client, link);
        }
        if self.clients[client].engine.has_actions() {
            return self.settle(client);
        }
        self.arm(client);
    }

    fn carry_out(&mut self, client: usize, action: Action<u32>) {
        let now = self.client_time(client);
        let silent = self.clients[client].callbacks.is_destroyed();
        match action {
            Action::Open { link, .. } => {
                let it = &mut self.clients[client];
                it.watch.opens(now);
                it.opening = Some(link);
                let delay = std::mem::take(&mut it.next_connection.delay);
                let network = &self.plan.network;
                let way = self.dice.between(network.fastest, network.slowest);
                self.trace(|| format!("client {client} connects"));
                let token = self.fetch_token(client);
                self.queue.push(
                    self.now + 2 * way + delay,
                    Event::Opened(client, link, token),
                );
            }
            Action::Close { link } => self.client_closes(client, link),
            Action::RefreshToken => {
                let token = self.fetch_token(client);
                let after = self.dice.between(0, 30) * MS;
                self.queue
                    .push(self.now + after, Event::Token(client, token));
            }
            Action::Judge { call, .. } => {
                let after = self.dice.between(0, 20) * MS;
                let verdict = self.dice.percent(50);
                self.queue
                    .push(self.now + after, Event::Judged(client, call, verdict));
            }
            Action::Complete { tag, result } => {
                self.trace(|| match &result {
                    Ok(answer) => format!(
                        "client {client} call {tag} ends: {} after {} attempts",
                        String::from_utf8_lossy(answer.data.as_deref().unwrap_or_default())
                            .chars()
                            .take(30)
                            .collect::<String>(),
                        answer.attempts
                    ),
                    Err(error) => format!(
                        "client {client} call {tag} ends: {} ({}) after {} attempts: {error}",
                        error.code().name(),
                        error.outcome().name(),
                        error.attempts()
                    ),
                });
                let it = &mut self.clients[client];
                it.keys.remove(&tag);
                it.stages.remove(&tag);
                let twice = self.planted == Some(PlantedHere::CompletedTwice)
                    && result.as_ref().is_ok_and(|answer| answer.attempts > 1);
                if twice {
                    self.checker.ended(client, tag, result.clone());
                    self.post(client, Job::Completed(tag));
                }
                self.checker.ended(client, tag, result);
                self.post(client, Job::Completed(tag));
            }
            Action::Notify(notification) => {
                if silent {
                    self.checker.violation(format!(
                        "client {client} was told {notification:?} after destroy"
                    ));
                }
                self.trace(|| format!("client {client}: {notification:?}"));
                self.clients[client].watch.told(now, &notification);
                let job = match notification {
                    Notification::Reconnected => Job::Reconnected,
                    _ => Job::Told,
                };
                self.post(client, job);
            }
            Action::ConnectDone(_) => {}
        }
    }

    /// What the token source gives.
    fn fetch_token(&mut self, client: usize) -> u64 {
        if self.plan.clients[client].options.token_is_provided {
            self.clients[client].token = self.server.oldest_token;
        }
        self.clients[client].token
    }

    fn token_text(&self, client: usize, token: u64) -> String {
        format!("{}/{token}", self.plan.clients[client].principal)
    }

    /// A connection was made, or not.
    pub fn opened(&mut self, client: usize, link: LinkId, token: u64) {
        let now = self.client_time(client);
        if self.clients[client].opening != Some(link) {
            return;
        }
        self.clients[client].opening = None;
        let next = std::mem::take(&mut self.clients[client].next_connection);
        if !self.server.is_up || self.server.is_leaving || next.refused {
            self.trace(|| format!("client {client} is refused"));
            let error = Error::new(ErrorCode::Transport, "refused");
            self.clients[client].engine.link_failed(now, link, error);
            return self.settle(client);
        }
        let text = self.token_text(client, token);
        let connection = self.accept(Peer::Client(client, link));
        if let Some((way, after)) = next.cut {
            let stream = self.connections[connection].stream(way);
            stream.cut_after = Some(after);
            stream.is_counted = true;
        }
        let it = &mut self.clients[client];
        let writer = BytesMut::new();
        it.links.insert(link, Io { connection, writer });
        match &self.key {
            Some(key) => it.engine.link_opened_encrypted(link, &text, key.clone()),
            None => it.engine.link_opened(link, &text),
        }
        self.trace(|| format!("client {client} is connection {connection}"));
        if next.closed {
            self.server_closes(connection, End::Closed);
        }
        self.settle(client);
    }

    /// The token source has answered.
    pub fn token(&mut self, client: usize, token: u64) {
        let now = self.client_time(client);
        let text = self.token_text(client, token);
        self.clients[client].engine.token_refreshed(now, Ok(&text));
        self.settle(client);
    }

    /// Writes what the engine has to send on a link, as far as the network takes it.
    fn write(&mut self, client: usize, link: LinkId) {
        let now = self.client_time(client);
        loop {
            let it = &mut self.clients[client];
            let Some(io) = it.links.get_mut(&link) else {
                return;
            };
            let connection = io.connection;
            if io.writer.is_empty() {
                io.writer = it.engine.take_output(now, link);
                let output = io.writer.clone();
                if output.is_empty() {
                    return;
                }
                self.look_at(client, &output);
            }
            let stream = &self.connections[connection].up;
            let room = self.plan.network.window.saturating_sub(stream.bytes);
            let Some(io) = self.clients[client].links.get_mut(&link) else {
                return;
            };
            let some = io.writer.split_to(room.min(io.writer.len())).freeze();
            if some.is_empty() {
                return;
            }
            self.send(connection, Way::Up, some);
        }
    }

    /// Reads along what a client sends in clear.
    fn look_at(&mut self, client: usize, output: &BytesMut) {
        let mut output = output.clone();
        while let Ok(Some(body)) = frame::split(&mut output, 1 << 24) {
            if let Ok(Some(Envelope {
                kind: Kind::REQUEST,
                data: Some(data),
                ..
            })) = Envelope::take(body)
                && let Ok(Some(request)) = Request::decode(&data.freeze())
            {
                self.client_sent(client, &request);
            }
        }
    }

    fn client_sent(&mut self, client: usize, request: &Request) {
        let argument = argument_of(request);
        let extension = request.extension.as_deref().and_then(Extension::decode);
        let extension = extension.unwrap_or_default();
        let Some((_, tag)) = call_of(&argument) else {
            return;
        };
        if let (Some(number), Some(first)) = (extension.call_number, extension.first_unfinished) {
            self.checker.numbers(client, number, first);
        }
        self.trace(|| {
            format!(
                "client {client} sends {argument} as {} number {:?} first {:?} attempt {:?}",
                request.invocation_id,
                extension.call_number,
                extension.first_unfinished,
                extension.attempt
            )
        });
        if let Some(stage) = self.clients[client].stages.get_mut(&tag) {
            *stage = Stage::Requesting;
        }
        self.clients[client].seen = Some(Seen {
            invocation: request.invocation_id,
            argument,
            extension,
        });
    }

    /// Bytes arrived at a client.
    pub fn client_reads(&mut self, client: usize, link: LinkId, connection: usize, bytes: &Bytes) {
        let now = self.client_time(client);
        self.clients[client].engine.heard(now, link);
        self.connections[connection]
            .client_input
            .extend_from_slice(bytes);
        loop {
            let input = &mut self.connections[connection].client_input;
            match frame::split(input, 1 << 24) {
                Ok(Some(body)) => self.clients[client].engine.receive(now, link, body),
                Ok(None) => break,
                Err(bad) => {
                    self.checker.violation(format!("client {client} got {bad}"));
                    break;
                }
            }
        }
        self.settle(client);
    }

    /// A client notices that its connection is gone.
    pub fn client_loses(&mut self, client: usize, link: LinkId, connection: usize, end: End) {
        self.connections[connection].client_has_it = false;
        let it = &mut self.clients[client];
        let Some(io) = it.links.remove(&link) else {
            return;
        };
        let unsent = io.writer.len();
        let loss = match end {
            End::Closed if self.connections[connection].client_input.is_empty() => Loss::Closed,
            _ => Loss::Dropped(Error::new(ErrorCode::Transport, "reset")),
        };
        self.trace(|| format!("client {client} loses connection {connection}: {end:?}"));
        let now = self.client_time(client);
        let it = &mut self.clients[client];
        it.engine.link_lost(now, link, loss, unsent);
        if let Some(at) = self.connections[connection].end(self.now, Way::Up, End::Broken) {
            self.queue.push(at, Event::Arrives(connection, Way::Up));
        }
        self.settle(client);
    }

    fn client_closes(&mut self, client: usize, link: LinkId) {
        let it = &mut self.clients[client];
        it.opening.take_if(|opening| *opening == link);
        let Some(Io { connection, .. }) = it.links.remove(&link) else {
            return;
        };
        self.trace(|| format!("client {client} closes connection {connection}"));
        self.connections[connection].client_has_it = false;
        if let Some(at) = self.connections[connection].end(self.now, Way::Up, End::Closed) {
            self.queue.push(at, Event::Arrives(connection, Way::Up));
        }
    }

    /// A new connection that both ends have.
    pub fn accept(&mut self, peer: Peer) -> usize {
        let connection = self.connections.len();
        let dice = self.dice.fork(1000 + connection as u64);
        self.connections
            .push(Connection::new(peer, dice, &self.plan.network));
        self.ends.push(None);
        self.server_accepts(connection);
        connection
    }
}

/// The argument of a call.
pub fn argument_of(request: &Request) -> String {
    let blob = request.parameters.iter().flatten().next();
    let blob = blob.and_then(Option::as_ref).map(|blob| &blob[..]);
    String::from_utf8_lossy(blob.unwrap_or_default()).into_owned()
}
