//! A deduplicated call never executes twice, whatever its server has had to forget.

use std::time::Duration;

use uuid::Uuid;
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::dedup::DedupOptions;
use witrpc::resilience::engine::{Answer, State};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{ErrorCode, Outcome, Result};
use witrpc_chaos::demo::{Demo, ECHO, endpoint};
use witrpc_chaos::proxy::{End, Proxy};
use witrpc_chaos::watch;

const HOUR: Duration = Duration::from_secs(3600);

/// A call runs, its link is cut before it has ended, `meanwhile` happens after its end, and then the
/// client comes back and asks again. Returns what it is told and how often the call ran.
async fn asked_again(
    dedup: DedupOptions,
    own_id: Option<Uuid>,
    meanwhile: impl AsyncFnOnce(&str),
) -> (Result<Answer>, usize) {
    let policy = RetryPolicy::new().mark_deduplicated(["Hold"]);
    asked_again_by(policy, dedup, own_id, meanwhile).await
}

async fn asked_again_by(
    policy: RetryPolicy,
    dedup: DedupOptions,
    own_id: Option<Uuid>,
    meanwhile: impl AsyncFnOnce(&str),
) -> (Result<Answer>, usize) {
    let demo = Demo::default();
    let server = demo.server().dedup(dedup).start().await.unwrap();
    let address = endpoint(&server)["tcp://".len()..].parse().unwrap();
    let proxy = Proxy::start(address, 1);
    let client = Client::builder(&proxy.endpoint())
        .reconnect(ReconnectOptions {
            initial_delay: HOUR,
            max_delay: HOUR,
            ..ReconnectOptions::default()
        })
        .retry(policy.initial_delay(Duration::from_millis(1)))
        .build()
        .unwrap();
    client.connect().await.unwrap();
    let echo = client.service(ECHO).unwrap();
    let call = tokio::spawn(async move {
        let mut call = echo.call::<i32>("int Hold(int)", (7,)).timeout(HOUR);
        if let Some(id) = own_id {
            call = call.invocation_id(id);
        }
        call.encoded().await
    });
    watch::eventually("it runs", || server.stats().running == 1).await;
    proxy.cut(End::Reset);
    watch::within("the loss", client.wait_for(State::Reconnecting))
        .await
        .unwrap();
    demo.gate.add_permits(1);
    watch::eventually("it has ended", || server.stats().running == 0).await;
    meanwhile(&endpoint(&server)).await;
    // Enough for all that should not run.
    demo.gate.add_permits(100);
    client.reconnect_now();
    let result = watch::within("the end", call).await.unwrap();
    (result, demo.trace().of_method("Hold"))
}

/// Calls of another client, each of which has to be remembered.
async fn others(endpoint: &str, calls: u128) {
    let other = Client::builder(endpoint).build().unwrap();
    other.connect().await.unwrap();
    let echo = other.service(ECHO).unwrap();
    for n in 1..=calls {
        let call = echo.call::<i32>("int Add(int,int)", (1, 2));
        call.invocation_id(Uuid::from_u128(n)).await.unwrap();
    }
}

fn is_unknown((result, executions): (Result<Answer>, usize)) {
    let error = result.unwrap_err();
    assert_eq!(executions, 1, "{error:?}");
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::OutcomeUnknown, Outcome::Unknown)
    );
}

fn small() -> DedupOptions {
    DedupOptions {
        max_records: 16,
        max_tombstones: 16,
        ..DedupOptions::default()
    }
}

#[test]
fn a_remembered_call_is_answered_from_memory() {
    watch::run(async {
        for own_id in [None, Some(Uuid::from_u128(1 << 100))] {
            let (result, executions) =
                asked_again(small(), own_id, async |endpoint| others(endpoint, 10).await).await;
            let answer = result.unwrap();
            assert_eq!((answer.replayed, answer.attempts, executions), (true, 2, 1));
        }
    });
}

#[test]
fn a_call_that_had_to_give_way_is_unknown() {
    watch::run(async {
        for own_id in [None, Some(Uuid::from_u128(1 << 100))] {
            is_unknown(
                asked_again(small(), own_id, async |endpoint| others(endpoint, 20).await).await,
            );
        }
    });
}

#[test]
fn a_call_whose_tombstone_had_to_give_way_too_is_unknown() {
    watch::run(async {
        for own_id in [None, Some(Uuid::from_u128(1 << 100))] {
            for max_tombstones in [16, 0] {
                let options = DedupOptions {
                    max_tombstones,
                    ..small()
                };
                is_unknown(
                    asked_again(options, own_id, async |endpoint| {
                        others(endpoint, 200).await
                    })
                    .await,
                );
            }
        }
    });
}

#[test]
fn a_call_whose_answer_was_too_big_to_keep_is_unknown() {
    watch::run(async {
        let tiny = DedupOptions {
            max_answer: 1,
            ..DedupOptions::default()
        };
        is_unknown(asked_again(tiny, None, async |_| {}).await);
    });
}

#[test]
fn a_call_that_is_asked_for_after_its_answer_was_dropped_for_its_age_is_unknown() {
    watch::run(async {
        let short = DedupOptions {
            hold: Duration::from_millis(200),
            ..DedupOptions::default()
        };
        is_unknown(
            asked_again(short, None, async |_| {
                // The server's own time is what is tried here.
                tokio::time::sleep(Duration::from_millis(400)).await;
            })
            .await,
        );
    });
}

#[test]
fn a_twin_of_a_running_call_gets_its_answer_over_the_new_link() {
    watch::run(async {
        let demo = Demo::default();
        let server = demo.server().start().await.unwrap();
        let proxy = Proxy::start(endpoint(&server)["tcp://".len()..].parse().unwrap(), 1);
        let client = Client::builder(&proxy.endpoint())
            .reconnect(ReconnectOptions {
                initial_delay: Duration::from_millis(1),
                ..ReconnectOptions::default()
            })
            .retry(
                RetryPolicy::new()
                    .max_retries(10)
                    .initial_delay(Duration::from_millis(1))
                    .max_delay(Duration::from_millis(1))
                    .mark_deduplicated(["Hold"]),
            )
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let echo = client.service(ECHO).unwrap();
                tokio::spawn(async move { echo.call::<i32>("int Hold(int)", (n,)).await })
            })
            .collect();
        watch::eventually("all run", || server.stats().running == 20).await;
        for round in 1..=5 {
            proxy.cut(End::Reset);
            watch::eventually("all have asked again", || {
                server.stats().dedup.attached == 20 * round
            })
            .await;
        }
        demo.gate.add_permits(20);
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(
                watch::within("an answer", call).await.unwrap(),
                Ok(n as i32)
            );
        }
        assert_eq!(demo.trace().of_method("Hold"), 20);
    });
}

#[test]
fn a_call_that_may_run_twice_is_run_again_where_its_answer_was_not_kept() {
    watch::run(async {
        let idempotent = || RetryPolicy::new().mark_idempotent(["Hold"]);
        let tiny = DedupOptions {
            max_answer: 1,
            ..DedupOptions::default()
        };
        let (result, executions) = asked_again_by(idempotent(), tiny, None, async |_| {}).await;
        let answer = result.unwrap();
        assert_eq!((answer.replayed, executions), (false, 2));
        let (result, executions) =
            asked_again_by(idempotent(), small(), None, async |e| others(e, 20).await).await;
        assert_eq!((result.unwrap().replayed, executions), (false, 2));
        // Under an id of the caller's own nothing else can be asked.
        let own_id = Some(Uuid::from_u128(1 << 100));
        is_unknown(asked_again_by(idempotent(), tiny, own_id, async |_| {}).await);
    });
}
