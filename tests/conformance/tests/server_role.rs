//! The .NET peer's client against our server: as a library, and as `witrpc serve --demo`. Its script
//! calls every method, repeats one, is refused, and raises every event.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use witrpc::server::EventTypeNames;
use witrpc_conformance::own::Own;
use witrpc_conformance::peer::Peer;
use witrpc_conformance::process::Guard;

/// Runs the peer's script, which must find nothing wrong.
fn passes(peer: &Peer, port: u16, args: &[&str], place: &str) {
    let (summary, failed) = peer.client(port, args);
    assert!(failed.is_empty(), "{place}: {failed:#?}");
    let passed = summary.strip_suffix(" passed, 0 failed");
    let passed: u32 = passed
        .and_then(|n| n.parse().ok())
        .unwrap_or_else(|| panic!("{place}: {summary}"));
    assert!(passed >= 107, "{place}: only {summary}");
}

#[test]
fn the_script_passes_on_the_library() {
    let Some(peer) = Peer::find() else { return };
    for names in [EventTypeNames::Weak, EventTypeNames::Strong] {
        let plain = Own::with(|builder| builder.event_type_names(names));
        let full = Own::with(|builder| {
            Own::composite(builder)
                .event_type_names(names)
                .token("s3cret")
                .ordered_per_connection()
        });
        for client in [&[][..], &["--weak"]] {
            let place = format!("{names:?} server, client {client:?}");
            passes(peer, plain.port, client, &place);
            let with_token = [client, &["--token", "s3cret"]].concat();
            passes(
                peer,
                full.port,
                &with_token,
                &format!("{place}, all options"),
            );
        }
    }
}

#[test]
fn the_script_passes_on_the_command() {
    let Some(peer) = Peer::find() else { return };
    for options in [&[][..], &["--strong", "--token", "s3cret", "--composite"]] {
        let mut process = Guard::start(
            Command::new(env!("CARGO_BIN_EXE_witrpc-under-test"))
                .args(["serve", "--demo", "tcp://127.0.0.1:0"])
                .args(options)
                .env_remove("WITRPC_TOKEN")
                .stdout(Stdio::piped()),
        );
        let mut stdout = BufReader::new(process.child().stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let port = line.trim_end().strip_prefix("listening tcp://127.0.0.1:");
        let port = port.unwrap().parse().unwrap();
        for client in [&[][..], &["--weak"]] {
            let token: &[&str] = if options.is_empty() {
                &[]
            } else {
                &["--token", "s3cret"]
            };
            let args = [client, token].concat();
            passes(
                peer,
                port,
                &args,
                &format!("server {options:?}, client {args:?}"),
            );
        }
    }
}

#[test]
fn values_outside_the_script_reach_a_net_client_as_they_should() {
    let Some(peer) = Peer::find() else { return };
    let own = Own::start();
    for (method, arguments, expected) in [
        ("When", "[\"2026-11-30\"]", "\"2026-11-30T00:00:00\""),
        ("Money", "[1.10]", "1.10"),
        ("Double", "[-0]", "-0"),
        ("AddOne", "[2147483647]", "-2147483648"),
        ("Overload", "[\"\u{1f600}\"]", "2"),
        (
            "FailTaskAsync",
            "[\"\"]",
            "CallException: 500 Failed to process request:",
        ),
        (
            "FailAsync",
            "[null]",
            "CallException: 500 Failed to process request: One or more errors occurred. (Operation is \
             not valid due to the current state of the object.)",
        ),
    ] {
        assert_eq!(
            peer.call(own.port, method, arguments),
            expected,
            "{method} {arguments}"
        );
    }
}
