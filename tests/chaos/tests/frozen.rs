//! A process that is frozen (SIGSTOP): its kernel acknowledges everything, and nobody is there. Both
//! ends notice by pings.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use witrpc::Outcome;
use witrpc::client::Client;
use witrpc::resilience::engine::State;
use witrpc::resilience::reconnect::ReconnectOptions;
use witrpc::server::ServerLimits;
use witrpc::session::KeepAliveOptions;
use witrpc_chaos::demo::{Demo, ECHO, endpoint};
use witrpc_chaos::served::{Served, command};
use witrpc_chaos::watch;

fn impatient() -> KeepAliveOptions {
    KeepAliveOptions {
        interval: Duration::from_millis(300),
        timeout: Duration::from_millis(700),
    }
}

#[test]
fn a_frozen_server_is_noticed_and_the_client_is_back_when_it_is() {
    watch::run(async {
        let served = Served::start(&[]);
        let reconnect = ReconnectOptions {
            max_attempts: 0,
            initial_delay: Duration::from_millis(100),
            max_delay: Duration::from_millis(200),
            ..ReconnectOptions::default()
        };
        let client = Client::builder(&served.endpoint())
            .keep_alive(Some(impatient()))
            .connect_timeout(Duration::from_millis(500))
            .reconnect(reconnect)
            .build()
            .unwrap();
        client.connect().await.unwrap();
        let echo = client.service(ECHO).unwrap();
        for round in 1..=2 {
            watch::eventually("a round trip", || client.stats().round_trip.is_some()).await;
            // One call is under way, without a limit of its own.
            let slow = tokio::spawn({
                let echo = echo.clone();
                async move {
                    let call = echo.call::<i32>("int Slow(int,int)", (60_000, 1));
                    call.no_timeout().await
                }
            });
            watch::eventually("it is sent", || client.stats().in_flight == 1).await;
            served.signal(Signal::STOP);
            watch::within("the loss", client.wait_for(State::Reconnecting))
                .await
                .unwrap();
            let why = client.last_failure().unwrap().to_string();
            assert!(why.contains("no sign of life"), "{why}");
            let error = watch::within("the end", slow).await.unwrap().unwrap_err();
            assert_eq!(error.outcome(), Outcome::Unknown);
            served.signal(Signal::CONT);
            watch::within("the return", client.wait_for(State::Connected))
                .await
                .unwrap();
            let sum = echo.call::<i32>("int Add(int,int)", (2, 3)).into_future();
            assert_eq!(watch::within("an answer", sum).await.unwrap(), 5);
            assert_eq!(client.stats().reconnects, round);
        }
    });
}

#[test]
fn a_frozen_client_is_noticed_and_its_place_is_free_again() {
    watch::run(async {
        let limits = ServerLimits {
            keep_alive: Some(impatient()),
            ..ServerLimits::default()
        };
        let server = Demo::default()
            .server()
            .limits(limits)
            .start()
            .await
            .unwrap();
        let mut child = Command::new(command())
            .args([
                "listen",
                &endpoint(&server),
                ECHO,
                "event Action<int> Progress",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        watch::eventually("it is there", || server.clients().len() == 1).await;
        // While it lives it stays, however silent it is.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(server.clients().len(), 1);
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        watch::eventually("its place is free", || server.stats().connections == 0).await;
        // It comes back when it goes on.
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        watch::eventually("it is back", || server.clients().len() == 1).await;
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
