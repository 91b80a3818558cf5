//! The command `witrpc` as a client of the live .NET peer.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use witrpc_conformance::peer::Peer;
use witrpc_conformance::process::Guard;

fn witrpc(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_witrpc-under-test"));
    command
        .args(args)
        .env_remove("WITRPC_TOKEN")
        .stdin(Stdio::null());
    command
}

/// Runs `call` on the demo contract: exit code, stdout, stderr.
fn call(endpoint: &str, args: &[&str]) -> (i32, String, String) {
    let out = witrpc(&[&["call", endpoint, "Demo.IEcho"], args].concat())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        out.status.code().unwrap(),
        text(out.stdout),
        text(out.stderr),
    )
}

#[test]
fn results_are_printed_as_json() {
    let Some(peer) = Peer::find() else { return };
    let server = peer.serve(&[]);
    let endpoint = server.endpoint();
    for (args, expected) in [
        (&["int Add(int,int)", "2", "3"][..], "5\n"),
        (&["int Add(int,int)", "2147483647", "1"], "-2147483648\n"),
        (
            &["string Echo(string)", "h\u{e9}\u{1f600}"],
            "\"h\u{e9}\u{1f600}\"\n",
        ),
        (&["string Echo(string)", "null"], "null\n"),
        (&["decimal Money(decimal)", "1.10"], "1.10\n"),
        (
            &["DateTime When(DateTime)", "2026-11-30"],
            "\"2026-11-30T00:00:00\"\n",
        ),
        (&["Task<string> EchoAsync(string)", "x"], "\"x\"\n"),
        (&["void Fire(string)", "x"], ""),
        (&["string get_Name()"], "\"x\"\n"),
    ] {
        assert_eq!(
            call(&endpoint, args),
            (0, expected.to_owned(), String::new()),
            "{args:?}"
        );
    }
}

#[test]
fn each_failure_has_its_exit_code() {
    let Some(peer) = Peer::find() else { return };
    for (options, args, code, text) in [
        (
            &[][..],
            &["string Fail(string)", "x"][..],
            8,
            "by the target of an invocation",
        ),
        (
            &[],
            &["Task FailTaskAsync(string)", "boom"],
            8,
            "Failed to process request: boom",
        ),
        (
            &[],
            &["int Nope()"],
            9,
            "Method not found on service, method name: Nope",
        ),
        (&[], &["int Echo(string)", "x"], 12, "can't be read as int"),
        (
            &["--token", "t"],
            &["string Ping()"],
            7,
            "the server refused the token",
        ),
        (
            &["--encrypt"],
            &["string Ping()"],
            11,
            "the server encrypts",
        ),
        (
            &["--silent-after", "0"],
            &["string Ping()", "--attempt-timeout", "300ms"],
            5,
            "No response arrived",
        ),
        (
            &["--close-after", "1"],
            &["string Ping()"],
            6,
            "Connection was lost",
        ),
        // What a .NET server can't be asked about again is not asked.
        (
            &["--close-after", "1"],
            &["string Ping()", "--retry"],
            6,
            "could execute it twice",
        ),
        (&["--max", "0"], &["string Ping()"], 4, "was not sent"),
    ] {
        let server = peer.serve(options);
        let (got, stdout, stderr) = call(&server.endpoint(), args);
        assert_eq!((got, &*stdout), (code, ""), "{args:?}: {stderr}");
        assert!(
            stderr.contains(text) && stderr.lines().count() == 1,
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn an_idempotent_call_goes_through_outages() {
    let Some(peer) = Peer::find() else { return };
    let server = peer.serve(&["--close-after", "1"]);
    let args = [
        "int CountUp(int)",
        "1",
        "--idempotent",
        "--reconnect=initial_delay=10ms",
        "--json",
    ];
    let (code, stdout, stderr) = call(&server.endpoint(), &args);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    // It ran twice, as it may.
    assert_eq!(
        (&object["result"], &object["attempts"]),
        (&2.into(), &2.into())
    );
    assert_eq!(object["replayed"], false);
}

#[test]
fn events_are_printed_as_json_lines() {
    let Some(peer) = Peer::find() else { return };
    let server = peer.serve(&["--weak"]);
    let endpoint = server.endpoint();
    let mut listener = Guard::start(
        witrpc(&[
            "listen",
            &endpoint,
            "Demo.IEcho",
            "event Action<int> Progress",
            "--count",
            "3",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped()),
    );
    let mut notes = BufReader::new(listener.child().stderr.take().unwrap());
    let mut note = String::new();
    notes.read_line(&mut note).unwrap();
    assert!(note.contains("listening at"), "{note}");
    assert_eq!(call(&endpoint, &["void RaiseMany(int)", "3"]).0, 0);
    let lines = BufReader::new(listener.child().stdout.take().unwrap()).lines();
    let lines: Vec<_> = lines.map(Result::unwrap).collect();
    let expected = [0, 1, 2].map(|n| format!("{{\"event\":\"Progress\",\"args\":[{n}]}}"));
    assert_eq!(lines, expected);
    assert_eq!(listener.wait().code(), Some(0));
}
