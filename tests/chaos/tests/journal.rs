//! A server with a journal is killed hundreds of times with 64 calls in flight: nothing runs twice, what was answered was executed, and is answered the same in every later life.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use uuid::Uuid;
use witrpc::client::{Client, RetryPolicy, Service};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{ErrorCode, Outcome};
use witrpc_chaos::demo::ECHO;
use witrpc_chaos::process::Holdings;
use witrpc_chaos::served::{Scratch, Served};
use witrpc_chaos::trace::Trace;
use witrpc_chaos::watch;

const KILLS: usize = 200;
const CALLERS: usize = 64;

/// What callers were told.
#[derive(Default)]
struct Told {
    stop: AtomicBool,
    answered: AtomicUsize,
    calls: Mutex<Vec<(Uuid, Option<usize>)>>,
}

/// One call after another, with ids of the caller's own. Each is told how often `CountUp` had run: no two executions of one life say the same.
async fn call_on(told: Arc<Told>, echo: Service, mut rng: StdRng) {
    while !told.stop.load(Ordering::SeqCst) {
        let id = Uuid::from_u128(rng.random());
        let call = echo.call::<usize>("int CountUp(int)", (1,));
        let count = match call.invocation_id(id).await {
            Ok(count) => Some(count),
            Err(error) => {
                let known = (error.code(), error.outcome());
                assert!(
                    matches!(known, (ErrorCode::OutcomeUnknown, Outcome::Unknown)),
                    "{error:?}"
                );
                None
            }
        };
        told.answered
            .fetch_add(usize::from(count.is_some()), Ordering::SeqCst);
        told.calls.lock().push((id, count));
    }
}

/// The same with numbers of the client's, which are found by their ids nowhere: only how many ran can be judged.
async fn call_on_by_number(told: Arc<Told>, echo: Service) -> (usize, usize) {
    let (mut answered, mut unknown) = (0, 0);
    while !told.stop.load(Ordering::SeqCst) {
        match echo.call::<usize>("int Add(int, int)", (1, 2)).await {
            Ok(sum) => {
                assert_eq!(sum, 3);
                answered += 1;
                told.answered.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error:?}");
                unknown += 1;
            }
        }
    }
    (answered, unknown)
}

fn client(server: &Served) -> Client {
    Client::builder(&server.endpoint())
        .reconnect(ReconnectOptions {
            max_attempts: 0,
            initial_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(2),
            ..ReconnectOptions::default()
        })
        .retry(
            RetryPolicy::new()
                .mark_deduplicated(["CountUp", "Add"])
                .max_retries(1_000)
                .initial_delay(Duration::from_millis(1))
                .max_delay(Duration::from_millis(5))
                .budget(None),
        )
        .build()
        .unwrap()
}

/// Each call that was answered was executed once, and no other more than that.
fn judge(told: &HashMap<Uuid, Option<usize>>, trace: &Trace) -> (usize, usize) {
    assert_eq!(trace.repeated(), [], "executed more than once");
    for (id, count) in told {
        let executed = trace.of(*id);
        match count {
            Some(count) => assert_eq!(executed, 1, "{id} was answered {count}"),
            None => assert!(executed <= 1),
        }
    }
    let answered = told.values().flatten().count();
    (answered, told.len() - answered)
}

#[test]
fn a_server_that_is_killed_hundreds_of_times_runs_nothing_twice_and_keeps_every_answer() {
    watch::run_for(Duration::from_secs(240), async {
        let scratch = Scratch::new();
        let directory = scratch.path().join("journal");
        let mut server = Served::start(&["--journal", directory.to_str().unwrap()]);
        let client = client(&server);
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let told = Arc::<Told>::default();
        let mut rng = StdRng::seed_from_u64(1);
        let (mut callers, mut numbered) = (JoinSet::new(), JoinSet::new());
        for n in 0..CALLERS {
            match n % 2 {
                0 => {
                    let rng = StdRng::seed_from_u64(n as u64);
                    callers.spawn(call_on(told.clone(), echo.clone(), rng));
                }
                _ => {
                    numbered.spawn(call_on_by_number(told.clone(), echo.clone()));
                }
            }
        }
        for _ in 0..KILLS {
            // At any moment: while it reads its journal, in the middle of a write, between intent and answer.
            tokio::time::sleep(Duration::from_micros(rng.random_range(0..40_000))).await;
            if rng.random_bool(0.1) {
                let before = told.answered.load(Ordering::SeqCst);
                watch::eventually("an answer", || {
                    told.answered.load(Ordering::SeqCst) > before
                })
                .await;
            }
            server.restart();
        }
        let before = told.answered.load(Ordering::SeqCst);
        watch::eventually("answers of the last life", || {
            told.answered.load(Ordering::SeqCst) > before + CALLERS
        })
        .await;
        told.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = watch::within("the end of all calls", callers.join_next()).await {
            ended.unwrap();
        }
        let (mut sums, mut unknown_sums) = (0, 0);
        while let Some(ended) = watch::within("the end of all calls", numbered.join_next()).await {
            let (answered, unknown) = ended.unwrap();
            (sums, unknown_sums) = (sums + answered, unknown_sums + unknown);
        }
        let calls: HashMap<_, _> = std::mem::take(&mut *told.calls.lock())
            .into_iter()
            .collect();
        let trace = server.trace();
        let (answered, unknown) = judge(&calls, &trace);
        let executed = trace.of_method("Add");
        assert!((sums..=sums + unknown_sums).contains(&executed));
        println!(
            "{KILLS} kills: {answered} + {sums} answered, {unknown} + {unknown_sums} unknown, {} executed",
            trace.len()
        );
        assert!(answered > KILLS && sums > KILLS);
        // What was begun and not answered when it died; most of the calls in flight are known to be the one or the other.
        assert!(unknown + unknown_sums < KILLS * CALLERS / 2);

        // Once more, in the life after: the same answers, or none.
        server.restart();
        for (id, count) in calls.iter().take(2_000) {
            let again = echo
                .call::<usize>("int CountUp(int)", (1,))
                .invocation_id(*id);
            match (again.await, count) {
                (Ok(again), Some(count)) => assert_eq!(again, *count, "{id}"),
                (Err(error), None) => assert_eq!(error.code(), ErrorCode::OutcomeUnknown),
                // It was never executed, or its answer did not get through.
                (Ok(_), None) => {}
                (Err(error), Some(count)) => panic!("{id} was answered {count}, now {error:?}"),
            }
        }
        assert_eq!(server.trace().repeated(), []);
        let threads = Holdings::of(server.pid()).threads;
        assert!(threads < 10, "{threads} threads");
    });
}

#[test]
fn what_is_not_durable_is_unknown_after_a_kill_and_what_is_is_answered() {
    watch::run(async {
        let scratch = Scratch::new();
        let directory = scratch.path().join("journal");
        let args = [
            "--journal",
            directory.to_str().unwrap(),
            "--durable",
            "CountUp",
        ];
        // It dies when the call has run, before it is answered.
        for method in ["CountUp", "Add"] {
            let exit = [&args[..], &["--exit-after", "1"]].concat();
            let mut server = Served::start(&exit);
            let client = client(&server);
            client.connect().await.unwrap();
            let echo = client.service(ECHO).unwrap();
            let call = tokio::spawn(async move {
                match method {
                    "CountUp" => echo.call::<usize>("int CountUp(int)", (1,)).await,
                    _ => echo.call::<usize>("int Add(int, int)", (1, 2)).await,
                }
            });
            watch::eventually("its death", || server.has_ended()).await;
            server.restart_with(&args);
            let error = watch::within("the end", call).await.unwrap().unwrap_err();
            assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{method}");
            assert_eq!(server.trace().of_method(method), 1);
            // It would not have been repeated under another epoch.
            assert!(error.attempts() > 1, "{error:?}");
        }
    });
}
