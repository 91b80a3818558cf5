//! A fleet loses its server at one moment and comes back: spread out, and without harm to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc_chaos::demo::{Demo, ECHO, endpoint};
use witrpc_chaos::proxy::Proxy;
use witrpc_chaos::recorder::Recorder;
use witrpc_chaos::served::Served;
use witrpc_chaos::watch;

const FLEET: usize = 300;

/// So many clients with the preset for long-running programs, connected.
async fn fleet(endpoint: &str) -> Vec<(Client, Recorder)> {
    let mut fleet = Vec::new();
    for _ in 0..FLEET {
        let recorder = Recorder::default();
        let builder = Client::builder(endpoint).reconnect(ReconnectOptions::fleet());
        let client = recorder.attach(builder).build().unwrap();
        client.connect().await.unwrap();
        fleet.push((client, recorder));
    }
    fleet
}

/// The most events that fall into one window of this length.
fn densest(times: &[Instant], window: Duration) -> usize {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
        .iter()
        .enumerate()
        .map(|(n, first)| times[n..].partition_point(|t| t.duration_since(*first) < window))
        .max()
        .unwrap_or(0)
}

#[test]
fn a_fleet_that_lost_its_server_comes_back_spread_out_and_a_healthy_client_notices_nothing() {
    watch::run(async {
        let demo = Demo::default();
        let server = demo.server().start().await.unwrap();
        let address = endpoint(&server)["tcp://".len()..].parse().unwrap();
        let proxy = Arc::new(Proxy::start(address, 1));
        let fleet = fleet(&proxy.endpoint()).await;
        // Beside the proxy: calls of this one go on all the time.
        let healthy = Client::builder(&endpoint(&server)).build().unwrap();
        healthy.connect().await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let calls = tokio::spawn({
            let (echo, stop) = (healthy.service(ECHO).unwrap(), stop.clone());
            async move {
                let mut calls = 0;
                while !stop.load(Ordering::SeqCst) {
                    let sum = echo.call::<i32>("int Add(int,int)", (calls, 1)).await;
                    assert_eq!(sum.unwrap(), calls + 1);
                    calls += 1;
                }
                calls
            }
        });
        // The proxy plans nothing, but is told of each connection.
        let arrivals = Arc::new(parking_lot::Mutex::new(Vec::new()));
        proxy.plan({
            let arrivals = arrivals.clone();
            move |_, _| {
                arrivals.lock().push(Instant::now());
                Default::default()
            }
        });
        proxy.cut(witrpc_chaos::proxy::End::Reset);
        for (client, _) in &fleet {
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
        }
        for (client, _) in &fleet {
            watch::within("the way back", client.wait_for(State::Connected))
                .await
                .unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        assert!(calls.await.unwrap() > 0);
        assert_eq!(server.stats().connections, FLEET + 1);
        assert_eq!(healthy.stats().reconnects, 0);
        let arrivals = arrivals.lock().clone();
        assert_eq!(arrivals.len(), FLEET);
        let burst = densest(&arrivals, Duration::from_millis(50));
        println!("at most {burst} of {FLEET} in 50 ms");
        assert!(
            burst < FLEET / 2,
            "{burst} of {FLEET} came in the same 50 ms"
        );
        for (client, recorder) in &fleet {
            watch::eventually("it is told", || recorder.reconnected() == 1).await;
            assert_eq!(recorder.check_cycles(), (1, 1));
            let echo = client.service(ECHO).unwrap();
            assert_eq!(
                echo.call::<i32>("int Add(int,int)", (2, 3)).await.unwrap(),
                5
            );
        }
    });
}

#[test]
fn a_fleet_whose_server_process_dies_and_returns_is_all_connected_again() {
    watch::run(async {
        let mut server = Served::start(&[]);
        let fleet = fleet(&server.endpoint()).await;
        server.kill();
        for (client, _) in &fleet {
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
        }
        // Some have tried in vain by now.
        watch::eventually("attempts in vain", || {
            fleet
                .iter()
                .any(|(_, recorder)| recorder.attempts().len() > 1)
        })
        .await;
        server.restart();
        for (client, recorder) in &fleet {
            watch::within("the way back", client.wait_for(State::Connected))
                .await
                .unwrap();
            watch::eventually("it is told", || recorder.reconnected() == 1).await;
            recorder.check_cycles();
        }
    });
}
