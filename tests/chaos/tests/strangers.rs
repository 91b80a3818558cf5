//! Servers that are none: what a client makes of a port where nobody is, or somebody else, or a
//! server that breaks the protocol. It never hangs, says why, and goes on trying where that can help.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use witrpc::client::{Client, ClientBuilder};
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::{Error, ErrorCode, Outcome};
use witrpc_chaos::demo::{Demo, ECHO};
use witrpc_chaos::port::ReservedPort;
use witrpc_chaos::proxy::{Proxy, Slicer, Toxic, Toxics};
use witrpc_chaos::raw::{self, Peer, RawServer};
use witrpc_chaos::recorder::{Recorder, Said};
use witrpc_chaos::watch;

/// Three attempts in quick succession, the first connect included.
fn three_attempts() -> ReconnectOptions {
    ReconnectOptions {
        max_attempts: 3,
        initial_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(1),
        retry_first_connect: true,
        ..ReconnectOptions::default()
    }
}

/// Connects without and with reconnection to a place where that can't succeed. Returns the errors.
async fn fails(builder: impl Fn() -> ClientBuilder) -> Error {
    let client = builder().build().unwrap();
    let once = watch::within("the refusal", client.connect())
        .await
        .unwrap_err();
    assert_eq!(client.state(), State::Disconnected, "{once:?}");
    assert_eq!(once.outcome(), Outcome::NotSent);

    let recorder = Recorder::default();
    let client = recorder
        .attach(builder().reconnect(three_attempts()))
        .build()
        .unwrap();
    let last = watch::within("the end of the attempts", client.connect())
        .await
        .unwrap_err();
    watch::eventually("the failure is told", || recorder.failure().is_some()).await;
    assert_eq!(recorder.check_cycles(), (0, 3), "{last:?}");
    assert_eq!(recorder.states(), [State::Reconnecting, State::Failed]);
    assert_eq!(recorder.failure().unwrap(), last);
    assert_eq!(client.last_failure().unwrap(), last);
    let echo = client.service(ECHO).unwrap();
    let refused = echo
        .call::<i32>("int Add(int,int)", (1, 2))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), refused.outcome()),
        (ErrorCode::Transport, Outcome::NotSent)
    );
    assert_eq!(last.code(), once.code());
    last
}

fn details(error: &Error) -> &str {
    error.details().unwrap_or_default()
}

#[test]
fn a_refused_port_is_tried_again_and_the_last_error_says_so() {
    watch::run(async {
        let port = ReservedPort::new();
        let error = fails(|| Client::builder(&port.endpoint())).await;
        assert_eq!(error.code(), ErrorCode::Transport);
        assert!(details(&error).contains("refused"), "{error:?}");
    });
}

#[test]
fn an_unreachable_address_is_given_up_in_time() {
    watch::run(async {
        // TEST-NET-1 of RFC 5737: nobody is there. Systems without a route to it say so at once.
        let error = fails(|| {
            Client::builder("tcp://192.0.2.1:5000").connect_timeout(Duration::from_millis(300))
        })
        .await;
        assert!(
            matches!(error.code(), ErrorCode::Timeout | ErrorCode::Transport),
            "{error:?}"
        );
    });
}

#[test]
fn a_name_that_can_not_be_found_is_tried_again() {
    watch::run(async {
        let error = fails(|| {
            Client::builder("tcp://nobody.invalid:5000").connect_timeout(Duration::from_secs(3))
        })
        .await;
        assert!(
            error.message().contains("nobody.invalid") || error.code() == ErrorCode::Timeout,
            "{error:?}"
        );
    });
}

#[test]
fn a_port_that_accepts_and_says_nothing_ends_with_the_handshake_timeout() {
    watch::run(async {
        let (closed, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let server = RawServer::start(move |_, mut stream| {
            let closed = closed.clone();
            async move {
                raw::read_to_end(&mut stream).await;
                let _ = closed.send(());
            }
        });
        let error = fails(|| {
            Client::builder(&server.endpoint()).connect_timeout(Duration::from_millis(100))
        })
        .await;
        assert_eq!(error.code(), ErrorCode::Timeout);
        assert!(error.message().contains("handshake"), "{error:?}");
        // The client let go of each connection.
        for _ in 0..server.arrivals().len() {
            watch::within("the client closes", seen.recv())
                .await
                .unwrap();
        }
        assert_eq!(server.arrivals().len(), 5);
    });
}

/// A server that says these bytes to everybody and then waits until they go.
fn says(bytes: &'static [u8]) -> RawServer {
    RawServer::start(move |_, mut stream| async move {
        let _ = stream.write_all(bytes).await;
        raw::read_to_end(&mut stream).await;
    })
}

#[test]
fn a_web_server_and_other_strangers_are_told_apart_and_tried_again() {
    watch::run(async {
        let http: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        for stranger in [http, b"SSH-2.0-OpenSSH_9.6\r\n", &[0; 64], &[0xff; 64]] {
            let server = says(stranger);
            let error = fails(|| Client::builder(&server.endpoint())).await;
            assert_eq!(error.code(), ErrorCode::Protocol, "{error:?}");
            assert!(details(&error).contains("bytes"), "{error:?}");
        }
    });
}

#[test]
fn nonsense_in_a_well_formed_frame_is_ignored_and_ends_with_the_handshake_timeout() {
    watch::run(async {
        let server = says(b"\x05\0\0\0nope!\x03\0\0\0\x01\x02\x03");
        let error = fails(|| {
            Client::builder(&server.endpoint()).connect_timeout(Duration::from_millis(100))
        })
        .await;
        assert_eq!(error.code(), ErrorCode::Timeout);
    });
}

#[test]
fn half_a_frame_and_silence_in_the_handshake_ends_with_the_handshake_timeout() {
    watch::run(async {
        let server = says(b"\x40\0\0\0half");
        let error = fails(|| {
            Client::builder(&server.endpoint()).connect_timeout(Duration::from_millis(100))
        })
        .await;
        assert_eq!(error.code(), ErrorCode::Timeout);
    });
}

#[test]
fn a_server_that_closes_or_resets_at_once_is_tried_again() {
    watch::run(async {
        let closes = RawServer::start(|_, stream| async move { drop(stream) });
        let resets = RawServer::start(|_, stream| async move { raw::reset(stream) });
        let half = RawServer::start(|_, mut stream| async move {
            let _ = stream.write_all(b"\x40\0\0\0half").await;
        });
        for server in [closes, resets, half] {
            let error = fails(|| Client::builder(&server.endpoint())).await;
            assert_eq!(error.code(), ErrorCode::Transport, "{error:?}");
            assert_eq!(server.arrivals().len(), 5);
        }
    });
}

#[test]
fn one_client_too_many_waits_until_there_is_room() {
    watch::run(async {
        let limits = witrpc::server::ServerLimits {
            max_clients: 1,
            ..Default::default()
        };
        let server = Demo::default()
            .server()
            .limits(limits)
            .start()
            .await
            .unwrap();
        let endpoint = witrpc_chaos::demo::endpoint(&server);
        let first = Client::builder(&endpoint).build().unwrap();
        first.connect().await.unwrap();
        let recorder = Recorder::default();
        let second = Client::builder(&endpoint).reconnect(ReconnectOptions {
            max_attempts: 0,
            ..three_attempts()
        });
        let second = recorder.attach(second).build().unwrap();
        let connecting = tokio::spawn({
            let second = second.clone();
            async move { second.connect().await }
        });
        watch::eventually("some attempts", || recorder.attempts().len() > 5).await;
        assert_eq!(second.state(), State::Reconnecting);
        first.close();
        watch::within("room", connecting).await.unwrap().unwrap();
    });
}

#[test]
fn a_place_that_becomes_a_server_is_found_whatever_was_there_before() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let server: std::net::SocketAddr = endpoint["tcp://".len()..].parse().unwrap();
        let web = says(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
        let web = web.endpoint()["tcp://".len()..].parse().unwrap();
        let proxy = Proxy::start(web, 1);
        let client = Client::builder(&proxy.endpoint())
            .reconnect(ReconnectOptions {
                max_attempts: 0,
                ..three_attempts()
            })
            .build()
            .unwrap();
        let connecting = tokio::spawn({
            let client = client.clone();
            async move { client.connect().await }
        });
        watch::eventually("some attempts", || proxy.accepted() > 5).await;
        proxy.set_upstream(server);
        watch::within("the server", connecting)
            .await
            .unwrap()
            .unwrap();
    });
}

#[test]
fn everything_works_one_byte_at_a_time_in_both_directions() {
    watch::run(async {
        let demo = Demo::default();
        let (_server, endpoint) = demo.serve().await;
        let server = endpoint["tcp://".len()..].parse().unwrap();
        let proxy = Proxy::start(server, 1);
        proxy.set(Toxics::both(Toxic {
            slicer: Some(Slicer {
                average: 1,
                delay: Duration::ZERO,
            }),
            ..Toxic::default()
        }));
        let client = Client::builder(&proxy.endpoint()).build().unwrap();
        watch::within("connecting", client.connect()).await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let calls: Vec<_> = (0..64)
            .map(|n| {
                let echo = echo.clone();
                tokio::spawn(async move {
                    let text = "x".repeat(n * 10);
                    let back = echo.call::<String>("string Echo(string)", (&text,)).await;
                    assert_eq!(back.unwrap(), text);
                })
            })
            .collect();
        for call in calls {
            watch::within("an answer", call).await.unwrap();
        }
    });
}

/// What becomes of a call that is answered with these bytes, made from the right frame, and how the
/// link ends.
async fn answered_with(
    break_it: fn(&[u8]) -> Vec<u8>,
    then: fn(Peer),
    reconnect_on_disconnect: bool,
) -> (Error, Recorder, RawServer, Client) {
    let server = RawServer::start(move |number, stream| async move {
        let Ok(mut peer) = Peer::accept(stream).await else {
            return;
        };
        if number > 0 {
            return peer.serve("7").await;
        }
        let (id, _) = peer.request().await.unwrap();
        let frame = peer.answer(id, "5");
        let _ = peer.send(&break_it(&frame)).await;
        then(peer);
    });
    let recorder = Recorder::default();
    let builder = Client::builder(&server.endpoint()).reconnect(ReconnectOptions {
        reconnect_on_disconnect,
        retry_first_connect: false,
        ..three_attempts()
    });
    let client = recorder.attach(builder).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service(ECHO).unwrap();
    let call = echo.call::<i32>("int Add(int,int)", (2, 3));
    let error = watch::within("the end of the call", call.into_future())
        .await
        .unwrap_err();
    (error, recorder, server, client)
}

/// The link comes back and works.
async fn comes_back(client: &Client, recorder: &Recorder) {
    watch::eventually("the way back", || recorder.reconnected() == 1).await;
    let echo = client.service(ECHO).unwrap();
    let seven = watch::within(
        "an answer",
        echo.call::<i32>("int Add(int,int)", (2, 3)).into_future(),
    );
    assert_eq!(seven.await.unwrap(), 7);
    assert_eq!(recorder.check_cycles(), (1, 1));
}

#[test]
fn a_link_that_breaks_in_an_answer_is_a_drop_and_the_call_is_unknown() {
    watch::run(async {
        type Cut = fn(&[u8]) -> Vec<u8>;
        let broken: [(Cut, fn(Peer)); 6] = [
            // A reset in the middle of a frame, and between two.
            (|frame| frame[..frame.len() / 2].to_vec(), Peer::reset),
            (|_| Vec::new(), Peer::reset),
            // The end of the stream in the middle of a frame, and of a length.
            (|frame| frame[..frame.len() - 1].to_vec(), drop),
            (|frame| frame[..2].to_vec(), drop),
            // Lengths that can't be.
            (|_| vec![0, 0, 0, 0], |peer| std::mem::forget(peer)),
            (|_| vec![0xff; 4], |peer| std::mem::forget(peer)),
        ];
        for (break_it, then) in broken {
            // None of that is "the server closed": it is covered also where only drops are.
            let (error, recorder, _server, client) = answered_with(break_it, then, false).await;
            assert_eq!(
                (error.code(), error.outcome()),
                (ErrorCode::Transport, Outcome::Unknown),
                "{error:?}"
            );
            comes_back(&client, &recorder).await;
        }
    });
}

#[test]
fn a_server_that_closes_between_frames_is_left_alone_if_that_is_wanted() {
    watch::run(async {
        let (error, recorder, server, client) = answered_with(|_| Vec::new(), drop, false).await;
        assert_eq!(error.outcome(), Outcome::Unknown);
        watch::within("the end", client.wait_for(State::Disconnected))
            .await
            .unwrap();
        assert_eq!(recorder.attempts(), []);
        // By its own wish it comes back.
        client.connect().await.unwrap();
        assert_eq!(server.arrivals().len(), 2);

        let (_, recorder, _server, client) = answered_with(|_| Vec::new(), drop, true).await;
        comes_back(&client, &recorder).await;
    });
}

#[test]
fn an_oversize_frame_is_refused_by_its_length_without_waiting_for_it() {
    watch::run(async {
        let server = RawServer::start(|number, stream| async move {
            let mut peer = Peer::accept(stream).await.unwrap();
            if number > 0 {
                return peer.serve("7").await;
            }
            let _ = peer.request().await;
            let _ = peer.send(&1025i32.to_le_bytes()).await;
            raw::read_to_end(&mut peer.stream).await;
        });
        let recorder = Recorder::default();
        let builder = Client::builder(&server.endpoint())
            .max_frame(1024)
            .reconnect(three_attempts());
        let client = recorder.attach(builder).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let call = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
        let error = watch::within("the end of the call", call)
            .await
            .unwrap_err();
        assert!(details(&error).contains("1025"), "{error:?}");
        comes_back(&client, &recorder).await;
    });
}

#[test]
fn half_an_answer_and_silence_ends_the_call_by_its_time_and_a_late_rest_harms_nobody() {
    watch::run(async {
        let server = RawServer::start(|_, stream| async move {
            let mut peer = Peer::accept(stream).await.unwrap();
            let (id, _) = peer.request().await.unwrap();
            let frame = peer.answer(id, "5");
            let (first, rest) = frame.split_at(frame.len() / 2);
            peer.send(first).await.unwrap();
            // The next call shows that the client has given the first one up.
            let (id, _) = peer.request().await.unwrap();
            peer.send(rest).await.unwrap();
            let frame = peer.answer(id, "6");
            peer.send(&frame).await.unwrap();
            peer.serve("7").await;
        });
        let recorder = Recorder::default();
        let builder = Client::builder(&server.endpoint())
            .attempt_timeout(Some(Duration::from_millis(100)))
            .reconnect(three_attempts());
        let client = recorder.attach(builder).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let call = || echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
        let error = watch::within("the end of the call", call())
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (ErrorCode::Timeout, Outcome::Unknown)
        );
        assert_eq!(watch::within("the next answer", call()).await.unwrap(), 6);
        assert_eq!(
            recorder.count(|said| matches!(said, Said::Reconnecting { .. })),
            0
        );
    });
}
