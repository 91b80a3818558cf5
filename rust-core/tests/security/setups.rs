//! Clients and servers of this library, encrypted and not, over real sockets.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;
use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{Fault, Server, ServiceBuilder};
use witrpc::wire::{Envelope, InitializationRequest, Kind};
use witrpc::{ErrorCode, Outcome};

use crate::proxy::{self, Passing, Side};

fn service() -> ServiceBuilder {
    ServiceBuilder::open("Demo.IEcho")
        .handle(
            "string Echo(string text)",
            |_, (text,): (String,)| async move { Ok(text) },
        )
        .handle(
            "void Raise(int count)",
            |call, (count,): (i32,)| async move {
                for n in 0..count {
                    call.publisher()
                        .raise("Demo.IEcho", "event Action<int> Progress", (n,))
                        .map_err(Fault::from)?;
                }
                Ok(())
            },
        )
}

async fn serve(endpoint: &str, encrypted: bool) -> (Server, String) {
    let server = Server::builder()
        .listen(endpoint)
        .encryption(encrypted)
        .token("s3cret-token")
        .service(service())
        .start()
        .await
        .unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint)
}

fn client(endpoint: &str, encrypted: bool) -> Client {
    Client::builder(endpoint)
        .encryption(encrypted)
        .token("s3cret-token")
        .reconnect(ReconnectOptions {
            initial_delay: Duration::from_millis(1),
            ..ReconnectOptions::default()
        })
        .build()
        .unwrap()
}

#[tokio::test]
async fn calls_events_and_large_messages_travel_unseen_under_one_key_pair() {
    let (server, address) = serve("tcp://127.0.0.1:0", true).await;
    let seen: Arc<Mutex<Vec<(Side, usize, BytesMut)>>> = Arc::default();
    let endpoint = proxy::start(&address, {
        let seen = seen.clone();
        move |passing: Passing| {
            let Passing {
                connection,
                from,
                body,
                ..
            } = passing;
            seen.lock().push((from, connection, body.clone()));
            vec![body]
        }
    })
    .await;
    let client = client(&endpoint, true);
    client.connect().await.unwrap();
    assert!(client.peer().unwrap().deduplicates());
    let echo = client.service("Demo.IEcho").unwrap();
    let mut events = echo.events("event Action<int> Progress").unwrap();
    for size in [0, 1, 100, 5_000, 3_000_000] {
        let text = "find me ".repeat(size / 8 + 1);
        let back: String = echo.call("string Echo(string)", (&text,)).await.unwrap();
        assert!(back == text);
    }
    echo.call::<()>("void Raise(int)", (50,)).await.unwrap();
    for n in 0..50 {
        assert_eq!(events.next().await.unwrap().get::<(i32,)>().unwrap(), (n,));
    }
    // Many at once, so that messages share writes.
    let calls: Vec<_> = (0..200)
        .map(|n| {
            echo.call::<String>("string Echo(string)", (n.to_string(),))
                .into_future()
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), n.to_string());
    }
    drop(server);
    client.wait_for(State::Reconnecting).await.unwrap();
    let (_server, _) = serve(&address, true).await;
    client.wait_for(State::Connected).await.unwrap();
    let _: String = echo.call("string Echo(string)", ("back",)).await.unwrap();

    let seen = seen.lock();
    let mut public_keys = Vec::new();
    for (from, _, body) in seen.iter() {
        let has = |text: &[u8]| body.windows(text.len()).any(|window| window == text);
        assert!(!has(b"s3cret-token") && !has(b"find me") && !has(b"Echo") && !has(b"Progress"));
        let message = Envelope::decode(&body.clone().freeze()).unwrap().unwrap();
        if (message.kind, *from) == (Kind::INITIALIZATION, Side::Client) {
            let request = InitializationRequest::decode(message.data.as_ref().unwrap());
            public_keys.push(request.unwrap().unwrap().public_key.unwrap());
        }
    }
    assert!(public_keys.len() >= 2);
    assert!(public_keys.iter().all(|key| *key == public_keys[0]));
}

#[tokio::test]
async fn who_disagrees_on_encryption_fails_at_once_and_for_good() {
    for encrypted in [true, false] {
        let (server, endpoint) = serve("tcp://127.0.0.1:0", !encrypted).await;
        let client = client(&endpoint, encrypted);
        let error = client.connect().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Encryption, "{error}");
        assert!(
            error.to_string().contains("switch encryption on"),
            "{error}"
        );
        assert_eq!(client.state(), State::Failed);
        let echo = client.service("Demo.IEcho").unwrap();
        let error = echo
            .call::<String>("string Echo(string)", ("x",))
            .await
            .unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent);
        assert_eq!(server.clients(), []);
        assert_eq!(server.stats().executed, 0);
    }
}

#[tokio::test]
async fn a_refused_token_is_told_under_the_seal() {
    let (_server, endpoint) = serve("tcp://127.0.0.1:0", true).await;
    let client = Client::builder(&endpoint)
        .encryption(true)
        .token("wrong")
        .build()
        .unwrap();
    let error = client.connect().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unauthorized);
    assert_eq!(error.details(), Some("Forbidden"));
}
