//! What it costs that a call never runs twice: the memory of calls by itself, and the journal beside the disk that it waits for.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use uuid::Uuid;
use witrpc::resilience::dedup::{Admission, CallId, DedupOptions, Numbered, Table};
use witrpc::time::Time;

use crate::calls::Async;
use crate::figures::{Sample, median};

/// Prints what the memory adds to a call: a record is entered, ended, and given up by a later call's mark.
pub(crate) fn print_memory(round: Duration, rounds: usize) {
    let (answer, principal) = (Bytes::from_static(&[7; 64]), Arc::<str>::from(""));
    let mut table = Table::<usize>::new(DedupOptions::default());
    let (begun, mut number) = (Instant::now(), 0_u64);
    let mut nanos = Vec::new();
    for _ in 0..=rounds {
        let (start, first) = (Instant::now(), number);
        while start.elapsed() < round {
            for _ in 0..100 {
                number += 1;
                let call = CallId {
                    principal: principal.clone(),
                    invocation: Uuid::from_u64_pair(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1),
                    numbered: Some(Numbered {
                        client: Uuid::from_u128(1),
                        number,
                        first_unfinished: number.saturating_sub(64),
                    }),
                    repeated: false,
                    elsewhere: false,
                };
                let now = Time::from_origin(begun.elapsed());
                let Admission::New(ticket) = table.begin(now, &call, number, 0, true) else {
                    panic!("a new call was not new");
                };
                table.finish(now, ticket, &answer);
            }
        }
        nanos.push(start.elapsed().as_nanos() as f64 / (number - first) as f64);
    }
    println!(
        "The memory of calls, of every call\n  adds             {:.3} us a call   (goal: 1 us)\n",
        median(nanos.into_iter().skip(1)) / 1000.0
    );
}

/// How often the disk can be waited for, one small write after another.
struct Disk(File);

impl Disk {
    fn sync(&mut self, round: Duration) -> Sample {
        let (block, begun, mut done) = ([7; 4096], Instant::now(), 0);
        while begun.elapsed() < round {
            let written = self.0.write_all(&block).and_then(|()| self.0.sync_all());
            written.unwrap_or_else(|e| panic!("the disk: {e}"));
            done += 1;
        }
        Sample::of_rate(done, begun.elapsed())
    }
}

/// Beside this program, which lies on a real disk more likely than the folder for temporary files does.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let program = std::env::current_exe().unwrap_or_else(|e| panic!("no program: {e}"));
        let path = program.with_file_name(format!("bench-journal-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints how many durable calls are made with 64 in flight.
pub(crate) fn print_journal(round: Duration, rounds: usize) {
    let scratch = Scratch::new();
    let file = File::create(scratch.0.join("block")).unwrap_or_else(|e| panic!("the disk: {e}"));
    let mut disk = Disk(file);
    let mut ours = Async::start_durable(1, scratch.0.join("journal"));
    let (mut syncs, mut calls, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    disk.sync(round);
    ours.pipelined(round, 64);
    for _ in 0..rounds {
        let (sync, call) = (disk.sync(round).rate(), ours.pipelined(round, 64).rate());
        syncs.push(sync);
        calls.push(call);
        ratios.push(call / sync);
    }
    println!(
        "The journal, 64 durable calls in flight on one connection, a thread for each end\n  \
         fsync            {:10.0} a second\n  calls            {:10.0} a second\n  \
         calls per fsync  {:10.1}   (64 in flight, each with two waits: 32 if a wait of the journal took as long as this fsync)\n  \
         goal             {:10.0} a second: 20,000, or 50 times the fsyncs\n",
        median(syncs.iter().copied()),
        median(calls.iter().copied()),
        median(ratios.into_iter()),
        (median(syncs.into_iter()) * 50.0).min(20_000.0)
    );
}
