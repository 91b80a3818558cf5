//! Clients that a server in the open meets: they push before they are let in, come in masses from one
//! place, send or read a byte a second, close one half. They are let go in time; honest ones are not.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;
use witrpc::client::Client;
use witrpc::contract::Contract;
use witrpc::server::{Server, ServerLimits};
use witrpc_chaos::demo::{Demo, ECHO, endpoint};
use witrpc_chaos::raw::{self, RawClient};
use witrpc_chaos::watch;

fn address(server: &Server) -> SocketAddr {
    endpoint(server)["tcp://".len()..].parse().unwrap()
}

async fn serve(demo: &Demo, limits: ServerLimits) -> Server {
    demo.server().limits(limits).start().await.unwrap()
}

fn ids(line: &str) -> (i64, i64) {
    let contract = Contract::open(ECHO).unwrap();
    let method = contract.method(line).unwrap();
    (method.contract_id(), method.method_id())
}

async fn is_served(server: &Server) {
    let client = Client::builder(&endpoint(server)).build().unwrap();
    client.connect().await.unwrap();
    let echo = client.service(ECHO).unwrap();
    let sum = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
    assert_eq!(watch::within("an answer", sum).await.unwrap(), 5);
}

#[test]
fn too_many_bytes_before_the_authorization_close_the_connection() {
    watch::run(async {
        let limits = ServerLimits {
            max_handshake_bytes: 10_000,
            ..ServerLimits::default()
        };
        let server = serve(&Demo::default(), limits).await;
        // Messages without a meaning, each of them small.
        let ignored = [
            &[25, 0, 0, 0, 3][..],
            &[0; 16],
            &[2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ]
        .concat();
        let mut flood = TcpStream::connect(address(&server)).await.unwrap();
        flood.write_all(&ignored.repeat(400)).await.unwrap();
        watch::eventually("it is there", || server.stats().connections == 1).await;
        let _ = flood.write_all(&ignored).await;
        watch::within("the server closes", raw::read_to_end(&mut flood)).await;
        // As many are nothing to a client that has been let in.
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        client.send(&ignored.repeat(1000)).await.unwrap();
        let (contract, add) = ids("int Add(int a, int b)");
        let call = client.call(contract, add, Uuid::from_u128(1), &["2", "3"]);
        client.send(&call).await.unwrap();
        let answer = watch::within("an answer", client.answer()).await.unwrap();
        assert_eq!(answer.data.as_deref(), Some(&b"5"[..]));
    });
}

#[test]
fn strangers_from_one_address_leave_room_and_who_is_let_in_is_no_stranger() {
    watch::run(async {
        let limits = ServerLimits {
            max_strangers_per_address: 5,
            ..ServerLimits::default()
        };
        let server = serve(&Demo::default(), limits).await;
        let mut silent = Vec::new();
        for n in 1..=5 {
            silent.push(TcpStream::connect(address(&server)).await.unwrap());
            watch::eventually("it is there", || server.stats().connections == n).await;
        }
        let mut one_more = TcpStream::connect(address(&server)).await.unwrap();
        watch::within("the server closes", raw::read_to_end(&mut one_more)).await;
        assert_eq!(server.stats().connections, 5);
        // A place that is given up is free, and not taken by clients that are let in.
        silent.pop();
        watch::eventually("one has gone", || server.stats().connections == 4).await;
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(RawClient::connect(address(&server)).await.unwrap());
        }
        is_served(&server).await;
    });
}

#[test]
fn clients_from_one_address_have_a_limit_of_their_own_if_it_is_set() {
    watch::run(async {
        let limits = ServerLimits {
            max_clients_per_address: 3,
            ..ServerLimits::default()
        };
        let server = serve(&Demo::default(), limits).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(RawClient::connect(address(&server)).await.unwrap());
        }
        assert!(RawClient::connect(address(&server)).await.is_err());
        drop(clients);
        watch::eventually("all have gone", || server.stats().connections == 0).await;
        is_served(&server).await;
    });
}

fn strict() -> ServerLimits {
    ServerLimits {
        min_rate: 1000,
        rate_window: Duration::from_millis(500),
        keep_alive: None,
        ..ServerLimits::default()
    }
}

#[test]
fn a_client_that_sends_a_message_a_byte_at_a_time_is_let_go() {
    watch::run(async {
        let server = serve(&Demo::default(), strict()).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, add) = ids("int Add(int a, int b)");
        let call = client.call(contract, add, Uuid::from_u128(1), &["2", "3"]);
        let begun = Instant::now();
        let closed = async {
            for byte in call.iter() {
                if client.send(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("it was allowed to");
        };
        watch::within("the server closes", closed).await;
        assert!(begun.elapsed() >= Duration::from_millis(500));
        is_served(&server).await;
    });
}

#[test]
fn a_client_that_pauses_between_messages_or_is_just_fast_enough_stays() {
    watch::run(async {
        let server = serve(&Demo::default(), strict()).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, echo) = ids("string Echo(string text)");
        let text = format!("\"{}\"", "x".repeat(6000));
        for round in 0..2 {
            let call = client.call(contract, echo, Uuid::from_u128(round), &[&text]);
            // Six times as fast as it must be.
            for part in call.chunks(600) {
                client.send(part).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let answer = watch::within("an answer", client.answer()).await.unwrap();
            assert_eq!(answer.data.as_deref(), Some(text.as_bytes()));
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
    });
}

#[test]
fn a_client_that_reads_nothing_is_let_go_before_the_memory_is_full() {
    watch::run(async {
        let server = serve(&Demo::default(), strict()).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, echo) = ids("string Echo(string text)");
        // More than the kernel takes at both ends, and far less than the limit of unsent bytes.
        let text = format!("\"{}\"", "x".repeat(12 << 20));
        let call = client.call(contract, echo, Uuid::from_u128(1), &[&text]);
        client.send(&call).await.unwrap();
        watch::eventually("it has run", || server.stats().executed == 1).await;
        watch::eventually("it is let go", || server.stats().connections == 0).await;
        is_served(&server).await;
    });
}

#[test]
fn a_client_that_reads_slowly_and_steadily_gets_its_answer() {
    watch::run(async {
        let server = serve(&Demo::default(), strict()).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, echo) = ids("string Echo(string text)");
        let text = format!("\"{}\"", "x".repeat(12 << 20));
        let call = client.call(contract, echo, Uuid::from_u128(1), &[&text]);
        client.send(&call).await.unwrap();
        let mut buffer = vec![0; 300_000];
        let mut left = text.len();
        let reading = async {
            while left > 0 {
                let n = client.stream.read(&mut buffer).await.unwrap();
                assert!(n > 0, "the server has closed");
                left = left.saturating_sub(n);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        watch::within("the whole answer", reading).await;
    });
}

#[test]
fn what_a_half_closed_client_has_asked_for_is_answered_and_then_the_connection_ends() {
    watch::run(async {
        let demo = Demo::default();
        let limits = ServerLimits {
            max_in_flight_per_connection: 1,
            ..ServerLimits::default()
        };
        let server = serve(&demo, limits).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, hold) = ids("int Hold(int result)");
        let calls: Vec<_> = (1..=3)
            .flat_map(|n| {
                let id = Uuid::from_u128(n);
                client.call(contract, hold, id, &[&n.to_string()]).to_vec()
            })
            .collect();
        client.send(&calls).await.unwrap();
        client.stream.shutdown().await.unwrap();
        watch::eventually("the first one runs", || server.stats().running == 1).await;
        demo.gate.add_permits(3);
        for n in 1..=3 {
            let answer = watch::within("an answer", client.answer()).await.unwrap();
            assert_eq!(answer.data.as_deref(), Some(n.to_string().as_bytes()));
        }
        assert!(watch::within("the end", raw::read_to_end(&mut client.stream)).await);
        watch::eventually("it is gone", || server.stats().connections == 0).await;
    });
}

#[test]
fn what_waits_for_a_client_that_is_gone_does_not_run() {
    watch::run(async {
        let demo = Demo::default();
        let limits = ServerLimits {
            max_in_flight_per_connection: 1,
            ..ServerLimits::default()
        };
        let server = serve(&demo, limits).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, hold) = ids("int Hold(int result)");
        let first = client.call(contract, hold, Uuid::from_u128(1), &["1"]);
        let second = client.call(contract, hold, Uuid::from_u128(2), &["2"]);
        client.send(&[first, second].concat()).await.unwrap();
        watch::eventually("the first one runs", || server.stats().running == 1).await;
        raw::reset(client.stream);
        watch::eventually("the connection ends", || server.stats().connections == 0).await;
        demo.gate.add_permits(2);
        watch::eventually("it has ended", || server.stats().running == 0).await;
        assert_eq!(server.stats().executed, 1);
    });
}

#[test]
fn a_call_whose_time_is_over_before_its_turn_is_refused_without_running() {
    watch::run(async {
        let demo = Demo::default();
        let limits = ServerLimits {
            max_in_flight_per_connection: 1,
            ..ServerLimits::default()
        };
        let server = serve(&demo, limits).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let ((contract, hold), (_, add)) =
            (ids("int Hold(int result)"), ids("int Add(int a, int b)"));
        let first = client.call(contract, hold, Uuid::from_u128(1), &["1"]);
        let short = Some(Duration::from_millis(20));
        let late = client.call_within(short, contract, add, Uuid::from_u128(2), &["2", "3"]);
        let long = Some(Duration::from_secs(60));
        let good = client.call_within(long, contract, add, Uuid::from_u128(3), &["2", "3"]);
        client.send(&[first, late, good].concat()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        demo.gate.add_permits(1);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let answer = watch::within("an answer", client.answer()).await.unwrap();
            answers.push((answer.status, answer.error_message.unwrap_or_default()));
        }
        assert_eq!((answers[0].0, answers[2].0), (200, 200));
        assert_eq!(answers[1].0, 503);
        assert!(answers[1].1.contains("time was over"), "{answers:?}");
        assert_eq!(demo.executions(Uuid::from_u128(2)), 0);
        assert_eq!(server.stats().executed, 2);
    });
}
