//! From a request to its answer: token, method, arguments, room, repetition, handler.
//!
//! Owns the order of those checks, and which running calls may be taken back by whom. What refuses a call before its handler began is not remembered,
//! nor is a handler's own refusal for load (status 503); everything else that happened is.

use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::cancellation::CancellationToken;
use super::caught::Caught;
use super::connection::Connection;
use super::durable::{Claimed, DurableCall};
use super::handler::{CallContext, Execution, Fault, Handler};
use super::inbox::Arrived;
use super::lookup::Services;
use super::publish::Publisher;
use super::store::{CallStore, Opened, StoredCall};
use super::validator::{Checked, Credentials, Validator, Verdict};
use crate::codec::{Codec, CodecError, Value};
use crate::contract::Method;
use crate::resilience::dedup::{
    Admission, CallId, DedupOptions, DedupStats, Numbered, Table, Ticket,
};
use crate::time::Time;
use crate::wire::extension::{Capabilities, Extension, Reach};
use crate::wire::{Response, status};

/// What a server has done and does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections now.
    pub connections: usize,
    /// Handlers running now.
    pub running: usize,
    /// Handlers ever begun.
    pub executed: u64,
    /// Events that were dropped because a client did not read as fast as they came, each counted
    /// for each such client.
    pub events_dropped: u64,
    /// Connections that were closed because their clients did not read their events.
    pub slow_clients_closed: u64,
    /// The memory of calls.
    pub dedup: DedupStats,
}

pub(super) type Trace = Arc<dyn Fn(Execution<'_>) + Send + Sync>;

/// A request that waits for the answer of a running twin.
struct Waiter {
    connection: Weak<Connection>,
    id: Uuid,
}

/// The table of calls, and the tokens of those that run, by their tickets.
struct Memory {
    table: Table<Waiter>,
    tokens: Vec<CancellationToken>,
}

impl Memory {
    /// A call has ended: nobody can join it any more.
    fn forget_token(&mut self, ticket: Ticket) {
        if let Some(token) = self.tokens.get_mut(ticket.index()) {
            *token = CancellationToken::default();
        }
    }
}

/// See the [module](self).
pub(super) struct Dispatch {
    pub(super) services: Services,
    pub(super) codec: Codec,
    pub(super) validator: Validator,
    pub(super) trace: Option<Trace>,
    pub(super) publisher: Publisher,
    max_in_flight: usize,
    max_answer: usize,
    retry_after: Duration,
    memory: Mutex<Memory>,
    origin: Instant,
    /// Random at each start.
    life: u64,
    store: Option<Store>,
    running: AtomicUsize,
    executed: AtomicU64,
    /// Who can't be told that the server stops is refused.
    draining: AtomicBool,
    /// Everybody is.
    closed: AtomicBool,
    idle: Notify,
}

/// Where the calls of durable methods are kept.
pub(super) struct Store {
    pub(super) calls: Arc<dyn CallStore>,
    pub(super) opened: Opened,
    /// Of a store whose epoch may change.
    pub(super) epochs: Option<watch::Receiver<u64>>,
}

impl Store {
    fn epoch(&self) -> u64 {
        let now = self.epochs.as_ref().map(|epochs| *epochs.borrow());
        now.unwrap_or(self.opened.epoch)
    }
}

/// What [`Dispatch`] is made of.
pub(super) struct DispatchOptions {
    pub(super) services: Services,
    pub(super) codec: Codec,
    pub(super) validator: Validator,
    pub(super) trace: Option<Trace>,
    pub(super) publisher: Publisher,
    pub(super) max_in_flight: usize,
    pub(super) retry_after: Duration,
    pub(super) dedup: DedupOptions,
    pub(super) store: Option<Store>,
}

impl Dispatch {
    pub(super) fn new(options: DispatchOptions) -> Self {
        Self {
            services: options.services,
            codec: options.codec,
            validator: options.validator,
            trace: options.trace,
            publisher: options.publisher,
            max_in_flight: options.max_in_flight,
            max_answer: options.dedup.max_answer,
            retry_after: options.retry_after,
            memory: Mutex::new(Memory {
                table: Table::new(options.dedup),
                tokens: Vec::new(),
            }),
            origin: Instant::now(),
            life: u64::from_ne_bytes(crate::random::bytes()),
            store: options.store,
            running: AtomicUsize::new(0),
            executed: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            idle: Notify::new(),
        }
    }

    pub(super) fn check(&self, credentials: Credentials<'_>) -> Checked {
        self.validator.check(credentials)
    }

    /// What a libwitrpc client is told of the memory of calls.
    pub(super) fn reach(&self) -> Option<Reach> {
        let mut hold = self.memory.lock().table.options().hold;
        let mut life = None;
        if let Some(store) = &self.store {
            hold = hold.min(store.opened.hold);
            life = Some(self.life);
        }
        Some(Reach {
            epoch: self.epoch(),
            hold_ms: u64::try_from(hold.as_millis()).unwrap_or(u64::MAX),
            life,
        })
    }

    /// Under which clients may repeat their calls.
    pub(super) fn epoch(&self) -> u64 {
        match &self.store {
            Some(store) => store.epoch(),
            None => self.life,
        }
    }

    /// The epoch as it changes, if it can.
    pub(super) fn epochs(&self) -> Option<watch::Receiver<u64>> {
        self.store.as_ref()?.epochs.clone()
    }

    pub(super) fn stats(&self) -> ServerStats {
        ServerStats {
            connections: 0,
            running: self.running.load(Ordering::Relaxed),
            executed: self.executed.load(Ordering::Relaxed),
            events_dropped: 0,
            slow_clients_closed: 0,
            dedup: self.memory.lock().table.stats(),
        }
    }

    /// Refuses new calls from now on, but for those of clients that are told to make no more.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Refuses theirs, too.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Lets go of the store. No handler may run any more.
    pub(super) async fn close_store(&self) {
        if let Some(store) = &self.store {
            store.calls.close().await;
        }
    }

    /// Waits until no handler runs. After [`close`](Self::close) none will begin.
    pub(super) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Handles a request whose token has been checked, but for a check that took too long: refuses
    /// it, answers it from memory, or begins it. Handlers begin in the order in which this is called,
    /// those of durable methods once the store has let them; and they go on by themselves.
    pub(super) async fn accept(
        self: Arc<Self>,
        connection: &Arc<Connection>,
        arrived: Arrived,
        verdict: Option<Verdict>,
    ) {
        let id = arrived.id;
        // Counted before it is asked whether the server is stopping: so either it is refused, or who
        // stops the server waits for it.
        let running = Running::begin(self.clone());
        let call = match self.admit(connection, arrived, verdict) {
            Ok(Some(call)) => call,
            Ok(None) => return,
            Err(fault) => {
                let response = fault.into_response();
                return connection.respond(id, &self.refusal(connection, &response));
            }
        };
        connection.call_began();
        let cancellation = call.context.cancellation.clone();
        let mut work = Box::pin(running.run(connection.clone(), call));
        // The first step is made here: that is what makes handlers begin in order, and what spares
        // a quick one a task of its own.
        let pending = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending()));
        if pending.await {
            connection.may_be_cancelled(id, cancellation);
            tokio::spawn(work);
        }
    }

    /// All checks. `Ok(None)` if the call needs no handler: it has been answered, or will be.
    fn admit(
        &self,
        connection: &Arc<Connection>,
        arrived: Arrived,
        verdict: Option<Verdict>,
    ) -> Result<Option<Call>, Fault> {
        let request = &arrived.request;
        let principal = match verdict {
            Some(Verdict::Accepted(principal)) if request.token.is_some() => principal,
            Some(_) => {
                return Err(Fault::with_status(
                    status::UNAUTHORIZED,
                    "Token is not valid",
                    None,
                ));
            }
            None => return Err(Fault::overloaded("The check of the token took too long")),
        };
        let found = self.services.find(request)?;
        let blobs: Vec<Bytes> = request
            .parameters
            .iter()
            .flatten()
            .map(|blob| blob.clone().unwrap_or_default())
            .collect();
        let store = self.store.as_ref().filter(|_| found.durable);
        let lasting = store.map(|_| lasting_digest(&found.method, &blobs));
        let digest = match &lasting {
            Some(lasting) => short(lasting),
            None => digest(&found.method, &blobs),
        };
        let decoded = match &found.handler {
            Handler::Blobs(_) => found
                .method
                .check_count(blobs.len())
                .map(|()| Input::Blobs(blobs)),
            Handler::Json(_) => found
                .method
                .decode_args_json(self.codec, &blobs)
                .map(Input::Json),
            Handler::Values(_) => found
                .method
                .decode_args(self.codec, &blobs)
                .map(Input::Values),
        };
        let input = decoded.map_err(|e| Fault::bad_request(e.to_string()))?;
        let peer = connection.peer_info();
        let cancellation = match peer.capabilities.has(Capabilities::CANCELLATION) {
            true => CancellationToken::of(connection.waiting(arrived.id)),
            false => CancellationToken::default(),
        };
        let id = CallId {
            principal: principal.clone(),
            invocation: request.invocation_id,
            numbered: numbered(connection, &arrived.fields),
            repeated: arrived.fields.attempt.is_some_and(|attempt| attempt > 1),
            // What is durable is known wherever it was.
            elsewhere: arrived.fields.elsewhere && store.is_none(),
        };
        let may_be_repetition =
            id.numbered.is_none() || id.repeated || arrived.fields.may_have_come;
        let ticket = if request.invocation_id.is_nil() {
            self.check_room(connection, &arrived)?;
            None
        } else {
            match self.remember(connection, &arrived, &id, digest, &cancellation)? {
                Some(ticket) => Some(ticket),
                None => return Ok(None),
            }
        };
        let durable = match (ticket, store, lasting) {
            (Some(_), Some(store), Some(digest)) => Some(DurableCall {
                store: store.calls.clone(),
                resolver: found.resolver,
                call: StoredCall {
                    principal: id.principal,
                    invocation: id.invocation,
                    numbered: id.numbered,
                    repeated: id.repeated,
                    elsewhere: arrived.fields.elsewhere,
                    // Whoever does not know of epochs can't have meant another one.
                    epoch: connection.told_epoch().unwrap_or_else(|| store.epoch()),
                    digest,
                    not_executed: false,
                },
                fence: None,
            }),
            _ => None,
        };
        let trace_context = arrived.fields.trace_context.map(Into::into);
        Ok(Some(Call {
            id: arrived.id,
            ticket,
            durable,
            input,
            handler: found.handler,
            context: CallContext {
                method: found.method,
                invocation_id: request.invocation_id,
                principal,
                peer: connection.peer(),
                connection_id: connection.id(),
                connection: Arc::downgrade(connection),
                publisher: self.publisher.clone(),
                cancellation,
                deadline: arrived.deadline,
                trace_context,
                may_be_repetition,
            },
        }))
    }

    /// The answer of a call that did not begin. A libwitrpc client is told when to come back.
    fn refusal(&self, connection: &Connection, response: &Response) -> Bytes {
        if response.status != status::TRANSPORT_ERROR || !connection.peer_info().deduplicates() {
            return encode(response);
        }
        let ms = u32::try_from(self.retry_after.as_millis()).unwrap_or(u32::MAX);
        let fields = Extension {
            retry_after_ms: Some(ms),
            ..Extension::default()
        };
        encode(&Response {
            extension: Some(fields.encode().into()),
            ..response.clone()
        })
    }

    fn check_room(&self, connection: &Connection, arrived: &Arrived) -> Result<(), Fault> {
        let draining = self.is_draining();
        if draining && (self.closed.load(Ordering::SeqCst) || !connection.may_not_know()) {
            return Err(Fault::overloaded("The server is stopping"));
        }
        // The call in question is one of them.
        if self.running.load(Ordering::SeqCst) > self.max_in_flight {
            return Err(Fault::overloaded("The server has too many calls running"));
        }
        if arrived.is_over() {
            return Err(Fault::overloaded(
                "The call's time was over before it could begin",
            ));
        }
        Ok(())
    }

    /// Enters a call into the table. `None` if it is a repetition.
    fn remember(
        &self,
        connection: &Arc<Connection>,
        arrived: &Arrived,
        call: &CallId,
        digest: u64,
        token: &CancellationToken,
    ) -> Result<Option<Ticket>, Fault> {
        let id = arrived.id;
        let waiter = Waiter {
            connection: Arc::downgrade(connection),
            id,
        };
        let room = self.check_room(connection, arrived);
        let mut memory = self.memory.lock();
        let Memory { table, tokens } = &mut *memory;
        let now = Time::from_origin(self.origin.elapsed());
        match table.begin(now, call, digest, waiter, room.is_ok()) {
            Admission::New(ticket) => {
                if tokens.len() <= ticket.index() {
                    tokens.resize_with(ticket.index() + 1, CancellationToken::default);
                }
                tokens[ticket.index()] = token.clone();
                Ok(Some(ticket))
            }
            Admission::Attached => {
                let running = table.ticket(&call.principal, call.invocation);
                if let Some(token) = running.and_then(|ticket| tokens.get(ticket.index())) {
                    token.join(connection.waiting(id));
                    connection.may_be_cancelled(id, token.clone());
                }
                Ok(None)
            }
            Admission::Replay(answer) => {
                drop(memory);
                connection.respond(id, &marked_as_replay(connection, &answer));
                Ok(None)
            }
            Admission::OutcomeUnknown => Err(Fault::outcome_unknown()),
            Admission::Mismatch => Err(Fault::id_is_taken()),
            Admission::NoRoom => room.map(|()| None),
            Admission::Full => Err(Fault::memory_is_full()),
        }
    }

    /// A call has ended: its answer is remembered, then sent to all that wait. `None`: it could not be stored where it must be.
    fn answer(
        &self,
        connection: &Connection,
        id: Uuid,
        ticket: Option<Ticket>,
        answer: Option<&Bytes>,
    ) {
        let twins = self.end(ticket, |table, now, ticket| match answer {
            Some(answer) => table.finish(now, ticket, answer),
            None => table.finish_unknown(now, ticket),
        });
        let unknown;
        let answer = match answer {
            Some(answer) => answer,
            None => {
                unknown = encode(&Fault::outcome_unknown().into_response());
                &unknown
            }
        };
        tell(connection, id, twins, |to, id| to.respond(id, answer));
    }

    /// The store has the answer of a call that was about to begin.
    fn recall(&self, connection: &Connection, id: Uuid, ticket: Option<Ticket>, answer: &Bytes) {
        let twins = self.end(ticket, |table, now, ticket| {
            table.finish(now, ticket, answer)
        });
        tell(connection, id, twins, |to, id| {
            to.respond(id, &marked_as_replay(to, answer));
        });
    }

    /// A handler refused its call: it is not remembered, so that a repetition may run.
    fn give_back(
        &self,
        connection: &Connection,
        id: Uuid,
        ticket: Option<Ticket>,
        response: &Response,
    ) {
        // Forgotten before it is said: whoever hears of it may come back at once.
        let twins = self.end(ticket, |table, _, ticket| table.abandon(ticket));
        tell(connection, id, twins, |to, id| {
            to.respond(id, &self.refusal(to, response));
        });
    }

    /// Takes a call out of those that run. Returns its twins, if it can have any.
    fn end(
        &self,
        ticket: Option<Ticket>,
        how: impl FnOnce(&mut Table<Waiter>, Time, Ticket) -> Vec<Waiter>,
    ) -> Vec<Waiter> {
        let Some(ticket) = ticket else {
            return Vec::new();
        };
        let now = Time::from_origin(self.origin.elapsed());
        let mut memory = self.memory.lock();
        memory.forget_token(ticket);
        how(&mut memory.table, now, ticket)
    }
}

/// Sends to who called, and to the twins that are still connected.
fn tell(connection: &Connection, id: Uuid, twins: Vec<Waiter>, send: impl Fn(&Connection, Uuid)) {
    send(connection, id);
    for twin in twins {
        if let Some(connection) = twin.connection.upgrade() {
            send(&connection, twin.id);
        }
    }
}

/// A call that is about to begin.
struct Call {
    id: Uuid,
    ticket: Option<Ticket>,
    durable: Option<DurableCall>,
    input: Input,
    handler: Handler,
    context: CallContext,
}

enum Input {
    Json(String),
    Values(Vec<Value>),
    Blobs(Vec<Bytes>),
}

/// A call that the server counts as running, from before it is admitted until it has been answered
/// or refused.
struct Running(Arc<Dispatch>);

impl Running {
    fn begin(dispatch: Arc<Dispatch>) -> Self {
        dispatch.running.fetch_add(1, Ordering::SeqCst);
        Self(dispatch)
    }

    async fn run(self, connection: Arc<Connection>, mut call: Call) {
        let ended = Ended(&connection);
        let dispatch = &self.0;
        if let Some(durable) = &mut call.durable {
            match durable.claim(&mut call.context, dispatch.codec).await {
                Claimed::Run => {}
                Claimed::Answer(answer) => {
                    dispatch.recall(&connection, call.id, call.ticket, &answer);
                    return drop(ended);
                }
                // What the store knows is asked for anew by the next twin.
                Claimed::Refused(fault) => {
                    let response = fault.into_response();
                    dispatch.give_back(&connection, call.id, call.ticket, &response);
                    return drop(ended);
                }
            }
        }
        dispatch.executed.fetch_add(1, Ordering::Relaxed);
        let (id, ticket, method) = (call.id, call.ticket, call.context.method.clone());
        if let Some(trace) = &dispatch.trace {
            trace(Execution {
                contract: method.contract_name(),
                method: method.name(),
                invocation_id: call.context.invocation_id,
            });
        }
        let unencodable =
            |e: CodecError| Fault::internal("The result can't be encoded", e.to_string());
        let output = match (call.handler, call.input) {
            (Handler::Json(f), Input::Json(json)) => Caught::new(move || f(call.context, json))
                .await
                .and_then(|json| {
                    method
                        .encode_result_json(dispatch.codec, &json)
                        .map_err(unencodable)
                }),
            (Handler::Values(f), Input::Values(values)) => {
                Caught::new(move || f(call.context, values))
                    .await
                    .and_then(|value| {
                        method
                            .encode_result(dispatch.codec, &value)
                            .map_err(unencodable)
                    })
            }
            (Handler::Blobs(f), Input::Blobs(blobs)) => {
                Caught::new(move || f(call.context, blobs)).await
            }
            _ => unreachable!("the input was made for the handler"),
        };
        let response = match output {
            Ok(data) => Response::ok(data.filter(|blob| !blob.is_empty())),
            Err(fault) => fault.into_response(),
        };
        if response.status == status::TRANSPORT_ERROR {
            if let Some(durable) = &call.durable {
                durable.abandon().await;
            }
            dispatch.give_back(&connection, id, ticket, &response);
            return drop(ended);
        }
        let answer = encode(&response);
        // Stored before it is sent: a twin that comes in between must not run.
        let stored = match &call.durable {
            Some(durable) => durable.finish(&answer, dispatch.max_answer).await,
            None => Ok(()),
        };
        match stored {
            Ok(()) => dispatch.answer(&connection, id, ticket, Some(&answer)),
            // Where there is a resolver, later twins ask it.
            Err(fault)
                if call
                    .durable
                    .is_some_and(|durable| durable.resolver.is_some()) =>
            {
                let response = fault.into_response();
                dispatch.give_back(&connection, id, ticket, &response);
            }
            Err(_) => dispatch.answer(&connection, id, ticket, None),
        }
        drop(ended);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// Tells the connection of a call that it has ended, however that was.
struct Ended<'a>(&'a Connection);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.call_ended();
    }
}

/// What of a lasting digest the memory compares.
fn short(digest: &[u8; 16]) -> u64 {
    let (first, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

fn numbered(connection: &Connection, fields: &Extension) -> Option<Numbered> {
    Some(Numbered {
        client: connection.client_id()?,
        number: fields.call_number?,
        first_unfinished: fields.first_unfinished?,
    })
}

/// Stands for a method and its arguments within one life of a server.
fn digest(method: &Method, blobs: &[Bytes]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match method.method_id() {
        0 => (method.contract_id(), method.to_string()).hash(&mut hasher),
        id => id.hash(&mut hasher),
    }
    blobs.hash(&mut hasher);
    hasher.finish()
}

/// Stands for them in every process and release.
fn lasting_digest(method: &Method, blobs: &[Bytes]) -> [u8; 16] {
    let mut hasher = digest::Context::new(&digest::SHA256);
    hasher.update(&method.contract_id().to_le_bytes());
    hasher.update(&method.method_id().to_le_bytes());
    if method.method_id() == 0 {
        hasher.update(method.to_string().as_bytes());
    }
    for blob in blobs {
        hasher.update(&(blob.len() as u64).to_le_bytes());
        hasher.update(blob);
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finish().as_ref()[..16]);
    short
}

pub(super) fn encode(response: &Response) -> Bytes {
    let mut out = Vec::with_capacity(32 + response.data.as_ref().map_or(0, Bytes::len));
    response.encode(&mut out);
    out.into()
}

/// Tells a libwitrpc client that an answer comes from memory.
fn marked_as_replay(connection: &Connection, answer: &Bytes) -> Bytes {
    if !connection.peer_info().deduplicates() {
        return answer.clone();
    }
    match Response::decode(answer) {
        Ok(Some(response)) => {
            let fields = Extension {
                replayed: true,
                ..Extension::default()
            };
            encode(&Response {
                extension: Some(fields.encode().into()),
                ..response
            })
        }
        _ => answer.clone(),
    }
}
