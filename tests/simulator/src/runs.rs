//! Many lives: on several threads, counted, and shrunk where one breaks a promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fault::Hits;
use crate::plan::Plan;
use crate::world::{Outcome, PlantedHere, live};

/// A life that broke a promise.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Places of the faults that are needed for it.
    pub faults: Vec<usize>,
    /// Places of the steps that are needed for it.
    pub steps: Vec<usize>,
    /// What is wrong.
    pub violations: Vec<String>,
    /// What happened.
    pub trace: Vec<String>,
}

/// What many lives came to.
#[derive(Debug, Default)]
pub struct Total {
    /// Lives.
    pub lives: u64,
    /// Things that happened.
    pub events: u64,
    /// Fewest things that happened in one life.
    pub fewest: u64,
    /// What went wrong on purpose.
    pub hits: Hits,
    /// Calls that ended well, and not.
    pub endings: (u64, u64),
    /// Lives that broke a promise, the first ones.
    pub failures: Vec<Failure>,
}

/// Lives a plan; a panic is a broken promise too.
pub fn outcome(plan: Plan, planted: Option<PlantedHere>, traced: bool) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| live(plan, planted, traced))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Outcome {
            violations: vec![format!("a panic: {}", text.unwrap_or_default())],
            ..Outcome::default()
        }
    })
}

/// Lives so many seeds, from `first` on. Stops after `enough` failures.
pub fn run(first: u64, lives: u64, threads: usize, enough: usize) -> Total {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let total = Mutex::new(Total {
        fewest: u64::MAX,
        ..Total::default()
    });
    let work = || {
        let mut mine = Total {
            fewest: u64::MAX,
            ..Total::default()
        };
        while !stop.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= lives {
                break;
            }
            let seed = first.wrapping_add(n);
            let lived = outcome(Plan::new(seed), None, false);
            mine.lives += 1;
            mine.events += lived.events;
            mine.fewest = mine.fewest.min(lived.events);
            mine.hits.add(&lived.hits);
            mine.endings.0 += lived.endings.0;
            mine.endings.1 += lived.endings.1;
            if !lived.violations.is_empty() {
                mine.failures.push(shrink(Plan::new(seed), None));
                if mine.failures.len() >= enough {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        let mut total = total.lock().unwrap_or_else(|poison| poison.into_inner());
        total.lives += mine.lives;
        total.events += mine.events;
        total.fewest = total.fewest.min(mine.fewest);
        total.hits.add(&mine.hits);
        total.endings.0 += mine.endings.0;
        total.endings.1 += mine.endings.1;
        total.failures.append(&mut mine.failures);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut total = total
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner());
    total.failures.sort_by_key(|failure| failure.seed);
    total
}

/// Drops faults, then steps, as long as the life still breaks a promise.
pub fn shrink(plan: Plan, planted: Option<PlantedHere>) -> Failure {
    let (mut faults, mut steps) = (plan.fault_places(), plan.step_places());
    let fails = |faults: &[usize], steps: &[usize]| {
        let kept = plan.clone().keep(faults, steps);
        !outcome(kept, planted, false).violations.is_empty()
    };
    loop {
        let before = (faults.len(), steps.len());
        drop_some(&mut faults, |rest| fails(rest, &steps));
        drop_some(&mut steps, |rest| fails(&faults, rest));
        if (faults.len(), steps.len()) == before {
            break;
        }
    }
    let lived = outcome(plan.clone().keep(&faults, &steps), planted, true);
    Failure {
        seed: plan.seed,
        faults,
        steps,
        violations: lived.violations,
        trace: lived.trace,
    }
}

fn drop_some(places: &mut Vec<usize>, still_fails: impl Fn(&[usize]) -> bool) {
    let mut at = 0;
    while at < places.len() {
        let mut rest = places.clone();
        rest.remove(at);
        if still_fails(&rest) {
            *places = rest;
        } else {
            at += 1;
        }
    }
}

fn list(places: &[usize]) -> String {
    let texts: Vec<_> = places.iter().map(ToString::to_string).collect();
    texts.join(",")
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plan = Plan::new(self.seed).keep(&self.faults, &self.steps);
        writeln!(f, "seed {} breaks a promise:", self.seed)?;
        for text in &self.violations {
            writeln!(f, "  {text}")?;
        }
        writeln!(f, "the server: {:?}", plan.server)?;
        writeln!(f, "the network: {:?}", plan.network)?;
        for (place, planned) in &plan.faults {
            writeln!(f, "fault {place}: {planned:?}")?;
        }
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        let (faults, steps) = (list(&self.faults), list(&self.steps));
        write!(
            f,
            "again: make simulate N=1 SEED={} FAULTS={faults} STEPS={steps}",
            self.seed
        )
    }
}
