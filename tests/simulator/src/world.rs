//! A life: one thing after the other, until everything that was planned has happened and has come to
//! rest.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use witrpc::resilience::engine::{CallKey, Engine, LinkId, State, Timeout};
use witrpc::resilience::retry::Repeat;
use witrpc::security::ClientKey;

use crate::checker::Checker;
use crate::client::Client;
use crate::dice::Dice;
use crate::fault::Hits;
use crate::network::{Connection, End, Peer, Piece, Way};
use crate::plan::{Call, MS, Plan, What, Work};
use crate::server::{Server, ServerEnd};
use crate::store::Journal;
use crate::twin::Twin;
use crate::watch::Watch;

/// Things that may happen in one life; more are a loop without an end.
const MANY: u64 = 50_000;

/// How long everything may take to come to rest once nothing goes wrong any more, in ns.
const CALM: u64 = 4_000_000 * MS;

/// What happens.
#[derive(Debug)]
pub enum Event {
    /// A user does the next thing.
    Step(usize),
    /// The next thing goes wrong.
    Fault(usize),
    /// A client's time has come.
    Wake(usize),
    /// A connection was made, with this token, or not.
    Opened(usize, LinkId, u64),
    /// A token source answers.
    Token(usize, u64),
    /// A predicate answers.
    Judged(usize, CallKey, bool),
    /// Something arrives.
    Arrives(usize, Way),
    /// A token was checked, in this life of the server.
    Checked(usize, u64),
    /// A method ends, in this life of the server.
    Ends(u64, usize),
    /// The same in a .NET server.
    DotnetEnds(u64, usize),
    /// The store may have ended writes.
    Stored(u64),
    /// The defect: an answer is stored after it was sent.
    StoredLate(u64, usize, Bytes),
    /// The server is back.
    Starts(u64),
    /// A callback returns; true if it was `on_reconnected`.
    CallbackDone(usize, bool),
    /// The server stops in order, in this life.
    Stops(u64),
    /// A sender of twins has a connection.
    TwinOpened(usize),
    /// A disconnected user connects again.
    Connect(usize),
}

/// Defects that are planted in the drivers of the simulator, as they are not in the pure parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedHere {
    /// An answer is stored after it is sent.
    SentBeforeStored,
    /// A completion is delivered twice after a late answer.
    CompletedTwice,
    /// The journal says that a write is durable before it is.
    AcknowledgedEarly,
}

/// What a life came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is wrong; empty if all promises were kept.
    pub violations: Vec<String>,
    /// What went wrong on purpose.
    pub hits: Hits,
    /// Things that happened.
    pub events: u64,
    /// Connections that broke at a byte.
    pub breaks: u64,
    /// Calls that ended well, and not.
    pub endings: (u64, u64),
    /// What happened, if it was asked for.
    pub trace: Vec<String>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct World {
    /// What was planned.
    pub plan: Plan,
    /// The time, in ns.
    pub now: u64,
    /// What is to happen.
    pub queue: crate::queue::Queue<Event>,
    /// How much of that is a client that looks at the clock.
    pub wakes: usize,
    /// Chance.
    pub dice: Dice,
    /// Connections, old and new.
    pub connections: Vec<Connection>,
    /// The server's ends of them.
    pub ends: Vec<Option<ServerEnd>>,
    /// The server.
    pub server: Server,
    /// The clients.
    pub clients: Vec<Client>,
    /// Senders of twins.
    pub twins: Vec<Twin>,
    /// The promises.
    pub checker: Checker,
    /// What went wrong.
    pub hits: Hits,
    /// Connections that broke at a byte.
    pub breaks: u64,
    /// The key pair of clients that encrypt.
    pub key: Option<Arc<ClientKey>>,
    /// A defect of the drivers.
    pub planted: Option<PlantedHere>,
    /// Clocks ran apart, or bytes were held back, for longer than calls without numbers bear.
    pub out_of_time: bool,
    trace: Option<Vec<String>>,
}

/// Lives a plan.
pub fn live(plan: Plan, planted: Option<PlantedHere>, traced: bool) -> Outcome {
    let mut world = World::new(plan, planted, traced);
    let events = world.run();
    world.checker.finish();
    Outcome {
        endings: world.checker.endings(),
        violations: world.checker.violations,
        hits: world.hits,
        events,
        breaks: world.breaks,
        trace: world.trace.unwrap_or_default(),
    }
}

/// Making a key pair takes long: one is enough.
fn key() -> Option<Arc<ClientKey>> {
    static KEY: OnceLock<Option<Arc<ClientKey>>> = OnceLock::new();
    KEY.get_or_init(|| ClientKey::generate().ok().map(Arc::new))
        .clone()
}

impl World {
    fn new(plan: Plan, planted: Option<PlantedHere>, traced: bool) -> Self {
        let dice = Dice::new(plan.seed).fork(4);
        let early = planted == Some(PlantedHere::AcknowledgedEarly);
        let journal = plan
            .server
            .has_journal
            .then(|| Journal::new(dice.fork(5), early));
        let clients = plan.clients.iter().enumerate();
        let clients = clients
            .map(|(n, client)| {
                let seed = dice.fork(10 + n as u64).bytes();
                let watch = Watch::new(client.options.reconnect);
                Client::new(Engine::new(client.options.clone(), seed), watch)
            })
            .collect();
        let mut world = Self {
            now: 0,
            queue: crate::queue::Queue::default(),
            wakes: 0,
            dice,
            connections: Vec::new(),
            ends: Vec::new(),
            server: Server::new(plan.server.dedup, journal),
            clients,
            twins: Vec::new(),
            checker: Checker::default(),
            hits: Hits::default(),
            breaks: 0,
            key: plan.server.is_encrypted.then(key).flatten(),
            planted,
            // What is not read while a connection is busy is held back, too.
            out_of_time: plan.server.max_running_per_connection == 1,
            trace: traced.then(Vec::new),
            plan,
        };
        for n in 0..world.plan.steps.len() {
            let at = world.plan.steps[n].1.at;
            world.queue.push(at, Event::Step(n));
        }
        for n in 0..world.plan.faults.len() {
            let at = world.plan.faults[n].1.at;
            world.queue.push(at, Event::Fault(n));
        }
        world
    }

    /// Notes what happens, if anybody wants to know.
    pub fn trace(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12.3} ms  {}", self.now as f64 / 1e6, text()));
        }
    }

    fn run(&mut self) -> u64 {
        let mut events = 0;
        self.pass(u64::MAX, &mut events, Self::is_quiet);
        if let Some((client, tag)) = self.checker.open.keys().min()
            && self.checker.violations.is_empty()
        {
            let text = format!("call {client}.{tag} hangs, and nothing happens any more");
            self.checker.violation(text);
        }
        // Nothing goes wrong any more: every client that was not closed must be able to call.
        let mut probed = 0;
        self.server.slow = (0, 0);
        for connection in &mut self.connections {
            connection.heal();
        }
        if let Some(journal) = &mut self.server.journal {
            journal.heal();
        }
        for client in 0..self.clients.len() {
            if self.clients[client].is_closed || !self.checker.violations.is_empty() {
                continue;
            }
            self.clients[client].next_connection = Default::default();
            self.connect(client);
            self.steer(client, |it, now| {
                it.watch.hurries();
                it.engine.reconnect_now(now);
            });
            let end = self.now + CALM;
            self.pass(end, &mut events, |world| {
                (world.is_quiet() && !world.clients[client].is_on_its_way())
                    || world.clients[client].engine.state() == State::Connected
            });
            let is_refused = !self.plan.clients[client].options.token_is_provided
                && self.server.oldest_token > 0;
            if is_refused {
                continue;
            }
            if self.clients[client].engine.state() != State::Connected {
                let state = self.clients[client].engine.state();
                self.checker.violation(format!(
                    "client {client} does not come back: {state:?}, {:?}",
                    self.clients[client].engine.last_failure()
                ));
                continue;
            }
            probed += 1;
            let tag = 5000 + client as u32;
            self.call(
                client,
                &Call {
                    tag,
                    repeat: Repeat::Never,
                    own_id: None,
                    timeout: Timeout::Default,
                    work: Work::Answer(0),
                },
            );
            let end = self.now + CALM;
            self.pass(end, &mut events, Self::is_quiet);
        }
        for client in 0..self.clients.len() {
            self.close(client);
        }
        self.pass(u64::MAX, &mut events, |world| world.queue.is_empty());
        self.last_look(probed);
        events
    }

    /// Nothing is under way, but for pings.
    fn is_quiet(&self) -> bool {
        self.queue.len() == self.wakes
            && self.checker.open.is_empty()
            && self.clients.iter().all(|client| !client.is_on_its_way())
    }

    /// Lets things happen until then, or until it is enough.
    fn pass(&mut self, until: u64, events: &mut u64, enough: impl Fn(&Self) -> bool) {
        while self.checker.violations.is_empty() && !enough(self) {
            if self.queue.next().is_none_or(|at| at > until) {
                return;
            }
            let Some((at, event)) = self.queue.pop() else {
                return;
            };
            *events += 1;
            if *events > MANY {
                return self.checker.violation("it goes on and on");
            }
            if at > self.now {
                for client in 0..self.clients.len() {
                    let now = self.client_time(client);
                    self.checker.deadlines(client, now);
                }
            }
            self.now = self.now.max(at);
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step(n) => self.step(n),
            Event::Fault(n) => self.inject(n),
            Event::Wake(client) => self.wake(client),
            Event::Opened(client, link, token) => self.opened(client, link, token),
            Event::Token(client, token) => self.token(client, token),
            Event::Judged(client, key, verdict) => {
                self.steer(client, |it, now| it.engine.judged(now, key, verdict));
            }
            Event::Arrives(connection, way) => self.arrives(connection, way),
            Event::Checked(connection, life) => self.check_ends(connection, life),
            Event::Ends(life, run) => self.method_ends(life, run),
            Event::DotnetEnds(life, run) => self.dotnet_ends(life, run),
            Event::Stored(life) => self.stored(life),
            Event::StoredLate(life, run, answer) => self.stored_late(life, run, answer),
            Event::Starts(life) => self.starts(life),
            Event::CallbackDone(client, reconnected) => self.callback_done(client, reconnected),
            Event::Stops(life) => self.stops(life),
            Event::TwinOpened(twin) => self.twin_opened(twin),
            Event::Connect(client) => self.connect(client),
        }
    }

    fn step(&mut self, n: usize) {
        let step = self.plan.steps[n].1.clone();
        let client = step.client;
        self.trace(|| format!("client {client}: {:?}", step.what));
        match step.what {
            What::Call(call) => self.call(client, &call),
            What::Cancel(tag) => self.steer(client, |it, _| {
                if let Some(key) = it.keys.get(&tag) {
                    it.engine.cancel(*key);
                }
            }),
            What::Connect => self.connect(client),
            What::Reconnect => self.steer(client, |it, now| {
                if !it.is_closed {
                    it.watch.reconnects();
                }
                it.engine.reconnect(now);
            }),
            What::ReconnectNow => self.steer(client, |it, now| {
                it.watch.hurries();
                it.engine.reconnect_now(now);
            }),
            What::StopReconnection => self.steer(client, |it, _| {
                if it.engine.state() == State::Reconnecting {
                    it.watch.stops();
                }
                it.engine.stop_reconnection();
            }),
            What::Disconnect(away) => {
                self.steer(client, |it, _| {
                    it.watch.stops();
                    it.engine.disconnect();
                });
                self.queue.push(self.now + away, Event::Connect(client));
            }
            What::Close => self.close(client),
        }
    }

    /// Sends bytes over a connection, which may break under them.
    pub fn send(&mut self, connection: usize, way: Way, bytes: Bytes) {
        let (arrivals, broke) = self.connections[connection].send(self.now, way, bytes);
        for at in arrivals {
            self.queue.push(at, Event::Arrives(connection, way));
        }
        if broke {
            self.breaks += 1;
            let is_counted = self.connections[connection].stream(way).is_counted;
            if let Peer::Client(client, _) = self.connections[connection].peer
                && !is_counted
            {
                let kind = usize::from(way == Way::Down);
                let phase = self.clients[client].phase();
                self.hits.count(kind, phase);
                self.trace(|| format!("connection {connection} breaks"));
            }
            self.breaks(connection);
        }
    }

    /// A connection breaks: what is on its way arrives, and then both ends notice.
    pub fn breaks(&mut self, connection: usize) {
        for way in [Way::Up, Way::Down] {
            if let Some(at) = self.connections[connection].end(self.now, way, End::Broken) {
                self.queue.push(at, Event::Arrives(connection, way));
            }
        }
    }

    fn arrives(&mut self, connection: usize, way: Way) {
        while let Some(piece) = self.connections[connection].arrived(self.now, way) {
            match (way, piece) {
                (Way::Up, Piece::Bytes(bytes)) => {
                    self.server_gets(connection, &bytes);
                    if let Peer::Client(client, _) = self.connections[connection].peer
                        && self.clients[client].connection() == Some(connection)
                    {
                        // There is room again.
                        self.settle(client);
                    }
                }
                (Way::Up, Piece::End(_)) => self.server_notices(connection),
                (Way::Down, piece) => match self.connections[connection].peer {
                    Peer::Client(client, link) => match piece {
                        Piece::Bytes(bytes) => {
                            if self.connections[connection].client_has_it {
                                self.client_reads(client, link, connection, &bytes);
                            }
                        }
                        Piece::End(end) => self.client_loses(client, link, connection, end),
                    },
                    Peer::Twin(twin) => self.twin_gets(twin, connection, piece),
                },
            }
        }
    }

    /// Everything has come to rest: nothing may be left over.
    fn last_look(&mut self, probed: usize) {
        if !self.checker.violations.is_empty() {
            return;
        }
        for client in 0..self.clients.len() {
            let now = self.client_time(client);
            let it = &mut self.clients[client];
            // Whatever comes late is nobody's any more.
            it.engine
                .tick(now + std::time::Duration::from_secs(1_000_000));
            let left = it.engine.stats();
            if it.engine.has_actions() || left.in_flight > 0 || left.queued > 0 || !it.is_silent() {
                self.checker.violation(format!(
                    "client {client} is closed and not at rest: {left:?}"
                ));
            }
        }
        if self.unended_runs() > 0 || !self.server_is_idle() {
            self.checker.violation("the server is not at rest");
        }
        let good = self.checker.endings().0;
        if good < probed as u64 {
            self.checker
                .violation("a call was not answered, though nothing went wrong any more");
        }
    }
}
