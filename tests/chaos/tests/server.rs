//! What clients can do to a server: say nothing, half of it, too much, never read. It lets go of them
//! in time, and others are served as if nothing was.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use uuid::Uuid;
use witrpc::client::Client;
use witrpc::contract::Contract;
use witrpc::resilience::engine::State;
use witrpc::server::{Server, ServerLimits};
use witrpc::{ErrorCode, Outcome};
use witrpc_chaos::demo::{Demo, ECHO, endpoint};
use witrpc_chaos::load::{Load, Rule};
use witrpc_chaos::raw::{self, RawClient};
use witrpc_chaos::watch;

fn address(server: &Server) -> SocketAddr {
    endpoint(server)["tcp://".len()..].parse().unwrap()
}

/// A client whose calls go on all the time; returns how many there were.
struct Healthy {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Healthy {
    async fn start(server: &Server) -> Self {
        let client = Client::builder(&endpoint(server)).build().unwrap();
        client.connect().await.unwrap();
        let (stop, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let task = tokio::spawn({
            let (stop, calls) = (stop.clone(), calls.clone());
            async move {
                let echo = client.service(ECHO).unwrap();
                while !stop.load(Ordering::SeqCst) {
                    let call = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
                    assert_eq!(watch::within("an answer", call).await.unwrap(), 5);
                    calls.fetch_add(1, Ordering::SeqCst);
                }
                assert_eq!(client.state(), State::Connected);
            }
        });
        Self { stop, calls, task }
    }

    /// Some calls from now on are answered.
    async fn is_served(&self) {
        let before = self.calls.load(Ordering::SeqCst);
        watch::eventually("others are served", || {
            self.calls.load(Ordering::SeqCst) > before + 10
        })
        .await;
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap();
    }
}

fn impatient() -> ServerLimits {
    ServerLimits {
        handshake_timeout: Some(Duration::from_millis(300)),
        ..ServerLimits::default()
    }
}

#[test]
fn two_hundred_silent_and_half_spoken_connections_are_closed_in_time_and_others_are_served() {
    watch::run(async {
        let server = Demo::default()
            .server()
            .limits(impatient())
            .start()
            .await
            .unwrap();
        let healthy = Healthy::start(&server).await;
        let hello = RawClient::hello();
        let beginnings: [&[u8]; 5] = [b"", &hello[..2], &hello[..20], &hello, b"\x10\0\0\0abc"];
        let mut silent = Vec::new();
        for n in 0..200 {
            let mut stream = TcpStream::connect(address(&server)).await.unwrap();
            stream
                .write_all(beginnings[n % beginnings.len()])
                .await
                .unwrap();
            silent.push(stream);
        }
        healthy.is_served().await;
        for mut stream in silent {
            watch::within("the server closes", raw::read_to_end(&mut stream)).await;
        }
        watch::eventually("only one is left", || server.stats().connections == 1).await;
        healthy.is_served().await;
        healthy.end().await;
    });
}

#[test]
fn talking_without_end_does_not_put_the_handshake_off() {
    watch::run(async {
        let server = Demo::default()
            .server()
            .limits(impatient())
            .start()
            .await
            .unwrap();
        let healthy = Healthy::start(&server).await;
        // Frames of a type that is ignored, as many as go through: the server always has something
        // to read.
        let frame = [
            &[22, 0, 0, 0, 3][..],
            &[0; 16],
            &[0, 0xff, 0xff, 0xff, 0xff],
        ]
        .concat();
        let flood = frame.repeat(2000);
        let mut floods = Vec::new();
        for _ in 0..4 {
            let stream = TcpStream::connect(address(&server)).await.unwrap();
            let flood = flood.clone();
            floods.push(std::thread::spawn(move || {
                use std::io::Write;
                let mut stream = stream.into_std().unwrap();
                stream.set_nonblocking(false).unwrap();
                // Ends when the server has closed the connection.
                while stream.write_all(&flood).is_ok() {}
            }));
        }
        for flood in floods {
            watch::eventually("the server closes", || flood.is_finished()).await;
        }
        watch::eventually("only one is left", || server.stats().connections == 1).await;
        healthy.is_served().await;
        healthy.end().await;
    });
}

#[test]
fn frames_beyond_the_limits_close_the_connection_by_their_length_alone() {
    watch::run(async {
        let limits = ServerLimits {
            max_handshake_frame: 1000,
            max_frame: 100_000,
            ..ServerLimits::default()
        };
        let server = Demo::default()
            .server()
            .limits(limits)
            .start()
            .await
            .unwrap();
        let healthy = Healthy::start(&server).await;
        for length in [1001, 100_000, i32::MAX, 0, -1, i32::MIN] {
            let mut stream = TcpStream::connect(address(&server)).await.unwrap();
            stream.write_all(&length.to_le_bytes()).await.unwrap();
            watch::within("the server closes", raw::read_to_end(&mut stream)).await;
        }
        for length in [100_001, i32::MAX, 0, -1] {
            let mut client = RawClient::connect(address(&server)).await.unwrap();
            client.send(&length.to_le_bytes()).await.unwrap();
            watch::within("the server closes", raw::read_to_end(&mut client.stream)).await;
        }
        // What is within the limits of an authorised client is served.
        let client = Client::builder(&endpoint(&server)).build().unwrap();
        client.connect().await.unwrap();
        let text = "x".repeat(90_000);
        let echo = client.service(ECHO).unwrap();
        let back = echo
            .call::<String>("string Echo(string)", (&text,))
            .await
            .unwrap();
        assert_eq!(back, text);
        healthy.end().await;
    });
}

fn echo_ids() -> (i64, i64) {
    let contract = Contract::open(ECHO).unwrap();
    let method = contract.method("string Echo(string text)").unwrap();
    (method.contract_id(), method.method_id())
}

#[test]
fn a_client_that_never_reads_is_dropped_at_the_limit_of_unsent_bytes_and_others_are_unharmed() {
    watch::run(async {
        let limits = ServerLimits {
            max_unsent_bytes: 4 << 20,
            ..ServerLimits::default()
        };
        let server = Demo::default()
            .server()
            .limits(limits)
            .start()
            .await
            .unwrap();
        let healthy = Healthy::start(&server).await;
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        let (contract, method) = echo_ids();
        let text = format!("\"{}\"", "x".repeat(100_000));
        let flood = tokio::spawn(async move {
            loop {
                let id = Uuid::from_u128(rand::random());
                let frame = client.call(contract, method, id, &[&text]);
                if client.send(&frame).await.is_err() {
                    return;
                }
            }
        });
        watch::within("the server closes", flood).await.unwrap();
        watch::eventually("only one is left", || server.stats().connections == 1).await;
        healthy.is_served().await;
        healthy.end().await;
    });
}

#[test]
fn events_for_a_client_that_never_reads_do_not_keep_others_from_theirs() {
    watch::run(async {
        let limits = ServerLimits {
            max_unsent_bytes: 1 << 20,
            ..ServerLimits::default()
        };
        let server = Demo::default()
            .server()
            .limits(limits)
            .start()
            .await
            .unwrap();
        let _mute = RawClient::connect(address(&server)).await.unwrap();
        let client = Client::builder(&endpoint(&server)).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let mut events = echo.events("event Action<int> Progress").unwrap();
        // Some 150 bytes each; until the one that does not read is gone.
        let mut raised = 0;
        while server.stats().connections == 2 {
            echo.call::<()>("void RaiseMany(int)", (500,))
                .await
                .unwrap();
            for n in 0..500 {
                let event = watch::within("an event", events.next()).await.unwrap();
                assert_eq!(event.get::<(i32,)>().unwrap(), (n,));
            }
            raised += 500;
            assert!(raised < 1_000_000, "the server keeps everything");
        }
        assert_eq!(events.dropped(), 0);
    });
}

#[test]
fn a_graceful_stop_under_load_loses_no_answer() {
    watch::run(async {
        for round in 0..60 {
            let demo = Demo::default();
            let server = demo.server().start().await.unwrap();
            let client = Client::builder(&endpoint(&server)).build().unwrap();
            client.connect().await.unwrap();
            let load = Load::start(&client, 64, round);
            watch::eventually("answers", || load.answered() > 100 + 7 * round as usize).await;
            let stopped = watch::within("the stop", server.stop(Duration::from_secs(20))).await;
            assert!(stopped, "calls were abandoned");
            watch::within("the end", client.wait_for(State::Disconnected))
                .await
                .unwrap();
            let ledger = load.finish().await;
            let unknown_but_executed = ledger.unknown_but_executed(&demo.trace());
            assert!(
                unknown_but_executed.is_empty(),
                "round {round}: {unknown_but_executed:?}"
            );
            ledger.judge(&demo.trace(), Rule::AtMostOnce, true);
        }
    });
}

#[test]
fn a_graceful_stop_waits_for_slow_calls_and_takes_no_new_ones() {
    watch::run(async {
        let demo = Demo::default();
        let server = demo.server().start().await.unwrap();
        let client = Client::builder(&endpoint(&server)).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let held: Vec<_> = (0..50)
            .map(|n| {
                let echo = echo.clone();
                tokio::spawn(async move { echo.call::<i32>("int Hold(int)", (n,)).await })
            })
            .collect();
        watch::eventually("all run", || server.stats().running == 50).await;
        let address = address(&server);
        let stopping = tokio::spawn(server.stop(Duration::from_secs(20)));
        let refused = loop {
            match echo.call::<i32>("int Add(int,int)", (1, 1)).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(
            (refused.code(), refused.outcome()),
            (ErrorCode::Transport, Outcome::NotSent)
        );
        TcpStream::connect(address).await.unwrap_err();
        demo.gate.add_permits(50);
        for (n, call) in held.into_iter().enumerate() {
            assert_eq!(
                watch::within("an answer", call).await.unwrap(),
                Ok(n as i32)
            );
        }
        assert!(watch::within("the stop", stopping).await.unwrap());
    });
}

#[test]
fn a_stop_that_is_given_too_little_time_abandons_calls_and_their_callers_are_told_unknown() {
    watch::run(async {
        let demo = Demo::default();
        let server = demo.server().start().await.unwrap();
        let client = Client::builder(&endpoint(&server)).build().unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        let held = tokio::spawn(async move { echo.call::<i32>("int Hold(int)", (1,)).await });
        watch::eventually("it runs", || server.stats().running == 1).await;
        assert!(!watch::within("the stop", server.stop(Duration::from_millis(50))).await);
        let error = watch::within("the end", held).await.unwrap().unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
    });
}

#[test]
fn clients_that_come_and_go_while_the_server_stops_do_not_keep_it() {
    watch::run(async {
        for _ in 0..30 {
            let server = Demo::default().server().start().await.unwrap();
            let address = address(&server);
            let going = Arc::new(AtomicBool::new(true));
            let comers: Vec<_> = (0..4)
                .map(|_| {
                    let going = going.clone();
                    tokio::spawn(async move {
                        while going.load(Ordering::SeqCst) {
                            if let Ok(client) = RawClient::connect(address).await {
                                drop(client);
                            }
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            watch::eventually("clients", || server.stats().connections > 0).await;
            let stopped = watch::within("the stop", server.stop(Duration::from_secs(20))).await;
            assert!(stopped, "a connection was left open");
            going.store(false, Ordering::SeqCst);
            for comer in comers {
                watch::within("the end", comer).await.unwrap();
            }
        }
    });
}

#[test]
fn a_server_that_is_dropped_ends_all_connections_and_handlers_that_run_go_on_alone() {
    watch::run(async {
        let demo = Demo::default();
        let server = demo.server().start().await.unwrap();
        let client = Client::builder(&endpoint(&server)).build().unwrap();
        client.connect().await.unwrap();
        let load = Load::start(&client, 64, 1);
        watch::eventually("answers", || load.answered() > 100).await;
        drop(server);
        watch::within("the end", client.wait_for(State::Disconnected))
            .await
            .unwrap();
        load.finish()
            .await
            .judge(&demo.trace(), Rule::AtMostOnce, true);
    });
}

#[test]
fn a_call_that_arrives_at_the_moment_of_a_stop_is_refused_or_answered() {
    watch::run(async {
        let contract = Contract::open(ECHO).unwrap();
        let slow = contract.method("int Slow(int ms, int result)").unwrap();
        let mut fates = [0; 3];
        for round in 0..300u32 {
            let demo = Demo::default();
            let server = demo.server().start().await.unwrap();
            let mut client = RawClient::connect(address(&server)).await.unwrap();
            let id = Uuid::from_u128(rand::random());
            let frame = client.call(slow.contract_id(), slow.method_id(), id, &["1", "7"]);
            let calling = tokio::spawn(async move {
                client.send(&frame).await.unwrap();
                client.answer().await.map(|answer| answer.status)
            });
            // At another moment in each round.
            let end =
                std::time::Instant::now() + Duration::from_nanos(u64::from(round % 500) * 200);
            while std::time::Instant::now() < end {}
            let stopped = watch::within("the stop", server.stop(Duration::from_secs(20))).await;
            assert!(stopped, "round {round}");
            let answer = watch::within("the end", calling).await.unwrap();
            let executed = demo.executions(id);
            fates[match answer {
                Ok(200) => {
                    assert_eq!(executed, 1, "round {round}");
                    0
                }
                Ok(503) => {
                    assert_eq!(executed, 0, "round {round}");
                    1
                }
                other => {
                    assert_eq!(
                        executed, 0,
                        "round {round}: it ran, and this came: {other:?}"
                    );
                    2
                }
            }] += 1;
        }
        println!("answered, refused, not taken in: {fates:?}");
    });
}

#[test]
fn a_call_whose_admission_takes_long_is_not_overtaken_by_a_stop() {
    watch::run(async {
        let hold = Duration::from_millis(1500);
        let demo = Demo::default();
        let dedup = witrpc::resilience::dedup::DedupOptions {
            hold,
            ..Default::default()
        };
        let server = demo.server().dedup(dedup).start().await.unwrap();
        let contract = Contract::open(ECHO).unwrap();
        let add = contract.method("int Add(int a, int b)").unwrap();
        let slow = contract.method("int Slow(int ms, int result)").unwrap();
        let mut client = RawClient::connect(address(&server)).await.unwrap();
        // Many answers to be forgotten at once: that is done by the next call, while it is admitted.
        for _ in 0..60 {
            for _ in 0..500 {
                let id = Uuid::from_u128(rand::random());
                let frame = client.call(add.contract_id(), add.method_id(), id, &["1", "2"]);
                client.send(&frame).await.unwrap();
            }
            for _ in 0..500 {
                watch::within("an answer", client.answer()).await.unwrap();
            }
        }
        let remembered = server.stats().dedup.done;
        assert!(remembered > 10_000, "{remembered}");
        tokio::time::sleep(hold).await;
        let id = Uuid::from_u128(rand::random());
        let frame = client.call(slow.contract_id(), slow.method_id(), id, &["50", "7"]);
        client.send(&frame).await.unwrap();
        let end = std::time::Instant::now() + Duration::from_millis(1);
        while std::time::Instant::now() < end {}
        let stopped = watch::within("the stop", server.stop(Duration::from_secs(20))).await;
        assert!(stopped);
        let answer = watch::within("the end", client.answer()).await;
        let executed = demo.executions(id);
        let status = answer.as_ref().map(|answer| answer.status).ok();
        assert!(
            matches!((status, executed), (Some(200), 1) | (Some(503) | None, 0)),
            "executed {executed} times, answered {answer:?}"
        );
    });
}
