//! A link that loses every packet without a word: no end of stream, no reset, and no kernel that
//! acknowledges for the other end. Only the kernel's own timers can notice.
//!
//! Needs root and iproute2; skipped elsewhere.

use std::time::{Duration, Instant};

use witrpc::client::{Client, ClientBuilder, RetryPolicy};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::transport::SocketOptions;
use witrpc::{ErrorCode, Outcome};
use witrpc_chaos::demo::ECHO;
use witrpc_chaos::netns::{Network, RemoteServer};
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::watch;

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &RemoteServer, socket: SocketOptions) -> (ClientBuilder, Recorder) {
    let recorder = Recorder::default();
    let builder = Client::builder(server.endpoint())
        .socket(socket)
        .connect_timeout(Duration::from_millis(500))
        .reconnect(ReconnectOptions {
            max_attempts: 0,
            initial_delay: Duration::from_millis(50),
            max_delay: Duration::from_millis(50),
            ..ReconnectOptions::default()
        });
    (recorder.attach(builder), recorder)
}

fn with_network(test: &'static str, body: impl FnOnce(&Network, &RemoteServer) + Send + 'static) {
    watch::run_thread(Duration::from_secs(100), move || {
        if let Some(network) = Network::build(test) {
            let server = network.serve(&[]);
            body(&network, &server);
        }
    });
}

/// After the link is mended, the client is back and works.
async fn comes_back(network: &Network, client: &Client, recorder: &Recorder) {
    watch::eventually("attempts on the dead link", || {
        recorder.attempts().len() >= 2
    })
    .await;
    assert_eq!(client.state(), State::Reconnecting);
    network.mend();
    watch::within("the way back", client.wait_for(State::Connected))
        .await
        .unwrap();
    let echo = client.service(ECHO).unwrap();
    let sum = watch::within(
        "an answer",
        echo.call::<i32>("int Add(int,int)", (2, 3)).into_future(),
    );
    assert_eq!(sum.await.unwrap(), 5);
    watch::eventually("it is told", || recorder.reconnected() == 1).await;
    recorder.check_cycles();
}

#[test]
fn silence_without_traffic_is_noticed_by_keep_alive() {
    with_network("silence without traffic", |network, server| {
        network.run_client(async {
            let (builder, recorder) = client(
                server,
                SocketOptions {
                    keepalive_idle: Some(SECOND),
                    keepalive_interval: SECOND,
                    keepalive_probes: 2,
                    user_timeout: Some(3 * SECOND),
                },
            );
            let client = builder.build().unwrap();
            client.connect().await.unwrap();
            network.cut();
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
            comes_back(network, &client, &recorder).await;
        });
    });
}

#[test]
fn keep_alive_notices_in_its_own_time_whatever_the_limit_for_unacknowledged_bytes_is() {
    with_network("keep-alive alone", |network, server| {
        network.run_client(async {
            // The other limit stays at its 20 seconds.
            let (builder, recorder) = client(
                server,
                SocketOptions {
                    keepalive_idle: Some(SECOND),
                    keepalive_interval: SECOND,
                    keepalive_probes: 2,
                    ..SocketOptions::default()
                },
            );
            let client = builder.build().unwrap();
            client.connect().await.unwrap();
            network.cut();
            let cut = Instant::now();
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
            // After three seconds: the bound only tells them from the twenty.
            assert!(
                cut.elapsed() < 15 * SECOND,
                "noticed after {:?}",
                cut.elapsed()
            );
            comes_back(network, &client, &recorder).await;
        });
    });
}

#[test]
fn silence_with_a_call_in_flight_is_noticed_by_the_limit_for_unacknowledged_bytes() {
    with_network("silence with traffic", |network, server| {
        network.run_client(async {
            let (builder, recorder) = client(
                server,
                SocketOptions {
                    keepalive_idle: None,
                    user_timeout: Some(SECOND),
                    ..SocketOptions::default()
                },
            );
            let client = builder.build().unwrap();
            client.connect().await.unwrap();
            network.cut();
            let echo = client.service(ECHO).unwrap();
            let call = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
            let error = watch::within("the end of the call", call)
                .await
                .unwrap_err();
            // Not by the 30 seconds of an attempt: the link was found dead.
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Transport, Outcome::Unknown),
                "{error:?}"
            );
            comes_back(network, &client, &recorder).await;
        });
        // The request never arrived: what is unknown to the client did not run.
        assert_eq!(server.trace().of_method("Add"), 1);
    });
}

#[test]
fn a_call_that_ran_while_its_answer_was_lost_is_answered_from_memory_when_the_link_is_back() {
    with_network("an answer lost in silence", |network, server| {
        network.run_client(async {
            let (builder, recorder) = client(
                server,
                SocketOptions {
                    keepalive_idle: Some(SECOND),
                    keepalive_interval: SECOND,
                    keepalive_probes: 2,
                    user_timeout: Some(2 * SECOND),
                },
            );
            let policy = RetryPolicy::new()
                .initial_delay(Duration::from_millis(10))
                .mark_deduplicated(["SlowAsync"]);
            let client = builder.retry(policy).build().unwrap();
            client.connect().await.unwrap();
            let echo = client.service(ECHO).unwrap();
            let call = tokio::spawn(async move {
                let line = "Task<int> SlowAsync(int,int)";
                echo.call::<i32>(line, (500, 7)).encoded().await
            });
            watch::eventually("the call runs", || {
                server.trace().of_method("SlowAsync") == 1
            })
            .await;
            network.cut();
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
            comes_back(network, &client, &recorder).await;
            let answer = watch::within("the answer", call).await.unwrap().unwrap();
            assert_eq!(answer.data.as_deref(), Some(&b"7"[..]));
            assert_eq!((answer.attempts, answer.replayed), (2, true));
        });
        assert_eq!(server.trace().of_method("SlowAsync"), 1);
    });
}

#[test]
fn a_client_never_takes_itself_for_the_server() {
    with_network("self-connection", |network, _| {
        // With one port to choose from, a connection to that port meets itself: TCP allows it.
        network.limit_client_ports(40_000, 40_000);
        network.run_client(async {
            let recorder = Recorder::default();
            let builder = Client::builder("tcp://127.0.0.1:40000").reconnect(ReconnectOptions {
                max_attempts: 5,
                initial_delay: Duration::from_millis(1),
                max_delay: Duration::from_millis(1),
                retry_first_connect: true,
                ..ReconnectOptions::default()
            });
            let client = recorder.attach(builder).build().unwrap();
            let error = watch::within("the attempts", client.connect())
                .await
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::Transport, "{error:?}");
            watch::eventually("the failure is told", || recorder.failure().is_some()).await;
            assert_eq!(recorder.check_cycles(), (0, 5));
        });
    });
}
