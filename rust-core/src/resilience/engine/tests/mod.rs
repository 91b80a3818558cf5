//! The engine against a real server session, with a clock that only moves when told to.

mod calls;
mod connecting;
mod extensions;
mod never_twice;
mod reconnecting;
mod retries;
mod tokens;

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::error::{ErrorCode, Outcome};
use crate::resilience::backoff::BackoffType;
use crate::resilience::reconnect::ReconnectOptions;
use crate::resilience::retry::{Repeat, RetryOptions};
use crate::session::{ServerReceived, ServerSession};
use crate::wire::extension::{Extension, Reach};
use crate::wire::{Arguments, Response, frame, status};

const REACH: Reach = Reach {
    epoch: 7,
    hold_ms: 600_000,
    life: None,
};

/// A client engine, the server end of its present connection, and what came of it.
struct World {
    engine: Engine<u32>,
    now: Time,
    server: Option<(LinkId, ServerSession)>,
    /// Requests received and not answered, oldest first.
    requests: VecDeque<(Uuid, Request)>,
    received: Vec<Request>,
    /// Requests that were taken back, by the ids of their messages.
    cancelled: Vec<Uuid>,
    done: Vec<(u32, Result<Answer>)>,
    log: Vec<String>,
    opened: Vec<(LinkId, usize)>,
    closed: Vec<LinkId>,
    connects: Vec<Result<()>>,
    judgements: Vec<CallKey>,
    refreshes: usize,
    reach: Option<Reach>,
    dotnet: bool,
}

impl World {
    fn new(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let mut options = EngineOptions {
            keep_alive: None,
            ..EngineOptions::default()
        };
        change(&mut options);
        Self {
            engine: Engine::new(options, [7; 32]),
            now: Time::ZERO,
            server: None,
            requests: VecDeque::new(),
            received: Vec::new(),
            cancelled: Vec::new(),
            done: Vec::new(),
            log: Vec::new(),
            opened: Vec::new(),
            closed: Vec::new(),
            connects: Vec::new(),
            judgements: Vec::new(),
            refreshes: 0,
            reach: Some(REACH),
            dotnet: false,
        }
    }

    fn connected(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let mut world = Self::new(change);
        world.engine.connect(world.now);
        world.accept();
        assert_eq!(world.engine.state(), State::Connected);
        world.log.clear();
        world
    }

    fn drain(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Open { link, endpoint } => self.opened.push((link, endpoint)),
                Action::Close { link } => {
                    self.closed.push(link);
                    self.server = self.server.take().filter(|(id, _)| *id != link);
                }
                Action::RefreshToken => self.refreshes += 1,
                Action::Judge { call, .. } => self.judgements.push(call),
                Action::Complete { tag, result } => self.done.push((tag, result)),
                Action::ConnectDone(result) => self.connects.push(result),
                Action::Notify(n) => self.log.push(match n {
                    Notification::StateChanged(state) => state.name().to_owned(),
                    Notification::Reconnecting { attempt, delay } => {
                        format!("reconnecting {attempt} {}ms", delay.as_millis())
                    }
                    Notification::Reconnected => "reconnected".to_owned(),
                    Notification::ReconnectionFailed(error) => format!("failed: {error}"),
                    Notification::Retrying {
                        method_name,
                        error,
                        attempt,
                        delay,
                    } => format!(
                        "retry {method_name} {attempt} {}ms {}",
                        delay.as_millis(),
                        error.code().name()
                    ),
                    Notification::Event(request) => {
                        format!("event {}", request.method_name.unwrap_or_default())
                    }
                }),
            }
        }
    }

    fn last_opened(&mut self) -> LinkId {
        self.drain();
        self.opened.last().unwrap().0
    }

    /// The open attempt succeeds and the server takes the token.
    fn accept(&mut self) {
        self.accept_with("", true);
    }

    fn accept_with(&mut self, token: &str, accepted: bool) {
        let link = self.last_opened();
        self.engine.link_opened(link, token);
        self.server = Some((link, ServerSession::new(Uuid::from_u128(1))));
        self.requests.clear();
        self.exchange_with(accepted);
    }

    fn exchange(&mut self) {
        self.exchange_with(true);
    }

    /// Moves bytes both ways until nothing moves.
    fn exchange_with(&mut self, accepted: bool) {
        self.drain();
        while let Some((link, mut server)) = self.server.take() {
            let link_id = link;
            let mut bytes = self.engine.take_output(self.now, link);
            let mut moved = !bytes.is_empty();
            while let Some(body) = frame::split(&mut bytes, 1 << 20).unwrap() {
                let body = if self.dotnet {
                    without_extension(body)
                } else {
                    body
                };
                match server.receive(body).unwrap() {
                    ServerReceived::Nothing => {}
                    ServerReceived::Authorize { .. } => {
                        let _ = server.authorize(accepted, self.reach);
                    }
                    ServerReceived::Cancel(id) => self.cancelled.push(id),
                    ServerReceived::Pong(_) | ServerReceived::Leaves => {}
                    ServerReceived::Request(id, request) => {
                        self.received.push((*request).clone());
                        self.requests.push_back((id, *request));
                    }
                }
            }
            let mut answers = server.take_output();
            self.server = Some((link, server));
            while let Some(body) = frame::split(&mut answers, 1 << 20).unwrap() {
                moved = true;
                self.engine.receive(self.now, link_id, body);
            }
            self.drain();
            if !moved {
                return;
            }
        }
    }

    fn call(&mut self, tag: u32, change: impl FnOnce(&mut CallSpec)) -> Option<CallKey> {
        let mut spec = CallSpec {
            contract_id: 1,
            method_id: 2,
            method_name: Arc::from("Add"),
            arguments: Arguments::NONE,
            types: None,
            repeat: Repeat::Never,
            invocation_id: None,
            timeout: Timeout::Default,
            trace_context: None,
        };
        change(&mut spec);
        let key = self.engine.call(self.now, spec, tag);
        self.exchange();
        key
    }

    fn idempotent(&mut self, tag: u32) -> Option<CallKey> {
        self.call(tag, |spec| spec.repeat = Repeat::Idempotent)
    }

    fn deduplicated(&mut self, tag: u32) -> Option<CallKey> {
        self.call(tag, |spec| spec.repeat = Repeat::Deduplicated)
    }

    /// Answers the oldest unanswered request.
    fn answer(&mut self, response: Response) {
        let (id, _) = self.requests.pop_front().unwrap();
        self.answer_id(id, response);
    }

    fn answer_id(&mut self, id: Uuid, response: Response) {
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        self.server.as_mut().unwrap().1.respond(id, &bytes);
        self.exchange();
    }

    fn succeed(&mut self) {
        self.answer(Response::ok(Some(Bytes::from_static(b"5"))));
    }

    fn fail(&mut self, status: i32) {
        self.answer(Response::error(status, "no", None));
    }

    fn lose(&mut self) {
        self.lose_with(0);
    }

    fn lose_with(&mut self, unsent: usize) {
        let (link, _) = self.server.take().unwrap();
        let error = Error::new(ErrorCode::Transport, "reset");
        self.engine
            .link_lost(self.now, link, Loss::Dropped(error), unsent);
        self.drain();
    }

    fn server_closes(&mut self) {
        let (link, _) = self.server.take().unwrap();
        self.engine.link_lost(self.now, link, Loss::Closed, 0);
        self.drain();
    }

    fn refuse(&mut self) {
        let link = self.last_opened();
        let error = Error::new(ErrorCode::Transport, "refused");
        self.engine.link_failed(self.now, link, error);
        self.drain();
    }

    /// Moves the clock to the next wake-up and returns how long that took, in ms.
    fn sleep(&mut self) -> u128 {
        let before = self.now;
        self.now = self.engine.next_wakeup().expect("nothing to wait for");
        self.engine.tick(self.now);
        self.exchange();
        self.now.since(before).as_millis()
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.engine.next_wakeup().is_some_and(|at| at <= end) {
            self.sleep();
        }
        self.now = end;
    }

    fn error(&self, tag: u32) -> &Error {
        let results: Vec<_> = self.done.iter().filter(|(t, _)| *t == tag).collect();
        assert_eq!(results.len(), 1, "call {tag} ended {} times", results.len());
        results[0].1.as_ref().unwrap_err()
    }

    fn answer_of(&self, tag: u32) -> &Answer {
        let results: Vec<_> = self.done.iter().filter(|(t, _)| *t == tag).collect();
        assert_eq!(results.len(), 1, "call {tag} ended {} times", results.len());
        results[0].1.as_ref().unwrap()
    }

    fn is_open(&self, tag: u32) -> bool {
        self.done.iter().all(|(t, _)| *t != tag)
    }
}

/// What a .NET server sees of a message: it skips the members it does not know.
fn without_extension(body: BytesMut) -> BytesMut {
    use crate::wire::{Envelope, InitializationRequest, Kind};
    let mut envelope = Envelope::decode(&body.freeze()).unwrap().unwrap();
    if envelope.kind == Kind::INITIALIZATION {
        let mut request = InitializationRequest::decode(envelope.data.as_ref().unwrap())
            .unwrap()
            .unwrap();
        request.extension = None;
        let mut data = Vec::new();
        request.encode(&mut data);
        envelope.data = Some(data.into());
    }
    let mut out = BytesMut::new();
    envelope.encode(&mut out);
    out
}

fn reconnect(options: &mut EngineOptions) {
    options.reconnect = Some(ReconnectOptions::default());
}

fn resilient(options: &mut EngineOptions) {
    reconnect(options);
    options.retry = Some(RetryOptions::default());
}

const MS: fn(u64) -> Duration = Duration::from_millis;
