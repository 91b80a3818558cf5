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

use super::dispatch::Dispatch;
use super::groups::{ConnectionInfo, GroupTable};
use super::outbound::{Outbound, Room};
use super::publish::{Publisher, Target};
use super::validator::{Checked, Credentials, Verdict};
use super::{ServerLimits, Shared};
use crate::security::Keys;
use crate::session::{PeerInfo, ServerReceived, ServerSession, Violation};
use crate::transport::pump::{self, Outbox, Reader, Writer};
use crate::transport::{Incoming, PeerAddr};

const TOO_LONG: &str = "the handshake took too long";

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
    running: AtomicUsize,
    /// A call has ended: there may be room again.
    ended: Notify,
    /// The server asks it to close.
    closing: Notify,
    limits: ServerLimits,
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
    fn writer(&mut self) -> Option<&mut Writer> {
        self.writer.as_mut()
    }

    fn refill(&mut self) {
        if let Some(writer) = &mut self.writer {
            self.waiting.refill(&mut self.session);
            writer.load(self.session.take_output());
        }
    }
}

/// Starts the task of a connection that has just been accepted. `is_full`: there is no room for it,
/// and it is to be told so.
pub(super) fn start(incoming: Incoming, shared: &Arc<Shared>, is_full: bool) {
    let id = Uuid::from_bytes(rand::random());
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
        running: AtomicUsize::new(0),
        ended: Notify::new(),
        closing: Notify::new(),
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
}

/// Takes a connection off the books however its task ends.
struct Deregister {
    registry: Arc<Registry>,
    connection: Arc<Connection>,
    publisher: Publisher,
}

impl Drop for Deregister {
    fn drop(&mut self) {
        self.connection.outlet.lock().close();
        if self.connection.principal.get().is_some() {
            self.publisher.disconnected(&self.connection);
        }
        let mut connections = self.registry.connections.write();
        connections.remove(&self.connection.id);
        self.registry.groups.lock().forget(self.connection.id);
        if connections.is_empty() {
            self.registry.emptied.notify_waiters();
        }
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
        let mut outlet = self.outlet.lock();
        if outlet.writer.is_none() {
            return;
        }
        if outlet.ahead() + outlet.waiting.answer_bytes() > self.limits.max_unsent_bytes {
            return self.give_up(outlet, "it does not read its answers");
        }
        if outlet.waiting.is_empty() {
            outlet.session.respond(id, response);
        } else {
            outlet.waiting.push_answer(id, response.clone());
        }
        pump::flush(&self.outlet, outlet);
    }

    /// Sends an event: an encoded request. Returns how it fared.
    pub(super) fn event(&self, request: &Bytes) -> Fate {
        let mut outlet = self.outlet.lock();
        let mut room = outlet.waiting.room(request.len(), outlet.ahead());
        let is_stalled = outlet.writer.as_ref().is_some_and(Writer::is_stalled);
        if room == Room::Full || (room == Room::Queue && !is_stalled) {
            // It may be the reading task that has no time to write, not the client to read.
            outlet = pump::flush_now(&self.outlet, outlet);
            room = outlet.waiting.room(request.len(), outlet.ahead());
        }
        if outlet.writer.is_none() || !outlet.session.is_authorized() {
            return Fate::Absent;
        }
        if room == Room::Open {
            outlet.session.event(request);
            pump::flush(&self.outlet, outlet);
            return Fate::Sent;
        }
        let before = outlet.waiting.dropped();
        if outlet.waiting.push_event(request.clone()) {
            let dropped = outlet.waiting.dropped() - before;
            pump::flush(&self.outlet, outlet);
            return Fate::Queued { dropped };
        }
        self.give_up(outlet, "it does not read its events");
        Fate::Disconnected
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
                self.run(reader, &shared.dispatch, deadline).await;
            }
            Err(error) => tracing::debug!(peer = %self.peer, %error, "no connection"),
        }
    }

    async fn run(
        self: &Arc<Self>,
        mut reader: Reader,
        dispatch: &Arc<Dispatch>,
        deadline: Option<Instant>,
    ) {
        let reason = loop {
            let filled = tokio::select! {
                biased;
                () = self.closing.notified() => break "the server closed it".to_owned(),
                // Before reading: who always has something to say must not put it off.
                () = at(deadline), if !self.is_authorized() => {
                    break TOO_LONG.to_owned();
                }
                filled = reader.fill(&self.outlet) => filled,
            };
            let ended = match filled {
                Ok(()) => self.take_in(&mut reader, deadline, dispatch).await,
                Err(ending) => Some(ending.to_string()),
            };
            if let Some(reason) = ended {
                break reason;
            }
            reader.release(&self.outlet);
        };
        tracing::debug!(peer = %self.peer, reason, "connection closed");
        let close = reader.finish(&self.outlet, "Closing");
        let _ = tokio::time::timeout(LINGER, close).await;
    }

    /// Handles all whole frames. Returns why the connection is to be closed, if it is.
    async fn take_in(
        self: &Arc<Self>,
        reader: &mut Reader,
        deadline: Option<Instant>,
        dispatch: &Arc<Dispatch>,
    ) -> Option<String> {
        loop {
            let body = match reader.next_frame() {
                Ok(Some(body)) => body,
                Ok(None) => return None,
                Err(ending) => return Some(ending.to_string()),
            };
            let received = {
                let mut outlet = self.outlet.lock();
                if outlet.writer.is_none() {
                    return Some("the server closed it".to_owned());
                }
                outlet.session.receive(body)
            };
            match received {
                Ok(ServerReceived::Nothing) => {}
                Ok(ServerReceived::Authorize { token, client_id }) => {
                    let verdict = match self.check(&token, deadline, reader, dispatch).await {
                        Ok(Some(verdict)) => verdict,
                        Ok(None) => return Some(TOO_LONG.to_owned()),
                        Err(reason) => return Some(reason),
                    };
                    *self.client_id.lock() = client_id;
                    let accepted = verdict != Verdict::Refused;
                    if let Verdict::Accepted(principal) = verdict {
                        let _ = self.principal.set(principal);
                    }
                    let answered = self
                        .outlet
                        .lock()
                        .session
                        .authorize(accepted, dispatch.reach());
                    if let Err(Violation(reason)) = answered {
                        return Some(reason);
                    }
                    reader.set_max_frame(&self.outlet, self.limits.max_frame);
                    dispatch.publisher.connected(self);
                }
                Ok(ServerReceived::Request(id, request)) => {
                    let token = request.token.as_deref().unwrap_or_default();
                    let limit = self.limits.handshake_timeout;
                    let limit = limit.map(|limit| Instant::now() + limit);
                    let verdict = match self.check(token, limit, reader, dispatch).await {
                        Ok(verdict) => verdict,
                        Err(reason) => return Some(reason),
                    };
                    dispatch.clone().accept(self, id, *request, verdict).await;
                    self.wait_for_room(reader).await;
                }
                Err(Violation(reason)) => return Some(reason),
            }
        }
    }

    /// Has a token checked. `Ok(None)` if there is no verdict in time; an error if the connection is
    /// to be closed. Nothing more is read meanwhile, so that calls keep their order.
    async fn check(
        &self,
        token: &str,
        deadline: Option<Instant>,
        reader: &Reader,
        dispatch: &Dispatch,
    ) -> Result<Option<Verdict>, String> {
        let peer = self.peer;
        let pending = match dispatch.check(Credentials { token, peer }) {
            Checked::Now(verdict) => return Ok(Some(verdict)),
            Checked::Later(pending) => pending,
        };
        // What is answered meanwhile must not wait for it.
        reader.release(&self.outlet);
        tokio::select! {
            biased;
            () = self.closing.notified() => {
                self.closing.notify_one();
                Err("the server closed it".to_owned())
            }
            verdict = pending => Ok(Some(verdict)),
            () = at(deadline) => Ok(None),
        }
    }

    /// Reads nothing more while this connection has too many calls running.
    async fn wait_for_room(&self, reader: &Reader) {
        let limit = self.limits.max_in_flight_per_connection.max(1);
        while self.running.load(Ordering::Acquire) >= limit {
            // What was answered meanwhile must not wait for what was not.
            reader.release(&self.outlet);
            tokio::select! {
                () = self.ended.notified() => {}
                () = self.closing.notified() => {
                    self.closing.notify_one();
                    return;
                }
            }
        }
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
    emptied: Notify,
    events_dropped: AtomicU64,
    slow_clients_closed: AtomicU64,
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.connections.read().len()
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
            let emptied = self.emptied.notified();
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
            emptied.await;
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
