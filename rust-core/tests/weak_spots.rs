//! Weak spots of the reference that no other test happens to show; `docs/compared-to-witrpc.md` names each
//! with its number.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use uuid::Uuid;
use witrpc::ErrorCode;
use witrpc::client::Client;
use witrpc::codec::Value;
use witrpc::resilience::engine::State;
use witrpc::server::{Server, ServerBuilder, ServerLimits, ServiceBuilder};
use witrpc::transport::tls::{Identity, TlsClientOptions, TlsServerOptions};
use witrpc::wire::{
    Envelope, InitializationRequest, InitializationResponse, Kind, PROTOCOL_VERSION,
};

const WATCHDOG: Duration = Duration::from_secs(30);

async fn start(
    builder: ServerBuilder,
    endpoint: &str,
    service: ServiceBuilder,
) -> (Server, String) {
    let builder = builder.listen(endpoint).service(service);
    let server = builder.start().await.unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint)
}

async fn connected(endpoint: &str) -> Client {
    let client = Client::builder(endpoint).build().unwrap();
    client.connect().await.unwrap();
    client
}

/// 19: the caller gets the text of the failure, of whatever kind the method is.
#[tokio::test]
async fn the_text_of_a_failure_reaches_the_caller() {
    let service = ServiceBuilder::open("Demo.IX")
        .handle("int Sync()", |_, ()| async move {
            Err::<i32, _>(witrpc::server::Fault::new("the pump is dry"))
        })
        .handle("Task<int> Async()", |_, ()| async move {
            Err::<i32, _>(witrpc::server::Fault::new("the pump is dry"))
        });
    let (_server, endpoint) = start(Server::builder(), "tcp://127.0.0.1:0", service).await;
    let x = connected(&endpoint).await.service("Demo.IX").unwrap();
    for line in ["int Sync()", "Task<int> Async()"] {
        let error = x.call::<i32>(line, ()).await.unwrap_err();
        assert_eq!(error.details(), Some("the pump is dry"), "{line}");
    }
}

/// 28: a method whose name begins like an accessor's is a method.
#[tokio::test]
async fn a_method_whose_name_begins_with_add_is_a_method() {
    let service = ServiceBuilder::open("Demo.IX")
        .handle(
            "int add_Up(int a, int b)",
            |_, (a, b): (i32, i32)| async move { Ok(a + b) },
        )
        .handle("int remove_One(int a)", |_, (a,): (i32,)| async move {
            Ok(a - 1)
        });
    let (_server, endpoint) = start(Server::builder(), "tcp://127.0.0.1:0", service).await;
    let x = connected(&endpoint).await.service("Demo.IX").unwrap();
    assert_eq!(
        x.call::<i32>("int add_Up(int,int)", (2, 3)).await.unwrap(),
        5
    );
    assert_eq!(x.call::<i32>("int remove_One(int)", (2,)).await.unwrap(), 1);
}

/// 36: at a pipe too, one client too many is sent away instead of being left waiting.
#[tokio::test]
async fn one_client_too_many_at_a_pipe_is_sent_away_at_once() {
    let limits = ServerLimits {
        max_clients: 1,
        ..ServerLimits::default()
    };
    let pipe = format!("pipe://witrpc-full-{:x}", rand::random::<u64>());
    let service = ServiceBuilder::open("Demo.IX").handle("void A()", |_, ()| async move { Ok(()) });
    let (_server, endpoint) = start(Server::builder().limits(limits), &pipe, service).await;
    let first = connected(&endpoint).await;
    let second = Client::builder(&endpoint).build().unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(5), second.connect());
    let error = refused.await.expect("it does not hang").unwrap_err();
    assert_eq!(error.code(), ErrorCode::Transport, "{error}");
    assert_eq!(first.state(), State::Connected);
}

fn test_certificate(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/certs/");
    std::fs::read(format!("{path}{name}")).unwrap()
}

/// 38: the limit of messages holds over every transport, TLS included.
#[tokio::test]
async fn the_limit_of_messages_holds_over_every_transport() {
    let pipe = format!("pipe://witrpc-limit-{:x}", rand::random::<u64>());
    for endpoint in [
        "tcp://localhost:0",
        "tls://localhost:0",
        "ws://localhost:0/",
        "wss://localhost:0/",
        &pipe,
    ] {
        let limits = ServerLimits {
            max_frame: 100_000,
            ..ServerLimits::default()
        };
        let tls = TlsServerOptions {
            identity: Identity {
                certificates: test_certificate("server.pem"),
                key: test_certificate("server-key.pem"),
            },
            client_authorities: None,
        };
        let service = ServiceBuilder::open("Demo.IX").handle(
            "string Make(int length, string text)",
            |_, (length, _): (usize, String)| async move { Ok("x".repeat(length)) },
        );
        let builder = Server::builder().limits(limits).tls(tls);
        let (_server, endpoint) = start(builder, endpoint, service).await;
        let client = Client::builder(&endpoint)
            .tls(TlsClientOptions {
                authorities: Some(test_certificate("ca.pem")),
                ..TlsClientOptions::default()
            })
            .max_frame(50_000)
            .build()
            .unwrap();
        for (sent, asked, passes) in [
            (90_000, 40_000, true),
            (110_000, 1, false),
            (1, 60_000, false),
            (1, 1, true),
        ] {
            client.connect().await.unwrap();
            let x = client.service("Demo.IX").unwrap();
            let arguments = (asked, "y".repeat(sent));
            let call = x.call::<String>("string Make(int,string)", arguments);
            let result = call.timeout(WATCHDOG).await;
            assert_eq!(
                result.is_ok(),
                passes,
                "{endpoint}: {sent} {asked} {result:?}"
            );
            client.disconnect();
        }
    }
}

/// 53 and 55: a message right behind the upgrade is read, and a sub-protocol that is offered is not
/// answered.
#[tokio::test]
async fn a_websocket_message_in_one_segment_with_the_upgrade_is_read() {
    let service = ServiceBuilder::open("Demo.IX").handle("void A()", |_, ()| async move { Ok(()) });
    let (_server, endpoint) = start(Server::builder(), "ws://127.0.0.1:0/", service).await;
    let address = endpoint
        .trim_start_matches("ws://")
        .trim_end_matches('/')
        .to_owned();
    let answer = tokio::task::spawn_blocking(move || {
        let id = Uuid::from_u128(7);
        let mut data = BytesMut::new();
        InitializationRequest {
            public_key: Some(vec![0]),
            protocol_version: PROTOCOL_VERSION,
            extension: None,
        }
        .encode(&mut data);
        let mut body = BytesMut::new();
        Envelope {
            id,
            kind: Kind::INITIALIZATION,
            data: Some(data.freeze()),
        }
        .encode(&mut body);
        let mut wire = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: chat\r\n\r\n"
        )
        .into_bytes();
        // A final binary message under a mask of zeros.
        wire.extend([0x82, 0x80 | u8::try_from(body.len()).unwrap(), 0, 0, 0, 0]);
        wire.extend(body);
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(&wire).unwrap();
        let mut got = Vec::new();
        loop {
            let mut buffer = [0; 1024];
            let n = stream.read(&mut buffer).expect("an answer");
            assert!(n > 0, "it closed: {got:?}");
            got.extend(&buffer[..n]);
            let Some(end) = got.windows(4).position(|w| w == b"\r\n\r\n") else {
                continue;
            };
            let (head, message) = got.split_at(end + 4);
            if message.len() > 2 && message.len() >= 2 + usize::from(message[1]) {
                return (
                    String::from_utf8_lossy(head).into_owned(),
                    message[2..].to_vec(),
                );
            }
        }
    });
    let (head, message) = answer.await.unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        !head.to_ascii_lowercase().contains("sec-websocket-protocol"),
        "{head}"
    );
    let message = Envelope::decode(&message.into()).unwrap().unwrap();
    assert_eq!(
        (message.id, message.kind),
        (Uuid::from_u128(7), Kind::INITIALIZATION)
    );
    let response = InitializationResponse::decode(&message.data.unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(response.error_message, None);
}

/// 59: a result that can't be written is an error that says why, not a success without a result.
#[tokio::test]
async fn a_result_that_can_not_be_written_is_an_error() {
    let service = ServiceBuilder::open("Demo.IX")
        .handle_values("double Half(double value)", |_, _| async move {
            Ok(Value::Double(f64::NAN))
        });
    let (_server, endpoint) = start(Server::builder(), "tcp://127.0.0.1:0", service).await;
    let x = connected(&endpoint).await.service("Demo.IX").unwrap();
    let error = x
        .call::<f64>("double Half(double)", (1.0,))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Remote, "{error:?}");
    assert!(
        error.to_string().contains("no form for a double"),
        "{error}"
    );
}
