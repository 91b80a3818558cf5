//! The connection is cut 100 times in a row, each time at a random byte, with 64 calls in flight all
//! the time: nothing is lost track of, nothing runs twice, and nothing piles up.

use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc_chaos::load::{Load, Rule, Tally};
use witrpc_chaos::process::Holdings;
use witrpc_chaos::proxy::{End, Limit, Proxy, Toxic, Toxics};
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::served::Served;
use witrpc_chaos::watch;

const CUTS: usize = 100;
const CALLERS: usize = 64;
/// More than both handshakes need: a cut in one would be an attempt that failed, which is not what
/// is counted here.
const HANDSHAKE: u64 = 2048;
/// What memory may grow by after the warm-up, in KiB, besides what is meant to be remembered. What
/// leaked with every cut, a buffer or a frame, would be far beyond it.
const NOISE_KIB: usize = 10 * 1024;

/// What one call may leave behind, in bytes: at the server its answer, which it remembers for calls
/// with ids of their own; here the test's own note of how it ended. A slow machine makes more calls.
const MEMORY_OF_A_CALL: usize = 512;

/// They measure this process, so that only one may run at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A cut at a random byte in a random direction, as a reset or (a quarter of them) as an end of
/// stream in the middle of whatever is on its way.
fn cut_somewhere(rng: &mut StdRng) -> Toxics {
    let toxic = Toxic {
        limit: Some(Limit {
            bytes: HANDSHAKE + rng.random_range(0..48_000),
            end: if rng.random_bool(0.25) {
                End::Close
            } else {
                End::Reset
            },
        }),
        ..Toxic::default()
    };
    let mut toxics = Toxics::default();
    *if rng.random_bool(0.5) {
        &mut toxics.up
    } else {
        &mut toxics.down
    } = toxic;
    toxics
}

/// Cuts 100 times and returns how the calls ended, judged by the server's trace.
async fn cut_a_hundred_times(seed: u64, retry: Option<RetryPolicy>, rule: Rule) -> Tally {
    let server = Served::start(&[]);
    let proxy = Proxy::start(server.address(), seed);
    proxy.plan(|number, rng| match number {
        n if n < CUTS as u64 => cut_somewhere(rng),
        _ => Toxics::default(),
    });
    let recorder = Recorder::default();
    let mut builder = Client::builder(&proxy.endpoint()).reconnect(ReconnectOptions {
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(1),
        ..ReconnectOptions::default()
    });
    if let Some(retry) = retry {
        builder = builder.retry(
            retry
                .max_retries(20)
                .initial_delay(Duration::from_millis(1))
                .max_delay(Duration::from_millis(5))
                // 64 calls a cut are more than a budget would allow: it is not what is tried here.
                .budget(None),
        );
    }
    let client = recorder.attach(builder).build().unwrap();
    client.connect().await.unwrap();
    // With one link up; what a link holds is the same at the end.
    watch::eventually("the first link", || proxy.open() == 1).await;
    let sockets = (Holdings::here().fds, Holdings::of(server.pid()).fds);
    let load = Load::start(&client, CALLERS, seed);
    watch::eventually("the first cuts", || recorder.reconnected() >= CUTS / 4).await;
    let (mut warm, mut warm_server) = (Holdings::here(), Holdings::of(server.pid()));
    (warm.fds, warm_server.fds) = sockets;
    watch::eventually("the last cut", || recorder.reconnected() >= CUTS).await;
    let answered = load.answered();
    watch::eventually("calls on the last link", || {
        load.answered() > answered + 500
    })
    .await;
    let remembered_kib = load.answered() * MEMORY_OF_A_CALL / 1024;
    let ledger = load.finish().await;
    assert_eq!(client.state(), State::Connected);
    let stats = client.stats();
    assert_eq!(
        (stats.in_flight, stats.queued, stats.reconnects),
        (0, 0, CUTS as u64)
    );
    // Exactly as many, each by its first attempt, one after the other.
    assert_eq!(recorder.check_cycles(), (CUTS, CUTS));
    assert_eq!(proxy.accepted(), CUTS as u64 + 1);
    let states = recorder.states();
    assert_eq!(states.len(), 1 + 2 * CUTS);
    for pair in states[1..].chunks(2) {
        assert_eq!(pair, [State::Reconnecting, State::Connected]);
    }
    // Memory, threads and descriptors: here and at the server.
    watch::eventually("connections that were cut are gone", || proxy.open() == 1).await;
    for (name, before, pid) in [
        ("client", warm, None),
        ("server", warm_server, Some(server.pid())),
    ] {
        let now = || pid.map_or_else(Holdings::here, Holdings::of);
        let flat = || now().fds <= before.fds && now().threads <= before.threads;
        watch::eventually(&format!("{name} from {before:?}"), flat).await;
        let after = now();
        println!("{name}: {before:?}, then {after:?}");
        assert!(
            after.rss_kib < before.rss_kib + NOISE_KIB + remembered_kib,
            "{name}: {before:?}, then {after:?}"
        );
    }
    let tally = ledger.judge(&server.trace(), rule, true);
    println!("{tally:?}");
    tally
}

#[test]
fn without_retries_every_call_ends_once_and_none_runs_twice() {
    let _alone = ALONE.lock();
    watch::run(async {
        let tally = cut_a_hundred_times(1, None, Rule::AtMostOnce).await;
        // Each cut met some calls, and those that had not left waited for the next link.
        assert!(tally.unknown >= CUTS && tally.answered > 1000, "{tally:?}");
        assert_eq!(
            (tally.not_sent, tally.refused, tally.not_repeated),
            (0, 0, 0)
        );
    });
}

#[test]
fn deduplicated_calls_are_all_answered_and_each_runs_exactly_once() {
    let _alone = ALONE.lock();
    watch::run(async {
        let retry = RetryPolicy::new().mark_deduplicated(["Echo", "CountUp"]);
        let tally = cut_a_hundred_times(2, Some(retry), Rule::AtMostOnce).await;
        assert!(tally.answered > 1000, "{tally:?}");
        assert_eq!((tally.unknown, tally.not_sent, tally.refused), (0, 0, 0));
    });
}

#[test]
fn idempotent_calls_are_all_answered_and_still_run_once_where_the_server_recognises_them() {
    let _alone = ALONE.lock();
    watch::run(async {
        let retry = RetryPolicy::new().mark_idempotent(["Echo", "CountUp"]);
        let tally = cut_a_hundred_times(3, Some(retry), Rule::AtMostOnce).await;
        assert!(tally.answered > 1000, "{tally:?}");
        assert_eq!((tally.unknown, tally.not_sent, tally.refused), (0, 0, 0));
    });
}
