//! Events over real sockets: subscriptions of a client, targets and queues of a server.
#![allow(clippy::unwrap_used, clippy::panic)]

mod client;
mod raw;
mod server;
mod slow;

use std::future::Future;
use std::time::Duration;

use witrpc::client::{Client, ClientBuilder, Service};
use witrpc::codec::Value;
use witrpc::contract::Contract;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{CallContext, Fault, Server, ServerBuilder, ServiceBuilder};

const CONTRACT: &str = "Demo.IFeed";

fn contract() -> Contract {
    Contract::builder(CONTRACT)
        .assembly("Demo.Contracts")
        .event("event Action<int> Tick")
        .event("event Action<string> Tock")
        .event("event Action Nothing")
        .method("void Raise(int count)")
        .method("void Mixed(int count)")
        .method("void Join(string group)")
        .method("void Leave(string group)")
        .method("Guid Me()")
        .method("void Tell(string whom, int n)")
        .method("int Add(int a, int b)")
        .method("void Cut()")
        .build()
        .unwrap()
}

fn raise(call: &CallContext, event: &str, value: Value) -> Result<(), Fault> {
    call.publisher().raise_values(CONTRACT, event, &[value])?;
    Ok(())
}

fn service() -> ServiceBuilder {
    ServiceBuilder::new(contract())
        .handle("Raise", |call, (count,): (i64,)| async move {
            (0..count).try_for_each(|n| raise(&call, "Tick", Value::Int(n)))
        })
        .handle("Mixed", |call, (count,): (i64,)| async move {
            (0..count).try_for_each(|n| match n % 2 {
                0 => raise(&call, "Tick", Value::Int(n)),
                _ => raise(&call, "Tock", n.to_string().into()),
            })
        })
        .handle("Join", |call, (group,): (String,)| async move {
            Ok(call.join(&group)?)
        })
        .handle("Leave", |call, (group,): (String,)| async move {
            call.leave(&group);
            Ok(())
        })
        .handle(
            "Me",
            |call, ()| async move { Ok(call.connection().to_string()) },
        )
        .handle("Tell", |call, (whom, n): (String, i32)| async move {
            let to = match whom.as_str() {
                "caller" => call.caller(),
                "others" => call.others(),
                group => call.publisher().to_group(group),
            };
            to.raise(CONTRACT, "Tick", (n,))?;
            Ok(())
        })
        .handle("Add", |_, (a, b): (i32, i32)| async move { Ok(a + b) })
        .handle("Cut", |call, ()| async move {
            call.drop_connection();
            Ok(())
        })
}

async fn serve(options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (Server, String) {
    let builder = Server::builder()
        .listen("tcp://127.0.0.1:0")
        .service(service());
    let server = options(builder).start().await.unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint)
}

async fn connect(
    endpoint: &str,
    options: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (Client, Service) {
    let client = options(Client::builder(endpoint)).build().unwrap();
    client.connect().await.unwrap();
    let feed = client.service_of(contract());
    (client, feed)
}

fn reconnecting(builder: ClientBuilder) -> ClientBuilder {
    builder.reconnect(ReconnectOptions {
        initial_delay: Duration::from_millis(1),
        ..ReconnectOptions::default()
    })
}

/// Waits for something that must come.
async fn soon<F: Future>(future: F) -> F::Output {
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, future).await.expect("in time")
}

/// Waits until something holds.
async fn until(mut holds: impl FnMut() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
