//! Many calls through many outages: the file that the serving process writes is the witness.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{WATCHDOG, serve};
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::reconnect::ReconnectOptions;

fn client(endpoint: &str) -> Client {
    let reconnect = ReconnectOptions {
        max_attempts: 0,
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(5),
        ..ReconnectOptions::default()
    };
    let retry = RetryPolicy::new()
        .max_retries(1000)
        .initial_delay(Duration::from_millis(1))
        .max_delay(Duration::from_millis(5))
        .budget(None)
        .mark_deduplicated(["CountUp"]);
    let builder = Client::builder(endpoint).reconnect(reconnect).retry(retry);
    builder.build().unwrap()
}

/// Makes calls from many tasks of several clients; all of them must succeed, each with a count of its
/// own. Returns how often the clients had to reconnect.
fn count_up(endpoint: &str, clients: usize, tasks: usize, calls: usize) -> u64 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let work = async {
        let mut running = Vec::new();
        let mut all = Vec::new();
        for _ in 0..clients {
            let client = client(endpoint);
            client.connect().await.unwrap();
            let echo = client.service("Demo.IEcho").unwrap();
            for _ in 0..tasks {
                let echo = echo.clone();
                running.push(tokio::spawn(async move {
                    let mut seen = Vec::new();
                    for _ in 0..calls {
                        let call = echo.call::<u64>("int CountUp(int)", (1,));
                        seen.push(call.timeout(WATCHDOG).await.unwrap());
                    }
                    seen
                }));
            }
            all.push(client);
        }
        let mut counts = BTreeSet::new();
        for task in running {
            for count in task.await.unwrap() {
                assert!(counts.insert(count), "{count} was given twice");
            }
        }
        let total = u64::try_from(clients * tasks * calls).unwrap();
        assert_eq!(counts, (1..=total).collect(), "no count is left out");
        all.iter().map(|client| client.stats().reconnects).sum()
    };
    runtime.block_on(async { tokio::time::timeout(WATCHDOG * 3, work).await.unwrap() })
}

#[test]
fn cut_before_a_call_runs_each_call_runs_once() {
    let server = serve(&["--close-every", "20"]);
    let reconnects = count_up(&server.endpoint, 2, 16, 100);
    assert!(reconnects >= 50, "{reconnects}");
    assert_eq!(server.executed().len(), 3200);
}

#[test]
fn cut_after_a_call_ran_it_is_answered_from_memory() {
    for n in ["1", "7", "40"] {
        let server = serve(&["--close-after", n]);
        let reconnects = count_up(&server.endpoint, 1, 8, 10);
        assert_eq!(reconnects, 1);
        assert_eq!(server.executed().len(), 80);
    }
}

#[test]
fn a_server_of_one_call_after_the_other_is_no_exception() {
    let server = serve(&["--close-every", "10", "--ordered"]);
    count_up(&server.endpoint, 2, 8, 25);
    assert_eq!(server.executed().len(), 400);
}
