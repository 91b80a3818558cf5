//! What two libwitrpc peers do beyond WitRPC, over real sockets: cancellation, remaining time, trace
//! context, pings, going away, pushback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use uuid::Uuid;
use witrpc::client::{Client, ClientBuilder, RetryPolicy, Service};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{
    CallContext, CancellationToken, Fault, Server, ServerBuilder, ServerLimits, ServiceBuilder,
};
use witrpc::session::KeepAliveOptions;
use witrpc::{ErrorCode, Outcome};

const DEMO: &str = "Demo.IEcho";
const WATCHDOG: Duration = Duration::from_secs(30);

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(WATCHDOG, future)
        .await
        .unwrap_or_else(|_| panic!("{what}: not in time"))
}

/// What became of calls that wait for their cancellation.
struct Held {
    begun: mpsc::UnboundedReceiver<CallContext>,
    cancelled: mpsc::UnboundedReceiver<i32>,
    gate: Arc<Notify>,
}

/// `Hold` ends when it is cancelled, or when it is let go.
fn holding() -> (ServiceBuilder, Held) {
    let (begun, seen) = mpsc::unbounded_channel();
    let (tell, cancelled) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let service = ServiceBuilder::open(DEMO)
        .handle("int Hold(int n)", {
            let gate = gate.clone();
            move |call, (n,): (i32,)| {
                let (begun, tell, gate) = (begun.clone(), tell.clone(), gate.clone());
                async move {
                    let token: CancellationToken = call.cancellation().clone();
                    let _ = begun.send(call);
                    tokio::select! {
                        () = gate.notified() => Ok(n),
                        () = token.cancelled() => {
                            let _ = tell.send(n);
                            Err(Fault::cancelled())
                        }
                    }
                }
            }
        })
        .handle(
            "int Add(int a, int b)",
            |_, (a, b): (i32, i32)| async move { Ok(a + b) },
        );
    let held = Held {
        begun: seen,
        cancelled,
        gate,
    };
    (service, held)
}

async fn serve(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (Server, String, Held) {
    let (service, held) = holding();
    let builder = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(service);
    let server = change(builder).start().await.unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint, held)
}

async fn connect(builder: ClientBuilder) -> (Client, Service) {
    let client = builder.build().unwrap();
    within("connecting", client.connect()).await.unwrap();
    let service = client.service(DEMO).unwrap();
    (client, service)
}

fn hold(echo: &Service, n: i32) -> tokio::task::JoinHandle<witrpc::Result<i32>> {
    let echo = echo.clone();
    tokio::spawn(async move { echo.call::<i32>("int Hold(int)", (n,)).no_timeout().await })
}

#[tokio::test]
async fn a_dropped_call_and_one_out_of_time_stop_their_handlers() {
    let (_server, endpoint, mut held) = serve(|b| b).await;
    let (_client, echo) = connect(Client::builder(&endpoint)).await;
    let dropped = hold(&echo, 1);
    let context = within("a call", held.begun.recv()).await.unwrap();
    assert!(!context.cancellation().is_cancelled());
    dropped.abort();
    assert_eq!(within("the end", held.cancelled.recv()).await, Some(1));
    assert!(context.cancellation().is_cancelled());

    let short = Duration::from_millis(100);
    let late = echo.call::<i32>("int Hold(int)", (2,)).timeout(short);
    assert_eq!(late.await.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(within("the end", held.cancelled.recv()).await, Some(2));
}

#[tokio::test]
async fn cancellations_and_pings_are_heard_where_calls_wait_for_others() {
    // One after another, so that everything waits for the first call.
    let (server, endpoint, mut held) = serve(ServerBuilder::ordered_per_connection).await;
    let (client, echo) = connect(Client::builder(&endpoint)).await;
    let first = hold(&echo, 1);
    within("a call", held.begun.recv()).await.unwrap();
    let waiting = hold(&echo, 2);
    // The second one is taken back before it begins, then the first one.
    while client.stats().in_flight < 2 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    let _ = waiting.await;
    first.abort();
    assert_eq!(within("the end", held.cancelled.recv()).await, Some(1));
    let sum = echo.call::<i32>("int Add(int,int)", (2, 3));
    assert_eq!(within("an answer", sum.into_future()).await.unwrap(), 5);
    assert_eq!(server.stats().executed, 2, "the one that waited never ran");
}

#[tokio::test]
async fn a_call_that_somebody_else_waits_for_too_is_not_cancelled_by_one_of_them() {
    let (server, endpoint, mut held) = serve(|b| b).await;
    let id = Uuid::from_u128(7);
    let call = |echo: Service| {
        tokio::spawn(async move {
            let call = echo.call::<i32>("int Hold(int)", (1,));
            call.invocation_id(id).no_timeout().await
        })
    };
    let (_one, echo_one) = connect(Client::builder(&endpoint)).await;
    let (_two, echo_two) = connect(Client::builder(&endpoint)).await;
    let first = call(echo_one.clone());
    let context = within("a call", held.begun.recv()).await.unwrap();
    let second = call(echo_two);
    while server.stats().dedup.attached < 1 {
        tokio::task::yield_now().await;
    }
    // He who began it may not stop it for the other one ...
    first.abort();
    let _ = first.await;
    let sum = echo_one.call::<i32>("int Add(int,int)", (2, 3));
    assert_eq!(sum.await.unwrap(), 5);
    assert!(!context.cancellation().is_cancelled());
    // ... who gets the answer.
    held.gate.notify_one();
    assert_eq!(within("an answer", second).await.unwrap().unwrap(), 1);
    assert_eq!(server.stats().executed, 2);
}

#[tokio::test]
async fn of_two_calls_of_one_client_under_one_id_each_is_its_own() {
    let (server, endpoint, mut held) = serve(|b| b).await;
    let (_client, echo) = connect(Client::builder(&endpoint)).await;
    let call = || {
        let echo = echo.clone();
        tokio::spawn(async move {
            let call = echo.call::<i32>("int Hold(int)", (1,));
            call.invocation_id(Uuid::from_u128(7)).no_timeout().await
        })
    };
    let first = call();
    let context = within("a call", held.begun.recv()).await.unwrap();
    let second = call();
    while server.stats().dedup.attached < 1 {
        tokio::task::yield_now().await;
    }
    first.abort();
    let _ = first.await;
    let sum = echo.call::<i32>("int Add(int,int)", (2, 3));
    assert_eq!(sum.await.unwrap(), 5);
    assert!(!context.cancellation().is_cancelled());
    held.gate.notify_one();
    assert_eq!(within("an answer", second).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn the_last_one_who_waits_cancels() {
    let (server, endpoint, mut held) = serve(|b| b).await;
    let id = Uuid::from_u128(7);
    let call = |echo: Service| {
        tokio::spawn(async move {
            let call = echo.call::<i32>("int Hold(int)", (1,));
            call.invocation_id(id).no_timeout().await
        })
    };
    let (_one, echo_one) = connect(Client::builder(&endpoint)).await;
    let (_two, echo_two) = connect(Client::builder(&endpoint)).await;
    let first = call(echo_one);
    within("a call", held.begun.recv()).await.unwrap();
    let second = call(echo_two);
    while server.stats().dedup.attached < 1 {
        tokio::task::yield_now().await;
    }
    first.abort();
    second.abort();
    assert_eq!(within("the end", held.cancelled.recv()).await, Some(1));
}

#[tokio::test]
async fn a_client_that_came_back_cancels_what_it_began_before() {
    let (server, endpoint, mut held) = serve(|b| b).await;
    let reconnect = ReconnectOptions {
        initial_delay: Duration::from_millis(1),
        ..ReconnectOptions::default()
    };
    let builder = Client::builder(&endpoint)
        .reconnect(reconnect)
        .retry(RetryPolicy::new().mark_deduplicated(["Hold"]));
    let (client, echo) = connect(builder).await;
    let call = hold(&echo, 1);
    let context = within("a call", held.begun.recv()).await.unwrap();
    context.drop_connection();
    while server.stats().dedup.attached < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.stats().reconnects, 1);
    assert!(
        !context.cancellation().is_cancelled(),
        "a lost link is none"
    );
    call.abort();
    assert_eq!(within("the end", held.cancelled.recv()).await, Some(1));
    assert_eq!(server.stats().executed, 1);
}

#[tokio::test]
async fn a_handler_knows_the_remaining_time_and_the_trace_context() {
    let (_server, endpoint, mut held) = serve(|b| b).await;
    let (_client, echo) = connect(Client::builder(&endpoint)).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = echo
        .call::<i32>("int Hold(int)", (1,))
        .timeout(Duration::from_secs(20))
        .trace_context(parent);
    held.gate.notify_one();
    assert_eq!(call.await.unwrap(), 1);
    let context = held.begun.recv().await.unwrap();
    assert_eq!(context.trace_context(), Some(parent.as_bytes()));
    let remaining = context.remaining().unwrap();
    assert!(remaining <= Duration::from_secs(20) && remaining > Duration::from_secs(10));
    assert!(context.deadline().unwrap() > Instant::now());

    held.gate.notify_one();
    let endless = Client::builder(&endpoint).attempt_timeout(None);
    let (_client, echo) = connect(endless).await;
    let call = echo.call::<i32>("int Hold(int)", (1,)).no_timeout();
    assert_eq!(call.await.unwrap(), 1);
    let context = held.begun.recv().await.unwrap();
    assert_eq!(context.remaining(), None);
    assert_eq!(context.trace_context(), None);

    let call = echo.call::<i32>("int Hold(int)", (1,));
    let error = call.trace_context([0; 1025]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("1025 bytes"), "{error}");
}

#[tokio::test]
async fn a_call_whose_time_is_over_before_it_could_begin_never_does() {
    // Its client is not there any more to take it back.
    let (server, endpoint, mut held) = serve(ServerBuilder::ordered_per_connection).await;
    let (_client, echo) = connect(Client::builder(&endpoint)).await;
    let first = hold(&echo, 1);
    within("a call", held.begun.recv()).await.unwrap();
    let short = Duration::from_millis(50);
    let call = echo.call::<i32>("int Add(int,int)", (2, 3)).timeout(short);
    assert_eq!(call.await.unwrap_err().code(), ErrorCode::Timeout);
    held.gate.notify_one();
    assert_eq!(within("an answer", first).await.unwrap().unwrap(), 1);
    let sum = echo.call::<i32>("int Add(int,int)", (2, 3));
    assert_eq!(sum.await.unwrap(), 5);
    assert_eq!(server.stats().executed, 2);
}

#[tokio::test]
async fn the_round_trip_is_measured_from_the_start() {
    let (_server, endpoint, _held) = serve(|b| b).await;
    let (client, _) = connect(Client::builder(&endpoint)).await;
    let begun = Instant::now();
    while client.stats().round_trip.is_none() {
        assert!(begun.elapsed() < WATCHDOG);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(client.stats().round_trip.unwrap() < Duration::from_secs(5));
    assert!(client.silence().unwrap() < Duration::from_secs(10));
    client.disconnect();
    assert_eq!((client.stats().round_trip, client.silence()), (None, None));
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let zero = KeepAliveOptions {
        interval: Duration::ZERO,
        ..KeepAliveOptions::default()
    };
    let client = Client::builder("tcp://127.0.0.1:1").keep_alive(Some(zero));
    let error = client.build().err().unwrap();
    assert!(error.to_string().contains("keep_alive.interval"), "{error}");
    let limits = ServerLimits {
        keep_alive: Some(zero),
        ..ServerLimits::default()
    };
    let server = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(holding().0)
        .limits(limits);
    let error = server.start().await.unwrap_err();
    assert!(error.to_string().contains("keep_alive.interval"), "{error}");
}

/// A server that is busy does not look dead: a client with little patience stays.
#[tokio::test]
async fn a_server_that_does_not_read_for_a_while_still_gives_signs_of_life() {
    let (server, endpoint, mut held) = serve(|builder| {
        builder.limits(ServerLimits {
            max_in_flight_per_connection: 1,
            max_waiting_bytes: 0,
            ..ServerLimits::default()
        })
    })
    .await;
    let impatient = KeepAliveOptions {
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(200),
    };
    let builder = Client::builder(&endpoint).keep_alive(Some(impatient));
    let (client, echo) = connect(builder).await;
    let first = hold(&echo, 1);
    within("a call", held.begun.recv()).await.unwrap();
    // It waits, and nothing behind it is read.
    let second = hold(&echo, 2);
    let third = hold(&echo, 3);
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        assert_eq!(client.state(), State::Connected);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (n, call) in [(1, first), (2, second), (3, third)] {
        held.gate.notify_one();
        assert_eq!(within("an answer", call).await.unwrap().unwrap(), n);
    }
    assert_eq!(server.stats().executed, 3);
}

#[tokio::test]
async fn a_stopping_server_answers_what_runs_and_its_client_goes_to_the_other_without_a_failed_call()
 {
    let (first, one, mut held) = serve(|b| b).await;
    let (second, two, _) = serve(|b| b).await;
    let reconnect = ReconnectOptions {
        initial_delay: Duration::from_millis(10),
        ..ReconnectOptions::default()
    };
    let builder = Client::builder(&one).endpoint(&two).reconnect(reconnect);
    let (client, echo) = connect(builder).await;
    let slow = hold(&echo, 1);
    within("a call", held.begun.recv()).await.unwrap();
    let stopping = tokio::spawn(first.stop(WATCHDOG));
    // Calls go on all the time, the first ones on the old server, without any retry policy.
    while second.stats().executed < 100 {
        let sum = echo.call::<i32>("int Add(int,int)", (2, 3));
        assert_eq!(within("an answer", sum.into_future()).await.unwrap(), 5);
    }
    assert!(!slow.is_finished() && !stopping.is_finished());
    held.gate.notify_one();
    assert_eq!(within("an answer", slow).await.unwrap().unwrap(), 1);
    assert!(within("the stop", stopping).await.unwrap());
    assert_eq!(client.state(), State::Connected);
    assert_eq!(client.stats().reconnects, 1);
}

#[tokio::test]
async fn a_server_without_clients_and_one_with_idle_ones_stop_at_once() {
    let begun = Instant::now();
    let (server, _, _) = serve(|b| b).await;
    assert!(server.stop(WATCHDOG).await);
    let (server, endpoint, _) = serve(|b| b).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(Client::builder(&endpoint)).await);
    }
    assert!(server.stop(WATCHDOG).await);
    // Nobody was waited for who has nothing to say.
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    for (client, _) in &clients {
        within("the end", client.wait_for(State::Disconnected))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_refusal_for_load_says_when_to_come_back_and_the_retry_waits_for_it() {
    let wait = Duration::from_millis(400);
    let runs = Arc::new(AtomicUsize::new(0));
    let service = ServiceBuilder::open(DEMO).handle("int Busy()", {
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
    let limits = ServerLimits {
        retry_after: wait,
        ..ServerLimits::default()
    };
    let server = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(service)
        .limits(limits)
        .start()
        .await
        .unwrap();
    let endpoint = server.endpoints()[0].to_string();
    let (seen, mut delays) = mpsc::unbounded_channel();
    let retry = RetryPolicy::new()
        .initial_delay(Duration::from_millis(1))
        .mark_idempotent(["Busy"]);
    let builder = Client::builder(&endpoint)
        .retry(retry)
        .on_retry(move |retry| {
            assert_eq!(retry.error.outcome(), Outcome::Answered);
            let _ = seen.send((retry.error.retry_after_ms(), retry.delay));
        });
    let (_client, echo) = connect(builder).await;
    let begun = Instant::now();
    assert_eq!(echo.call::<usize>("int Busy()", ()).await.unwrap(), 1);
    assert!(begun.elapsed() >= wait);
    assert_eq!(delays.recv().await, Some((Some(400), wait)));
}

/// The same over other ways, where messages are sealed or travel in layers.
#[tokio::test]
async fn sealed_and_over_websockets_and_pipes_it_is_the_same() {
    let pipe = format!("pipe://witrpc-extensions-{}", std::process::id());
    for (listen, encrypted) in [
        ("tcp://127.0.0.1:0", true),
        ("ws://127.0.0.1:0/api/", false),
        ("ws://127.0.0.1:0/api/", true),
        (&*pipe, false),
    ] {
        let (service, mut held) = holding();
        let server = Server::builder()
            .listen(listen)
            .service(service)
            .encryption(encrypted);
        let server = server.start().await.unwrap();
        let endpoint = server.endpoints()[0].to_string();
        let (next, other, _) = serve(|b| b.encryption(encrypted)).await;
        let reconnect = ReconnectOptions {
            initial_delay: Duration::from_millis(10),
            ..ReconnectOptions::default()
        };
        let builder = Client::builder(&endpoint)
            .endpoint(&other)
            .encryption(encrypted)
            .reconnect(reconnect);
        let (client, echo) = connect(builder).await;
        let dropped = hold(&echo, 1);
        within("a call", held.begun.recv()).await.unwrap();
        dropped.abort();
        assert_eq!(within("the end", held.cancelled.recv()).await, Some(1));
        assert!(client.stats().round_trip.is_some(), "{listen}");
        let slow = hold(&echo, 2);
        within("a call", held.begun.recv()).await.unwrap();
        let stopping = tokio::spawn(server.stop(WATCHDOG));
        while next.stats().executed < 10 {
            let sum = echo.call::<i32>("int Add(int,int)", (2, 3));
            assert_eq!(within("an answer", sum.into_future()).await.unwrap(), 5);
        }
        held.gate.notify_one();
        assert_eq!(within("an answer", slow).await.unwrap().unwrap(), 2);
        assert!(within("the stop", stopping).await.unwrap());
    }
}
