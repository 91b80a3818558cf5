//! Several contracts on one server, several servers in one process, and one server on endpoints of
//! every kind, over real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uuid::Uuid;
use witrpc::client::{Client, MethodLookup, TypeNameForm};
use witrpc::contract::Contract;
use witrpc::server::{Server, ServiceBuilder};
use witrpc::transport::tls::{Identity, TlsClientOptions, TlsServerOptions};
use witrpc::{ErrorCode, Result};

/// A service whose methods say whose they are.
fn named(contract: &'static str) -> ServiceBuilder {
    ServiceBuilder::open(contract)
        .handle("string Who()", move |_, ()| async move { Ok(contract) })
        .handle(
            "string Add(int a, int b)",
            move |_, (a, b): (i32, i32)| async move { Ok(format!("{contract} {}", a + b)) },
        )
        .handle_values("string Of<T>(T value)", move |call, _| async move {
            let method = call.method().to_string();
            Ok(witrpc::codec::Value::String(format!("{contract} {method}")))
        })
        .handle("void Raise(int n)", move |call, (n,): (i32,)| async move {
            call.publisher()
                .raise(contract, "event Action<int> Changed", (n,))?;
            Ok(())
        })
}

async fn start(services: Vec<ServiceBuilder>) -> Result<Server> {
    let mut builder = Server::builder().listen("tcp://127.0.0.1:0");
    for service in services {
        builder = builder.service(service);
    }
    builder.start().await
}

async fn connect(endpoint: &str) -> Client {
    let client = Client::builder(endpoint).build().unwrap();
    client.connect().await.unwrap();
    client
}

/// The reference looks at no contract on the name path, so that the first of several equal signatures
/// gets the calls of all (weak spot 27).
#[tokio::test]
async fn a_request_reaches_the_contract_that_it_names() {
    let contracts = ["Demo.IFirst", "Demo.ISecond", "Other.IFirst"];
    let server = start(contracts.map(named).into()).await.unwrap();
    let endpoint = server.endpoints()[0].to_string();
    for form in [TypeNameForm::Weak, TypeNameForm::Strong] {
        let client = Client::builder(&endpoint).type_names(form).build().unwrap();
        client.connect().await.unwrap();
        for contract in contracts {
            let service = client.service(contract).unwrap();
            for lookup in [MethodLookup::Id, MethodLookup::IdOrName, MethodLookup::Name] {
                let who: String = service
                    .call("string Who()", ())
                    .lookup(lookup)
                    .await
                    .unwrap();
                assert_eq!(who, contract);
                let sum: String = service
                    .call("string Add(int, int)", (2, 3))
                    .lookup(lookup)
                    .await
                    .unwrap();
                assert_eq!(sum, format!("{contract} 5"));
            }
            let of: String = service.call("string Of<int>(int)", (1,)).await.unwrap();
            assert_eq!(of, format!("{contract} string Of<int>(int value)"));
        }
        // One that is not served may be a base of one that is: the first one answers.
        let base = client.service("Demo.IBase").unwrap();
        let who: String = base
            .call("string Who()", ())
            .lookup(MethodLookup::Name)
            .await
            .unwrap();
        assert_eq!(who, "Demo.IFirst");
    }
}

/// A method that only another contract has is not found, instead of running there.
#[tokio::test]
async fn no_request_runs_in_another_contract_than_it_names() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let shop =
        ServiceBuilder::open("Demo.IShop").handle("void Delete(int id)", move |_, (_,): (i32,)| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        });
    let server = start(vec![named("Demo.IFirst"), shop]).await.unwrap();
    let client = connect(&server.endpoints()[0].to_string()).await;
    let first = client.service("Demo.IFirst").unwrap();
    for lookup in [MethodLookup::Id, MethodLookup::IdOrName, MethodLookup::Name] {
        let error = first
            .call::<()>("void Delete(int id)", (1,))
            .lookup(lookup)
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadRequest);
        assert_eq!(
            error.message(),
            "Method not found on any registered service, method name: Delete"
        );
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

/// The same call id in two contracts is two calls, also for generic methods, which have no id.
#[tokio::test]
async fn calls_of_two_contracts_are_told_from_each_other() {
    let server = start(vec![named("Demo.IFirst"), named("Demo.ISecond")])
        .await
        .unwrap();
    let client = connect(&server.endpoints()[0].to_string()).await;
    let call = |contract: &str, id: u128| {
        let service = client.service(contract).unwrap();
        async move {
            service
                .call::<String>("string Of<int>(int)", (1,))
                .invocation_id(Uuid::from_u128(id))
                .await
        }
    };
    let first = call("Demo.IFirst", 1).await.unwrap();
    assert_eq!(call("Demo.IFirst", 1).await.unwrap(), first);
    let error = call("Demo.ISecond", 1).await.unwrap_err();
    assert!(error.message().contains("invocation id"), "{error}");
    assert!(
        call("Demo.ISecond", 2)
            .await
            .unwrap()
            .starts_with("Demo.ISecond")
    );
}

#[tokio::test]
async fn contracts_that_can_not_be_told_apart_are_refused() {
    let error = start(vec![named("Demo.IFirst"), named("Demo.IFirst")])
        .await
        .unwrap_err();
    assert_eq!(error.message(), "two services of contract \"Demo.IFirst\"");
    // .NET cuts these names at the backtick of the generic type (weak spot 26).
    let nested = |name| ServiceBuilder::new(Contract::open(name).unwrap());
    let error = start(vec![
        nested("Demo.Outer<int>+IFirst"),
        nested("Demo.Outer<int>+ISecond"),
    ])
    .await
    .unwrap_err();
    assert_eq!(
        error.message(),
        "two services of contract \"Demo.Outer<System.Int32>\""
    );
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    // These differ.
    start(vec![
        nested("Demo.IRepo<int>"),
        nested("Demo.IRepo<string>"),
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn events_of_one_contract_are_not_those_of_another() {
    let server = start(vec![named("Demo.IFirst"), named("Demo.ISecond")])
        .await
        .unwrap();
    let client = connect(&server.endpoints()[0].to_string()).await;
    let (first, second) = (
        client.service("Demo.IFirst").unwrap(),
        client.service("Demo.ISecond").unwrap(),
    );
    let mut firsts = first.events("event Action<int> Changed").unwrap();
    let mut seconds = second.events("event Action<int> Changed").unwrap();
    for n in 0..3 {
        first.call::<()>("void Raise(int)", (n,)).await.unwrap();
        second
            .call::<()>("void Raise(int)", (n + 10,))
            .await
            .unwrap();
    }
    for n in 0..3 {
        assert_eq!(
            firsts.next().await.unwrap().json().unwrap(),
            format!("[{n}]")
        );
        assert_eq!(
            seconds.next().await.unwrap().json().unwrap(),
            format!("[{}]", n + 10)
        );
    }
}

#[tokio::test]
async fn several_servers_in_one_process_have_nothing_in_common() {
    let counted = |executed: Arc<AtomicUsize>| {
        ServiceBuilder::open("Demo.IEcho").handle("int CountUp()", move |_, ()| {
            let n = executed.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok(n) }
        })
    };
    let mut servers = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let server = start(vec![counted(Arc::default())]).await.unwrap();
        clients.push(connect(&server.endpoints()[0].to_string()).await);
        servers.push(server);
    }
    let call = |client: &Client| {
        let echo = client.service("Demo.IEcho").unwrap();
        async move {
            let id = Uuid::from_u128(7);
            echo.call::<usize>("int CountUp()", ())
                .invocation_id(id)
                .await
        }
    };
    // The same call id at each of them: each runs it once.
    for (server, client) in servers.iter().zip(&clients) {
        for _ in 0..2 {
            assert_eq!(call(client).await.unwrap(), 1);
        }
        assert_eq!(server.stats().executed, 1);
    }
    let stopped = servers.remove(1);
    assert!(stopped.stop(Duration::from_secs(30)).await);
    assert!(call(&clients[1]).await.is_err());
    for client in [&clients[0], &clients[2]] {
        assert_eq!(call(client).await.unwrap(), 1);
    }
}

struct Endpoints {
    listen: Vec<String>,
    tls: TlsServerOptions,
    trust: TlsClientOptions,
}

fn endpoints() -> Endpoints {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem().into_bytes();
    let pipe = format!("pipe://witrpc-several-{:x}", rand::random::<u64>());
    Endpoints {
        listen: vec![
            "tcp://localhost:0".into(),
            "tls://localhost:0".into(),
            "ws://localhost:0/api/".into(),
            "wss://localhost:0/api/".into(),
            pipe,
        ],
        tls: TlsServerOptions {
            identity: Identity {
                certificates: pem.clone(),
                key: made.signing_key.serialize_pem().into_bytes(),
            },
            client_authorities: None,
        },
        trust: TlsClientOptions {
            authorities: Some(pem),
            ..TlsClientOptions::default()
        },
    }
}

#[tokio::test]
async fn one_server_on_endpoints_of_every_kind() {
    let kinds = endpoints();
    let mut builder = Server::builder()
        .service(named("Demo.IFirst"))
        .service(named("Demo.ISecond"))
        .tls(kinds.tls);
    for endpoint in &kinds.listen {
        builder = builder.listen(endpoint);
    }
    let server = builder.start().await.unwrap();
    assert_eq!(server.endpoints().len(), 5);
    let mut clients = Vec::new();
    for (endpoint, asked) in server.endpoints().iter().zip(&kinds.listen) {
        let scheme = asked.split(':').next().unwrap();
        assert!(endpoint.to_string().starts_with(&format!("{scheme}://")));
        let client = Client::builder(&endpoint.to_string())
            .tls(kinds.trust.clone())
            .build()
            .unwrap();
        client.connect().await.unwrap();
        clients.push(client);
    }
    assert_eq!(server.stats().connections, 5);
    let mut streams = Vec::new();
    for client in &clients {
        for contract in ["Demo.IFirst", "Demo.ISecond"] {
            let service = client.service(contract).unwrap();
            let sum: String = service.call("string Add(int, int)", (2, 3)).await.unwrap();
            assert_eq!(sum, format!("{contract} 5"));
            let of: String = service
                .call("string Of<Guid[]>(Guid[])", ([(); 0],))
                .await
                .unwrap();
            assert_eq!(of, format!("{contract} string Of<Guid[]>(Guid[] value)"));
        }
        let first = client.service("Demo.IFirst").unwrap();
        streams.push(first.events("event Action<int> Changed").unwrap());
    }
    // An event goes to everybody, wherever they came in.
    let first = clients[0].service("Demo.IFirst").unwrap();
    first.call::<()>("void Raise(int)", (7,)).await.unwrap();
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().json().unwrap(), "[7]");
    }
    // One memory for all: a call that comes again by another way runs once.
    let before = server.stats().executed;
    for client in &clients {
        let first = client.service("Demo.IFirst").unwrap();
        let call = first.call::<String>("string Who()", ());
        let who = call.invocation_id(Uuid::from_u128(9)).await.unwrap();
        assert_eq!(who, "Demo.IFirst");
    }
    assert_eq!(server.stats().executed, before + 1);
    let places: Vec<String> = server.endpoints().iter().map(ToString::to_string).collect();
    assert!(server.stop(Duration::from_secs(30)).await);
    for endpoint in &places {
        let late = Client::builder(endpoint)
            .tls(kinds.trust.clone())
            .build()
            .unwrap();
        late.connect().await.unwrap_err();
    }
}

/// An endpoint that can't be had is told, and the others are given back.
#[tokio::test]
async fn a_server_binds_all_of_its_endpoints_or_none() {
    let holder = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let held = format!("tcp://{}", holder.local_addr().unwrap());
    let pipe = format!("pipe://witrpc-several-{:x}", rand::random::<u64>());
    let server = || {
        Server::builder()
            .service(named("Demo.IFirst"))
            .listen(&pipe)
    };
    let error = server().listen(&held).start().await.unwrap_err();
    assert!(error.to_string().contains(&held), "{error}");
    let first = server().listen("tcp://127.0.0.1:0").start().await.unwrap();
    assert_eq!(first.endpoints().len(), 2);
    // While one has the pipe, another can't.
    let error = server().start().await.unwrap_err();
    assert!(error.to_string().contains(&pipe), "{error}");
}
