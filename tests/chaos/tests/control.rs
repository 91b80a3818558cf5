//! What a user can do about the link, at every moment: stop, hurry, drop, give up, come back.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Handle;
use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{ErrorCode, Outcome};
use witrpc_chaos::demo::{Demo, ECHO};
use witrpc_chaos::load::{Load, Rule};
use witrpc_chaos::proxy::{End, Proxy};
use witrpc_chaos::recorder::{Recorder, Said};
use witrpc_chaos::served::Served;
use witrpc_chaos::watch;

const HOUR: Duration = Duration::from_secs(3600);

/// Attempts that only come when they are asked for.
fn patient() -> ReconnectOptions {
    ReconnectOptions {
        max_attempts: 0,
        initial_delay: HOUR,
        max_delay: 4 * HOUR,
        ..ReconnectOptions::default()
    }
}

fn eager() -> ReconnectOptions {
    ReconnectOptions {
        max_attempts: 0,
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(2),
        ..ReconnectOptions::default()
    }
}

async fn behind_a_proxy(options: ReconnectOptions) -> (Served, Proxy, Client, Recorder) {
    let server = Served::start(&[]);
    let proxy = Proxy::start(server.address(), 1);
    let recorder = Recorder::default();
    let builder = Client::builder(&proxy.endpoint()).reconnect(options);
    let client = recorder.attach(builder).build().unwrap();
    client.connect().await.unwrap();
    (server, proxy, client, recorder)
}

async fn works(client: &Client) {
    let echo = client.service(ECHO).unwrap();
    let call = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
    assert_eq!(watch::within("an answer", call).await.unwrap(), 5);
}

#[test]
fn stop_reconnection_ends_the_attempts_and_the_calls_that_wait_for_them() {
    watch::run(async {
        let (_server, proxy, client, recorder) = behind_a_proxy(patient()).await;
        proxy.down().await;
        watch::within("the loss", client.wait_for(State::Reconnecting))
            .await
            .unwrap();
        let echo = client.service(ECHO).unwrap();
        let waiting: Vec<_> = (0..20)
            .map(|n| {
                let echo = echo.clone();
                tokio::spawn(async move {
                    let call = echo.call::<i32>("int Add(int,int)", (n, 1));
                    call.timeout(HOUR).await
                })
            })
            .collect();
        watch::eventually("calls wait", || client.stats().queued == 20).await;
        client.stop_reconnection();
        assert_eq!(client.state(), State::Disconnected);
        for call in waiting {
            let error = watch::within("the end", call).await.unwrap().unwrap_err();
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Closed, Outcome::NotSent)
            );
        }
        // A call from now on is not kept waiting.
        let error = echo
            .call::<i32>("int Add(int,int)", (1, 1))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (ErrorCode::Transport, Outcome::NotSent)
        );
        proxy.up();
        client.connect().await.unwrap();
        works(&client).await;
        assert!(recorder.failure().is_none());
        assert_eq!(recorder.attempts(), [(1, HOUR)]);
    });
}

#[test]
fn stop_reconnection_and_reconnect_now_do_nothing_where_nothing_is_in_progress() {
    watch::run(async {
        let (_server, proxy, client, recorder) = behind_a_proxy(patient()).await;
        let both = || {
            client.stop_reconnection();
            client.reconnect_now();
        };
        both();
        assert_eq!(client.state(), State::Connected);
        works(&client).await;
        client.disconnect();
        both();
        assert_eq!(client.state(), State::Disconnected);
        client.connect().await.unwrap();
        works(&client).await;
        client.close();
        both();
        assert_eq!(client.state(), State::Disconnected);
        assert_eq!((recorder.attempts().len(), proxy.accepted()), (0, 2));
    });
}

#[test]
fn reconnect_now_ends_one_wait_and_the_delays_go_on() {
    watch::run(async {
        let (_server, proxy, client, recorder) = behind_a_proxy(patient()).await;
        proxy.down().await;
        watch::eventually("the first wait", || recorder.attempts().len() == 1).await;
        client.reconnect_now();
        watch::eventually("the second wait", || recorder.attempts().len() == 2).await;
        client.reconnect_now();
        watch::eventually("the third wait", || recorder.attempts().len() == 3).await;
        assert_eq!(
            recorder.attempts(),
            [(1, HOUR), (2, 2 * HOUR), (3, 4 * HOUR)]
        );
        proxy.up();
        client.reconnect_now();
        watch::within("the way back", client.wait_for(State::Connected))
            .await
            .unwrap();
        works(&client).await;
        watch::eventually("it is told", || recorder.reconnected() == 1).await;
        assert_eq!(recorder.check_cycles(), (1, 3));
    });
}

#[test]
fn disconnect_in_a_storm_of_calls_ends_them_truly_and_starts_nothing() {
    watch::run(async {
        let (server, proxy, client, recorder) = behind_a_proxy(eager()).await;
        for round in 1..=20 {
            let load = Load::start(&client, 64, round);
            watch::eventually("answers", || load.answered() > 50).await;
            client.disconnect();
            assert_eq!(client.state(), State::Disconnected);
            watch::eventually("the connection is gone", || proxy.open() == 0).await;
            let tally = load.finish().await.judge_part(&server.trace());
            // Of each caller with ids of its own at least the last call.
            assert!(tally.unknown + tally.not_sent >= 42, "{tally:?}");
            let stats = client.stats();
            assert_eq!((stats.in_flight, stats.queued), (0, 0));
            client.connect().await.unwrap();
            works(&client).await;
        }
        assert_eq!(server.trace().repeated(), []);
        assert_eq!((recorder.attempts().len(), proxy.accepted()), (0, 21));
    });
}

#[test]
fn reconnect_drops_the_link_and_makes_a_new_one_at_once_under_load() {
    watch::run(async {
        let (server, proxy, client, recorder) = behind_a_proxy(patient()).await;
        let load = Load::start(&client, 64, 1);
        for round in 1..=50 {
            let answered = load.answered();
            watch::eventually("answers", || load.answered() > answered + 20).await;
            watch::within("the new link", client.reconnect())
                .await
                .unwrap();
            assert_eq!(client.stats().reconnects, round);
        }
        let tally = load
            .finish()
            .await
            .judge(&server.trace(), Rule::AtMostOnce, true);
        assert!(tally.answered > 1000 && tally.unknown > 0, "{tally:?}");
        assert_eq!((tally.not_sent, tally.refused), (0, 0));
        watch::eventually("all is told", || recorder.reconnected() == 50).await;
        assert_eq!(recorder.check_cycles(), (50, 50));
        assert!(
            recorder
                .attempts()
                .iter()
                .all(|a| *a == (1, Duration::ZERO))
        );
        watch::eventually("old connections are gone", || proxy.open() == 1).await;
    });
}

#[test]
fn many_threads_that_connect_disconnect_reconnect_and_call_at_once_leave_a_client_that_works() {
    watch::run(async {
        let (server, proxy, client, _recorder) = behind_a_proxy(eager()).await;
        let proxy = Arc::new(proxy);
        let load = Load::start(&client, 16, 1);
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..6 {
            let (client, proxy) = (client.clone(), proxy.clone());
            tasks.spawn(async move {
                for round in 0..150 {
                    match (n + round) % 6 {
                        0 => drop(client.connect().await),
                        1 => drop(client.reconnect().await),
                        2 => client.disconnect(),
                        3 => client.stop_reconnection(),
                        4 => client.reconnect_now(),
                        _ => proxy.cut(End::Reset),
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        while let Some(ended) = watch::within("all of it", tasks.join_next()).await {
            ended.unwrap();
        }
        watch::within("a link", client.reconnect()).await.unwrap();
        works(&client).await;
        load.finish()
            .await
            .judge(&server.trace(), Rule::AtMostOnce, true);
        let stats = client.stats();
        assert_eq!((stats.in_flight, stats.queued), (0, 0));
        watch::eventually("one connection is left", || proxy.open() == 1).await;
    });
}

#[test]
fn a_callback_that_blocks_delays_callbacks_and_nothing_else() {
    watch::run(async {
        let demo = Demo::default();
        let (server, endpoint) = demo.serve().await;
        let proxy = Proxy::start(endpoint["tcp://".len()..].parse().unwrap(), 1);
        let (go_on, wait) = mpsc::channel::<()>();
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let wait = parking_lot::Mutex::new(wait);
        let told2 = told.clone();
        let client = Client::builder(&proxy.endpoint())
            .reconnect(eager())
            .on_reconnecting(move |attempt, _| {
                let _ = told.send(format!("reconnecting {attempt}"));
                let _ = wait.lock().recv();
            })
            .on_reconnected(move || drop(told2.send("reconnected".to_owned())))
            .build()
            .unwrap();
        client.connect().await.unwrap();
        for round in 1..=3 {
            proxy.cut(End::Reset);
            watch::eventually("the way back", || client.stats().reconnects == round).await;
            works(&client).await;
        }
        // Only the first has begun.
        assert_eq!(heard.recv().await.unwrap(), "reconnecting 1");
        assert!(heard.try_recv().is_err());
        drop(go_on);
        for said in [
            "reconnected",
            "reconnecting 1",
            "reconnected",
            "reconnecting 1",
            "reconnected",
        ] {
            assert_eq!(watch::within("the rest", heard.recv()).await.unwrap(), said);
        }
        assert_eq!(server.stats().connections, 1);
    });
}

#[test]
fn callbacks_may_call_block_disconnect_connect_and_close() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let proxy = Proxy::start(endpoint["tcp://".len()..].parse().unwrap(), 1);
        let handle = Handle::current();
        let itself = Arc::new(std::sync::OnceLock::<Client>::new());
        let (done, mut results) = tokio::sync::mpsc::unbounded_channel();
        let client = Client::builder(&proxy.endpoint())
            .reconnect(eager())
            .on_reconnected({
                let itself = itself.clone();
                move || {
                    let client = itself.get().unwrap();
                    // Refresh what was missed, with a call that is waited for.
                    let echo = client.service(ECHO).unwrap();
                    let call = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
                    let sum = handle.block_on(call);
                    client.disconnect();
                    let again = handle.block_on(client.connect());
                    client.close();
                    let closed = handle.block_on(client.connect());
                    let _ = done.send((sum, again, closed));
                }
            })
            .build()
            .unwrap();
        itself
            .set(client.clone())
            .unwrap_or_else(|_| unreachable!());
        client.connect().await.unwrap();
        proxy.cut(End::Reset);
        let (sum, again, closed) = watch::within("the callback", results.recv()).await.unwrap();
        assert_eq!((sum, again), (Ok(5), Ok(())));
        assert_eq!(closed.unwrap_err().code(), ErrorCode::Closed);
        assert_eq!(client.state(), State::Disconnected);
    });
}

#[test]
fn attempts_that_are_used_up_end_in_failed_with_a_real_error_and_connect_begins_anew() {
    watch::run(async {
        let (_server, proxy, client, recorder) = behind_a_proxy(ReconnectOptions {
            max_attempts: 4,
            ..eager()
        })
        .await;
        proxy.down().await;
        watch::eventually("the failure is told", || recorder.failure().is_some()).await;
        assert_eq!(client.state(), State::Failed);
        let error = recorder.failure().unwrap();
        assert_eq!(error.code(), ErrorCode::Transport);
        assert!(error.details().unwrap().contains("refused"), "{error:?}");
        assert_eq!(recorder.check_cycles(), (0, 4));
        let echo = client.service(ECHO).unwrap();
        let error = echo
            .call::<i32>("int Add(int,int)", (1, 1))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (ErrorCode::Transport, Outcome::NotSent)
        );
        client.stop_reconnection();
        assert_eq!(client.state(), State::Failed);
        proxy.up();
        client.connect().await.unwrap();
        works(&client).await;
        proxy.cut(End::Reset);
        watch::eventually("the way back", || recorder.reconnected() == 1).await;
        let failures = recorder.count(|said| matches!(said, Said::Failed(_)));
        assert_eq!(failures, 1);
    });
}
