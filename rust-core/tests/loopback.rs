//! Client and server of this library over a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use witrpc::client::{Client, RetryPolicy};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{Fault, Server, ServerLimits, ServiceBuilder};
use witrpc::{ErrorCode, Outcome};

fn service(count: Arc<AtomicUsize>) -> ServiceBuilder {
    ServiceBuilder::open("Demo.IEcho")
        .handle(
            "int Add(int a, int b)",
            |_, (a, b): (i32, i32)| async move { Ok(a + b) },
        )
        .handle(
            "string Echo(string text)",
            |_, (text,): (Option<String>,)| async move { Ok(text) },
        )
        .handle("int CountUp(int by)", move |_, (by,): (usize,)| {
            let count = count.clone();
            async move { Ok(count.fetch_add(by, Ordering::SeqCst) + by) }
        })
        .handle(
            "string Fail(string message)",
            |_, (message,): (String,)| async move { Err::<(), _>(Fault::new(message)) },
        )
        .handle("void Panic()", |_, ()| async move {
            if true {
                panic!("on purpose");
            }
            Ok(())
        })
        .handle(
            "void RaiseMany(int count)",
            |call, (count,): (i32,)| async move {
                for n in 0..count {
                    call.publisher()
                        .raise("Demo.IEcho", "event Action<int> Progress", (n,))
                        .map_err(Fault::from)?;
                }
                Ok(())
            },
        )
        .handle(
            "int Slow(int ms, int result)",
            |_, (ms, result): (u64, i32)| async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(result)
            },
        )
}

async fn serve() -> (Server, String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let server = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(service(count.clone()))
        .start()
        .await
        .unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint, count)
}

#[tokio::test]
async fn calls_results_faults_and_panics() {
    let (_server, endpoint, _) = serve().await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    assert_eq!(
        echo.call::<i32>("int Add(int,int)", (2, 3)).await.unwrap(),
        5
    );
    let none: Option<String> = echo
        .call("string Echo(string)", (None::<String>,))
        .await
        .unwrap();
    assert_eq!(none, None);
    let error = echo
        .call::<String>("string Fail(string)", ("boom",))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Remote);
    assert_eq!(
        (error.message(), error.details()),
        ("Failed to process request", Some("boom"))
    );
    let error = echo.call::<()>("void Panic()", ()).await.unwrap_err();
    assert_eq!(error.details(), Some("The handler panicked: on purpose"));
    let error = echo.call::<()>("void Nope()", ()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BadRequest);
    assert_eq!(
        error.message(),
        "Method not found on service, method name: Nope"
    );
    let error = echo
        .call::<i32>("int Add(int,int)", ("x", 3))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::InvalidArgument, Outcome::NotSent)
    );
}

#[tokio::test]
async fn events_come_in_order_and_before_the_answer() {
    let (_server, endpoint, _) = serve().await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    let mut events = echo.events("event Action<int> Progress").unwrap();
    echo.call::<()>("void RaiseMany(int)", (100,))
        .await
        .unwrap();
    for n in 0..100 {
        assert_eq!(events.next().await.unwrap().get::<(i32,)>().unwrap(), (n,));
    }
}

#[tokio::test]
async fn closing_the_client_ends_its_streams() {
    let (_server, endpoint, _) = serve().await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    let mut events = echo.events("event Action<int> Progress").unwrap();
    echo.call::<()>("void RaiseMany(int)", (1,)).await.unwrap();
    client.close();
    // What has arrived is still there.
    assert_eq!(events.next().await.unwrap().get::<(i32,)>().unwrap(), (0,));
    assert!(events.next().await.is_none());
    let mut late = echo.events("event Action<int> Progress").unwrap();
    assert!(late.next().await.is_none());
}

#[tokio::test]
async fn a_killed_server_that_returns_is_found_again() {
    let (server, endpoint, _) = serve().await;
    let client = Client::builder(&endpoint)
        .reconnect(ReconnectOptions {
            initial_delay: Duration::from_millis(10),
            ..ReconnectOptions::default()
        })
        .retry(RetryPolicy::new().mark_idempotent(["Add"]))
        .build()
        .unwrap();
    client.connect().await.unwrap();
    drop(server);
    client.wait_for(State::Reconnecting).await.unwrap();
    let _server = Server::builder()
        .listen(&endpoint)
        .service(service(Arc::default()))
        .start()
        .await
        .unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    assert_eq!(
        echo.call::<i32>("int Add(int,int)", (2, 3)).await.unwrap(),
        5
    );
    assert_eq!(client.stats().reconnects, 1);
}

#[tokio::test]
async fn stop_lets_running_calls_finish_and_takes_no_new_ones() {
    let (server, endpoint, _) = serve().await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    let running = tokio::spawn({
        let echo = echo.clone();
        async move { echo.call::<i32>("int Slow(int,int)", (300, 7)).await }
    });
    while server.stats().running == 0 {
        tokio::task::yield_now().await;
    }
    let stopping = tokio::spawn(server.stop(Duration::from_secs(10)));
    // Told to leave, a client that does not reconnect has nowhere to go.
    let refused = loop {
        match echo.call::<i32>("int Add(int,int)", (1, 1)).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(
        (refused.code(), refused.outcome()),
        (ErrorCode::Transport, Outcome::NotSent)
    );
    assert_eq!(running.await.unwrap().unwrap(), 7);
    assert!(stopping.await.unwrap());
    client.wait_for(State::Disconnected).await.unwrap();
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let (server, endpoint, count) = serve().await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let echo = echo.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    echo.call::<usize>("int CountUp(int)", (1,)).await.unwrap();
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(count.load(Ordering::SeqCst), 6400);
    assert_eq!(server.stats().executed, 6400);
}

#[tokio::test]
async fn a_dropped_server_leaves_its_port_at_once() {
    let (mut server, endpoint, _) = serve().await;
    for _ in 0..50 {
        drop(server);
        server = Server::builder()
            .listen(&endpoint)
            .service(service(Arc::default()))
            .start()
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_call_that_its_handler_refused_runs_when_it_is_repeated() {
    let runs = Arc::new(AtomicUsize::new(0));
    let service = ServiceBuilder::open("Demo.IEcho").handle("int Busy()", {
        let runs = runs.clone();
        move |_, ()| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            async move {
                match run {
                    0 => Err(Fault::overloaded("not now")),
                    run => Ok(run),
                }
            }
        }
    });
    let server = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(service)
        .limits(ServerLimits {
            retry_after: Duration::from_millis(1),
            ..ServerLimits::default()
        })
        .start()
        .await
        .unwrap();
    let retry = RetryPolicy::new()
        .initial_delay(Duration::from_millis(1))
        .mark_deduplicated(["Busy"]);
    let client = Client::builder(&server.endpoints()[0].to_string())
        .retry(retry)
        .build()
        .unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    assert_eq!(echo.call::<usize>("int Busy()", ()).await.unwrap(), 1);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// A service whose `Cut` counts its runs, closes the connection, and then ends as it is told.
fn cutting(runs: Arc<AtomicUsize>) -> ServiceBuilder {
    ServiceBuilder::open("Demo.IEcho").handle("int Cut(bool fail)", move |call, (fail,)| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        if run == 1 {
            call.drop_connection();
        }
        async move {
            match fail {
                true => Err(Fault::new("on purpose")),
                false => Ok(run),
            }
        }
    })
}

#[tokio::test]
async fn a_call_whose_connection_is_dropped_is_answered_from_memory() {
    for fail in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let server = Server::builder()
            .listen("tcp://127.0.0.1:0")
            .service(cutting(runs.clone()))
            .start()
            .await
            .unwrap();
        let client = Client::builder(&server.endpoints()[0].to_string())
            .reconnect(ReconnectOptions {
                initial_delay: Duration::from_millis(1),
                ..ReconnectOptions::default()
            })
            .retry(
                RetryPolicy::new()
                    .initial_delay(Duration::from_millis(1))
                    .mark_deduplicated(["Cut"]),
            )
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service("Demo.IEcho").unwrap();
        let result = echo.call::<usize>("int Cut(bool)", (fail,)).encoded().await;
        match result {
            Ok(answer) => {
                assert!(!fail && answer.replayed && answer.attempts == 2);
                assert_eq!(answer.data.as_deref(), Some(&b"1"[..]));
            }
            Err(error) => {
                assert!(
                    fail && error.replayed() && error.attempts() == 2,
                    "{error:?}"
                );
                assert_eq!(error.details(), Some("on purpose"));
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(client.stats().reconnects, 1);
    }
}

#[tokio::test]
async fn what_arrived_behind_the_call_that_dropped_the_connection_does_not_run() {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(cutting(runs.clone()))
        .start()
        .await
        .unwrap();
    let client = Client::builder(&server.endpoints()[0].to_string())
        .build()
        .unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    let calls: Vec<_> = (0..10)
        .map(|_| echo.call::<usize>("int Cut(bool)", (false,)).into_future())
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap_err().outcome(), Outcome::Unknown);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
