//! Things that happen at the same moment, and things that come too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc;
use uuid::Uuid;
use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{ErrorCode, Outcome};
use witrpc_chaos::demo::{Demo, ECHO};
use witrpc_chaos::load::{Load, Rule};
use witrpc_chaos::proxy::{End, Proxy};
use witrpc_chaos::raw::{Peer, RawServer};
use witrpc_chaos::watch;

const ADD: &str = "int Add(int,int)";

fn eager() -> ReconnectOptions {
    ReconnectOptions {
        max_attempts: 0,
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(2),
        ..ReconnectOptions::default()
    }
}

fn quick(policy: RetryPolicy) -> RetryPolicy {
    policy
        .max_retries(20)
        .initial_delay(Duration::from_millis(1))
        .max_delay(Duration::from_millis(2))
        .budget(None)
}

fn address(endpoint: &str) -> std::net::SocketAddr {
    endpoint["tcp://".len()..].parse().unwrap()
}

#[test]
fn calls_beyond_the_limit_in_flight_follow_one_by_one_and_with_nothing_else_going_on() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        for limit in [1, 2, 7] {
            let client = Client::builder(&endpoint)
                .max_in_flight(limit)
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let echo = client.service(ECHO).unwrap();
            let calls: Vec<_> = (0..20)
                .map(|n| {
                    let echo = echo.clone();
                    tokio::spawn(async move { echo.call::<i32>("int Slow(int,int)", (1, n)).await })
                })
                .collect();
            for (n, call) in calls.into_iter().enumerate() {
                let answer = watch::within("an answer", call).await.unwrap();
                assert_eq!(answer, Ok(n as i32));
            }
        }
    });
}

#[test]
fn calls_beyond_the_buffer_in_front_of_the_network_follow_when_it_is_free() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let client = Client::builder(&endpoint).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let calls: Vec<_> = (0..100)
            .map(|n| {
                let echo = echo.clone();
                tokio::spawn(async move {
                    let text = "x".repeat(100_000 + n);
                    let back = echo.call::<String>("string Echo(string)", (&text,)).await;
                    assert!(back.unwrap() == text);
                })
            })
            .collect();
        for call in calls {
            watch::within("an answer", call).await.unwrap();
        }
    });
}

#[test]
fn calls_that_wait_for_room_end_at_once_when_the_link_goes_for_good() {
    watch::run(async {
        let demo = Demo::default();
        let (server, endpoint) = demo.serve().await;
        let client = Client::builder(&endpoint).max_in_flight(1).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let calls: Vec<_> = (0..5)
            .map(|n| {
                let echo = echo.clone();
                tokio::spawn(async move {
                    let call = echo.call::<i32>("int Hold(int)", (n,));
                    call.no_timeout().await.unwrap_err()
                })
            })
            .collect();
        watch::eventually("one runs", || server.stats().running == 1).await;
        watch::eventually("the others wait", || client.stats().queued == 4).await;
        drop(server);
        let mut outcomes = Vec::new();
        for call in calls {
            outcomes.push(watch::within("the end", call).await.unwrap().outcome());
        }
        let unknown = outcomes.iter().filter(|o| **o == Outcome::Unknown).count();
        let not_sent = outcomes.iter().filter(|o| **o == Outcome::NotSent).count();
        assert_eq!((unknown, not_sent), (1, 4));
    });
}

#[test]
fn a_call_made_at_the_moment_of_a_loss_is_sent_once_or_not_at_all() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let proxy = Arc::new(Proxy::start(address(&endpoint), 1));
        let client = Client::builder(&proxy.endpoint())
            .reconnect(eager())
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let mut fates = [0; 3];
        for round in 0..500u64 {
            watch::within("a link", client.wait_for(State::Connected))
                .await
                .unwrap();
            let id = Uuid::from_u128(u128::from(round) + 1);
            let cutting = tokio::spawn({
                let proxy = proxy.clone();
                async move {
                    proxy.cut(if round % 2 == 0 {
                        End::Reset
                    } else {
                        End::Close
                    })
                }
            });
            let call = echo
                .call::<i32>(ADD, (2, 3))
                .invocation_id(id)
                .into_future();
            let result = watch::within("the end", call).await;
            cutting.await.unwrap();
            let executed = demo.executions(id);
            fates[match result {
                Ok(sum) => {
                    assert_eq!((sum, executed), (5, 1));
                    0
                }
                Err(error) if error.outcome() == Outcome::Unknown => {
                    assert!(executed <= 1);
                    1
                }
                Err(error) => {
                    assert_eq!(
                        (error.outcome(), executed),
                        (Outcome::NotSent, 0),
                        "{error:?}"
                    );
                    2
                }
            }] += 1;
        }
        println!("answered, unknown, not sent: {fates:?}");
        assert!(fates[0] > 0 && fates[1] > 0);
    });
}

#[test]
fn a_cancellation_at_the_moment_of_an_answer_ends_the_call_one_way() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let client = Client::builder(&endpoint).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let mut fates = [0; 2];
        for round in 0..3000 {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let id = Uuid::from_u128(round + 1);
            let call = echo.call::<()>(ADD, (2, 3)).invocation_id(id);
            let handle = call
                .spawn_json(move |result| drop(sender.send(result)))
                .unwrap();
            let end = std::time::Instant::now() + Duration::from_micros(rng.random_range(0..150));
            while std::time::Instant::now() < end {}
            handle.cancel();
            handle.cancel();
            let result = watch::within("the end", receiver.recv()).await.unwrap();
            // The callback has been called once, and is gone.
            assert!(
                watch::within("no second end", receiver.recv())
                    .await
                    .is_none()
            );
            match result {
                Ok(json) => {
                    assert_eq!(json, "5");
                    fates[0] += 1;
                }
                Err(error) => {
                    assert_eq!(
                        (error.code(), error.outcome()),
                        (ErrorCode::Cancelled, Outcome::Unknown)
                    );
                    fates[1] += 1;
                }
            }
            assert!(demo.executions(id) <= 1);
        }
        println!("answered, cancelled: {fates:?}");
        assert!(fates[0] > 0 && fates[1] > 0, "{fates:?}");
        let stats = client.stats();
        assert_eq!((stats.in_flight, stats.queued), (0, 0));
    });
}

#[test]
fn answers_to_calls_that_were_given_up_never_reach_the_calls_that_took_their_place() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let client = Client::builder(&endpoint).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        // Their places are free while their answers are on the way.
        for round in 0..200 {
            let given_up: Vec<_> = (0..8)
                .map(|n| echo.call::<i32>("int Slow(int,int)", (1, -n)).into_future())
                .collect();
            drop(given_up);
            let calls: Vec<_> = (0..8)
                .map(|n| {
                    echo.call::<i32>("int Slow(int,int)", (2, round * 8 + n))
                        .into_future()
                })
                .collect();
            for (n, call) in calls.into_iter().enumerate() {
                let answer = watch::within("an answer", call).await.unwrap();
                assert_eq!(answer, round * 8 + n as i32);
            }
        }
    });
}

#[test]
fn an_answer_of_an_earlier_link_can_not_be_taken_for_one_of_the_present() {
    watch::run(async {
        // The server repeats on the second link what it owes from the first.
        let owed = Arc::new(Mutex::new(None));
        let server = RawServer::start(move |number, stream| {
            let owed = owed.clone();
            async move {
                let mut peer = Peer::accept(stream).await.unwrap();
                let (id, _) = peer.request().await.unwrap();
                if number == 0 {
                    *owed.lock() = Some(peer.answer(id, "-1"));
                    return peer.reset();
                }
                let old = owed.lock().take().unwrap();
                peer.send(&old).await.unwrap();
                let new = peer.answer(id, "7");
                peer.send(&new).await.unwrap();
                peer.serve("7").await;
            }
        });
        let client = Client::builder(&server.endpoint())
            .reconnect(eager())
            .retry(quick(RetryPolicy::new().mark_idempotent(["Add"])))
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let call = echo.call::<i32>(ADD, (3, 4)).into_future();
        assert_eq!(watch::within("the answer", call).await, Ok(7));
    });
}

#[test]
fn late_and_doubled_answers_end_a_call_once() {
    watch::run(async {
        let server = RawServer::start(|_, stream| async move {
            let mut peer = Peer::accept(stream).await.unwrap();
            while let Ok((first, request)) = peer.request().await {
                // The first attempt is answered only when the second is there, then all twice.
                let Ok((second, again)) = peer.request().await else {
                    return;
                };
                assert_eq!(request.invocation_id, again.invocation_id);
                let frames: Vec<_> = [first, second, first, second]
                    .map(|id| peer.answer(id, "7"))
                    .concat();
                peer.send(&frames).await.unwrap();
            }
        });
        let client = Client::builder(&server.endpoint())
            .attempt_timeout(Some(Duration::from_millis(50)))
            .retry(quick(RetryPolicy::new().mark_deduplicated(["Add"])))
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        for _ in 0..5 {
            let answer = watch::within("the answer", echo.call::<i32>(ADD, (3, 4)).encoded()).await;
            assert_eq!(answer.unwrap().attempts, 2);
        }
        assert_eq!(client.stats().in_flight, 0);
    });
}

#[test]
fn dropped_futures_at_random_moments_harm_no_other_call() {
    watch::run(async {
        let demo = Demo::default();
        let (server, endpoint) = demo.serve().await;
        let proxy = Proxy::start(address(&endpoint), 1);
        let client = Client::builder(&proxy.endpoint())
            .reconnect(eager())
            .retry(quick(
                RetryPolicy::new().mark_deduplicated(["Echo", "CountUp", "Slow"]),
            ))
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let load = Load::start(&client, 16, 1);
        let mut droppers = tokio::task::JoinSet::new();
        for n in 0..16 {
            let echo = client.service(ECHO).unwrap();
            droppers.spawn(async move {
                let mut rng = StdRng::seed_from_u64(n);
                for _ in 0..300 {
                    let call = echo.call::<i32>("int Slow(int,int)", (rng.random_range(0..3), 1));
                    let patience = Duration::from_micros(rng.random_range(0..3000));
                    let _ = tokio::time::timeout(patience, call.into_future()).await;
                }
            });
        }
        for _ in 0..20 {
            let reconnects = client.stats().reconnects;
            proxy.cut(End::Reset);
            watch::eventually("the way back", || client.stats().reconnects > reconnects).await;
        }
        while let Some(ended) = watch::within("all of it", droppers.join_next()).await {
            ended.unwrap();
        }
        let tally = load
            .finish()
            .await
            .judge(&demo.trace(), Rule::AtMostOnce, true);
        assert_eq!(
            (tally.unknown, tally.not_sent, tally.refused),
            (0, 0, 0),
            "{tally:?}"
        );
        let stats = client.stats();
        assert_eq!((stats.in_flight, stats.queued), (0, 0));
        watch::eventually("all handlers have ended", || server.stats().running == 0).await;
    });
}

#[test]
fn a_storm_of_cancellations_leaves_nothing_in_the_books_and_the_client_works() {
    watch::run(async {
        let demo = Demo::default();
        let (server, endpoint) = demo.serve().await;
        let proxy = Proxy::start(address(&endpoint), 1);
        let client = Client::builder(&proxy.endpoint())
            .reconnect(eager())
            .max_in_flight(100)
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let mut made = 0;
        for round in 0..50 {
            let handles: Vec<_> = (0..200)
                .map(|n| {
                    let ended = ended.clone();
                    let call = echo.call::<()>("int Hold(int)", (n,));
                    let count = move |result: witrpc::Result<String>| {
                        let code = result.unwrap_err().code();
                        assert!(matches!(code, ErrorCode::Cancelled | ErrorCode::Transport));
                        ended.fetch_add(1, Ordering::SeqCst);
                    };
                    call.spawn_json(count).unwrap()
                })
                .collect();
            made += handles.len();
            // Some are in flight, some wait for room, and now and then the link goes meanwhile.
            if round % 5 == 4 {
                proxy.cut(End::Reset);
            }
            for handle in &handles {
                handle.cancel();
            }
        }
        watch::eventually("every call ended", || ended.load(Ordering::SeqCst) == made).await;
        let stats = client.stats();
        assert_eq!((stats.in_flight, stats.queued), (0, 0));
        demo.gate.add_permits(1 << 20);
        watch::eventually("all handlers have ended", || server.stats().running == 0).await;
        let call = echo.call::<i32>(ADD, (2, 3)).into_future();
        assert_eq!(watch::within("an answer", call).await, Ok(5));
    });
}
