//! One client's connection: reads frames, lets the session say what they mean, hands calls to the
//! [dispatch](super::dispatch), sends answers and events.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::addresses::Addresses;
use super::cancellation::{CancellationToken, Waiting};
use super::dispatch::Dispatch;
use super::groups::{ConnectionInfo, GroupTable};
use super::inbox::{Arrived, Inbox};
use super::outbound::{Outbound, Room};
use super::publish::{Publisher, Target};
use super::validator::{Checked, Credentials, Verdict};
use super::watch::{Traffic, Watch};
use super::{ServerLimits, Shared};
use crate::security::Keys;
use crate::session::{PeerInfo, ServerReceived, ServerSession, Violation};
use crate::time::Time;
use crate::transport::pump::{self, Ending, Outbox, Reader, Writer};
use crate::transport::{Incoming, PeerAddr};

const TOO_LONG: &str = "the handshake took too long";

/// How long calls may go on whose client has said that it will send nothing more: WitRPC's clients
/// do not wait longer for an answer.
const HALF_CLOSED: Duration = Duration::from_secs(30);

/// How long a client may take to close its end after we have closed ours.
const LINGER: Duration = Duration::from_secs(2);

/// See the [module](self).
pub(super) struct Connection {
    id: Uuid,
    peer: PeerAddr,
    outlet: Mutex<Outlet>,
    /// Who the client is, as the validator said at the handshake.
    principal: OnceLock<Arc<str>>,
    /// The lasting id of a libwitrpc client.
    client_id: Mutex<Option<Uuid>>,
    /// The epoch that a libwitrpc client was told.
    told_epoch: OnceLock<u64>,
    running: AtomicUsize,
    /// A call has ended: there may be room again.
    ended: Notify,
    /// The server asks it to close.
    closing: Notify,
    /// The client was told that the server will close the connection.
    told_to_leave: AtomicBool,
    /// It has answered that it makes no more calls.
    has_left: AtomicBool,
    /// Tokens of calls that are on their way, by the ids of their messages.
    cancellable: Mutex<HashMap<Uuid, CancellationToken>>,
    limits: ServerLimits,
}

/// What the task of a connection knows alone.
struct Task<'a> {
    reader: Reader,
    inbox: Inbox,
    watch: Watch,
    dispatch: &'a Arc<Dispatch>,
    registry: &'a Registry,
    /// Where the time of the watch begins.
    origin: Instant,
    /// Messages ever read.
    messages: u64,
    /// Bytes of messages read before the client was authorised.
    handshake_bytes: usize,
    /// Until when it must be.
    deadline: Option<Instant>,
}

impl Task<'_> {
    fn now(&self) -> Time {
        Time::from_origin(self.origin.elapsed())
    }
}

/// The session and the way out of it.
struct Outlet {
    session: ServerSession,
    /// What has to wait, because the client does not read as fast.
    waiting: Outbound,
    /// `None` once the connection is closed.
    writer: Option<Writer>,
}

impl Outlet {
    /// Bytes of frames that the network has not taken.
    fn ahead(&self) -> usize {
        let pending = self.writer.as_ref().map_or(0, Writer::pending);
        pending + self.session.pending_output()
    }

    fn close(&mut self) {
        self.writer = None;
        self.waiting.clear();
    }
}

impl Outbox for Outlet {
    fn writer(&mut self, id: u64) -> Option<&mut Writer> {
        self.writer.as_mut().filter(|writer| writer.id() == id)
    }

    fn refill(&mut self, _: u64) {
        if let Some(writer) = &mut self.writer {
            self.waiting.refill(&mut self.session);
            writer.load(self.session.take_output());
        }
    }
}

/// Starts the task of a connection that has just been accepted. `is_full`: there is no room for it,
/// and it is to be told so.
pub(super) fn start(incoming: Incoming, shared: &Arc<Shared>, is_full: bool) {
    let id = Uuid::from_bytes(crate::random::bytes());
    let peer = incoming.peer();
    let session = match shared.encryption {
        false => ServerSession::new(id),
        true => match Keys::generate() {
            Ok(keys) => ServerSession::encrypted(id, keys),
            Err(error) => return tracing::error!(%peer, %error, "no keys for a connection: closed"),
        },
    };
    let connection = Arc::new(Connection {
        id,
        peer,
        outlet: Mutex::new(Outlet {
            session,
            waiting: Outbound::new(shared.event_queue),
            writer: None,
        }),
        principal: OnceLock::new(),
        client_id: Mutex::new(None),
        told_epoch: OnceLock::new(),
        running: AtomicUsize::new(0),
        ended: Notify::new(),
        closing: Notify::new(),
        told_to_leave: AtomicBool::new(false),
        has_left: AtomicBool::new(false),
        cancellable: Mutex::default(),
        limits: shared.limits,
    });
    // Registered before it runs, so that it is counted and can be stopped.
    let registry = shared.connections.clone();
    let mut connections = registry.connections.write();
    if registry.closed.load(Ordering::Relaxed) {
        // Accepted at the moment when the server stopped.
        return;
    }
    let task = tokio::spawn({
        let (connection, shared) = (connection.clone(), shared.clone());
        async move {
            let guard = Deregister {
                registry: shared.connections.clone(),
                connection: connection.clone(),
                publisher: shared.publisher.clone(),
            };
            connection.live(incoming, &shared, is_full).await;
            drop(guard);
        }
    });
    connections.insert(id, (connection, task.abort_handle()));
    registry.addresses.lock().came(peer);
}

/// Takes a connection off the books however its task ends.
struct Deregister {
    registry: Arc<Registry>,
    connection: Arc<Connection>,
    publisher: Publisher,
}

impl Drop for Deregister {
    fn drop(&mut self) {
        let was_authorized = {
            let mut outlet = self.connection.outlet.lock();
            outlet.close();
            outlet.session.is_authorized()
        };
        if was_authorized {
            self.publisher.disconnected(&self.connection);
        }
        let mut connections = self.registry.connections.write();
        connections.remove(&self.connection.id);
        self.registry.groups.lock().forget(self.connection.id);
        let mut addresses = self.registry.addresses.lock();
        addresses.left(self.connection.peer, was_authorized);
        self.registry.changed.notify_waiters();
    }
}

impl Connection {
    pub(super) fn peer(&self) -> PeerAddr {
        self.peer
    }

    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// What the client said about itself.
    pub(super) fn peer_info(&self) -> PeerInfo {
        *self.outlet.lock().session.peer()
    }

    pub(super) fn client_id(&self) -> Option<Uuid> {
        *self.client_id.lock()
    }

    /// The epoch that its calls belong to; `None` if the client does not know of such.
    pub(super) fn told_epoch(&self) -> Option<u64> {
        self.told_epoch.get().copied()
    }

    /// Calls of another epoch than this are not taken any more: makes a client that was told another
    /// one connect again.
    pub(super) fn expect_epoch(&self, now: u64) {
        if self.told_epoch().is_none_or(|told| told == now) {
            return;
        }
        match self.peer_info().can_be_told_to_leave() {
            true => self.tell_to_leave(),
            false => self.closing.notify_one(),
        }
    }

    /// Who waits for the answer to a message of this connection.
    pub(super) fn waiting(&self, message: Uuid) -> Waiting {
        Waiting {
            client: self.client_id().unwrap_or(self.id),
            connection: self.id,
            message,
        }
    }

    /// Notes the token of a call that goes on, until it is answered.
    pub(super) fn may_be_cancelled(&self, id: Uuid, token: CancellationToken) {
        self.cancellable.lock().insert(id, token);
    }

    /// Tells the client that the server will close the connection, if it understands that.
    fn tell_to_leave(&self) {
        self.send(|session, _| {
            if !self.told_to_leave.load(Ordering::SeqCst) && session.going_away() {
                self.told_to_leave.store(true, Ordering::SeqCst);
            }
        });
    }

    /// The client is told when the server stops, and may not have heard it yet: its calls are to be
    /// taken.
    pub(super) fn may_not_know(&self) -> bool {
        !self.has_left.load(Ordering::SeqCst) && self.peer_info().can_be_told_to_leave()
    }

    fn is_leaving(&self) -> bool {
        self.told_to_leave.load(Ordering::SeqCst) && !self.has_left.load(Ordering::SeqCst)
    }

    fn is_authorized(&self) -> bool {
        self.outlet.lock().session.is_authorized()
    }

    /// Who the client is; empty before the handshake is through.
    pub(super) fn principal(&self) -> Arc<str> {
        let principal = self.principal.get().cloned();
        principal.unwrap_or_else(|| Arc::from(""))
    }

    pub(super) fn info(&self) -> ConnectionInfo {
        let outlet = self.outlet.lock();
        ConnectionInfo {
            id: self.id,
            peer: self.peer,
            principal: self.principal(),
            events_waiting: outlet.waiting.events(),
            events_dropped: outlet.waiting.dropped(),
        }
    }

    /// Answers a request with an encoded response.
    pub(super) fn respond(&self, id: Uuid, response: &Bytes) {
        self.cancellable.lock().remove(&id);
        self.send(|session, waiting| {
            if waiting.is_empty() {
                session.respond(id, response);
            } else {
                waiting.push_answer(id, response.clone());
            }
        });
    }

    /// Sends an event: an encoded request. Returns how it fared.
    pub(super) fn event(&self, request: &Bytes) -> Fate {
        let mut outlet = self.outlet.lock();
        let Some(writer) = &outlet.writer else {
            return Fate::Absent;
        };
        let (writer, is_stalled) = (writer.id(), writer.is_stalled());
        let mut room = outlet.waiting.room(request.len(), outlet.ahead());
        if room == Room::Full || (room == Room::Queue && !is_stalled) {
            // It may be the reading task that has no time to write, not the client to read.
            outlet = pump::flush_now(&self.outlet, outlet, writer);
            room = outlet.waiting.room(request.len(), outlet.ahead());
        }
        if outlet.writer.is_none() || !outlet.session.is_authorized() {
            return Fate::Absent;
        }
        let before = outlet.waiting.dropped();
        let fate = if room == Room::Open {
            outlet.session.event(request);
            Fate::Sent
        } else if outlet.waiting.push_event(request.clone()) {
            let dropped = outlet.waiting.dropped() - before;
            Fate::Queued { dropped }
        } else {
            self.give_up(outlet, "it does not read its events");
            return Fate::Disconnected;
        };
        pump::flush(&self.outlet, outlet, writer);
        fate
    }

    fn send(&self, write: impl FnOnce(&mut ServerSession, &mut Outbound)) {
        let mut guard = self.outlet.lock();
        let outlet = &mut *guard;
        let Some(writer) = &outlet.writer else { return };
        let id = writer.id();
        if outlet.ahead() + outlet.waiting.answer_bytes() > self.limits.max_unsent_bytes {
            return self.give_up(guard, "it does not read its answers");
        }
        write(&mut outlet.session, &mut outlet.waiting);
        pump::flush(&self.outlet, guard, id);
    }

    fn give_up(&self, mut outlet: MutexGuard<'_, Outlet>, why: &str) {
        tracing::warn!(peer = %self.peer, "the client is closed: {why}");
        outlet.close();
        drop(outlet);
        self.closing.notify_one();
    }

    /// Closes the connection without sending anything more.
    pub(super) fn drop_now(&self) {
        self.outlet.lock().close();
        self.closing.notify_one();
    }

    pub(super) fn call_began(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn call_ended(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.ended.notify_one();
    }

    /// From the handshakes of the transport to the end.
    async fn live(self: &Arc<Self>, incoming: Incoming, shared: &Arc<Shared>, is_full: bool) {
        let deadline = self
            .limits
            .handshake_timeout
            .map(|limit| Instant::now() + limit);
        let handshake =
            incoming.accept(&shared.transport, self.limits.max_handshake_frame, is_full);
        let accepted = tokio::select! {
            accepted = handshake => accepted,
            () = at(deadline) => return tracing::debug!(peer = %self.peer, "no handshake in time"),
            () = self.closing.notified() => return,
        };
        match accepted {
            Ok((reader, writer)) => {
                self.outlet.lock().writer = Some(writer);
                let task = Task {
                    reader,
                    inbox: Inbox::default(),
                    watch: Watch::new(Time::ZERO, &self.limits),
                    dispatch: &shared.dispatch,
                    registry: &shared.connections,
                    origin: Instant::now(),
                    messages: 0,
                    handshake_bytes: 0,
                    deadline,
                };
                self.run(task).await;
            }
            Err(error) => tracing::debug!(peer = %self.peer, %error, "no connection"),
        }
    }

    async fn run(self: &Arc<Self>, mut task: Task<'_>) {
        // Armed for the first moment that was ever due: what is due later only looks once more.
        let mut armed = task.watch.next();
        let timer = tokio::time::sleep_until(task.origin + armed.since_origin());
        tokio::pin!(timer);
        let reason = loop {
            let filled = tokio::select! {
                biased;
                () = self.closing.notified() => break "the server closed it".to_owned(),
                // Before reading: who always has something to say must not put it off.
                () = at(task.deadline), if !self.is_authorized() => {
                    break TOO_LONG.to_owned();
                }
                () = self.ended.notified(), if !task.inbox.is_empty() => None,
                () = &mut timer => None,
                filled = task.reader.fill(&self.outlet) => Some(filled),
            };
            let ended = match filled {
                Some(Ok(())) => self.take_in(&mut task).await,
                Some(Err(Ending::Closed)) => {
                    self.serve_the_rest(&mut task).await;
                    Err(Ending::Closed.to_string())
                }
                Some(Err(ending)) => Err(ending.to_string()),
                None => self.begin_waiting(&mut task).await,
            };
            if let Err(reason) = ended.and_then(|()| self.look(&mut task)) {
                break reason;
            }
            task.reader.release(&self.outlet);
            let next = task.watch.next();
            if next < armed || timer.is_elapsed() {
                armed = next;
                timer.as_mut().reset(task.origin + next.since_origin());
            }
        };
        tracing::debug!(peer = %self.peer, reason, "connection closed");
        let close = task.reader.finish(&self.outlet, "Closing");
        let _ = tokio::time::timeout(LINGER, close).await;
    }

    /// Looks whether the client lives and bytes move, if it is time to.
    fn look(&self, task: &mut Task<'_>) -> Result<(), String> {
        let now = task.now();
        if now < task.watch.next() {
            return Ok(());
        }
        let (unsent, written) = {
            let outlet = self.outlet.lock();
            let writer = outlet.writer.as_ref();
            writer.map_or((false, 0), |w| (w.pending() > 0, w.written()))
        };
        let traffic = Traffic {
            half_read: task.reader.has_half_a_frame(),
            messages: task.messages,
            read: task.reader.bytes_read(),
            unsent,
            written,
        };
        if let Some(number) = task.watch.look(now, traffic)? {
            self.send(|session, _| session.ping(number));
        }
        Ok(())
    }

    /// Handles all whole frames. An error says why the connection is to be closed.
    async fn take_in(self: &Arc<Self>, task: &mut Task<'_>) -> Result<(), String> {
        task.watch.heard(task.now());
        while let Some(body) = task.reader.next_frame().map_err(|e| e.to_string())? {
            let size = body.len();
            task.messages += 1;
            let received = {
                let mut outlet = self.outlet.lock();
                if outlet.writer.is_none() {
                    return Err("the server closed it".to_owned());
                }
                if !outlet.session.is_authorized() {
                    task.handshake_bytes += size;
                    if task.handshake_bytes > self.limits.max_handshake_bytes {
                        return Err("too much was sent before the authorization".to_owned());
                    }
                }
                outlet.session.receive(body)
            };
            match received.map_err(|Violation(reason)| reason)? {
                ServerReceived::Nothing => {}
                ServerReceived::Authorize {
                    token,
                    client_id,
                    patience,
                } => self.authorize(task, &token, client_id, patience).await?,
                ServerReceived::Request(id, request) => {
                    task.inbox.push(Arrived::new(id, *request, size));
                    self.begin_waiting(task).await?;
                    self.wait_for_room(task).await?;
                }
                ServerReceived::Cancel(id) => {
                    if !task.inbox.cancel(id) {
                        let token = self.cancellable.lock().remove(&id);
                        token.inspect(|token| token.withdraw(self.waiting(id)));
                    }
                }
                ServerReceived::Leaves => {
                    self.has_left.store(true, Ordering::SeqCst);
                    task.registry.changed.notify_waiters();
                }
                ServerReceived::Pong(number) => task.watch.pong(task.now(), number),
            }
        }
        Ok(())
    }

    async fn authorize(
        &self,
        task: &mut Task<'_>,
        token: &str,
        client_id: Option<Uuid>,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        let verdict = self.check(task, token, task.deadline).await?;
        let verdict = verdict.ok_or(TOO_LONG)?;
        let accepted = verdict != Verdict::Refused;
        *self.client_id.lock() = client_id;
        if let Verdict::Accepted(principal) = verdict {
            let _ = self.principal.set(principal);
        }
        let reach = task.dispatch.reach();
        let can_ping = {
            let mut outlet = self.outlet.lock();
            let answered = outlet.session.authorize(accepted, reach);
            answered.map_err(|Violation(reason)| reason)?;
            if let Some(reach) = reach.filter(|_| outlet.session.peer().deduplicates()) {
                let _ = self.told_epoch.set(reach.epoch);
            }
            outlet.session.can_ping()
        };
        task.registry.addresses.lock().authorized(self.peer);
        let keep_alive = self.limits.keep_alive.filter(|_| can_ping);
        task.watch.authorized(task.now(), keep_alive, patience);
        task.reader
            .set_max_frame(&self.outlet, self.limits.max_frame);
        task.dispatch.publisher.connected(self);
        if task.dispatch.is_draining() {
            self.tell_to_leave();
        }
        // It may have changed before this connection could be found.
        self.expect_epoch(task.dispatch.epoch());
        Ok(())
    }

    /// Begins calls that wait while there is room.
    async fn begin_waiting(self: &Arc<Self>, task: &mut Task<'_>) -> Result<(), String> {
        let room = self.limits.max_in_flight_per_connection.max(1);
        while self.running.load(Ordering::Acquire) < room {
            let Some(call) = task.inbox.pop() else { break };
            let limit = self.limits.handshake_timeout;
            let limit = limit.map(|limit| Instant::now() + limit);
            let token = call.request.token.as_deref().unwrap_or_default();
            let verdict = self.check(task, token, limit).await?;
            task.dispatch.clone().accept(self, call, verdict).await;
        }
        Ok(())
    }

    /// Has a token checked. `Ok(None)` if there is no verdict in time; an error if the connection is
    /// to be closed. Nothing more is read meanwhile, so that calls keep their order.
    async fn check(
        &self,
        task: &mut Task<'_>,
        token: &str,
        deadline: Option<Instant>,
    ) -> Result<Option<Verdict>, String> {
        let peer = self.peer;
        let pending = match task.dispatch.check(Credentials { token, peer }) {
            Checked::Now(verdict) => return Ok(Some(verdict)),
            Checked::Later(pending) => pending,
        };
        tokio::pin!(pending);
        // What is answered meanwhile must not wait for it.
        task.reader.release(&self.outlet);
        let verdict = loop {
            tokio::select! {
                biased;
                () = self.closing.notified() => {
                    self.closing.notify_one();
                    return Err("the server closed it".to_owned());
                }
                verdict = &mut pending => break Some(verdict),
                () = at(deadline) => break None,
                ending = task.reader.send_only(&self.outlet) => return Err(ending.to_string()),
                () = after(task.watch.life_sign()) => self.send(|session, _| session.ping(0)),
            }
        };
        task.watch.was_busy(task.now());
        Ok(verdict)
    }

    /// Reads nothing more while too much of this connection waits.
    async fn wait_for_room(self: &Arc<Self>, task: &mut Task<'_>) -> Result<(), String> {
        while task.inbox.bytes() > self.limits.max_waiting_bytes {
            // What was answered meanwhile must not wait for what was not.
            task.reader.release(&self.outlet);
            tokio::select! {
                () = self.ended.notified() => {}
                () = self.closing.notified() => {
                    self.closing.notify_one();
                    return Err("the server closed it".to_owned());
                }
                ending = task.reader.send_only(&self.outlet) => return Err(ending.to_string()),
                () = after(task.watch.life_sign()) => self.send(|session, _| session.ping(0)),
            }
            self.begin_waiting(task).await?;
            task.watch.was_busy(task.now());
        }
        Ok(())
    }

    /// The client will send nothing more. What it has asked for is answered all the same: it may
    /// have closed its half only. Whether it has gone altogether shows when it is sent something.
    async fn serve_the_rest(self: &Arc<Self>, task: &mut Task<'_>) {
        let limit = Some(Instant::now() + HALF_CLOSED);
        while self.begin_waiting(task).await.is_ok() {
            if task.inbox.is_empty() && self.running.load(Ordering::Acquire) == 0 {
                return;
            }
            task.reader.release(&self.outlet);
            tokio::select! {
                () = self.ended.notified() => {}
                () = self.closing.notified() => return,
                _ = task.reader.send_only(&self.outlet) => return,
                () = at(limit) => return,
            }
        }
    }
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// How an event fared with one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The client is not authorised, or gone.
    Absent,
    Sent,
    /// It waits, unless it is one of those that were dropped for it.
    Queued {
        dropped: u64,
    },
    /// The client was too slow and is closed.
    Disconnected,
}

/// The connections of a server.
#[derive(Default)]
pub(super) struct Registry {
    connections: RwLock<HashMap<Uuid, (Arc<Connection>, AbortHandle)>>,
    /// Locked under `connections` where both are.
    pub(super) groups: Mutex<GroupTable>,
    /// No more are taken in. Changes under the lock of `connections`.
    closed: AtomicBool,
    /// One has gone, or said that it is leaving.
    changed: Notify,
    addresses: Mutex<Addresses>,
    events_dropped: AtomicU64,
    slow_clients_closed: AtomicU64,
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.connections.read().len()
    }

    /// True if one more connection from there is within the limits of an address.
    pub(super) fn have_room(&self, peer: PeerAddr, limits: &ServerLimits) -> bool {
        self.addresses.lock().have_room(
            peer,
            limits.max_clients_per_address,
            limits.max_strangers_per_address,
        )
    }

    /// The epoch is this one from now on.
    pub(super) fn expect_epoch(&self, now: u64) {
        for connection in self.authorized() {
            connection.expect_epoch(now);
        }
    }

    /// Tells all clients that understand it to begin no more calls here.
    pub(super) fn tell_to_leave(&self) {
        for connection in self.authorized() {
            connection.tell_to_leave();
        }
    }

    /// Waits until all who were told to leave have said that they make no more calls, or are gone;
    /// for `limit` at most.
    pub(super) async fn have_heard(&self, limit: Duration) {
        let heard = async {
            loop {
                let changed = self.changed.notified();
                let is_leaving =
                    |(connection, _): &(Arc<Connection>, AbortHandle)| connection.is_leaving();
                if !self.connections.read().values().any(is_leaving) {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(limit, heard).await;
    }

    /// Events dropped, and clients closed because of them.
    pub(super) fn losses(&self) -> (u64, u64) {
        (
            self.events_dropped.load(Ordering::Relaxed),
            self.slow_clients_closed.load(Ordering::Relaxed),
        )
    }

    /// A snapshot of those that may be sent events.
    pub(super) fn authorized(&self) -> Vec<Arc<Connection>> {
        let connections = self.connections.read();
        let all = connections.values().map(|(connection, _)| connection);
        all.filter(|connection| connection.is_authorized())
            .cloned()
            .collect()
    }

    /// Puts a connection into a group; `None` if there is none of this id.
    pub(super) fn join(&self, id: Uuid, group: &str) -> Option<bool> {
        let connections = self.connections.read();
        connections.get(&id)?;
        Some(self.groups.lock().add(id, group))
    }

    /// Sends an event to those who are meant. Returns how many that were.
    pub(super) fn raise(&self, target: &Target, request: &Bytes) -> usize {
        let mut reached = 0;
        for connection in self.targets(target) {
            match connection.event(request) {
                Fate::Absent => continue,
                Fate::Sent => {}
                Fate::Queued { dropped } => {
                    self.events_dropped.fetch_add(dropped, Ordering::Relaxed);
                }
                Fate::Disconnected => {
                    self.slow_clients_closed.fetch_add(1, Ordering::Relaxed);
                }
            }
            reached += 1;
        }
        reached
    }

    /// A snapshot, so that nothing is locked while events are sent.
    fn targets(&self, target: &Target) -> Vec<Arc<Connection>> {
        let connections = self.connections.read();
        let of = |id: Uuid| {
            connections
                .get(&id)
                .map(|(connection, _)| connection.clone())
        };
        let all = || connections.values().map(|(connection, _)| connection);
        match target {
            Target::All => all().cloned().collect(),
            Target::AllBut(ids) => {
                let others = all().filter(|connection| !ids.contains(&connection.id));
                others.cloned().collect()
            }
            Target::Connections(ids) => {
                let ids: HashSet<_> = ids.iter().copied().collect();
                ids.into_iter().filter_map(of).collect()
            }
            Target::Principal(name) => {
                let same = |c: &&Arc<Connection>| c.principal.get().is_some_and(|p| *p == *name);
                all().filter(same).cloned().collect()
            }
            Target::Groups { names, but } => {
                let groups = self.groups.lock();
                let ids: HashSet<_> = names.iter().flat_map(|name| groups.members(name)).collect();
                let meant = ids.into_iter().filter(|id| !but.contains(id));
                meant.filter_map(of).collect()
            }
        }
    }

    /// Closes all connections in order and waits until they are.
    pub(super) async fn close_all(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let connections = self.connections.write();
                self.closed.store(true, Ordering::Relaxed);
                if connections.is_empty() {
                    return;
                }
                connections
                    .values()
                    .for_each(|(connection, _)| connection.closing.notify_one());
            }
            changed.await;
        }
    }

    pub(super) fn abort_all(&self) {
        let connections = self.connections.write();
        self.closed.store(true, Ordering::Relaxed);
        let tasks: Vec<_> = connections.values().map(|(_, task)| task.clone()).collect();
        drop(connections);
        tasks.iter().for_each(AbortHandle::abort);
    }
}
