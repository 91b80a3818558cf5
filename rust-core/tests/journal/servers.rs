//! A server with a journal, in two lives: the first one ends while calls run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;
use witrpc::ErrorCode;
use witrpc::client::{Client, RetryPolicy, Service};
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{CallContext, Fault, Resolution, Server, ServerBuilder, ServiceBuilder};

use crate::fixture::Directory;

const WATCHDOG: Duration = Duration::from_secs(30);

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(WATCHDOG, future)
        .await
        .unwrap_or_else(|_| panic!("{what}: not in time"))
}

/// The bank of a test: what it has done is known by the ids of the calls, as a database would know it.
#[derive(Default)]
struct Bank {
    runs: AtomicUsize,
    /// What was committed, with its result.
    committed: Mutex<HashMap<Uuid, i32>>,
    may_be_repetition: Mutex<Vec<bool>>,
    go_on: Notify,
}

/// `Pay` and `Look` commit, tell that they have, and then wait before they return.
fn bank(bank: &Arc<Bank>, committed: mpsc::UnboundedSender<CallContext>) -> ServiceBuilder {
    let run = {
        let bank = bank.clone();
        move |call: CallContext, (amount,): (i32,)| {
            let (bank, committed) = (bank.clone(), committed.clone());
            async move {
                let run = bank.runs.fetch_add(1, Ordering::SeqCst) as i32;
                bank.may_be_repetition.lock().push(call.may_be_repetition());
                if amount == 503 {
                    return Err(Fault::overloaded("not now"));
                }
                bank.committed
                    .lock()
                    .insert(call.invocation_id(), run * 1000 + amount);
                if amount < 0 {
                    return Err(Fault::new("no"));
                }
                let _ = committed.send(call);
                bank.go_on.notified().await;
                Ok(run * 1000 + amount)
            }
        }
    };
    ServiceBuilder::open("Demo.IBank")
        .handle("int Pay(int amount)", run.clone())
        .handle("int Look(int amount)", run)
        .durable("Pay")
}

async fn serve(port: u16, directory: &Path, service: ServiceBuilder) -> Server {
    let builder = Server::builder()
        .listen(&format!("tcp://127.0.0.1:{port}"))
        .journal(directory)
        .service(service);
    builder.start().await.unwrap()
}

fn port(server: &Server) -> u16 {
    let endpoint = server.endpoints()[0].to_string();
    endpoint.rsplit(':').next().unwrap().parse().unwrap()
}

async fn connect(port: u16) -> (Client, Service) {
    let client = Client::builder(&format!("tcp://127.0.0.1:{port}"))
        .reconnect(ReconnectOptions {
            max_attempts: 0,
            initial_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(10),
            ..ReconnectOptions::default()
        })
        .retry(
            RetryPolicy::new()
                .initial_delay(Duration::from_millis(1))
                .mark_deduplicated(["Pay", "Look"]),
        )
        .build()
        .unwrap();
    within("connecting", client.connect()).await.unwrap();
    let service = client.service("Demo.IBank").unwrap();
    (client, service)
}

/// What the repetition of a call comes to whose server was killed between its commit and its answer.
async fn cut_off(
    method: &'static str,
    id: Option<Uuid>,
    next: impl FnOnce(&Arc<Bank>, ServiceBuilder) -> ServiceBuilder,
) -> (witrpc::Result<i32>, Arc<Bank>) {
    let first = Arc::<Bank>::default();
    let (tell, mut committed) = mpsc::unbounded_channel();
    let directory = Directory::new();
    let server = serve(0, &directory.0, bank(&first, tell)).await;
    let port = port(&server);
    let (_client, service) = connect(port).await;
    let call = tokio::spawn(async move {
        let call = service.call::<i32>(method, (5,));
        match id {
            Some(id) => call.invocation_id(id).await,
            None => call.await,
        }
    });
    within("the commit", committed.recv()).await.unwrap();
    // What a killed process leaves; the old one goes on elsewhere, and is heard no more.
    let left = directory.copy();
    drop(server);
    let second = Arc::new(Bank {
        committed: Mutex::new(first.committed.lock().clone()),
        ..Bank::default()
    });
    second.go_on.notify_one();
    let (tell, _) = mpsc::unbounded_channel();
    let service = next(&second, bank(&second, tell));
    let _server = serve(port, &left.0, service).await;
    let result = within("the end", call).await.unwrap();
    first.go_on.notify_one();
    (result, second)
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_unknown_in_the_next_life_durable_or_not() {
    for method in ["int Pay(int)", "int Look(int)"] {
        for id in [None, Some(Uuid::from_u128(7))] {
            let (result, next) = cut_off(method, id, |_, service| service).await;
            let error = result.unwrap_err();
            assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{method}");
            // It was repeated, and the server said so.
            assert_eq!(error.attempts(), 2, "{method}");
            assert_eq!(next.runs.load(Ordering::SeqCst), 0, "{method}");
        }
    }
}

#[tokio::test]
async fn a_resolver_answers_what_was_cut_off_or_lets_it_run() {
    let look_up = |bank: &Arc<Bank>, service: ServiceBuilder| {
        let bank = bank.clone();
        service.resolver("int Pay(int)", move |call| {
            let found = bank.committed.lock().get(&call.invocation_id()).copied();
            async move {
                match found {
                    Some(result) => Resolution::executed(&result),
                    None => Resolution::NotExecuted,
                }
            }
        })
    };
    let (result, next) = cut_off("int Pay(int)", None, look_up).await;
    assert_eq!(result.unwrap(), 5);
    assert_eq!(next.runs.load(Ordering::SeqCst), 0);

    // The crash came before the commit.
    let (result, next) = cut_off("int Pay(int)", None, |bank, service| {
        bank.committed.lock().clear();
        look_up(bank, service)
    })
    .await;
    assert_eq!(result.unwrap(), 5);
    assert_eq!(next.runs.load(Ordering::SeqCst), 1);
    assert_eq!(*next.may_be_repetition.lock(), [true]);

    let says = |resolution: Resolution| {
        move |_: &Arc<Bank>, service: ServiceBuilder| {
            service.resolver("Pay", move |_| std::future::ready(resolution.clone()))
        }
    };
    let fault = Resolution::Failed(Fault::new("it said no"));
    let (result, _) = cut_off("int Pay(int)", None, says(fault)).await;
    assert_eq!(result.unwrap_err().details(), Some("it said no"));
    for nothing in [Resolution::Unknown, Resolution::Executed("not JSON".into())] {
        let (result, next) = cut_off("int Pay(int)", None, says(nothing)).await;
        assert_eq!(result.unwrap_err().code(), ErrorCode::OutcomeUnknown);
        assert_eq!(next.runs.load(Ordering::SeqCst), 0);
    }
    let (result, _) = cut_off("int Pay(int)", None, |_, service| {
        service.resolver("Pay", |_| async { panic!("on purpose") })
    })
    .await;
    assert_eq!(result.unwrap_err().code(), ErrorCode::OutcomeUnknown);
}

#[tokio::test]
async fn answers_faults_and_refusals_outlive_a_server_that_stops() {
    let (tell, _committed) = mpsc::unbounded_channel();
    let (first, directory) = (Arc::<Bank>::default(), Directory::new());
    let server = serve(0, &directory.0, bank(&first, tell.clone())).await;
    let at = port(&server);
    let (client, service) = connect(at).await;
    let pay = async |id: u128, amount: i32| {
        let call = service.call::<i32>("int Pay(int)", (amount,));
        call.invocation_id(Uuid::from_u128(id)).await
    };
    first.go_on.notify_one();
    assert_eq!(pay(1, 7).await.unwrap(), 7);
    assert_eq!(pay(2, -7).await.unwrap_err().details(), Some("no"));
    assert_eq!(server.stats().executed, 2);
    // A call that the client made and numbered first: that is certain. One with an id of its own may have come before.
    first.go_on.notify_one();
    let fresh = service.call::<i32>("int Pay(int)", (3,)).await.unwrap();
    assert_eq!(fresh, 2003);
    assert_eq!(*first.may_be_repetition.lock(), [true, true, false]);
    let overloaded = service
        .call::<i32>("int Pay(int)", (503,))
        .timeout(Duration::from_millis(50));
    assert!(overloaded.await.is_err());
    assert!(server.stop(WATCHDOG).await);

    let second = Arc::<Bank>::default();
    let server = serve(at, &directory.0, bank(&second, tell)).await;
    within(
        "the connection",
        client.wait_for(witrpc::resilience::engine::State::Connected),
    )
    .await
    .unwrap();
    assert_eq!(pay(1, 7).await.unwrap(), 7);
    assert_eq!(pay(2, -7).await.unwrap_err().details(), Some("no"));
    assert_eq!(pay(1, 8).await.unwrap_err().code(), ErrorCode::BadRequest);
    assert_eq!(second.runs.load(Ordering::SeqCst), 0);
    assert_eq!(server.stats().dedup.running, 0);
}

#[tokio::test]
async fn what_makes_no_sense_stops_the_start() {
    let (tell, _committed) = mpsc::unbounded_channel();
    let service = || bank(&Arc::default(), tell.clone());
    let directory = Directory::new();
    let error = async |builder: ServerBuilder| {
        let started = builder.listen("tcp://127.0.0.1:0").start().await;
        let error = started.map(|_| ()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        error.message().to_owned()
    };
    let said = error(Server::builder().service(service())).await;
    assert!(
        said.contains(
            "int Pay(int amount) of \"Demo.IBank\" is to be durable, and the server has no store"
        ),
        "{said}"
    );
    let plain = ServiceBuilder::open("Demo.IBank").handle(
        "int Pay(int amount)",
        |_, (n,): (i32,)| async move { Ok(n) },
    );
    let said = error(Server::builder().service(plain).journal(&directory.0)).await;
    assert!(said.contains("none of its methods is durable"), "{said}");
    for (line, what) in [
        (
            "Nothing",
            "method \"Nothing\": no handler has that name; there are: ",
        ),
        ("int Pay(string)", "it has no handler yet"),
    ] {
        let wrong = service().durable(line);
        let said = error(Server::builder().service(wrong).journal(&directory.0)).await;
        assert!(said.contains(what), "{said}");
    }
    // A file where the directory should be.
    let file = env!("CARGO_MANIFEST_PATH");
    let said = error(Server::builder().service(service()).journal(file)).await;
    assert!(
        said.contains("its directory can't be made") && said.contains(file),
        "{said}"
    );
    let first = serve(0, &directory.0, service()).await;
    let said = error(Server::builder().service(service()).journal(&directory.0)).await;
    assert!(said.contains("is in use by another server"), "{said}");
    // One that can't listen lets go of the journal.
    let taken = first.endpoints()[0].to_string();
    let other = Directory::new();
    let builder = Server::builder().service(service()).journal(&other.0);
    assert!(builder.listen(&taken).start().await.is_err());
    drop(serve(0, &other.0, service()).await);
}
