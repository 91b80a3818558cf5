//! Many calls in flight all the time, and the judgement of how they ended: by what their callers were
//! told, against what the serving process wrote down.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use uuid::Uuid;
use witrpc::client::{Client, Service};
use witrpc::{Error, ErrorCode, Outcome, Result};

use crate::demo::ECHO;
use crate::trace::Trace;

/// Longest text that is sent, in characters.
const LONGEST: usize = 4000;

/// How a call ended.
#[derive(Debug)]
struct Ended {
    /// Its id, where the caller chose it.
    id: Option<Uuid>,
    fate: Fate,
}

#[derive(Debug)]
enum Fate {
    /// With a result.
    Answered { counted: Option<usize> },
    /// With an error whose outcome says what is known.
    Failed(Error),
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
    failed: AtomicUsize,
    ended: Mutex<Vec<Ended>>,
}

/// Callers at work: a third of them wait for calls with ids of their own, a third for calls with ids
/// of the client, a third are called back.
///
/// Calls with ids of their own are of `Echo`, the others of `CountUp`.
pub struct Load {
    shared: Arc<Shared>,
    callers: JoinSet<()>,
}

impl Load {
    /// Starts so many callers; each has one call in flight all the time.
    pub fn start(client: &Client, callers: usize, seed: u64) -> Self {
        let shared = Arc::<Shared>::default();
        let echo = client.service(ECHO).unwrap();
        let mut set = JoinSet::new();
        for n in 0..callers {
            let caller = Caller {
                shared: shared.clone(),
                echo: echo.clone(),
                // Apart from all callers of other loads.
                rng: StdRng::seed_from_u64((seed << 32) + n as u64),
            };
            match n % 3 {
                0 => set.spawn(caller.count()),
                1 => set.spawn(caller.echo()),
                _ => set.spawn(caller.echo_called_back()),
            };
        }
        Self {
            shared,
            callers: set,
        }
    }

    /// Calls that ended with a result so far.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// Calls that ended with an error so far.
    pub fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::SeqCst)
    }

    /// Makes no more calls, waits until all have ended, and hands over what became of them.
    pub async fn finish(mut self) -> Ledger {
        self.shared.stop.store(true, Ordering::SeqCst);
        while let Some(ended) =
            crate::watch::within("the end of all calls", self.callers.join_next()).await
        {
            ended.unwrap();
        }
        let ended = std::mem::take(&mut *self.shared.ended.lock());
        Ledger { ended }
    }
}

struct Caller {
    shared: Arc<Shared>,
    echo: Service,
    rng: StdRng,
}

impl Caller {
    async fn count(self) {
        while self.goes_on() {
            let result = self.echo.call::<usize>("int CountUp(int)", (1,)).await;
            self.note(None, result.map(Some)).await;
        }
    }

    async fn echo(mut self) {
        while self.goes_on() {
            let (id, text) = self.draw();
            let call = self.echo.call::<String>("string Echo(string)", (&text,));
            let result = call.invocation_id(id).await;
            self.note(Some(id), result.map(|echoed| same(&echoed, &text)))
                .await;
        }
    }

    async fn echo_called_back(mut self) {
        while self.goes_on() {
            let (id, text) = self.draw();
            let (sender, receiver) = oneshot::channel();
            let call = self.echo.call::<()>("string Echo(string)", (&text,));
            call.invocation_id(id)
                .spawn_json(move |result| drop(sender.send(result)))
                .unwrap();
            let result = receiver.await.expect("a callback was dropped uncalled");
            let result = result.map(|json| same(json.trim_matches('"'), &text));
            self.note(Some(id), result).await;
        }
    }

    fn goes_on(&self) -> bool {
        !self.shared.stop.load(Ordering::SeqCst)
    }

    fn draw(&mut self) -> (Uuid, String) {
        // Mostly short ones, so that an outage meets frames of all sizes.
        let longest = if self.rng.random_bool(0.1) {
            LONGEST
        } else {
            40
        };
        let length = self.rng.random_range(0..longest);
        let letter = char::from(b'a' + self.rng.random_range(0..26u8));
        let text = std::iter::repeat_n(letter, length).collect();
        (Uuid::from_u128(self.rng.random()), text)
    }

    async fn note(&self, id: Option<Uuid>, result: Result<Option<usize>>) {
        let (fate, pause) = match result {
            Ok(counted) => {
                self.shared.answered.fetch_add(1, Ordering::SeqCst);
                (Fate::Answered { counted }, false)
            }
            Err(error) => {
                self.shared.failed.fetch_add(1, Ordering::SeqCst);
                (Fate::Failed(error), true)
            }
        };
        self.shared.ended.lock().push(Ended { id, fate });
        if pause {
            // As a program would, that has just been refused.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn same(echoed: &str, sent: &str) -> Option<usize> {
    assert_eq!(echoed, sent, "the answer of another call");
    None
}

/// How all calls ended.
pub struct Ledger {
    ended: Vec<Ended>,
}

/// What is to be found in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// No call is executed twice.
    AtMostOnce,
    /// A call may be executed more than once: it was declared idempotent.
    MayRepeat,
}

/// How many calls ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// With a result.
    pub answered: usize,
    /// With an answer that refused it for load.
    pub refused: usize,
    /// Not sent.
    pub not_sent: usize,
    /// With an unknown outcome.
    pub unknown: usize,
    /// Those of them that ended as "outcome unknown": not repeated, since that could run twice.
    pub not_repeated: usize,
}

impl Ledger {
    /// Those of several loads.
    pub fn all(ledgers: impl IntoIterator<Item = Self>) -> Self {
        let ended = ledgers.into_iter().flat_map(|ledger| ledger.ended);
        Self {
            ended: ended.collect(),
        }
    }

    /// Calls whose callers were told that the outcome is unknown, and which were executed.
    pub fn unknown_but_executed(&self, trace: &Trace) -> Vec<Uuid> {
        let unknown = self.ended.iter().filter(|ended| match &ended.fate {
            Fate::Failed(error) => error.outcome() == Outcome::Unknown,
            Fate::Answered { .. } => false,
        });
        unknown
            .filter_map(|ended| ended.id)
            .filter(|id| trace.of(*id) > 0)
            .collect()
    }

    /// Compares with what was executed, where the trace holds the calls of others too: only calls
    /// with ids of their own can be found.
    pub fn judge_part(mut self, trace: &Trace) -> Tally {
        self.ended.retain(|ended| ended.id.is_some());
        self.tally(trace, Rule::AtMostOnce, false).0
    }

    /// Compares with what was executed.
    ///
    /// `one_life` says that one process served all the time: then no two calls got the same count.
    pub fn judge(&self, trace: &Trace, rule: Rule, one_life: bool) -> Tally {
        let (own, anonymous) = self.tally(trace, rule, one_life);
        let counted = trace.of_method("CountUp");
        let most = match rule {
            Rule::AtMostOnce => anonymous.answered + anonymous.unknown,
            Rule::MayRepeat => usize::MAX,
        };
        assert!(
            (anonymous.answered..=most).contains(&counted),
            "CountUp was executed {counted} times: {anonymous:?}"
        );
        if rule == Rule::AtMostOnce {
            assert_eq!(trace.repeated(), [], "executed more than once");
        }
        Tally {
            answered: own.answered + anonymous.answered,
            refused: own.refused + anonymous.refused,
            not_sent: own.not_sent + anonymous.not_sent,
            unknown: own.unknown + anonymous.unknown,
            not_repeated: own.not_repeated + anonymous.not_repeated,
        }
    }

    /// Counts calls with ids of their own, and the others.
    fn tally(&self, trace: &Trace, rule: Rule, one_life: bool) -> (Tally, Tally) {
        let mut own = Tally::default();
        let mut anonymous = Tally::default();
        let mut counts = HashSet::new();
        for ended in &self.ended {
            let executed = ended.id.map(|id| trace.of(id));
            let tally = match executed {
                Some(_) => &mut own,
                None => &mut anonymous,
            };
            let allowed = match &ended.fate {
                Fate::Answered { counted } => {
                    if let Some(n) = counted.filter(|_| one_life) {
                        assert!(counts.insert(n), "two calls were counted as number {n}");
                    }
                    tally.answered += 1;
                    1..=1
                }
                Fate::Failed(error) => match error.outcome() {
                    Outcome::NotSent => {
                        tally.not_sent += 1;
                        0..=0
                    }
                    Outcome::Unknown => {
                        tally.unknown += 1;
                        tally.not_repeated +=
                            usize::from(error.code() == ErrorCode::OutcomeUnknown);
                        0..=1
                    }
                    Outcome::Answered => {
                        assert_eq!(error.code(), ErrorCode::Overloaded, "{error:?}");
                        tally.refused += 1;
                        0..=0
                    }
                },
            };
            if let Some(n) = executed {
                let many = rule == Rule::MayRepeat && n > 1 && *allowed.end() > 0;
                assert!(
                    many || allowed.contains(&n),
                    "executed {n} times: {ended:?}"
                );
            }
        }
        (own, anonymous)
    }
}
