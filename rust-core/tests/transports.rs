//! Client and server over every transport, with what is special about each.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};
use witrpc::ErrorCode;
use witrpc::client::{Client, ClientBuilder, RetryPolicy};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::{Server, ServerBuilder, ServerLimits, ServiceBuilder};
use witrpc::transport::tls::{Identity, TlsClientOptions, TlsServerOptions};
use witrpc::transport::{SocketOptions, WebSocketOptions};

/// An authority, and certificates from it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        }
    }

    fn pem(&self) -> Vec<u8> {
        self.issuer.pem().into_bytes()
    }

    fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let issuer: &Issuer<'_, KeyPair> = &self.issuer;
        let certificate = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, issuer)
            .unwrap();
        Identity {
            certificates: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        }
    }
}

fn fingerprint(identity: &Identity) -> [u8; 32] {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let der = CertificateDer::from_pem_slice(&identity.certificates).unwrap();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
    digest.as_ref().try_into().unwrap()
}

fn service() -> ServiceBuilder {
    let count = Arc::new(AtomicUsize::new(0));
    ServiceBuilder::open("Demo.IEcho")
        .handle(
            "int Add(int a, int b)",
            |_, (a, b): (i32, i32)| async move { Ok(a + b) },
        )
        .handle(
            "string Echo(string text)",
            |_, (text,): (String,)| async move { Ok(text) },
        )
        .handle("int CountUp(int by)", move |_, (by,): (usize,)| {
            let count = count.clone();
            async move { Ok(count.fetch_add(by, Ordering::SeqCst) + by) }
        })
        .handle("void Raise(int n)", |call, (n,): (i32,)| async move {
            for i in 0..n {
                call.publisher()
                    .raise("Demo.IEcho", "event Action<int> Progress", (i,))?;
            }
            Ok(())
        })
}

fn pipe_name() -> String {
    format!("pipe://witrpc-test-{:x}", rand::random::<u64>())
}

/// Endpoint, server options and client options of each transport.
fn transports() -> Vec<(String, ServerBuilder, TlsClientOptions)> {
    let authority = Authority::new();
    let tls = || TlsServerOptions {
        identity: authority.identity("localhost"),
        client_authorities: None,
    };
    let client_tls = || TlsClientOptions {
        authorities: Some(authority.pem()),
        ..TlsClientOptions::default()
    };
    vec![
        (
            "tcp://localhost:0".into(),
            Server::builder(),
            TlsClientOptions::default(),
        ),
        (
            "tls://localhost:0".into(),
            Server::builder().tls(tls()),
            client_tls(),
        ),
        (
            "ws://localhost:0/api/".into(),
            Server::builder(),
            TlsClientOptions::default(),
        ),
        (
            "wss://localhost:0/api/".into(),
            Server::builder().tls(tls()),
            client_tls(),
        ),
        (pipe_name(), Server::builder(), TlsClientOptions::default()),
    ]
}

async fn start(builder: ServerBuilder, endpoint: &str) -> (Server, String) {
    let server = builder
        .listen(endpoint)
        .service(service())
        .start()
        .await
        .unwrap();
    let endpoint = server.endpoints()[0].to_string();
    (server, endpoint)
}

fn client(endpoint: &str, tls: &TlsClientOptions) -> ClientBuilder {
    Client::builder(endpoint).tls(tls.clone())
}

#[tokio::test]
async fn calls_of_every_size_and_events_over_every_transport() {
    for (endpoint, builder, tls) in transports() {
        let (_server, endpoint) = start(builder, &endpoint).await;
        let client = client(&endpoint, &tls).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service("Demo.IEcho").unwrap();
        let mut events = echo.events("event Action<int> Progress").unwrap();
        assert_eq!(
            echo.call::<i32>("int Add(int,int)", (2, 3)).await.unwrap(),
            5
        );
        for size in [0, 1, 4095, 4096, 70_000, 3_000_000] {
            let text = "x".repeat(size);
            let back: String = echo.call("string Echo(string)", (&text,)).await.unwrap();
            assert!(back == text, "{endpoint}: {size} bytes");
        }
        echo.call::<()>("void Raise(int)", (50,)).await.unwrap();
        for n in 0..50 {
            assert_eq!(events.next().await.unwrap().get::<(i32,)>().unwrap(), (n,));
        }
        let calls: Vec<_> = (0..200)
            .map(|n| {
                let echo = echo.clone();
                tokio::spawn(async move { echo.call::<i32>("int Add(int,int)", (n, 1)).await })
            })
            .collect();
        for (n, call) in (0..).zip(calls) {
            assert_eq!(call.await.unwrap().unwrap(), n + 1, "{endpoint}");
        }
    }
}

#[tokio::test]
async fn an_outage_is_survived_over_every_transport() {
    for (endpoint, builder, tls) in transports() {
        let (server, endpoint) = start(builder, &endpoint).await;
        let client = client(&endpoint, &tls)
            .reconnect(ReconnectOptions {
                initial_delay: Duration::from_millis(10),
                max_attempts: 0,
                ..ReconnectOptions::default()
            })
            .retry(RetryPolicy::new().mark_idempotent(["Add"]))
            .build()
            .unwrap();
        client.connect().await.unwrap();
        drop(server);
        client.wait_for(State::Reconnecting).await.unwrap();
        let again = transports()
            .into_iter()
            .find(|(e, ..)| scheme(e) == scheme(&endpoint))
            .unwrap()
            .1;
        // Another authority: the certificate is another one too.
        if tls.authorities.is_some() {
            continue;
        }
        let (_server, _) = start(again, &endpoint).await;
        let echo = client.service("Demo.IEcho").unwrap();
        assert_eq!(
            echo.call::<i32>("int Add(int,int)", (2, 3)).await.unwrap(),
            5,
            "{endpoint}"
        );
    }
}

fn scheme(endpoint: &str) -> &str {
    endpoint.split_once(':').unwrap().0
}

#[tokio::test]
async fn a_client_that_leaves_takes_leave_and_a_server_that_stops_too() {
    for (endpoint, builder, tls) in transports() {
        let (server, endpoint) = start(builder, &endpoint).await;
        let client = client(&endpoint, &tls).build().unwrap();
        client.connect().await.unwrap();
        let other = Client::builder(&endpoint).tls(tls).build().unwrap();
        other.connect().await.unwrap();
        other.close();
        while server.stats().connections > 1 {
            tokio::task::yield_now().await;
        }
        assert!(server.stop(Duration::from_secs(10)).await);
        client.wait_for(State::Disconnected).await.unwrap();
        let failure = client.last_failure().unwrap().to_string();
        assert_eq!(failure, "the server is going away", "{endpoint}");
    }
}

/// A refusal is the last thing a server says: no layer may close before it.
#[tokio::test]
async fn a_refused_token_is_told_over_every_transport() {
    for (endpoint, builder, tls) in transports() {
        let (_server, endpoint) = start(builder.token("right"), &endpoint).await;
        let client = client(&endpoint, &tls).token("wrong").build().unwrap();
        let error = client.connect().await.unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::Unauthorized,
            "{endpoint}: {error:?}"
        );
    }
}

// ---- TLS ---------------------------------------------------------------------------------------

async fn connect_error(builder: ClientBuilder) -> witrpc::Error {
    let client = builder.build().unwrap();
    let error = client.connect().await.unwrap_err();
    if error.code() == ErrorCode::Certificate {
        assert_eq!(client.state(), State::Failed);
    }
    error
}

#[tokio::test]
async fn certificates_decide_who_is_trusted() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.identity("localhost");
    let options = TlsServerOptions {
        identity: identity.clone(),
        client_authorities: None,
    };
    let (_server, endpoint) = start(Server::builder().tls(options), "tls://127.0.0.1:0").await;
    let endpoint = endpoint.replace("127.0.0.1", "localhost");
    let with = |tls: TlsClientOptions| Client::builder(&endpoint).tls(tls);

    let error = connect_error(with(TlsClientOptions::default())).await;
    assert_eq!(error.code(), ErrorCode::Certificate, "{error}");
    let error = connect_error(with(TlsClientOptions {
        authorities: Some(stranger.pem()),
        ..TlsClientOptions::default()
    }))
    .await;
    assert_eq!(error.code(), ErrorCode::Certificate, "{error}");
    let error = connect_error(with(TlsClientOptions {
        authorities: Some(authority.pem()),
        server_name: Some("example.com".into()),
        ..TlsClientOptions::default()
    }))
    .await;
    assert_eq!(error.code(), ErrorCode::Certificate, "{error}");
    let error = connect_error(with(TlsClientOptions {
        pinned: vec![[7; 32]],
        ..TlsClientOptions::default()
    }))
    .await;
    assert_eq!(error.code(), ErrorCode::Certificate, "{error}");

    let pinned = with(TlsClientOptions {
        pinned: vec![[7; 32], fingerprint(&identity)],
        server_name: Some("whatever".into()),
        ..TlsClientOptions::default()
    });
    pinned.build().unwrap().connect().await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_is_asked_for_and_checked() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let options = TlsServerOptions {
        identity: authority.identity("localhost"),
        client_authorities: Some(authority.pem()),
    };
    let server = Server::builder().tls(options).listen("wss://localhost:0/");
    let (server, _) = start(server, "tls://localhost:0").await;
    let endpoints = server.endpoints().iter().map(ToString::to_string);
    let cases = endpoints.flat_map(|endpoint| {
        [
            (Some(authority.identity("client")), true),
            (Some(stranger.identity("client")), false),
            (None, false),
        ]
        .map(|(identity, accepted)| (endpoint.clone(), identity, accepted))
    });
    for (endpoint, identity, accepted) in cases {
        let tls = TlsClientOptions {
            authorities: Some(authority.pem()),
            identity,
            ..TlsClientOptions::default()
        };
        let client = Client::builder(&endpoint).tls(tls).build().unwrap();
        let result = client.connect().await;
        assert_eq!(result.is_ok(), accepted, "{result:?}");
        if let Err(error) = result {
            assert_eq!(error.code(), ErrorCode::Certificate, "{error:?}");
        }
    }
}

#[test]
fn tls_options_that_make_no_sense_are_told() {
    let junk = || Identity {
        certificates: b"junk".to_vec(),
        key: b"junk".to_vec(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for (tls, what) in [
            (
                TlsClientOptions {
                    authorities: Some(b"junk".to_vec()),
                    ..Default::default()
                },
                "authorities",
            ),
            (
                TlsClientOptions {
                    identity: Some(junk()),
                    ..Default::default()
                },
                "certificate",
            ),
            (
                TlsClientOptions {
                    server_name: Some("a b".into()),
                    ..Default::default()
                },
                "server name",
            ),
        ] {
            let error = Client::builder("tls://localhost:1")
                .tls(tls)
                .build()
                .err()
                .unwrap();
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert!(error.to_string().contains(what), "{error}");
        }
        let error = Server::builder()
            .listen("tls://localhost:0")
            .service(service())
            .start()
            .await;
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("needs a certificate")
        );
    });
}

#[tokio::test]
async fn a_silent_client_holds_up_nobody() {
    let authority = Authority::new();
    let options = TlsServerOptions {
        identity: authority.identity("localhost"),
        client_authorities: None,
    };
    let limits = ServerLimits {
        handshake_timeout: Some(Duration::from_millis(300)),
        ..ServerLimits::default()
    };
    let builder = Server::builder().tls(options).limits(limits);
    let (server, endpoint) = start(builder, "tls://localhost:0").await;
    let port = endpoint.rsplit(':').next().unwrap().to_owned();
    let silent: Vec<_> = (0..20)
        .map(|_| std::net::TcpStream::connect(format!("localhost:{port}")).unwrap())
        .collect();
    let tls = TlsClientOptions {
        authorities: Some(authority.pem()),
        ..TlsClientOptions::default()
    };
    let client = Client::builder(&endpoint).tls(tls).build().unwrap();
    client.connect().await.unwrap();
    // And they are not let sit there for ever.
    while server.stats().connections > 1 {
        tokio::task::yield_now().await;
    }
    drop(silent);
}

// ---- WebSocket ---------------------------------------------------------------------------------

fn http(endpoint: &str, request: &str) -> String {
    let authority = endpoint.split('/').nth(2).unwrap();
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        answer.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    answer
}

#[tokio::test]
async fn http_that_is_no_websocket_is_answered() {
    let (_server, endpoint) = start(Server::builder(), "ws://localhost:0/api/").await;
    let answer = {
        let endpoint = endpoint.clone();
        tokio::task::spawn_blocking(move || {
            [
                http(&endpoint, "GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                http(&endpoint, "GET /api/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                http(&endpoint, "\u{1}\u{2}\r\n\r\n"),
            ]
        })
        .await
        .unwrap()
    };
    assert!(answer[0].starts_with("HTTP/1.1 404 "), "{}", answer[0]);
    assert!(answer[0].ends_with("<h1>Not Found (Not Found)</h1>"));
    assert!(answer[1].starts_with("HTTP/1.1 400 "), "{}", answer[1]);
    assert!(answer[2].starts_with("HTTP/1.1 400 "), "{}", answer[2]);
    let wrong = endpoint.replace("/api/", "/nope");
    let error = connect_error(Client::builder(&wrong)).await;
    assert!(error.details().unwrap().contains("HTTP 404"), "{error}");
}

#[tokio::test]
async fn one_websocket_client_too_many_is_told_so_and_comes_in_later() {
    let limits = ServerLimits {
        max_clients: 1,
        ..ServerLimits::default()
    };
    let (_server, endpoint) = start(Server::builder().limits(limits), "ws://localhost:0/").await;
    let first = Client::builder(&endpoint).build().unwrap();
    first.connect().await.unwrap();
    let error = connect_error(Client::builder(&endpoint)).await;
    assert!(error.details().unwrap().contains("HTTP 503"), "{error}");
    let second = Client::builder(&endpoint)
        .reconnect(ReconnectOptions {
            initial_delay: Duration::from_millis(5),
            retry_first_connect: true,
            max_attempts: 0,
            ..ReconnectOptions::default()
        })
        .build()
        .unwrap();
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { second.connect().await }
    });
    second.wait_for(State::Reconnecting).await.unwrap();
    first.close();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn messages_may_travel_in_pieces() {
    let pieces = WebSocketOptions {
        fragment: Some(4096),
        ..WebSocketOptions::default()
    };
    let (_server, endpoint) = start(Server::builder().websocket(pieces), "ws://localhost:0/").await;
    let client = Client::builder(&endpoint)
        .websocket(pieces)
        .build()
        .unwrap();
    client.connect().await.unwrap();
    let echo = client.service("Demo.IEcho").unwrap();
    for size in [4000, 4096, 5000, 1_000_000] {
        let text = "y".repeat(size);
        let back: String = echo.call("string Echo(string)", (&text,)).await.unwrap();
        assert!(back == text, "{size}");
    }
}

/// Answers the upgrade and then nothing any more, while the connection stays.
fn frozen_server() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.windows(4).any(|w| w == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(n @ 1..) => request.extend_from_slice(&buffer[..n]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let key = text
                .lines()
                .find_map(|l| l.strip_prefix("Sec-WebSocket-Key: "))
                .unwrap();
            let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).unwrap();
            kept.push(stream);
        }
    });
    format!("ws://127.0.0.1:{port}/")
}

#[tokio::test]
async fn a_frozen_websocket_peer_is_noticed_by_its_missing_pongs() {
    let quick = WebSocketOptions {
        ping_interval: Duration::from_millis(30),
        ping_timeout: Duration::from_millis(60),
        ..WebSocketOptions::default()
    };
    let error = connect_error(Client::builder(&frozen_server()).websocket(quick)).await;
    assert!(
        error.details().unwrap().contains("no sign of life"),
        "{error}"
    );
}

#[tokio::test]
async fn pings_keep_an_idle_connection_alive() {
    let quick = WebSocketOptions {
        ping_interval: Duration::from_millis(5),
        ping_timeout: Duration::from_secs(5),
        ..WebSocketOptions::default()
    };
    let (_server, endpoint) = start(Server::builder(), "ws://localhost:0/").await;
    let client = Client::builder(&endpoint).websocket(quick).build().unwrap();
    client.connect().await.unwrap();
    let mut states = client.watch_state();
    let changed = tokio::time::timeout(Duration::from_millis(200), states.changed()).await;
    assert!(changed.is_err(), "the connection was lost");
}

// ---- pipes -------------------------------------------------------------------------------------

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_is_a_private_socket_file_that_goes_with_its_server() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("witrpc-{:x}.sock", rand::random::<u64>()));
    let endpoint = format!("pipe://{}", path.display());
    let (server, _) = start(Server::builder(), &endpoint).await;
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let error = Server::builder()
        .listen(&endpoint)
        .service(service())
        .start()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(server.stop(Duration::from_secs(10)).await);
    while path.exists() {
        tokio::task::yield_now().await;
    }
    // What a killed server left behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (_server, _) = start(Server::builder().pipe_mode(0o660), &endpoint).await;
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    // What is no socket is not.
    let file = path.with_extension("txt");
    std::fs::write(&file, "precious").unwrap();
    let taken = format!("pipe://{}", file.display());
    Server::builder()
        .listen(&taken)
        .service(service())
        .start()
        .await
        .unwrap_err();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn one_server_listens_at_several_endpoints_of_different_kinds() {
    let server = Server::builder()
        .listen("tcp://localhost:0")
        .listen("ws://localhost:0/x")
        .listen(&pipe_name())
        .service(service())
        .socket(SocketOptions::default())
        .start()
        .await
        .unwrap();
    for endpoint in server.endpoints() {
        let client = Client::builder(&endpoint.to_string()).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service("Demo.IEcho").unwrap();
        assert_eq!(
            echo.call::<i32>("int Add(int,int)", (1, 1)).await.unwrap(),
            2
        );
    }
}
