//! What a call costs, beside a bare ping-pong of the same size, framing, runtime, thread count and
//! TCP_NODELAY, in one run. Prints ratios: absolute numbers depend on the machine and on who else
//! uses it.
//!
//! Rounds of both sides of a pair alternate, and the ratio is the median of the ratios of neighbours,
//! so that a busy moment of the machine hits both.
//!
//! `witrpc-bench BLOCKING_PROGRAM [--quick] [PAIR...]`, where the program is `benches/c/blocking.c`;
//! with names of pairs (async, encrypted, websocket, blocking, pipelined, memory, journal) only these run.

mod bare;
mod blocking;
mod calls;
mod durable;
mod figures;
mod websocket;

use std::time::Duration;

use figures::Pair;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|a| a == "--quick");
    let (round, rounds) = match quick {
        true => (Duration::from_millis(100), 3),
        false => (Duration::from_millis(200), 25),
    };
    let mut words = arguments.iter().filter(|a| !a.starts_with("--"));
    let program = words.next();
    let pairs: Vec<_> = words.collect();
    let wanted = |pair: &str| pairs.is_empty() || pairs.iter().any(|p| *p == pair);
    println!("One run on a machine that may be shared: read the ratios, not the microseconds.");
    println!(
        "A call carries 64 bytes each way; bare frames are as long as the frames of such a call.\n"
    );

    if wanted("async") {
        let (mut bare, mut ours) = (bare::Async::start(1), calls::Async::start(1));
        Pair::new("Rust async, one call at a time", rounds)
            .run(|| bare.sequential(round), || ours.sequential(round))
            .print_latency(1.25);
    }
    if wanted("encrypted") {
        let (mut plain, mut sealed) = (calls::Async::start(1), calls::Async::start_encrypted(1));
        Pair::new("Rust async, encrypted beside plain", rounds)
            .of("plain call", "encrypted call")
            .run(|| plain.sequential(round), || sealed.sequential(round))
            .print_latency(1.3);
    }
    if wanted("websocket") {
        let (mut bare, mut ours) = (websocket::Bare::start(1), calls::Async::start_websocket(1));
        Pair::new("Rust async, over WebSocket, one call at a time", rounds)
            .of("bare message", "call")
            .run(|| bare.sequential(round), || ours.sequential(round))
            .print_latency(1.5);
    }
    match program {
        Some(program) if wanted("blocking") => {
            let (mut bare, mut ours) = blocking::start(program);
            Pair::new("C blocking, one call at a time", rounds)
                .run(|| bare.sequential(round), || ours.sequential(round))
                .print_latency(1.25);
        }
        Some(_) => {}
        None => println!("C blocking: skipped, no program was given (`make bench` does)\n"),
    }
    if wanted("pipelined") {
        let (mut bare, mut ours) = (bare::Async::start(1), calls::Async::start(1));
        Pair::new(
            "Rust async, 64 in flight on one connection, a thread for each end",
            rounds,
        )
        .run(|| bare.pipelined(round, 64), || ours.pipelined(round, 64))
        .print_rate();
    }
    if wanted("memory") {
        durable::print_memory(round, rounds);
    }
    if wanted("journal") {
        // A disk takes its time.
        durable::print_journal(round * 2, rounds);
    }
}
