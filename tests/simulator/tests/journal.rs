//! The real journal, its files and its thread, beside the simulator's model of it: the same calls in the same order, the same kills, and the same replies afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use witrpc::resilience::dedup::states::Reply;
use witrpc::resilience::dedup::{CallId, DedupOptions, Numbered};
use witrpc::server::store::{CallStore, Claim, Fence, Journal, StoredCall};
use witrpc::time::Time;
use witrpc_simulator::model::{Begun, Model};

const CLIENTS: u128 = 3;

struct Directory(PathBuf);

impl Directory {
    fn new(seed: u64, life: usize) -> Self {
        // Nothing here depends on a disk, and thousands of waits for one take long.
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory,
            false => Path::new(env!("CARGO_TARGET_TMPDIR")),
        };
        let path = folder.join(format!("witrpc-{}-{seed}-{life}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<std::ffi::OsString> {
        let files = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    }

    /// What is left of it when its process is killed: at one moment, so not while a snapshot takes the place of other files.
    fn copy_to(&self, next: &Self) {
        loop {
            let names = self.names();
            let copied = names
                .iter()
                .all(|name| std::fs::copy(self.0.join(name), next.0.join(name)).is_ok());
            if copied && self.names() == names {
                return;
            }
            for name in next.names() {
                std::fs::remove_file(next.0.join(name)).unwrap();
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Running {
    call: CallId,
    digest: u64,
    fence: Fence,
    begun: Begun,
}

struct Lives {
    rng: StdRng,
    bounds: DedupOptions,
    model: Model,
    /// Next number and first unfinished one of each client.
    clients: Vec<(u64, u64)>,
    known: Vec<(CallId, u64)>,
    running: Vec<Running>,
    answers: u64,
}

fn stored(call: &CallId, digest: u64) -> StoredCall {
    let mut long = [0; 16];
    long[..8].copy_from_slice(&digest.to_le_bytes());
    StoredCall {
        principal: call.principal.clone(),
        invocation: call.invocation,
        numbered: call.numbered,
        repeated: call.repeated,
        elsewhere: false,
        epoch: 0,
        digest: long,
        not_executed: false,
    }
}

impl Lives {
    /// A new call, or one that came before, perhaps changed.
    fn draw(&mut self) -> (CallId, u64) {
        if self.known.is_empty() || self.rng.random_bool(0.5) {
            let client = self.rng.random_range(0..=CLIENTS);
            let numbered = self.clients.get_mut(client as usize).map(|(next, first)| {
                *next += 1;
                if self.rng.random_bool(0.1) {
                    *first = self.rng.random_range(*first..=*next);
                }
                Numbered {
                    client: Uuid::from_u128(client + 1),
                    number: *next,
                    first_unfinished: *first,
                }
            });
            let call = CallId {
                principal: ["a", "b"][usize::from(client == 0)].into(),
                invocation: Uuid::from_u128(self.rng.random()),
                numbered,
                repeated: false,
                elsewhere: false,
            };
            self.known.push((call.clone(), self.rng.random_range(1..5)));
            return self.known[self.known.len() - 1].clone();
        }
        let at = self.rng.random_range(0..self.known.len());
        let (mut call, mut digest) = self.known[at].clone();
        call.repeated = call.numbered.is_some() && self.rng.random_bool(0.7);
        if self.rng.random_bool(0.1) {
            digest += 10;
        }
        (call, digest)
    }

    fn is_running(&self, call: &CallId) -> bool {
        let mut running = self.running.iter();
        running.any(|r| r.call.principal == call.principal && r.call.invocation == call.invocation)
    }

    async fn step(&mut self, journal: &Journal) {
        if !self.running.is_empty() && self.rng.random_bool(0.45) {
            let at = self.rng.random_range(0..self.running.len());
            let it = self.running.swap_remove(at);
            let call = stored(&it.call, it.digest);
            self.answers += 1;
            let length = self.rng.random_range(0..300);
            let answer = Bytes::from(format!("{:.<length$}", self.answers));
            match self.rng.random_range(0..10) {
                0 => {
                    journal.abandon(&call, it.fence).await.unwrap();
                    self.model.refuse(it.begun);
                }
                1 => {
                    journal.finish(&call, it.fence, None).await.unwrap();
                    self.model.end(Time::ZERO, it.begun, None);
                }
                _ => {
                    let finished = journal.finish(&call, it.fence, Some(&answer)).await;
                    finished.unwrap();
                    self.model.end(Time::ZERO, it.begun, Some(answer));
                }
            }
            return;
        }
        let (call, digest) = self.draw();
        // The memory of the process keeps twins of running calls away from the store.
        if !self.is_running(&call) {
            self.begin(journal, call, digest).await;
        }
    }

    async fn begin(&mut self, journal: &Journal, call: CallId, digest: u64) {
        let claim = journal.begin(&stored(&call, digest)).await.unwrap();
        let (reply, answer, begun) = self.model.begin(Time::ZERO, &call, digest, true);
        let same = match &claim {
            Claim::Run(_) => reply == Reply::Runs,
            Claim::Replay(bytes) => reply == Reply::StoredAnswer && answer.as_ref() == Some(bytes),
            Claim::OutcomeUnknown => reply == Reply::Unknown,
            Claim::Mismatch => reply == Reply::Mismatch,
            Claim::Full => reply == Reply::Refused,
        };
        assert!(
            same,
            "{call:?}: the journal says {claim:?}, the model {reply:?} {answer:?}"
        );
        if let (Claim::Run(fence), Some(begun)) = (claim, begun) {
            self.running.push(Running {
                call,
                digest,
                fence,
                begun,
            });
        }
    }

    /// The process is killed: what ran has no answer in the next life.
    fn crash(&mut self) {
        self.running.sort_by_key(|it| it.fence.0);
        for it in std::mem::take(&mut self.running) {
            self.model.end(Time::ZERO, it.begun, None);
        }
    }
}

async fn live(seed: u64) {
    let bounds = DedupOptions {
        max_records: 40,
        max_bytes: 4_000,
        max_answer: 250,
        max_tombstones: 60,
        hold: Duration::from_secs(100_000),
        ..DedupOptions::default()
    };
    let mut lives = Lives {
        rng: StdRng::seed_from_u64(seed),
        bounds,
        model: Model::new(bounds),
        clients: vec![(0, 1); CLIENTS as usize],
        known: Vec::new(),
        running: Vec::new(),
        answers: 0,
    };
    let mut directory = Directory::new(seed, 0);
    for life in 1..6 {
        let journal = Journal::new(&directory.0, lives.bounds);
        journal.open().await.unwrap();
        // In any order: the last ones are known best, those before them as far as they were.
        let all = lives.known.clone();
        for (call, digest) in all.into_iter().rev().take(30) {
            let repeated = CallId {
                repeated: call.numbered.is_some(),
                ..call
            };
            if !lives.is_running(&repeated) {
                lives.begin(&journal, repeated, digest).await;
            }
        }
        for _ in 0..lives.rng.random_range(10..120) {
            lives.step(&journal).await;
        }
        let next = Directory::new(seed, life);
        if lives.rng.random_bool(0.3) {
            journal.close().await;
        }
        // What is being written meanwhile was not promised to anybody.
        directory.copy_to(&next);
        lives.crash();
        journal.close().await;
        directory = next;
    }
}

#[test]
fn the_journal_knows_what_the_model_of_it_knows() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for seed in 0..100 {
        println!("seed {seed}");
        runtime.block_on(live(seed));
    }
}
