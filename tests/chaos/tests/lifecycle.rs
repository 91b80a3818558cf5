//! Clients that are made, closed and dropped in every state: pending work ends, and nothing is left.

use std::time::Duration;

use parking_lot::Mutex;
use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{ErrorCode, Outcome};
use witrpc_chaos::demo::{Demo, ECHO};
use witrpc_chaos::port::ReservedPort;
use witrpc_chaos::process::Holdings;
use witrpc_chaos::raw::{self, Peer, RawServer};
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::watch;

/// They count the threads and descriptors of this process.
static ALONE: Mutex<()> = Mutex::new(());

const HOUR: Duration = Duration::from_secs(3600);

fn options() -> ReconnectOptions {
    ReconnectOptions {
        max_attempts: 0,
        initial_delay: HOUR,
        max_delay: HOUR,
        ..ReconnectOptions::default()
    }
}

/// Waits until this process holds no more than before.
async fn nothing_is_left(of: &str, before: Holdings) {
    let what = format!("nothing is left of {of}, from {before:?}");
    watch::eventually(&what, || {
        let now = Holdings::here();
        now.fds <= before.fds && now.threads <= before.threads
    })
    .await;
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Drop,
    Close,
    /// From a callback.
    Inside,
}

/// Brings clients into a state, drops or closes them there, and sees what is left.
async fn gone_in<F, T>(of: &str, into_state: F)
where
    F: Fn(Client) -> T,
    T: Future<Output = ()>,
{
    for how in [How::Drop, How::Close, How::Inside] {
        let before = Holdings::here();
        for _ in 0..5 {
            let recorder = Recorder::default();
            let server = raw_server();
            let builder = recorder.attach(Client::builder(&server.endpoint()));
            let client = builder.reconnect(options()).build().unwrap();
            into_state(client.clone()).await;
            match how {
                How::Drop => drop(client),
                How::Close => client.close(),
                How::Inside => {
                    let dispatcher = client.dispatcher().clone();
                    dispatcher.post(move || drop(client));
                }
            }
        }
        nothing_is_left(&format!("{of} by {how:?}"), before).await;
    }
}

/// Serves the first connection until it is asked to `Cut`, and leaves all others without a word.
fn raw_server() -> RawServer {
    RawServer::start(|number, mut stream| async move {
        if number > 0 {
            raw::read_to_end(&mut stream).await;
            return;
        }
        let Ok(mut peer) = Peer::accept(stream).await else {
            return;
        };
        while let Ok((_, request)) = peer.request().await {
            if request.method_name.as_deref() == Some("Cut") {
                return peer.reset();
            }
        }
    })
}

/// Makes the first connection break.
async fn cut(client: &Client) {
    client.connect().await.unwrap();
    let service = client.service(ECHO).unwrap();
    let error = service.call::<()>("void Cut()", ()).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    watch::within("the loss", client.wait_for(State::Reconnecting))
        .await
        .unwrap();
}

/// Calls that can only end by the end of their client.
async fn hang(client: &Client, calls: usize) -> Vec<tokio::task::JoinHandle<witrpc::Error>> {
    let mut hanging = Vec::new();
    for n in 0..calls {
        let client = client.clone();
        let service = client.service(ECHO).unwrap();
        // Started by a callback, so that nobody holds the client for it.
        let (sender, receiver) = tokio::sync::oneshot::channel();
        service
            .call::<i32>("int Add(int,int)", (n, 1))
            .timeout(HOUR)
            .spawn_json(move |result| drop(sender.send(result)))
            .unwrap();
        hanging.push(tokio::spawn(
            async move { receiver.await.unwrap().unwrap_err() },
        ));
    }
    hanging
}

#[test]
fn a_client_that_never_connected_leaves_nothing() {
    let _alone = ALONE.lock();
    watch::run(async {
        gone_in("an idle client", |_| async {}).await;
    });
}

#[test]
fn a_connected_client_leaves_nothing() {
    let _alone = ALONE.lock();
    watch::run(async {
        gone_in("a connected client", |client| async move {
            client.connect().await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_client_with_calls_in_flight_leaves_nothing_and_they_end_as_unknown() {
    let _alone = ALONE.lock();
    watch::run(async {
        let ends = std::sync::Arc::new(Mutex::new(Vec::new()));
        gone_in("a busy client", |client| {
            let ends = ends.clone();
            async move {
                client.connect().await.unwrap();
                let hanging = hang(&client, 20).await;
                assert_eq!(client.stats().in_flight, 20);
                ends.lock().extend(hanging);
            }
        })
        .await;
        let ends = std::mem::take(&mut *ends.lock());
        assert_eq!(ends.len(), 300);
        for call in ends {
            let error = watch::within("the end", call).await.unwrap();
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Closed, Outcome::Unknown)
            );
        }
    });
}

#[test]
fn a_client_that_waits_between_attempts_leaves_nothing_and_waiting_calls_end_as_not_sent() {
    let _alone = ALONE.lock();
    watch::run(async {
        let ends = std::sync::Arc::new(Mutex::new(Vec::new()));
        gone_in("a waiting client", |client| {
            let ends = ends.clone();
            async move {
                cut(&client).await;
                let hanging = hang(&client, 20).await;
                assert_eq!(client.stats().queued, 20);
                ends.lock().extend(hanging);
            }
        })
        .await;
        let ends = std::mem::take(&mut *ends.lock());
        assert_eq!(ends.len(), 300);
        for call in ends {
            let error = watch::within("the end", call).await.unwrap();
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Closed, Outcome::NotSent)
            );
        }
    });
}

#[test]
fn a_client_in_the_middle_of_an_attempt_leaves_nothing() {
    let _alone = ALONE.lock();
    watch::run(async {
        // The second connection is accepted and never answered.
        gone_in("a reconnecting client", |client| async move {
            cut(&client).await;
            client.reconnect_now();
        })
        .await;
    });
}

#[test]
fn a_client_that_is_connecting_for_the_first_time_leaves_nothing_and_connect_returns() {
    let _alone = ALONE.lock();
    watch::run(async {
        let mute = RawServer::start(|_, mut stream| async move {
            raw::read_to_end(&mut stream).await;
        });
        let before = Holdings::here();
        for round in 1..=20 {
            let client = Client::builder(&mute.endpoint()).build().unwrap();
            let connecting = tokio::spawn({
                let client = client.clone();
                async move { client.connect().await }
            });
            watch::eventually("it connects", || mute.arrivals().len() == round).await;
            client.close();
            let error = watch::within("connect", connecting)
                .await
                .unwrap()
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::Closed);
        }
        nothing_is_left("connecting clients", before).await;
    });
}

#[test]
fn a_client_without_a_server_leaves_nothing() {
    let _alone = ALONE.lock();
    watch::run(async {
        let port = ReservedPort::new();
        let before = Holdings::here();
        for _ in 0..50 {
            let client = Client::builder(&port.endpoint()).build().unwrap();
            client.connect().await.unwrap_err();
            let failing = Client::builder(&port.endpoint())
                .reconnect(ReconnectOptions {
                    max_attempts: 2,
                    initial_delay: Duration::from_millis(1),
                    retry_first_connect: true,
                    ..ReconnectOptions::default()
                })
                .build()
                .unwrap();
            failing.connect().await.unwrap_err();
            assert_eq!(failing.state(), State::Failed);
        }
        nothing_is_left("clients without a server", before).await;
    });
}

#[test]
fn thousands_of_lives_leave_no_thread_no_descriptor_and_no_memory() {
    let _alone = ALONE.lock();
    watch::run(async {
        let demo = Demo::default();
        let (server, endpoint) = demo.serve().await;
        let live = async |lives: usize| {
            for n in 0..lives {
                let recorder = Recorder::default();
                let builder = Client::builder(&endpoint).reconnect(ReconnectOptions::default());
                let client = recorder.attach(builder).build().unwrap();
                client.connect().await.unwrap();
                let echo = client.service(ECHO).unwrap();
                let mut events = echo.events("event Action<int> Progress").unwrap();
                let handled = echo.on_event("event Action<int> Progress", |_| {}).unwrap();
                echo.call::<()>("void RaiseMany(int)", (3,)).await.unwrap();
                assert_eq!(events.next().await.unwrap().get::<(i32,)>().unwrap(), (0,));
                if n % 2 == 0 {
                    client.reconnect().await.unwrap();
                }
                drop((events, handled));
            }
        };
        let before = Holdings::here();
        // Until buffers and tables have their size.
        live(1000).await;
        nothing_is_left("the first lives", before).await;
        let before = Holdings::here();
        live(3000).await;
        nothing_is_left("the other lives", before).await;
        let after = Holdings::here();
        println!("{before:?}, then {after:?}");
        // The server remembers 3,000 answers; a KiB a life would be 3 MiB more.
        assert!(
            after.rss_kib < before.rss_kib + 3 * 1024,
            "{before:?}, then {after:?}"
        );
        watch::eventually("no connection is left", || server.stats().connections == 0).await;
    });
}
