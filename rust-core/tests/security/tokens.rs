//! Tokens that change while a connection stands, and checks that take their time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use witrpc::client::{Client, ClientBuilder, Service};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{Server, ServerBuilder, ServerLimits, ServiceBuilder, Verdict};
use witrpc::{ErrorCode, Outcome};

/// A token file of its own, gone at the end.
struct TokenFile(PathBuf);

impl TokenFile {
    fn new(token: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("token-{}-{n}", std::process::id());
        let file = Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
        file.set(token);
        file
    }

    fn set(&self, token: &str) {
        std::fs::write(&self.0, format!("{token}\n")).unwrap();
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn adder() -> ServiceBuilder {
    ServiceBuilder::open("Demo.IEcho").handle(
        "int Add(int a, int b)",
        |_, (a, b): (i32, i32)| async move { Ok(a + b) },
    )
}

async fn start(builder: ServerBuilder) -> (Server, String) {
    let server = builder.listen("tcp://127.0.0.1:0").start().await.unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint)
}

async fn connect(builder: ClientBuilder) -> (Client, Service) {
    let client = builder.build().unwrap();
    client.connect().await.unwrap();
    let service = client.service("Demo.IEcho").unwrap();
    (client, service)
}

async fn add(service: &Service) -> witrpc::Result<i32> {
    service.call("int Add(int, int)", (2, 3)).await
}

#[tokio::test]
async fn a_new_token_in_both_files_counts_on_the_connection_that_stands() {
    for encrypted in [false, true] {
        let (theirs, ours) = (TokenFile::new("one"), TokenFile::new("one"));
        let builder = Server::builder().service(adder()).encryption(encrypted);
        let (server, endpoint) = start(builder.token_file(&theirs.0)).await;
        let builder = Client::builder(&endpoint).encryption(encrypted);
        let (client, service) = connect(builder.token_file(&ours.0)).await;
        assert_eq!(add(&service).await.unwrap(), 5);
        for token in ["two", "thr", "four"] {
            ours.set(token);
            theirs.set(token);
            let calls: Vec<_> = (0..20).map(|_| add(&service)).collect();
            for call in calls {
                assert_eq!(call.await.unwrap(), 5);
            }
        }
        // The file of the client still has the old one: the call fails, the connection stays.
        theirs.set("five");
        let error = add(&service).await.unwrap_err();
        assert_eq!(
            (error.code(), error.outcome(), error.attempts()),
            (ErrorCode::Unauthorized, Outcome::Answered, 2)
        );
        ours.set("five");
        assert_eq!(add(&service).await.unwrap(), 5);
        assert_eq!(
            (client.stats().reconnects, server.stats().connections),
            (0, 1)
        );
        // What holds no token lets nobody in, also not those without one.
        theirs.set("");
        assert_eq!(
            add(&service).await.unwrap_err().code(),
            ErrorCode::Unauthorized
        );
        let nobody = Client::builder(&endpoint)
            .encryption(encrypted)
            .build()
            .unwrap();
        let error = nobody.connect().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unauthorized);
    }
}

#[tokio::test]
async fn a_fixed_token_that_was_withdrawn_fails_the_call_and_keeps_the_connection() {
    let file = TokenFile::new("one");
    let (server, endpoint) = start(Server::builder().service(adder()).token_file(&file.0)).await;
    let (client, service) = connect(Client::builder(&endpoint).token("one")).await;
    file.set("two");
    let error = add(&service).await.unwrap_err();
    assert_eq!(
        (error.code(), error.attempts()),
        (ErrorCode::Unauthorized, 1)
    );
    file.set("one");
    assert_eq!(add(&service).await.unwrap(), 5);
    assert_eq!(client.state(), State::Connected);
    assert_eq!(server.stats().connections, 1);
}

#[tokio::test]
async fn the_client_reads_its_file_again_at_each_attempt_and_when_it_was_refused() {
    let file = TokenFile::new("");
    let (server, endpoint) = start(Server::builder().service(adder()).token("good")).await;
    // Without a token the attempt fails, and it is tried again: the file may come later.
    let client = Client::builder(&endpoint)
        .token_file(&file.0)
        .reconnect(ReconnectOptions {
            initial_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(5),
            max_attempts: 0,
            retry_first_connect: true,
            ..ReconnectOptions::default()
        })
        .build()
        .unwrap();
    let connecting = tokio::spawn({
        let client = client.clone();
        async move { client.connect().await }
    });
    while client.last_failure().is_none() {
        tokio::task::yield_now().await;
    }
    let failure = client.last_failure().unwrap();
    assert_eq!(failure.code(), ErrorCode::Transport);
    assert!(failure.to_string().contains("it is empty"), "{failure}");
    assert_eq!(client.state(), State::Reconnecting);
    file.set("good");
    connecting.await.unwrap().unwrap();
    // A refused one is fetched once more, and then it is final.
    file.set("bad");
    let error = client.reconnect().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unauthorized);
    assert_eq!(client.state(), State::Failed);
    assert_eq!(server.stats().executed, 0);
}

#[tokio::test]
async fn a_server_whose_token_can_not_be_read_does_not_start() {
    for file in [
        TokenFile::new(""),
        TokenFile(PathBuf::from("/no/such/file")),
    ] {
        let builder = Server::builder().service(adder()).token_file(&file.0);
        let error = builder
            .listen("tcp://127.0.0.1:0")
            .start()
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(
            error.message().contains("can't read the token from"),
            "{error}"
        );
    }
}

/// A check that lets the first token of a connection pass, and each further one when it is told to.
struct Gate {
    asked: mpsc::UnboundedReceiver<String>,
    passes: Arc<Semaphore>,
    builder: ServerBuilder,
}

/// Tokens that begin with "slow" wait for a permit, after the first time.
fn gate() -> Gate {
    let (sender, asked) = mpsc::unbounded_channel();
    let passes = Arc::new(Semaphore::new(0));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let builder = Server::builder().validator_async({
        let passes = passes.clone();
        move |credentials| {
            let token = credentials.token.to_owned();
            let (passes, sender) = (passes.clone(), sender.clone());
            let first = !seen.lock().contains(&token);
            seen.lock().push(token.clone());
            async move {
                if token.starts_with("slow") && !first {
                    sender.send(token.clone()).unwrap();
                    passes.acquire().await.unwrap().forget();
                }
                match token.as_str() {
                    "wrong" => Verdict::Refused,
                    name => Verdict::Accepted(name.into()),
                }
            }
        }
    });
    Gate {
        asked,
        passes,
        builder,
    }
}

#[tokio::test]
async fn calls_keep_their_order_while_they_are_checked_and_hold_up_nobody_else() {
    let Gate {
        mut asked,
        passes,
        builder,
    } = gate();
    let order: Arc<Mutex<Vec<i32>>> = Arc::default();
    let service = ServiceBuilder::open("Demo.IEcho").handle("int Note(int n)", {
        let order = order.clone();
        move |call, (n,): (i32,)| {
            order.lock().push(n);
            assert_eq!(call.principal(), if n < 100 { "slow" } else { "quick" });
            async move { Ok(n) }
        }
    });
    let (_server, endpoint) = start(builder.service(service)).await;
    let (_slow_client, slow) = connect(Client::builder(&endpoint).token("slow")).await;
    let (_quick_client, quick) = connect(Client::builder(&endpoint).token("quick")).await;
    let note = |service: &Service, n: i32| service.call::<i32>("int Note(int)", (n,)).into_future();
    let waiting: Vec<_> = (0..5).map(|n| note(&slow, n)).collect();
    let mut waiting: Vec<_> = waiting.into_iter().map(tokio::spawn).collect();
    assert_eq!(asked.recv().await.unwrap(), "slow");
    for n in 100..110 {
        assert_eq!(note(&quick, n).await.unwrap(), n);
    }
    assert_eq!(*order.lock(), (100..110).collect::<Vec<_>>());
    for (n, call) in waiting.drain(..).enumerate() {
        passes.add_permits(1);
        assert_eq!(call.await.unwrap().unwrap(), n as i32);
    }
    assert_eq!(order.lock()[10..], [0, 1, 2, 3, 4]);
    let wrong = Client::builder(&endpoint).token("wrong").build().unwrap();
    assert_eq!(
        wrong.connect().await.unwrap_err().code(),
        ErrorCode::Unauthorized
    );
}

#[tokio::test]
async fn what_is_answered_while_a_check_is_pending_is_sent() {
    let Gate {
        mut asked,
        passes,
        builder,
    } = gate();
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let service = ServiceBuilder::open("Demo.IEcho").handle("int Wait(int n)", {
        let go = go.clone();
        move |_, (n,): (i32,)| {
            let (go, begun) = (go.clone(), begun.clone());
            async move {
                begun.send(n).unwrap();
                go.acquire().await.unwrap().forget();
                Ok(n)
            }
        }
    });
    let (server, endpoint) = start(builder.service(service)).await;
    let (_client, service) = connect(Client::builder(&endpoint).token("slow")).await;
    let wait = |n: i32| {
        let call = service.call::<i32>("int Wait(int)", (n,)).into_future();
        tokio::spawn(call)
    };
    let running = wait(1);
    asked.recv().await.unwrap();
    passes.add_permits(1);
    assert_eq!(has_begun.recv().await, Some(1));
    let pending = wait(2);
    asked.recv().await.unwrap();
    go.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap(), 1);
    // A server that stops does not wait for a check, and the call did not run.
    assert!(server.stop(Duration::from_secs(20)).await);
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(has_begun.try_recv().is_err());
}

#[tokio::test]
async fn a_check_without_an_end_ends_with_its_limit() {
    let limits = ServerLimits {
        handshake_timeout: Some(Duration::from_millis(100)),
        ..ServerLimits::default()
    };
    let Gate {
        builder,
        asked: _asked,
        ..
    } = gate();
    let (server, endpoint) = start(builder.service(adder()).limits(limits)).await;
    let (client, service) = connect(Client::builder(&endpoint).token("slow")).await;
    let error = add(&service).await.unwrap_err();
    assert_eq!(
        (error.code(), error.outcome(), error.message()),
        (
            ErrorCode::Overloaded,
            Outcome::Answered,
            "The check of the token took too long"
        )
    );
    assert_eq!(
        (client.state(), server.stats().executed),
        (State::Connected, 0)
    );
    // At the handshake it closes the connection.
    let second = Client::builder(&endpoint).token("slow").build().unwrap();
    let error = second.connect().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Transport, "{error}");
}
