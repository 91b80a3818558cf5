//! What a call costs, beside a bare ping-pong of the same size, framing, runtime, thread count and
//! TCP_NODELAY, in one run. Prints ratios: absolute numbers depend on the machine and on who else
//! uses it.
//!
//! Rounds of both sides of a pair alternate, and the median of the rounds' medians is shown, so that
//! a busy moment of the machine hits both.
//!
//! `witrpc-bench BLOCKING_PROGRAM [--quick]`, where the program is `benches/c/blocking.c`.

mod bare;
mod blocking;
mod calls;
mod figures;

use std::time::Duration;

use figures::Pair;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|a| a == "--quick");
    let (round, rounds) = match quick {
        true => (Duration::from_millis(100), 3),
        false => (Duration::from_millis(400), 9),
    };
    println!("One run on a machine that may be shared: read the ratios, not the microseconds.");
    println!(
        "A call carries 64 bytes each way; bare frames are as long as the frames of such a call.\n"
    );

    let (mut bare, mut ours) = (bare::Async::start(1), calls::Async::start(1));
    Pair::new("Rust async, one call at a time", rounds)
        .run(|| bare.sequential(round), || ours.sequential(round))
        .print_latency(1.25);

    let (mut plain, mut encrypted) = (calls::Async::start(1), calls::Async::start_encrypted(1));
    Pair::new("Rust async, encrypted beside plain", rounds)
        .of("plain call", "encrypted call")
        .run(|| plain.sequential(round), || encrypted.sequential(round))
        .print_latency(1.3);

    match arguments.iter().find(|a| !a.starts_with("--")) {
        Some(program) => {
            let (mut bare, mut ours) = blocking::start(program);
            Pair::new("C blocking, one call at a time", rounds)
                .run(|| bare.sequential(round), || ours.sequential(round))
                .print_latency(1.25);
        }
        None => println!("C blocking: skipped, no program was given (`make bench` does)\n"),
    }

    let (mut bare, mut ours) = (bare::Async::start(1), calls::Async::start(1));
    Pair::new(
        "Rust async, 64 in flight on one connection, a thread for each end",
        rounds,
    )
    .run(|| bare.pipelined(round, 64), || ours.pipelined(round, 64))
    .print_rate();
}
