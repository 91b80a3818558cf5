//! The server process is killed 100 times in a row, with 64 calls in flight, and comes back: every
//! call ends, and what its caller is told is true by the trace of the killed processes.

use std::time::Duration;

use parking_lot::Mutex;
use witrpc::client::{Client, ClientBuilder, RetryPolicy};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc_chaos::load::{Load, Rule, Tally};
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::served::Served;
use witrpc_chaos::watch;

const KILLS: usize = 100;
const CALLERS: usize = 64;

/// Starting processes takes both cores.
static ALONE: Mutex<()> = Mutex::new(());

async fn kill_a_hundred_times(
    seed: u64,
    rule: Rule,
    options: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Tally {
    let mut server = Served::start(&[]);
    let recorder = Recorder::default();
    let builder = Client::builder(&server.endpoint()).reconnect(ReconnectOptions {
        max_attempts: 0,
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(5),
        ..ReconnectOptions::default()
    });
    let client = recorder.attach(options(builder)).build().unwrap();
    client.connect().await.unwrap();
    let load = Load::start(&client, CALLERS, seed);
    for kill in 1..=KILLS {
        let answered = load.answered();
        // At another moment each time.
        watch::eventually("answers of this life", || {
            load.answered() > answered + kill * 3
        })
        .await;
        server.kill();
        watch::within("the loss", client.wait_for(State::Reconnecting))
            .await
            .unwrap();
        server.restart();
        watch::eventually("the next life", || recorder.reconnected() == kill).await;
    }
    let ledger = load.finish().await;
    assert_eq!(client.state(), State::Connected);
    let (cycles, attempts) = recorder.check_cycles();
    assert_eq!(cycles, KILLS);
    assert!(attempts >= KILLS);
    let tally = ledger.judge(&server.trace(), rule, false);
    println!("{tally:?}, {attempts} attempts");
    assert!(tally.answered > KILLS * KILLS, "{tally:?}");
    tally
}

fn eager(policy: RetryPolicy) -> RetryPolicy {
    policy
        .max_retries(50)
        .initial_delay(Duration::from_millis(1))
        .max_delay(Duration::from_millis(20))
        .budget(None)
}

#[test]
fn without_retries_not_sent_never_ran_and_unknown_ran_at_most_once() {
    let _alone = ALONE.lock();
    watch::run(async {
        // A queue for fewer than all callers: the others are told at once that they were not sent.
        let tally = kill_a_hundred_times(1, Rule::AtMostOnce, |client| {
            client.queue_limits(32, 1 << 20)
        })
        .await;
        assert!(
            tally.unknown >= KILLS && tally.not_sent >= KILLS,
            "{tally:?}"
        );
        assert_eq!((tally.refused, tally.not_repeated), (0, 0), "{tally:?}");
    });
}

#[test]
fn deduplicated_calls_of_a_dead_process_end_as_outcome_unknown_and_none_runs_twice() {
    let _alone = ALONE.lock();
    watch::run(async {
        let policy = eager(RetryPolicy::new().mark_deduplicated(["Echo", "CountUp"]));
        let tally = kill_a_hundred_times(2, Rule::AtMostOnce, |client| client.retry(policy)).await;
        // A new epoch can't know them; all the others were answered.
        assert!(tally.not_repeated >= KILLS, "{tally:?}");
        assert_eq!(tally.unknown, tally.not_repeated, "{tally:?}");
        assert_eq!((tally.not_sent, tally.refused), (0, 0), "{tally:?}");
    });
}

#[test]
fn idempotent_calls_are_all_answered_by_one_process_or_the_next() {
    let _alone = ALONE.lock();
    watch::run(async {
        let policy = eager(RetryPolicy::new().mark_idempotent(["Echo", "CountUp"]));
        let tally = kill_a_hundred_times(3, Rule::MayRepeat, |client| client.retry(policy)).await;
        assert_eq!(
            (tally.unknown, tally.not_sent, tally.refused),
            (0, 0, 0),
            "{tally:?}"
        );
    });
}
