//! The link: from one connection to the next.
//!
//! Owns the states, the reconnection loop, the handshake's time limit, and the links that a server
//! has announced to close: no call begins on them, and they are closed when the last one has been
//! answered. What becomes of the calls
//! when a link goes is in [`calls`](super::calls).

use std::sync::Arc;

use rand::Rng;

use super::*;
use crate::error::{ErrorCode, Outcome};
use crate::security::ClientKey;
use crate::session::{ClientReceived, ClientSession, KeepAlive, Pulse};

/// Where the link stands.
#[derive(Debug)]
pub(super) enum Link {
    /// There is none, and none is being made.
    Idle,
    /// A delay before the next attempt.
    Waiting { until: Time },
    /// A driver is connecting.
    Opening { id: LinkId, deadline: Time },
    /// Connected, not authorised yet.
    Handshaking {
        id: LinkId,
        deadline: Time,
        session: Box<ClientSession>,
    },
    /// Authorised.
    Ready(Box<Ready>),
}

#[derive(Debug)]
pub(super) struct Ready {
    pub(super) id: LinkId,
    pub(super) since: Time,
    pub(super) session: ClientSession,
    /// Requests ever sent on it.
    pub(super) requests: u64,
    /// Requests on it that are waited for.
    pub(super) in_flight: usize,
    pub(super) alive: KeepAlive,
}

impl Ready {
    /// How many of its bytes can have reached the network, of which `unsent` did not.
    fn sent(&self, unsent: usize) -> u64 {
        self.session.produced() - (unsent + self.session.pending_output()) as u64
    }

    /// Pings the server when it is time to. An error if it is dead.
    fn beat(&mut self, now: Time) -> Option<(LinkId, Error)> {
        match self.alive.tick(now) {
            Pulse::Nothing => None,
            Pulse::Ping(number) => {
                self.session.ping(number);
                None
            }
            Pulse::Dead(silence) => {
                let error = Error::new(
                    ErrorCode::Transport,
                    format!("the server gave no sign of life for {silence:?}"),
                );
                Some((self.id, error))
            }
        }
    }
}

impl Link {
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Waiting { until } => Some(*until),
            Self::Opening { deadline, .. } | Self::Handshaking { deadline, .. } => Some(*deadline),
            Self::Ready(ready) => Some(ready.alive.deadline()),
            Self::Idle => None,
        }
    }

    fn id(&self) -> Option<LinkId> {
        match self {
            Self::Opening { id, .. } | Self::Handshaking { id, .. } => Some(*id),
            Self::Ready(ready) => Some(ready.id),
            Self::Idle | Self::Waiting { .. } => None,
        }
    }

    pub(super) fn ready(&self) -> Option<&Ready> {
        match self {
            Self::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    pub(super) fn ready_mut(&mut self) -> Option<&mut Ready> {
        match self {
            Self::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    fn session_mut(&mut self) -> Option<&mut ClientSession> {
        match self {
            Self::Handshaking { session, .. } => Some(session),
            Self::Ready(ready) => Some(&mut ready.session),
            _ => None,
        }
    }
}

/// Failures after which another attempt can't help.
fn is_fatal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Unauthorized
            | ErrorCode::Protocol
            | ErrorCode::Encryption
            | ErrorCode::Certificate
            | ErrorCode::InvalidArgument
    )
}

impl<T> Engine<T> {
    /// Connects, unless connected or connecting. The end is reported by
    /// [`Action::ConnectDone`].
    pub fn connect(&mut self, now: Time) {
        if self.closed {
            self.connect_done(Err(closed()));
            return;
        }
        match self.link {
            Link::Ready(_) => self.connect_done(Ok(())),
            Link::Idle => {
                if let Some(reconnector) = &mut self.reconnector {
                    reconnector.reset();
                    if reconnector.options().retry_first_connect {
                        self.looping = true;
                        self.set_state(State::Reconnecting);
                    }
                }
                self.open(now);
            }
            Link::Waiting { .. } | Link::Opening { .. } | Link::Handshaking { .. } => {}
        }
    }

    /// Drops the link, if there is one, and connects anew without a delay: attempt 1 of a
    /// reconnection, which goes on if it is automatic and ends in Failed if not.
    pub fn reconnect(&mut self, now: Time) {
        if self.closed {
            self.connect_done(Err(closed()));
            return;
        }
        let lost = Error::new(
            ErrorCode::Transport,
            "the connection was dropped to reconnect",
        );
        let link = self.link.id();
        let sent = self.link.ready().map_or(0, |r| {
            r.session.produced() - r.session.pending_output() as u64
        });
        self.drop_link();
        self.looping = true;
        let attempt = match &mut self.reconnector {
            Some(reconnector) => {
                reconnector.reset();
                reconnector.immediate()
            }
            None => 1,
        };
        self.set_state(State::Reconnecting);
        self.announce(attempt, Duration::ZERO);
        self.open(now);
        self.calls_lost_link(now, link, &lost, sent);
    }

    fn announce(&mut self, attempt: u32, delay: Duration) {
        self.announced = true;
        self.notify(Notification::Reconnecting { attempt, delay });
    }

    /// Ends the present wait between two attempts; does nothing else.
    pub fn reconnect_now(&mut self, now: Time) {
        if matches!(self.link, Link::Waiting { .. }) {
            self.open(now);
        }
    }

    /// Ends attempts in progress, without a failure callback; elsewhere it does nothing.
    pub fn stop_reconnection(&mut self) {
        if self.state == State::Reconnecting {
            self.go_idle(
                State::Disconnected,
                &Error::new(ErrorCode::Closed, "reconnection was stopped")
                    .with_details(self.last_failure.as_ref().map(ToString::to_string)),
            );
        }
    }

    /// Drops the link and stays without one. Calls end: those that were sent with an unknown
    /// outcome.
    pub fn disconnect(&mut self) {
        self.drop_leaving();
        let error = Error::new(ErrorCode::Closed, "the client was disconnected by its user");
        self.go_idle(State::Disconnected, &error);
    }

    /// Disconnects for good: everything that is asked of the client from now on is refused.
    pub fn close(&mut self) {
        self.closed = true;
        self.drop_leaving();
        self.go_idle(State::Disconnected, &closed());
    }

    fn go_idle(&mut self, state: State, error: &Error) {
        self.drop_link();
        self.looping = false;
        self.announced = false;
        self.set_state(state);
        self.end_all_calls(error);
        self.connect_done(Err(error.clone()));
    }

    /// The attempt to open this link succeeded. `token` is sent with the handshake and with every
    /// request.
    pub fn link_opened(&mut self, link: LinkId, token: &str) {
        self.begin_handshake(link, token, None);
    }

    /// The same for a link that is to be encrypted under this key pair.
    pub fn link_opened_encrypted(&mut self, link: LinkId, token: &str, key: Arc<ClientKey>) {
        self.begin_handshake(link, token, Some(key));
    }

    fn begin_handshake(&mut self, link: LinkId, token: &str, key: Option<Arc<ClientKey>>) {
        let Link::Opening { id, deadline } = self.link else {
            return;
        };
        if id != link {
            return;
        }
        if self.token != token || self.token_version == 0 {
            token.clone_into(&mut self.token);
            self.token_version += 1;
        }
        let mut nonce = [0; 8];
        self.rng.fill_bytes(&mut nonce);
        let mut session = match key {
            None => ClientSession::new(nonce, self.client_id, token),
            Some(key) => ClientSession::encrypted(nonce, self.client_id, token, key),
        };
        session.set_patience(self.options.keep_alive.map(|options| options.patience()));
        self.link = Link::Handshaking {
            id,
            deadline,
            session: Box::new(session),
        };
    }

    /// The attempt to open this link failed.
    pub fn link_failed(&mut self, now: Time, link: LinkId, error: Error) {
        if self.link.id() == Some(link) && matches!(self.link, Link::Opening { .. }) {
            self.attempt_failed(now, error);
        }
    }

    /// The link is gone. `unsent` bytes that were taken from [`Engine::take_output`] never reached
    /// the network: the requests they belong to were not sent.
    pub fn link_lost(&mut self, now: Time, link: LinkId, loss: Loss, unsent: usize) {
        let leaving = self.leaving.iter().position(|ready| ready.id == link);
        if leaving.is_none() && self.link.id() != Some(link) {
            return;
        }
        let (error, in_order) = match loss {
            Loss::Closed => (
                Error::new(ErrorCode::Transport, "the server closed the connection"),
                true,
            ),
            Loss::Dropped(error) => (error, false),
        };
        if let Some(at) = leaving {
            let sent = self.leaving.remove(at).sent(unsent);
            return self.calls_lost_link(now, Some(link), &error, sent);
        }
        let ready = match std::mem::replace(&mut self.link, Link::Idle) {
            Link::Ready(ready) => ready,
            Link::Handshaking { .. } => {
                // It had accepted us and thought better of it (too many clients, shutting down), or
                // it is a stranger in its place. Only what a server says in order can be final; that
                // it does not take our certificate it says in this way.
                if error.code() == ErrorCode::Certificate {
                    self.attempt_failed(now, error);
                } else {
                    self.attempt_lost(now, error);
                }
                return;
            }
            other => {
                self.link = other;
                return;
            }
        };
        self.last_failure = Some(error.clone());
        let sent = ready.sent(unsent);
        if let Some(reconnector) = &mut self.reconnector {
            reconnector.lost(now.since(ready.since));
            self.looping = !in_order || reconnector.options().reconnect_on_disconnect;
        }
        // Calls look at the state to decide whether waiting is worth it.
        if self.looping {
            self.set_state(State::Reconnecting);
            self.next_attempt(now, error.clone());
        } else {
            self.set_state(State::Disconnected);
        }
        self.calls_lost_link(now, Some(link), &error, sent);
    }

    /// The server will close the present link: the next one is made while what runs on this one goes
    /// on. To this client that is as if the server had closed it in order.
    fn going_away(&mut self, now: Time, link: LinkId) {
        let ready = match std::mem::replace(&mut self.link, Link::Idle) {
            Link::Ready(ready) if ready.id == link => *ready,
            // It says so once more.
            other => {
                self.link = other;
                return;
            }
        };
        let error = Error::new(ErrorCode::Transport, "the server is going away");
        self.last_failure = Some(error.clone());
        // Whoever stops is the last one to try next.
        self.endpoint = (self.endpoint + 1) % self.options.endpoints.max(1);
        if let Some(reconnector) = &mut self.reconnector {
            reconnector.lost(now.since(ready.since));
            self.looping = reconnector.options().reconnect_on_disconnect;
        }
        self.leaving.push(ready);
        if self.looping {
            self.set_state(State::Reconnecting);
            self.next_attempt(now, error);
        } else {
            self.set_state(State::Disconnected);
            // Calls that waited for room have none to wait for.
            self.resubmit(now, Vec::new());
        }
    }

    /// Bytes came on this link, or left that had been waiting: its server lives.
    pub fn heard(&mut self, now: Time, link: LinkId) {
        if let Some(ready) = self.ready_of(link) {
            ready.alive.heard(now);
        }
    }

    /// A link that stands: the present one, or one that is about to be closed.
    pub(super) fn ready_of(&mut self, id: LinkId) -> Option<&mut Ready> {
        match &mut self.link {
            Link::Ready(ready) if ready.id == id => Some(ready),
            _ => self.leaving.iter_mut().find(|ready| ready.id == id),
        }
    }

    fn session_of(&mut self, id: LinkId) -> Option<&mut ClientSession> {
        if self.link.id() == Some(id) {
            return self.link.session_mut();
        }
        let leaving = self.leaving.iter_mut().find(|ready| ready.id == id);
        leaving.map(|ready| &mut ready.session)
    }

    /// Closes links that were about to be closed and on which nothing is waited for any more.
    pub(super) fn close_left(&mut self) {
        self.leaving.retain(|ready| {
            let stays = ready.in_flight > 0 || ready.session.pending_output() > 0;
            if !stays {
                self.actions.push_back(Action::Close { link: ready.id });
            }
            stays
        });
    }

    fn drop_leaving(&mut self) {
        for ready in self.leaving.drain(..) {
            self.actions.push_back(Action::Close { link: ready.id });
        }
    }

    /// A frame body arrived on this link.
    pub fn receive(&mut self, now: Time, link: LinkId, body: BytesMut) {
        let Some(session) = self.session_of(link) else {
            return;
        };
        let sealed = session.is_sealed();
        match session.receive(body) {
            Ok(ClientReceived::Nothing) => {}
            Ok(ClientReceived::Authorized) => self.authorized(now),
            Ok(ClientReceived::Answer(slot, answer)) => self.answered(now, slot, answer),
            Ok(ClientReceived::Event(request)) => self.event(request),
            Ok(ClientReceived::Pong(number)) => {
                if let Some(ready) = self.ready_of(link) {
                    ready.alive.pong(now, number);
                }
            }
            Ok(ClientReceived::GoingAway) => self.going_away(now, link),
            Err(error) => {
                self.actions.push_back(Action::Close { link });
                match self.link {
                    _ if self.link.id() != Some(link) => {
                        self.link_lost(now, link, Loss::Dropped(error), 0);
                    }
                    Link::Ready(_) => self.link_lost(now, link, Loss::Dropped(error), 0),
                    // The peers do agree on encryption; this message was damaged on its way.
                    _ if sealed && error.code() == ErrorCode::Encryption => {
                        self.attempt_lost(now, error);
                    }
                    _ => self.handshake_failed(now, error),
                }
            }
        }
        self.close_left();
    }

    fn event(&mut self, request: Request) {
        self.notify(Notification::Event(Box::new(request)));
    }

    /// Bytes to send on the present link; none if nothing can be sent now. Calling it makes room:
    /// waiting calls follow.
    pub fn take_output(&mut self, now: Time, link: LinkId) -> BytesMut {
        let output = self.take_produced(link);
        if self.link.id() != Some(link) {
            self.close_left();
            return output;
        }
        if self.queue.is_empty() {
            return output;
        }
        self.pump(now);
        if output.is_empty() {
            // What was waiting for room is all there is: nobody would ask again for it.
            self.take_produced(link)
        } else {
            output
        }
    }

    fn take_produced(&mut self, link: LinkId) -> BytesMut {
        match self.session_of(link) {
            Some(session) => session.take_output(),
            None => BytesMut::new(),
        }
    }

    /// The link that bytes may be sent on, authorised or not.
    pub fn open_link(&self) -> Option<LinkId> {
        match &self.link {
            Link::Handshaking { id, .. } => Some(*id),
            Link::Ready(ready) => Some(ready.id),
            _ => None,
        }
    }

    /// True if the link has bytes to send.
    pub fn has_output(&self) -> bool {
        match &self.link {
            Link::Handshaking { session, .. } => session.pending_output() > 0,
            Link::Ready(ready) => ready.session.pending_output() > 0,
            _ => false,
        }
    }

    fn authorized(&mut self, now: Time) {
        let Link::Handshaking { id, session, .. } = std::mem::replace(&mut self.link, Link::Idle)
        else {
            return;
        };
        let mut session = *session;
        let keep_alive = self.options.keep_alive.filter(|_| session.can_ping());
        let mut alive = KeepAlive::new(now, keep_alive);
        if let Some(number) = alive.ping_now(now) {
            session.ping(number);
        }
        self.link = Link::Ready(Box::new(Ready {
            id,
            since: now,
            session,
            requests: 0,
            in_flight: 0,
            alive,
        }));
        let announced = std::mem::take(&mut self.announced);
        self.looping = false;
        self.token_retried = false;
        if let Some(reconnector) = &mut self.reconnector {
            reconnector.authorised();
        }
        self.set_state(State::Connected);
        if announced {
            self.stats.reconnects += 1;
            self.notify(Notification::Reconnected);
        }
        self.connect_done(Ok(()));
        self.end_unrepeatable_calls(now);
        self.pump(now);
    }

    fn handshake_failed(&mut self, now: Time, error: Error) {
        if error.code() == ErrorCode::Unauthorized
            && self.options.token_is_provided
            && !self.token_retried
        {
            self.token_retried = true;
            self.open(now);
            return;
        }
        self.attempt_failed(now, error);
    }

    /// An attempt to connect failed: on with the loop, or not.
    fn attempt_failed(&mut self, now: Time, error: Error) {
        if is_fatal(error.code()) {
            self.attempt_is_over(&error);
            self.give_up(error);
        } else {
            self.attempt_lost(now, error);
        }
    }

    /// An attempt to connect failed in a way that says nothing of the next one.
    fn attempt_lost(&mut self, now: Time, error: Error) {
        self.attempt_is_over(&error);
        if self.looping {
            self.next_attempt(now, error);
        } else {
            self.go_idle(State::Disconnected, &error);
        }
    }

    fn attempt_is_over(&mut self, error: &Error) {
        self.link = Link::Idle;
        self.endpoint = (self.endpoint + 1) % self.options.endpoints.max(1);
        self.last_failure = Some(error.clone());
    }

    /// Waits for the next attempt of the loop, or gives up.
    fn next_attempt(&mut self, now: Time, error: Error) {
        let next = self
            .reconnector
            .as_mut()
            .and_then(|machine| machine.next(&mut self.rng));
        match next {
            Some((attempt, delay)) => {
                self.link = Link::Waiting { until: now + delay };
                self.announce(attempt, delay);
            }
            None => self.give_up(error),
        }
    }

    fn give_up(&mut self, error: Error) {
        let was_looping = std::mem::take(&mut self.looping);
        self.go_idle(State::Failed, &error);
        if was_looping {
            self.notify(Notification::ReconnectionFailed(error));
        }
    }

    fn open(&mut self, now: Time) {
        let link = LinkId(self.next_link);
        self.next_link += 1;
        self.link = Link::Opening {
            id: link,
            deadline: now + self.options.connect_timeout,
        };
        self.actions.push_back(Action::Open {
            link,
            endpoint: self.endpoint,
        });
    }

    fn drop_link(&mut self) {
        if let Some(link) = self.link.id() {
            self.actions.push_back(Action::Close { link });
        }
        self.link = Link::Idle;
        self.token_retried = false;
    }

    fn connect_done(&mut self, result: Result<()>) {
        self.actions.push_back(Action::ConnectDone(result));
    }

    pub(super) fn tick_link(&mut self, now: Time) {
        if self.link.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if matches!(self.link, Link::Waiting { .. }) {
            self.open(now);
            return;
        }
        if let Link::Ready(ready) = &mut self.link {
            if let Some((link, error)) = ready.beat(now) {
                self.actions.push_back(Action::Close { link });
                self.link_lost(now, link, Loss::Dropped(error), 0);
            }
            return;
        }
        if let Some(link) = self.link.id() {
            self.actions.push_back(Action::Close { link });
        }
        let what = match self.link {
            Link::Opening { .. } => "no connection in time",
            _ => "the server did not finish the handshake in time",
        };
        let error = Error::new(
            ErrorCode::Timeout,
            format!("{what} ({:?})", self.options.connect_timeout),
        );
        self.attempt_failed(now, error);
    }

    pub(super) fn tick_leaving(&mut self, now: Time) {
        let beats = self.leaving.iter_mut().filter_map(|ready| ready.beat(now));
        for (link, error) in beats.collect::<Vec<_>>() {
            self.actions.push_back(Action::Close { link });
            self.link_lost(now, link, Loss::Dropped(error), 0);
        }
    }

    /// A call made now would be sent now or as soon as the present attempt or loop succeeds.
    pub(super) fn has_or_awaits_link(&self) -> bool {
        !matches!(self.link, Link::Idle)
    }

    /// The error of a call that has no link to go to.
    pub(super) fn no_link(&self) -> Error {
        if self.closed {
            return closed();
        }
        let message = match self.state {
            State::Failed => "not connected: reconnection has failed",
            _ if self.last_failure.is_none() => "not connected: connect the client first",
            _ => "not connected",
        };
        Error::new(ErrorCode::Transport, message)
            .with_details(self.last_failure.as_ref().map(ToString::to_string))
            .with_outcome(Outcome::NotSent)
    }
}

fn closed() -> Error {
    Error::new(ErrorCode::Closed, "the client is closed")
}
