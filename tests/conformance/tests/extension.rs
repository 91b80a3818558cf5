//! What two libwitrpc peers say to each other on top of WitRPC, and a .NET peer never hears: the bytes
//! of both directions are recorded between the peers and looked at.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::server::ServerLimits;
use witrpc::session::KeepAliveOptions;
use witrpc::wire::extension::{Capabilities, Extension};
use witrpc::wire::{
    AuthorizationRequest, AuthorizationResponse, Envelope, InitializationRequest,
    InitializationResponse, Kind, Request, Response, frame as framing,
};
use witrpc::{ErrorCode, Outcome};
use witrpc_cli::demo;
use witrpc_conformance::WATCHDOG;
use witrpc_conformance::own::{Own, runtime};
use witrpc_conformance::peer::Peer;
use witrpc_conformance::raw::{self, Raw, frame, framed, message};
use witrpc_conformance::target::Target;

/// What went one way.
type Record = Arc<Mutex<Vec<u8>>>;

/// Passes bytes on and keeps a copy of them.
struct Recorder {
    port: u16,
    /// One entry a connection: what the client and what the server has sent.
    seen: Arc<Mutex<Vec<[Record; 2]>>>,
}

impl Recorder {
    fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let seen: Arc<Mutex<Vec<[Record; 2]>>> = Arc::default();
        let recorder = Self {
            port: listener.local_addr().unwrap().port(),
            seen: seen.clone(),
        };
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let records: [Record; 2] = Default::default();
                seen.lock().unwrap().push(records.clone());
                let [from_client, from_server] = records;
                let pair = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(client, server, &from_client));
                std::thread::spawn(move || pass(pair.1, pair.0, &from_server));
            }
        });
        recorder
    }

    fn endpoint(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// All messages, of clients and of servers.
    fn messages(&self) -> [Vec<Envelope>; 2] {
        let seen = self.seen.lock().unwrap();
        let of = |side: usize| {
            let connections = seen.iter().map(|records| &records[side]);
            connections
                .flat_map(|record| {
                    let mut bytes = BytesMut::from(&record.lock().unwrap()[..]);
                    let mut messages = Vec::new();
                    while let Some(body) = framing::split(&mut bytes, 1 << 30).unwrap() {
                        messages.push(Envelope::decode(&body.freeze()).unwrap().unwrap());
                    }
                    messages
                })
                .collect()
        };
        [of(0), of(1)]
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, record: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        record.lock().unwrap().extend_from_slice(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn impatient() -> Option<KeepAliveOptions> {
    Some(KeepAliveOptions {
        interval: Duration::from_millis(50),
        timeout: Duration::from_millis(100),
    })
}

/// Types that WitRPC knows.
fn are_witrpcs(messages: &[Envelope]) -> bool {
    let kinds = messages.iter().map(|message| message.kind.0);
    !messages.is_empty() && kinds.into_iter().all(|kind| (1..=4).contains(&kind))
}

#[test]
fn a_net_server_hears_of_nothing_but_the_announcement_it_skips() {
    let Some(peer) = Peer::find() else { return };
    for encrypted in [false, true] {
        let args: &[&str] = if encrypted { &["--encrypt"] } else { &[] };
        let server = peer.serve(args);
        let recorder = Recorder::before(server.port);
        runtime().block_on(async {
            let client = Client::builder(&recorder.endpoint())
                .encryption(encrypted)
                .keep_alive(impatient())
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let echo = client.service_of(demo::contract());
            let sum = echo
                .call::<i32>("Add", (2, 3))
                .trace_context("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
                .timeout(WATCHDOG);
            assert_eq!(sum.await.unwrap(), 5);
            // One that is out of time, and one that is cancelled.
            let slow = echo.call::<i32>("Slow", (300, 1));
            let slow = slow.timeout(Duration::from_millis(50)).await;
            assert_eq!(slow.unwrap_err().code(), ErrorCode::Timeout);
            let cancelled = echo.call::<i32>("Slow", (300, 1)).into_future();
            let cancelled = tokio::time::timeout(Duration::from_millis(50), cancelled);
            assert!(cancelled.await.is_err());
            // Silence far beyond what a libwitrpc server is given.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let sum = echo.call::<i32>("Add", (2, 3)).timeout(WATCHDOG);
            assert_eq!(sum.await.unwrap(), 5);
            assert_eq!(client.state(), State::Connected);
            assert_eq!(client.stats().reconnects, 0);
            assert_eq!(client.stats().round_trip, None);
        });
        let [sent, received] = recorder.messages();
        assert!(are_witrpcs(&sent) && are_witrpcs(&received));
        for message in &sent {
            let data = message.data.as_ref().unwrap();
            match message.kind {
                Kind::INITIALIZATION => {
                    let request = InitializationRequest::decode(data).unwrap().unwrap();
                    let announced = Extension::decode(&request.extension.unwrap()).unwrap();
                    let only = Extension {
                        capabilities: Some(Capabilities::ALL),
                        ..Extension::default()
                    };
                    assert_eq!(announced, only);
                }
                _ if encrypted => {}
                Kind::AUTHORIZATION => {
                    let request = AuthorizationRequest::decode(data).unwrap().unwrap();
                    assert_eq!(request.extension, None);
                }
                _ => {
                    let request = Request::decode(data).unwrap().unwrap();
                    assert_eq!(request.extension, None);
                }
            }
        }
    }
}

#[test]
fn a_net_client_hears_of_nothing_at_all() {
    let Some(peer) = Peer::find() else { return };
    for encrypted in [false, true] {
        let own = Own::with(|builder| {
            builder.encryption(encrypted).limits(ServerLimits {
                keep_alive: impatient(),
                ..ServerLimits::default()
            })
        });
        let recorder = Recorder::before(own.port);
        let args: &[&str] = if encrypted { &["--encrypt"] } else { &[] };
        let (summary, failed) = peer.client(recorder.port, args);
        assert!(summary.ends_with(" 0 failed"), "{summary}: {failed:?}");
        let [sent, received] = recorder.messages();
        assert!(are_witrpcs(&sent) && are_witrpcs(&received));
        for message in received.iter().filter(|_| !encrypted) {
            let data = message.data.as_ref().unwrap();
            let extension = match message.kind {
                Kind::INITIALIZATION => {
                    let response = InitializationResponse::decode(data).unwrap().unwrap();
                    response.extension.map(Bytes::from)
                }
                Kind::AUTHORIZATION => {
                    AuthorizationResponse::decode(data)
                        .unwrap()
                        .unwrap()
                        .extension
                }
                Kind::CALLBACK => Request::decode(data).unwrap().unwrap().extension,
                _ => Response::decode(data).unwrap().unwrap().extension,
            };
            assert_eq!(extension, None, "type {}", message.kind.0);
        }
    }
}

/// Who has announced nothing is sent nothing, whatever he says: types of libwitrpc's own are types
/// without a meaning to our server then, and always to the .NET peer.
#[test]
fn messages_of_libwitrpc_are_ignored_from_one_who_has_announced_nothing() {
    let ping = Extension {
        ping: Some(1),
        cancels: Some(uuid::Uuid::from_u128(1)),
        ..Extension::default()
    };
    let data = Bytes::from(ping.encode());
    for target in Target::all("") {
        let mut raw = Raw::authorized(target.port(), "");
        for kind in [Kind::CANCELLATION, Kind::PING, Kind::PONG, Kind::GOING_AWAY] {
            for data in [None, Some(Bytes::new()), Some(data.clone())] {
                raw.send(&frame(&message(kind, data)));
            }
        }
        let answer = raw.ask(&raw::call("Ping()", &[]));
        assert_eq!(answer.data, Some("\"pong\"".into()), "{}", target.name());
    }
}

/// Extension members that are damaged, of another version or something else altogether.
#[test]
fn what_does_not_parse_is_ignored_and_the_call_is_answered() {
    let good = Extension {
        call_number: Some(1),
        first_unfinished: Some(1),
        remaining_ms: Some(60_000),
        trace_context: Some(b"trace"[..].into()),
        ..Extension::default()
    };
    let good = good.encode();
    let mut members: Vec<Vec<u8>> = (0..good.len()).map(|cut| good[..cut].to_vec()).collect();
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0xff;
        members.push(damaged);
    }
    members.push(vec![0; 5000]);
    members.push(b"WXT\x02future".to_vec());
    for target in Target::all("") {
        let mut raw = Raw::authorized(target.port(), "");
        for member in &members {
            let mut request = raw::call("Add(int,int)", &["2", "3"]);
            request.extension = Some(member.clone().into());
            let answer = raw.ask(&request);
            assert_eq!(
                (answer.status, answer.data, answer.extension),
                (200, Some("5".into()), None),
                "{}: {member:?}",
                target.name()
            );
        }
    }
}

#[test]
fn a_net_client_is_refused_while_the_server_stops_and_then_let_go() {
    let own = Own::start();
    let mut raw = Raw::authorized(own.port, "");
    let slow = raw::call("Slow(int,int)", &["500", "7"]);
    let slow = message(Kind::REQUEST, Some(raw::encode(|out| slow.encode(out))));
    raw.send(&frame(&slow));
    own.running(1);
    let stopping = own.stop();
    let refused = loop {
        let answer = raw.ask(&raw::call("Ping()", &[]));
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(refused.status, 503);
    assert_eq!(refused.extension, None);
    assert_eq!(
        refused.error_message.as_deref(),
        Some("The server is stopping")
    );
    let answer = raw.expect_frame();
    assert_eq!(answer.id, slow.id);
    assert_eq!(raw::response(&answer).data, Some("7".into()));
    assert_eq!(raw.receive(), raw::Next::End);
    assert!(stopping.join().unwrap());
}

/// Flooded with nonsense in every message that only libwitrpc peers send, a server goes on.
#[test]
fn nonsense_from_one_who_has_announced_everything_is_ignored() {
    use rand::rngs::StdRng;
    use rand::{Rng, RngExt, SeedableRng};
    let own = Own::start();
    let mut rng = StdRng::seed_from_u64(20);
    let hello = raw::encode(|out| {
        InitializationRequest {
            public_key: Some(vec![0]),
            protocol_version: 3,
            extension: Some(
                Extension {
                    capabilities: Some(Capabilities(u32::MAX)),
                    ..Extension::default()
                }
                .encode(),
            ),
        }
        .encode(out);
    });
    let mut raw = Raw::connect(own.port);
    raw.send(&frame(&message(Kind::INITIALIZATION, Some(hello))));
    raw.expect_frame();
    raw.send(&frame(&message(
        Kind::AUTHORIZATION,
        Some(raw::authorization("")),
    )));
    raw.expect_frame();
    for _ in 0..3000 {
        let kind = Kind(0x5758_5400 + rng.random_range(0..8));
        let mut data = vec![0; rng.random_range(0..60)];
        rng.fill_bytes(&mut data);
        if rng.random_bool(0.5) {
            data.splice(0..0, *b"WXT\x01");
        }
        // No ping that would be answered: those are all that is.
        if kind != Kind::PING {
            raw.send(&framed(&raw::encode(|out| {
                message(kind, Some(data.into())).encode(out);
            })));
        }
    }
    let answer = raw.ask(&raw::call("Ping()", &[]));
    assert_eq!(answer.data, Some("\"pong\"".into()));
    let ping = Extension {
        ping: Some(77),
        ..Extension::default()
    };
    raw.send(&frame(&message(Kind::PING, Some(ping.encode().into()))));
    let pong = raw.expect_frame();
    assert_eq!(pong.kind, Kind::PONG);
    assert_eq!(Extension::decode(&pong.data.unwrap()), Some(ping));
}

/// Our own peers, so that it is known that the recorder would see it.
#[test]
fn two_libwitrpc_peers_do_say_more_to_each_other() {
    let own = Own::with(|builder| {
        builder.limits(ServerLimits {
            keep_alive: impatient(),
            ..ServerLimits::default()
        })
    });
    let recorder = Recorder::before(own.port);
    runtime().block_on(async {
        let builder = Client::builder(&recorder.endpoint()).keep_alive(impatient());
        let client = builder.build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service_of(demo::contract());
        let slow = echo.call::<i32>("Slow", (300, 1));
        let slow = slow.timeout(Duration::from_millis(100)).await;
        let error = slow.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.state(), State::Connected);
        assert!(client.stats().round_trip.is_some());
    });
    let [sent, received] = recorder.messages();
    let has = |messages: &[Envelope], kind| messages.iter().any(|m| m.kind == kind);
    assert!(has(&sent, Kind::PING) && has(&received, Kind::PONG));
    assert!(has(&sent, Kind::CANCELLATION));
    let request = sent.iter().find(|m| m.kind == Kind::REQUEST).unwrap();
    let request = Request::decode(request.data.as_ref().unwrap())
        .unwrap()
        .unwrap();
    let fields = Extension::decode(&request.extension.unwrap()).unwrap();
    assert!(fields.remaining_ms.unwrap() <= 100);
}
