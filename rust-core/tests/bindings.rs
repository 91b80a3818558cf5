//! What bindings need beyond ordinary calls: round trips for health checks, and completions that
//! come where the answer comes in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::TcpListener;
use witrpc::client::Client;
use witrpc::server::{Server, ServiceBuilder};
use witrpc::wire::Arguments;
use witrpc::{ErrorCode, Outcome};

const WATCHDOG: Duration = Duration::from_secs(60);

async fn serve(token: &str) -> (Server, String, Arc<AtomicUsize>) {
    let executed = Arc::new(AtomicUsize::new(0));
    let count = executed.clone();
    let server = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .token(token)
        .service(
            ServiceBuilder::open("Demo.IEcho")
                .handle(
                    "int Add(int a, int b)",
                    |_, (a, b): (i32, i32)| async move { Ok(a + b) },
                )
                .handle("void Wait()", |_, ()| {
                    std::future::pending::<Result<(), _>>()
                }),
        )
        .on_execute(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .start()
        .await
        .unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint, executed)
}

fn two_and_three() -> Arguments {
    Arguments::from_blobs(&[b"2", b"3"])
}

#[tokio::test]
async fn a_probe_goes_there_and_back_and_leaves_nothing_behind() {
    let (server, endpoint, executed) = serve("secret").await;
    let client = Client::builder(&endpoint).token("secret").build().unwrap();
    client.connect().await.unwrap();
    for _ in 0..3 {
        client.probe(WATCHDOG).await.unwrap();
    }
    let stats = server.stats();
    assert_eq!((executed.load(Ordering::SeqCst), stats.dedup.done), (0, 0));
    // It does not queue behind calls that run.
    let echo = client.service("Demo.IEcho").unwrap();
    let running = echo.call::<()>("void Wait()", ()).start().unwrap();
    client.probe(WATCHDOG).await.unwrap();
    drop(running);
    client.close();
    let error = client.probe(WATCHDOG).await.unwrap_err();
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::Closed, Outcome::NotSent)
    );
}

#[tokio::test]
async fn a_probe_of_a_client_without_a_link_fails_at_once() {
    let (server, endpoint, _) = serve("").await;
    let client = Client::builder(&endpoint).build().unwrap();
    let error = client.probe(WATCHDOG).await.unwrap_err();
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::Transport, Outcome::NotSent)
    );
    assert_eq!(error.message(), "not connected: connect the client first");
    drop(server);
}

#[tokio::test]
async fn a_probe_that_nobody_answers_ends_within_its_limit() {
    // Takes the whole conversation but the probe: a server that is cut off behind the handshake.
    let (_server, endpoint, _) = serve("").await;
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = front.local_addr().unwrap().port();
    let (cut, mut is_cut) = tokio::sync::watch::channel(false);
    let target = endpoint.strip_prefix("tcp://").unwrap().to_owned();
    tokio::spawn(async move {
        let (mut near, _) = front.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(target).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = is_cut.wait_for(|cut| *cut) => {}
        }
        std::future::pending::<()>().await;
    });
    let client = Client::builder(&format!("tcp://127.0.0.1:{port}"))
        .build()
        .unwrap();
    client.connect().await.unwrap();
    client.probe(WATCHDOG).await.unwrap();
    cut.send(true).unwrap();
    let error = client.probe(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.outcome()),
        (ErrorCode::Timeout, Outcome::Unknown)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_direct_completion_is_not_run_by_the_dispatcher() {
    let (_server, endpoint, _) = serve("").await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    // The dispatcher is held up for the whole test; only what does not need it comes through.
    let (hold, held) = mpsc::channel::<()>();
    client.dispatcher().post(move || {
        let _ = held.recv();
    });
    let (sender, ended) = mpsc::channel();
    for _ in 0..100 {
        let sender = sender.clone();
        let _cancel = echo
            .call_encoded::<i32>("int Add(int,int)", two_and_three())
            .spawn_encoded_direct(move |answer| {
                let data = answer.unwrap().data.unwrap();
                sender.send(data).unwrap();
            })
            .unwrap();
        let data = tokio::task::block_in_place(|| ended.recv_timeout(WATCHDOG)).unwrap();
        assert_eq!(&data[..], b"5");
    }
    drop(hold);
}

#[tokio::test]
async fn direct_completions_come_once_whatever_ends_the_call() {
    let (_server, endpoint, _) = serve("").await;
    let client = Client::builder(&endpoint).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let start = |line: &'static str, arguments| {
        let sender = sender.clone();
        echo.call_encoded::<()>(line, arguments)
            .spawn_encoded_direct(move |answer| {
                sender
                    .send((line, answer.map(drop).map_err(|e| e.code())))
                    .unwrap();
            })
    };
    let cancelled = start("void Wait()", Arguments::NONE).unwrap();
    cancelled.cancel();
    // Told before the function that cancels has returned.
    assert_eq!(
        ended.try_recv().unwrap(),
        ("void Wait()", Err(ErrorCode::Cancelled))
    );
    cancelled.cancel();
    start("void Wait()", Arguments::NONE).unwrap();
    client.close();
    assert_eq!(
        ended.try_recv().unwrap(),
        ("void Wait()", Err(ErrorCode::Closed))
    );
    start("int Add(int,int)", two_and_three()).unwrap();
    assert_eq!(
        ended.try_recv().unwrap(),
        ("int Add(int,int)", Err(ErrorCode::Closed))
    );
    // What is wrong before anything is sent is told by the function itself.
    assert!(start("int Add(int,", two_and_three()).is_err());
    tokio::task::yield_now().await;
    assert!(ended.try_recv().is_err());
}
