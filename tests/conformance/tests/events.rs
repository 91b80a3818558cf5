//! Events between us and the live .NET peer, beyond what its script checks: order over several kinds,
//! and targets, of which a .NET client notices nothing.

use std::time::Duration;

use witrpc::client::Client;
use witrpc::server::{EventTypeNames, Verdict};
use witrpc_cli::demo;
use witrpc_conformance::WATCHDOG;
use witrpc_conformance::own::{Own, runtime};
use witrpc_conformance::peer::Peer;

const ECHO: &str = "Demo.IEcho";

#[test]
fn events_of_several_kinds_come_in_the_order_in_which_a_net_server_raised_them() {
    let Some(peer) = Peer::find() else { return };
    for options in [&[][..], &["--weak"]] {
        let server = peer.serve(options);
        let order = async {
            let client = Client::builder(&server.endpoint()).build().unwrap();
            client.connect().await.unwrap();
            let echo = client.service_of(demo::contract());
            let lines = ["Nothing", "PersonChanged", "Progress"];
            let mut events = echo.subscribe(lines).unwrap().stream();
            let (sender, handled) = std::sync::mpsc::channel();
            let _handlers = lines.map(|line| {
                let sender = sender.clone();
                echo.on_event(line, move |event| {
                    sender
                        .send((event.name().to_owned(), event.json().unwrap()))
                        .unwrap();
                })
                .unwrap()
            });
            for n in 0..50 {
                let calls = [
                    ("RaiseMany", "[2]"),
                    ("RaiseNull", "[]"),
                    ("RaiseNothing", "[]"),
                ];
                for (method, arguments) in calls {
                    echo.call_json::<()>(method, arguments)
                        .json()
                        .await
                        .unwrap();
                }
                for (name, arguments) in [
                    ("Progress", "[0]"),
                    ("Progress", "[1]"),
                    ("PersonChanged", "[null,null]"),
                    ("Nothing", "[]"),
                ] {
                    let event = events.next().await.unwrap();
                    let json = event.json().unwrap();
                    assert_eq!((event.name(), &*json), (name, arguments), "{n}");
                    let handled = handled.recv_timeout(WATCHDOG).unwrap();
                    assert_eq!((&*handled.0, &*handled.1), (name, arguments), "{n}");
                }
            }
        };
        runtime()
            .block_on(async { tokio::time::timeout(WATCHDOG, order).await })
            .expect("it ends in time");
    }
}

#[test]
fn a_net_client_gets_the_events_that_are_meant_for_it_and_no_others() {
    let Some(peer) = Peer::find() else { return };
    for names in [EventTypeNames::Weak, EventTypeNames::Strong] {
        let own = Own::with(|builder| {
            builder
                .event_type_names(names)
                .validator(|credentials| match credentials.token {
                    name @ ("ann" | "bob") => Verdict::Accepted(name.into()),
                    _ => Verdict::Refused,
                })
                .on_connected(|connection| {
                    let group = format!("group of {}", connection.principal());
                    connection.join(&group).unwrap();
                })
        });
        let publisher = own.publisher();
        let raising = own.spawn(async move {
            loop {
                for (to, n) in [
                    (publisher.to_principal("ann"), 4711),
                    (publisher.to_group("group of ann"), 4712),
                    (publisher.to_principal("bob"), 4713),
                    (publisher.to_group("group of bob"), 4714),
                ] {
                    to.raise(ECHO, "Progress", (n,)).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        // Its script expects no such events, and says so; what it got is what counts here.
        let out = peer.script(own.port, &["--token", "ann"]);
        raising.abort();
        let got = |n: i32| out.contains(&format!("{{\"event\":\"Progress\",\"args\":[{n}]}}"));
        assert_eq!(
            [4711, 4712, 4713, 4714].map(got),
            [true, true, false, false],
            "{names:?}"
        );
        // The sender of an EventHandler, in whose name .NET servers lose the event in the strong form.
        assert!(out.contains("{\"event\":\"Changed\""), "{names:?}");
    }
}
