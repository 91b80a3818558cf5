//! Runs the [engine](crate::resilience::engine) on tokio: connects, moves bytes, keeps time, and
//! delivers what comes out.
//!
//! One task a link reads; one task a client keeps time. Whoever makes a call writes it to the
//! socket itself, unless the reading task is about to (then many calls share one write).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;

use super::callbacks::{Callbacks, Predicate};
use super::events::Subscriptions;
use super::key::KeyPair;
use super::token::TokenSource;
use crate::dispatcher::Dispatcher;
use crate::error::Error;
use crate::event_queue::EventQueueOptions;
use crate::resilience::engine::{
    Action, Answer, CallKey, CallSpec, Engine, LinkId, Loss, Notification, State,
};
use crate::time::Time;
use crate::transport::pump::{self, Ending, Outbox, Reader, Writer};
use crate::transport::{self, Endpoint, TransportOptions};

/// How a caller is told the end of its call.
pub(super) enum Completion {
    /// A task waits.
    Wake(oneshot::Sender<crate::Result<Answer>>),
    /// A callback, to be run by the dispatcher.
    Callback(Box<dyn FnOnce(crate::Result<Answer>) + Send>),
    /// A callback that does not block, to be run where the answer comes in.
    Direct(Box<dyn FnOnce(crate::Result<Answer>) + Send>),
}

/// What the driver needs to know besides the engine's options.
pub(super) struct DriverOptions {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) transport: TransportOptions,
    /// For links that are encrypted.
    pub(super) key: Option<KeyPair>,
    /// What runs the callbacks; `None` = threads of the client's own.
    pub(super) dispatcher: Option<Dispatcher>,
    /// What the client is called.
    pub(super) name: String,
    /// Of subscriptions that ask for nothing else.
    pub(super) event_queue: EventQueueOptions,
    /// How long a handler of events may hold up other callbacks; `None` = for ever.
    pub(super) handler_patience: Option<Duration>,
}

/// One client, shared by its handles and tasks.
pub(super) struct Driver {
    core: Mutex<Core>,
    /// Where the engine's time begins.
    origin: Instant,
    runtime: Handle,
    options: DriverOptions,
    timer: Arc<Notify>,
    state: watch::Sender<State>,
    pub(super) dispatcher: Dispatcher,
    pub(super) subscriptions: Subscriptions,
}

struct Core {
    origin: Instant,
    engine: Engine<Completion>,
    /// The engine's present link, and before it those that it has left and that have calls to
    /// answer.
    links: Vec<LinkIo>,
    /// When the time-keeping task looks next.
    armed: Time,
    /// The time-keeping task is to look again.
    timer: Arc<Notify>,
    connecting: Vec<oneshot::Sender<crate::Result<()>>>,
    token: TokenSource,
    callbacks: Callbacks,
    closed: bool,
}

/// The network side of a link.
struct LinkIo {
    id: LinkId,
    task: AbortHandle,
    /// From the moment it is connected.
    writer: Option<Writer>,
    /// How much it had written when something was waiting for the network.
    stuck_at: Option<u64>,
}

impl Outbox for Core {
    fn writer(&mut self, id: u64) -> Option<&mut Writer> {
        let mut writers = self.links.iter_mut().filter_map(|io| io.writer.as_mut());
        writers.find(|writer| writer.id() == id)
    }

    fn refill(&mut self, id: u64) {
        let now = Time::from_origin(self.origin.elapsed());
        for io in &mut self.links {
            if let Some(writer) = io.writer.as_mut().filter(|writer| writer.id() == id) {
                writer.load(self.engine.take_output(now, io.id));
                // Calls that had waited for room may have followed, or ended: somebody is to look.
                if self.engine.has_actions() {
                    self.timer.notify_one();
                }
                return;
            }
        }
    }
}

impl Driver {
    pub(super) fn start(
        engine: Engine<Completion>,
        options: DriverOptions,
        token: TokenSource,
        callbacks: Callbacks,
        runtime: Handle,
    ) -> Arc<Self> {
        let dispatcher = match &options.dispatcher {
            Some(dispatcher) => dispatcher.clone(),
            None => Dispatcher::new(options.handler_patience),
        };
        let subscriptions = Subscriptions::new(dispatcher.clone(), options.event_queue);
        let origin = Instant::now();
        let timer = Arc::new(Notify::new());
        let driver = Arc::new(Self {
            core: Mutex::new(Core {
                origin,
                engine,
                links: Vec::new(),
                armed: Time::NEVER,
                timer: timer.clone(),
                connecting: Vec::new(),
                token,
                callbacks,
                closed: false,
            }),
            origin,
            runtime,
            options,
            timer,
            state: watch::Sender::new(State::Disconnected),
            dispatcher,
            subscriptions,
        });
        driver.runtime.spawn(driver.clone().keep_time());
        driver
    }

    pub(super) fn name(&self) -> &str {
        &self.options.name
    }

    pub(super) fn watch_state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(super) fn state(&self) -> State {
        self.core.lock().engine.state()
    }

    pub(super) fn silence(&self) -> Option<std::time::Duration> {
        let now = self.now();
        self.core.lock().engine.silence(now)
    }

    /// Looks at the engine.
    pub(super) fn with_engine<R>(&self, look: impl FnOnce(&Engine<Completion>) -> R) -> R {
        look(&self.core.lock().engine)
    }

    /// Time since the engine's origin.
    fn now(&self) -> Time {
        Time::from_origin(self.origin.elapsed())
    }

    /// Starts a call. There is no key if it has ended already.
    pub(super) fn call(
        self: &Arc<Self>,
        spec: CallSpec,
        completion: Completion,
    ) -> Option<CallKey> {
        let now = self.now();
        let mut core = self.core.lock();
        let key = core.engine.call(now, spec, completion);
        self.settle(core, true);
        key
    }

    pub(super) fn cancel(self: &Arc<Self>, key: CallKey) {
        self.input(|engine, _| engine.cancel(key));
    }

    pub(super) fn connect(self: &Arc<Self>) -> oneshot::Receiver<crate::Result<()>> {
        self.connect_by(Engine::connect)
    }

    pub(super) fn reconnect(self: &Arc<Self>) -> oneshot::Receiver<crate::Result<()>> {
        self.connect_by(Engine::reconnect)
    }

    fn connect_by(
        self: &Arc<Self>,
        begin: impl FnOnce(&mut Engine<Completion>, Time),
    ) -> oneshot::Receiver<crate::Result<()>> {
        let (sender, receiver) = oneshot::channel();
        let now = self.now();
        let mut core = self.core.lock();
        core.connecting.push(sender);
        begin(&mut core.engine, now);
        self.settle(core, false);
        receiver
    }

    /// Tells the engine something.
    pub(super) fn input(self: &Arc<Self>, tell: impl FnOnce(&mut Engine<Completion>, Time)) {
        let now = self.now();
        let mut core = self.core.lock();
        tell(&mut core.engine, now);
        self.settle(core, true);
    }

    /// Ends everything, for good.
    pub(super) fn close(self: &Arc<Self>) {
        let mut core = self.core.lock();
        core.closed = true;
        core.engine.close();
        self.settle(core, false);
        // What the user gave us is let go of now, not when the last task has noticed.
        let mut core = self.core.lock();
        let callbacks = std::mem::take(&mut core.callbacks);
        let token = std::mem::replace(&mut core.token, TokenSource::Fixed(String::new()));
        drop(core);
        drop((callbacks, token));
        self.timer.notify_one();
    }

    /// Carries out what the engine wants after an input, and writes what it has to send.
    fn settle(self: &Arc<Self>, mut core: MutexGuard<'_, Core>, write: bool) {
        let mut wakes = Vec::new();
        let mut direct = Vec::new();
        let mut state_changed = false;
        while let Some(action) = core.engine.poll_action() {
            // Callbacks are queued under the lock, so that their order is that of the engine.
            match action {
                Action::Open { link, endpoint } => self.open(&mut core, link, endpoint),
                Action::Close { link } => core.close_link(link),
                Action::RefreshToken => self.refresh_token(core.token.clone()),
                Action::Judge { call, error } => {
                    self.judge(call, error, core.callbacks.retryable.clone());
                }
                Action::Complete { tag, result } => match tag {
                    Completion::Wake(sender) => wakes.push((sender, result)),
                    Completion::Callback(callback) => self.dispatcher.post(|| callback(result)),
                    Completion::Direct(callback) => direct.push((callback, result)),
                },
                Action::ConnectDone(result) => {
                    for sender in core.connecting.drain(..) {
                        let _ = sender.send(result.clone());
                    }
                }
                Action::Notify(Notification::Event(request)) => {
                    if let Err(overflow) = self.subscriptions.deliver(*request) {
                        core.abandon_link(self.now(), overflow);
                    }
                }
                Action::Notify(notification) => {
                    state_changed |= matches!(notification, Notification::StateChanged(_));
                    core.callbacks.post(&self.dispatcher, notification);
                }
            }
        }
        if let Some(next) = core.engine.next_wakeup()
            && next < core.armed
        {
            core.armed = next;
            self.timer.notify_one();
        }
        if write {
            self.write(core);
        } else {
            drop(core);
        }
        for (sender, result) in wakes {
            let _ = sender.send(result);
        }
        for (callback, result) in direct {
            callback(result);
        }
        if state_changed {
            // Read inside, so that of two threads the later one tells the later state.
            self.state.send_if_modified(|seen| {
                let state = self.state();
                std::mem::replace(seen, state) != state
            });
        }
    }

    /// Writes what the links have to send.
    fn write(&self, core: MutexGuard<'_, Core>) {
        let (present, left) = match &core.links[..] {
            [] => return,
            [left @ .., present] => {
                let id = |io: &LinkIo| io.writer.as_ref().map(Writer::id);
                (id(present), left.iter().filter_map(id).collect::<Vec<_>>())
            }
        };
        match present {
            Some(id) => pump::flush(&self.core, core, id),
            None => drop(core),
        }
        for id in left {
            pump::flush(&self.core, self.core.lock(), id);
        }
    }

    fn open(self: &Arc<Self>, core: &mut Core, link: LinkId, endpoint: usize) {
        let task = self
            .runtime
            .spawn(self.clone().run_link(link, endpoint, core.token.clone()));
        core.links.push(LinkIo {
            id: link,
            task: task.abort_handle(),
            writer: None,
            stuck_at: None,
        });
    }

    /// The life of a link: connect, then read until it is gone.
    async fn run_link(self: Arc<Self>, link: LinkId, endpoint: usize, token: TokenSource) {
        let endpoint = &self.options.endpoints[endpoint];
        let opened = async {
            let token = token.get().await?;
            Ok((
                token,
                transport::connect(endpoint, &self.options.transport).await?,
            ))
        };
        // The first time, making the key pair takes about as long as connecting may.
        let key = async {
            match &self.options.key {
                Some(key) => key.get().await.map(Some),
                None => Ok(None),
            }
        };
        let ((token, (mut reader, writer)), key) = match tokio::try_join!(opened, key) {
            Ok(opened) => opened,
            Err(error) => {
                let mut core = self.core.lock();
                core.take_link(link);
                core.engine.link_failed(self.now(), link, error);
                return self.settle(core, true);
            }
        };
        tracing::debug!(%endpoint, "connected");
        {
            let mut core = self.core.lock();
            match core.links.iter_mut().find(|io| io.id == link) {
                Some(io) => io.writer = Some(writer),
                None => return,
            }
            match key {
                Some(key) => core.engine.link_opened_encrypted(link, &token, key),
                None => core.engine.link_opened(link, &token),
            }
            self.settle(core, true);
        }
        let loss = self.read_link(link, &mut reader).await;
        tracing::debug!(%endpoint, ?loss, "connection lost");
        let now = self.now();
        let mut core = self.core.lock();
        let io = core.take_link(link);
        let unsent = io
            .and_then(|io| io.writer)
            .map_or(0, |writer| writer.unsent());
        core.engine.link_lost(now, link, loss, unsent);
        self.settle(core, true);
    }

    /// Reads until the link is gone and says why.
    async fn read_link(self: &Arc<Self>, link: LinkId, reader: &mut Reader) -> Loss {
        let ending = loop {
            if let Err(ending) = reader.fill(&self.core).await {
                break ending;
            }
            match self.take_in(link, reader) {
                // Callers that were just answered may have more to say: one write for all.
                Ok(busy) if busy => tokio::task::yield_now().await,
                Ok(_) => {}
                Err(ending) => break ending,
            }
            reader.release(&self.core);
        };
        if matches!(ending, Ending::Closed) {
            return Loss::Closed;
        }
        let error = Error::new(ending.code(), "the connection was lost");
        Loss::Dropped(error.with_details(Some(ending.to_string())))
    }

    /// Hands all whole frames to the engine. True if more answers are to come.
    fn take_in(self: &Arc<Self>, link: LinkId, reader: &mut Reader) -> Result<bool, Ending> {
        let now = self.now();
        let mut core = self.core.lock();
        core.engine.heard(now, link);
        let ended = loop {
            match reader.next_frame() {
                Ok(Some(body)) => core.engine.receive(now, link, body),
                Ok(None) => break Ok(()),
                Err(ending) => break Err(ending),
            }
        };
        let busy = core.engine.stats().in_flight > 0;
        self.settle(core, false);
        ended.map(|()| busy)
    }

    async fn keep_time(self: Arc<Self>) {
        loop {
            let wakeup = {
                let mut core = self.core.lock();
                if core.closed {
                    return;
                }
                let next = core.engine.next_wakeup();
                core.armed = next.unwrap_or(Time::NEVER);
                next
            };
            match wakeup {
                None => self.timer.notified().await,
                Some(at) => {
                    let at = self.origin + at.since_origin();
                    tokio::select! {
                        () = tokio::time::sleep_until(at.into()) => {}
                        () = self.timer.notified() => {}
                    }
                }
            }
            let now = self.now();
            let mut core = self.core.lock();
            core.look_at_writers(now);
            core.engine.tick(now);
            self.settle(core, true);
        }
    }

    fn refresh_token(self: &Arc<Self>, token: TokenSource) {
        let driver = self.clone();
        self.runtime.spawn(async move {
            let token = token.get().await;
            driver.input(|engine, now| match &token {
                Ok(token) => engine.token_refreshed(now, Ok(token)),
                Err(error) => engine.token_refreshed(now, Err(error.clone())),
            });
        });
    }

    fn judge(self: &Arc<Self>, call: CallKey, error: Error, predicate: Option<Predicate>) {
        let driver = self.clone();
        let ask = move || {
            let ask = std::panic::AssertUnwindSafe(|| predicate.is_some_and(|f| f(&error)));
            let retry = std::panic::catch_unwind(ask).unwrap_or(false);
            driver.input(|engine, now| engine.judged(now, call, retry));
        };
        if self.dispatcher.is_blocked() {
            // A callback may be waiting for this very call.
            self.runtime.spawn_blocking(ask);
        } else {
            self.dispatcher.post(ask);
        }
    }
}

impl Core {
    /// Drops the present link for a reason of our own; it counts as lost.
    fn abandon_link(&mut self, now: Time, reason: Error) {
        let Some(id) = self.engine.open_link() else {
            return;
        };
        let Some(mut io) = self.take_link(id) else {
            return;
        };
        let unsent = io.writer.as_mut().map_or(0, |writer| {
            let unsent = writer.unsent();
            writer.farewell("Client disconnecting");
            unsent
        });
        io.task.abort();
        self.engine
            .link_lost(now, id, Loss::Dropped(reason), unsent);
    }

    fn take_link(&mut self, link: LinkId) -> Option<LinkIo> {
        let at = self.links.iter().position(|io| io.id == link)?;
        Some(self.links.remove(at))
    }

    /// A server that takes what has been waiting for it lives.
    fn look_at_writers(&mut self, now: Time) {
        for io in &mut self.links {
            let Some(writer) = &io.writer else { continue };
            let written = writer.written();
            if io.stuck_at.is_some_and(|before| written > before) {
                self.engine.heard(now, io.id);
            }
            io.stuck_at = (writer.pending() > 0).then_some(written);
        }
    }

    fn close_link(&mut self, link: LinkId) {
        if let Some(mut io) = self.take_link(link) {
            if let Some(writer) = &mut io.writer {
                writer.farewell("Client disconnecting");
            }
            io.task.abort();
        }
    }
}
