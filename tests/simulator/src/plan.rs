//! Everything that a seed decides before a life begins: who takes part, what they do, what goes
//! wrong.

use std::time::Duration;

use uuid::Uuid;
use witrpc::resilience::backoff::{BackoffType, Jitter};
use witrpc::resilience::budget::BudgetOptions;
use witrpc::resilience::dedup::DedupOptions;
use witrpc::resilience::engine::{EngineOptions, Timeout};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::resilience::retry::{Repeat, RetryOptions};
use witrpc::session::KeepAliveOptions;

use crate::dice::Dice;
use crate::fault::{Fault, Twins};

/// A millisecond, in the nanoseconds that the simulator counts.
pub const MS: u64 = 1_000_000;

/// A life, before it is lived.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it was made from.
    pub seed: u64,
    /// The server.
    pub server: Server,
    /// The network.
    pub network: Network,
    /// The clients.
    pub clients: Vec<Client>,
    /// What they do, in order, each with its place in the plan.
    pub steps: Vec<(usize, Step)>,
    /// What goes wrong, in order, each with its place in the plan.
    pub faults: Vec<(usize, Planned)>,
}

/// A fault and when it hits whom.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// When, in ns.
    pub at: u64,
    /// Which client.
    pub client: usize,
    /// What.
    pub fault: Fault,
}

/// What a user does.
#[derive(Debug, Clone)]
pub struct Step {
    /// When, in ns.
    pub at: u64,
    /// Which client's.
    pub client: usize,
    /// What.
    pub what: What,
}

/// See [`Step`].
#[derive(Debug, Clone)]
pub enum What {
    /// Makes a call.
    Call(Call),
    /// Cancels the call with this tag.
    Cancel(u32),
    /// Connects.
    Connect,
    /// Reconnects.
    Reconnect,
    /// Ends the wait between two attempts.
    ReconnectNow,
    /// Ends attempts in progress.
    StopReconnection,
    /// Disconnects, and connects again after so many ns.
    Disconnect(u64),
    /// Closes for good.
    Close,
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its number in its client's life.
    pub tag: u32,
    /// How it may be repeated.
    pub repeat: Repeat,
    /// The caller's own id.
    pub own_id: Option<Uuid>,
    /// The limit of the whole call.
    pub timeout: Timeout,
    /// What its method does.
    pub work: Work,
}

/// What a method does, and for how many ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Answers.
    Answer(u64),
    /// Answers with more than is kept.
    BigAnswer(u64),
    /// Throws.
    Fault(u64),
    /// Refuses for load the first time, then answers.
    Refusal(u64),
}

/// See [`Plan`].
#[derive(Debug, Clone)]
pub struct Server {
    /// It is a .NET server.
    pub is_dotnet: bool,
    /// Its memory of calls survives a crash.
    pub has_journal: bool,
    /// Connections are encrypted.
    pub is_encrypted: bool,
    /// Bounds of its memory of calls.
    pub dedup: DedupOptions,
    /// Methods that may run at the same time.
    pub max_running: usize,
    /// The same for one connection; more are not read.
    pub max_running_per_connection: usize,
    /// How long the check of a token takes, in ns.
    pub token_check: u64,
}

/// See [`Plan`].
#[derive(Debug, Clone)]
pub struct Network {
    /// Shortest way, in ns.
    pub fastest: u64,
    /// Longest way, in ns.
    pub slowest: u64,
    /// Bytes that may be on their way.
    pub window: usize,
    /// Messages arrive in pieces.
    pub splits: bool,
}

/// See [`Plan`].
#[derive(Debug, Clone)]
pub struct Client {
    /// Who it is to the server.
    pub principal: String,
    /// How it behaves.
    pub options: EngineOptions,
    /// To the server it is a .NET client.
    pub is_dotnet: bool,
    /// How long a callback takes, in ns.
    pub callback: u64,
    /// Calls from inside `on_reconnected`.
    pub calls_back: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let root = Dice::new(seed);
        let mut dice = root.fork(1);
        let server = server(&mut dice);
        let network = network(&mut dice, &server);
        let clients: Vec<_> = (0..dice.pick(&[1, 1, 1, 2, 2, 3]))
            .map(|n| client(&mut dice, n))
            .collect();
        let steps = steps(&mut root.fork(2), &server, &clients);
        let faults = faults(&mut root.fork(3), &server, clients.len(), &steps);
        Self {
            seed,
            server,
            network,
            clients,
            steps: steps.into_iter().enumerate().collect(),
            faults: faults.into_iter().enumerate().collect(),
        }
    }

    /// The same with these faults and steps only.
    pub fn keep(mut self, faults: &[usize], steps: &[usize]) -> Self {
        self.faults.retain(|(place, _)| faults.contains(place));
        self.steps.retain(|(place, _)| steps.contains(place));
        self
    }

    /// Places of the faults that are left.
    pub fn fault_places(&self) -> Vec<usize> {
        self.faults.iter().map(|(place, _)| *place).collect()
    }

    /// Places of the steps that are left.
    pub fn step_places(&self) -> Vec<usize> {
        self.steps.iter().map(|(place, _)| *place).collect()
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn server(dice: &mut Dice) -> Server {
    let is_dotnet = dice.percent(12);
    let pressed = dice.percent(40);
    let hold = dice.pick(&[2_000, 10_000, 60_000, 600_000, 600_000]);
    Server {
        is_dotnet,
        has_journal: !is_dotnet && dice.percent(45),
        is_encrypted: dice.percent(1),
        dedup: DedupOptions {
            max_records: if pressed {
                dice.between(1, 6) as usize
            } else {
                1000
            },
            max_bytes: if dice.percent(20) {
                dice.between(60, 400) as usize
            } else {
                1 << 20
            },
            hold: ms(hold),
            max_answer: 300,
            max_tombstones: if dice.percent(30) {
                dice.between(0, 3) as usize
            } else {
                1000
            },
            max_clients: if dice.percent(10) { 1 } else { 1000 },
        },
        max_running: if dice.percent(20) {
            dice.between(1, 3) as usize
        } else {
            100
        },
        max_running_per_connection: if dice.percent(15) { 1 } else { 100 },
        token_check: if dice.percent(20) {
            dice.between(1, 40) * MS
        } else {
            0
        },
    }
}

fn network(dice: &mut Dice, server: &Server) -> Network {
    let fastest = dice.between(1, 20) * MS / 4;
    Network {
        fastest,
        slowest: fastest * dice.between(1, 6),
        window: if !server.is_encrypted && dice.percent(20) {
            dice.between(100, 400) as usize
        } else {
            1 << 16
        },
        splits: dice.percent(50),
    }
}

fn jitter(dice: &mut Dice) -> Jitter {
    dice.pick(&[
        Jitter::None,
        Jitter::None,
        Jitter::Equal,
        Jitter::Full,
        Jitter::Decorrelated,
    ])
}

fn client(dice: &mut Dice, n: usize) -> Client {
    let initial = dice.between(10, 600);
    let reconnect = ReconnectOptions {
        max_attempts: dice.pick(&[0, 0, 3, 10]),
        initial_delay: ms(initial),
        max_delay: ms(initial * dice.between(1, 20)),
        backoff_multiplier: dice.pick(&[1.0, 1.5, 2.0]),
        jitter: jitter(dice),
        random_first_delay: dice.percent(25),
        reconnect_on_disconnect: dice.percent(85),
        retry_first_connect: dice.percent(40),
        stable_after: ms(dice.pick(&[500, 2_000, 10_000])),
    };
    let initial = dice.between(10, 400);
    let mut retry = RetryOptions {
        max_retries: dice.pick(&[1, 2, 3, 5, 8]) as u32,
        initial_delay: ms(initial),
        max_delay: ms(initial * dice.between(1, 10)),
        backoff: dice.pick(&[
            BackoffType::Fixed,
            BackoffType::Linear,
            BackoffType::Exponential,
        ]),
        jitter: jitter(dice),
        has_predicate: dice.percent(15),
        ..RetryOptions::default()
    };
    if dice.percent(20) {
        retry.retryable_statuses.insert(500);
    }
    if dice.percent(10) {
        retry.budget = Some(BudgetOptions {
            reserve_per_second: 0,
            percent: 50,
        });
    }
    Client {
        principal: dice.pick(&["ann", "ann", "bob"]).to_owned() + if n == 2 { "2" } else { "" },
        options: EngineOptions {
            reconnect: dice.percent(92).then_some(reconnect),
            retry: dice.percent(92).then_some(retry),
            attempt_timeout: Some(ms(dice.pick(&[150, 400, 1_000, 3_000, 30_000]))),
            connect_timeout: ms(dice.pick(&[1_500, 3_000, 10_000])),
            endpoints: dice.between(1, 2) as usize,
            token_is_provided: dice.percent(70),
            max_queued_calls: if dice.percent(15) { 2 } else { 4096 },
            max_in_flight: if dice.percent(15) {
                dice.between(1, 2) as usize
            } else {
                16_384
            },
            keep_alive: match dice.between(0, 9) {
                0..=2 => None,
                3..=5 => Some(KeepAliveOptions {
                    interval: ms(dice.between(3_000, 15_000)),
                    timeout: ms(dice.between(3_000, 20_000)),
                }),
                _ => Some(KeepAliveOptions::default()),
            },
            ..EngineOptions::default()
        },
        is_dotnet: dice.percent(12),
        callback: if dice.percent(30) {
            dice.between(1, 300) * MS
        } else {
            0
        },
        calls_back: dice.percent(25),
    }
}

fn work(dice: &mut Dice) -> Work {
    let time = match dice.between(0, 9) {
        0..=4 => 0,
        5..=7 => dice.between(1, 60) * MS,
        _ => dice.between(100, 2_500) * MS,
    };
    match dice.between(0, 19) {
        0 => Work::BigAnswer(time),
        1 | 2 => Work::Fault(time),
        3 => Work::Refusal(time),
        _ => Work::Answer(time),
    }
}

fn steps(dice: &mut Dice, server: &Server, clients: &[Client]) -> Vec<Step> {
    let mut steps: Vec<_> = (0..clients.len())
        .map(|client| Step {
            at: dice.between(0, 20) * MS,
            client,
            what: What::Connect,
        })
        .collect();
    // Ids of the users' own, some of them used by several.
    let shared: Vec<_> = (0..2).map(|_| dice.id()).collect();
    let mut at = 0;
    let mut tag = 0;
    let count = dice.between(10, 18);
    for n in 0..count {
        at += match dice.between(0, 9) {
            0..=4 => dice.between(0, 20),
            5..=8 => dice.between(20, 400),
            _ => dice.between(400, 9_000),
        } * MS;
        let client = dice.between(0, clients.len() as u64 - 1) as usize;
        let what = match dice.between(0, 39) {
            0 if tag > 0 => What::Cancel(dice.between(1, u64::from(tag)) as u32),
            1 => What::Connect,
            2 => What::Reconnect,
            3 => What::ReconnectNow,
            4 if dice.percent(30) => What::StopReconnection,
            5 => What::Disconnect(dice.between(0, 800) * MS),
            6 if dice.percent(30) && n > count / 2 => What::Close,
            _ => {
                tag += 1;
                let repeat = match dice.between(0, 9) {
                    0 => Repeat::Never,
                    1 | 2 => Repeat::Idempotent,
                    _ => Repeat::Deduplicated,
                };
                let own_id = match dice.between(0, 19) {
                    0 | 1 => Some(dice.id()),
                    // A .NET server does not look whether it is the same call.
                    2 if !server.is_dotnet => Some(dice.pick(&shared)),
                    _ => None,
                };
                let timeout = match dice.between(0, 9) {
                    0 => Timeout::Never,
                    1 | 2 => Timeout::After(ms(dice.between(20, 3_000))),
                    _ => Timeout::Default,
                };
                What::Call(Call {
                    tag,
                    repeat,
                    own_id,
                    timeout,
                    work: work(dice),
                })
            }
        };
        steps.push(Step { at, client, what });
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn faults(dice: &mut Dice, server: &Server, clients: usize, steps: &[Step]) -> Vec<Planned> {
    let end = steps.last().map_or(0, |step| step.at) + 400 * MS;
    let mut faults: Vec<_> = (0..dice.between(1, 8))
        .map(|_| {
            // Mostly soon after something was done, as there is more to hit.
            let near = &steps[dice.between(0, steps.len() as u64 - 1) as usize];
            let (at, client) = match dice.percent(75) {
                true => (near.at + dice.between(0, 60) * MS / 2, near.client),
                false => (
                    dice.between(0, end),
                    dice.between(0, clients as u64 - 1) as usize,
                ),
            };
            Planned {
                at,
                client,
                fault: fault(dice, server),
            }
        })
        .collect();
    faults.sort_by_key(|planned| planned.at);
    faults
}

fn fault(dice: &mut Dice, server: &Server) -> Fault {
    let while_gone = |dice: &mut Dice| match dice.between(0, 3) {
        0 => 0,
        1 | 2 => dice.between(1, 300),
        _ => dice.between(300, 8_000),
    };
    let long = |dice: &mut Dice| match dice.between(0, 9) {
        0..=3 => dice.between(1, 200),
        4..=7 => dice.between(200, 4_000),
        8 => dice.between(4_000, 40_000),
        _ => dice.between(600_000, 1_300_000),
    };
    loop {
        return match dice.between(0, 20) {
            0 | 1 => Fault::CutUp(dice.between(0, 400)),
            2 | 3 => Fault::CutDown(dice.between(0, 250)),
            4 => Fault::Cut,
            5 => Fault::Close,
            6 => Fault::Delay(long(dice)),
            7 | 8 => Fault::Reorder(long(dice)),
            9 | 10 => Fault::Restart(while_gone(dice)),
            11 => Fault::SilentRestart(while_gone(dice)),
            12 if server.has_journal => Fault::StoreFailure(dice.between(1, 4)),
            13 | 14 if !server.is_dotnet => Fault::Twin(dice.pick(&[
                Twins::Repeated,
                Twins::Repeated,
                Twins::Plain,
                Twins::OtherArguments,
                Twins::OtherPrincipal,
            ])),
            15 if !server.is_dotnet => Fault::Pressure(dice.between(1, 8)),
            16 => Fault::ClientClock(long(dice)),
            17 => Fault::ServerClock(long(dice)),
            18 => Fault::SlowHandler(long(dice)),
            20 => Fault::GoingAway(while_gone(dice)),
            19 if dice.percent(40) => Fault::Token,
            _ => continue,
        };
    }
}
