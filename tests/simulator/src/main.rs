//! `witrpc-simulate LIVES SEED [--faults 1,2] [--steps 0,3]`: lives so many lives, says what went
//! wrong in them on purpose, and what should not have. The last line has the numbers.

use std::process::ExitCode;

use witrpc_simulator::plan::Plan;
use witrpc_simulator::runs::{outcome, run, shrink};

/// From this many lives on every fault must have hit every phase.
const COVERS_ALL: u64 = 50_000;

fn places(text: Option<&String>) -> Option<Vec<usize>> {
    let text = text?;
    let numbers = text.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.trim().parse().ok()).collect()
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (mut numbers, mut faults, mut steps) = (Vec::new(), None, None);
    let mut at = 0;
    while at < arguments.len() {
        match arguments[at].as_str() {
            "--faults" => faults = places(arguments.get(at + 1)),
            "--steps" => steps = places(arguments.get(at + 1)),
            number => match number.parse::<u64>() {
                Ok(number) => {
                    numbers.push(number);
                    at += 1;
                    continue;
                }
                Err(_) => {
                    eprintln!("usage: witrpc-simulate LIVES SEED [--faults 1,2] [--steps 0,3]");
                    return ExitCode::from(2);
                }
            },
        }
        at += 2;
    }
    let lives = numbers.first().copied().unwrap_or(1000);
    let seed = numbers.get(1).copied().unwrap_or(1);
    // A panic inside a life is reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    if lives == 1 {
        return one(seed, faults, steps);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let total = run(seed, lives, threads, 3);
    println!("{}", total.hits);
    for failure in &total.failures {
        println!("\n{failure}");
    }
    let missing = total.hits.missing();
    let mut failed = !total.failures.is_empty();
    if lives >= COVERS_ALL && !missing.is_empty() {
        println!("never seen: {}", missing.join(", "));
        failed = true;
    }
    if total.fewest < 20 {
        println!("a life of only {} events", total.fewest);
        failed = true;
    }
    println!(
        "{} events, at least {} a life; {} calls answered, {} ended otherwise",
        total.events, total.fewest, total.endings.0, total.endings.1
    );
    println!(
        "{} lives, {} faults, {} violations",
        total.lives,
        total.hits.total(),
        total.failures.len()
    );
    ExitCode::from(u8::from(failed))
}

/// One life: its trace, and what is left of it when it breaks a promise.
fn one(seed: u64, faults: Option<Vec<usize>>, steps: Option<Vec<usize>>) -> ExitCode {
    let mut plan = Plan::new(seed);
    let faults = faults.unwrap_or_else(|| plan.fault_places());
    let steps = steps.unwrap_or_else(|| plan.step_places());
    plan = plan.keep(&faults, &steps);
    let lived = outcome(plan.clone(), None, true);
    if lived.violations.is_empty() {
        for line in &lived.trace {
            println!("{line}");
        }
    } else {
        println!("{}", shrink(plan, None));
    }
    println!(
        "1 lives, {} faults, {} violations",
        lived.hits.total(),
        usize::from(!lived.violations.is_empty())
    );
    ExitCode::from(u8::from(!lived.violations.is_empty()))
}
