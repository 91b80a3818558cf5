//! `witrpc call`, the real binary against `witrpc serve --demo`.

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use common::{
    Ended, Running, TempFile, call, json, mute, run, run_with_input, serve, serve_at, vacant,
    witrpc,
};

fn fails(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert_eq!(ended.stdout, "", "{ended:?}");
    assert!(ended.stderr.starts_with("witrpc: "), "{ended:?}");
    assert_eq!(ended.stderr.matches('\n').count(), 1, "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "no {part:?}: {ended:?}");
    }
}

#[test]
fn results_are_printed_and_nothing_else() {
    let server = serve(&[]);
    for (args, expected) in [
        (&["int Add(int,int)", "2", "3"][..], "5\n"),
        (
            &["int Add(int a, int b);", "2147483647", "1"],
            "-2147483648\n",
        ),
        (&["Add(int, int)", "-2", "-3"], "-5\n"),
        (&["string Echo(string)", "h\u{e9}llo"], "\"h\u{e9}llo\"\n"),
        (&["string Echo(string)", "null"], "null\n"),
        (&["string Echo(string)", "a\u{1b}\n"], "\"a\\u001B\\n\"\n"),
        (&["decimal Money(decimal)", "1.10"], "1.10\n"),
        (
            &["decimal Money(decimal)", "-79228162514264337593543950335"],
            "-79228162514264337593543950335\n",
        ),
        (&["double Double(double)", "-5E-324"], "-5E-324\n"),
        (
            &["object Anything(object)", "{\"a\": [1.0e5, 0.10]}"],
            "{\"a\":[1.0e5,0.10]}\n",
        ),
        (
            &["DateTime When(DateTime)", "2026-11-30"],
            "\"2026-11-30T00:00:00\"\n",
        ),
        (
            &["TimeSpan Span(TimeSpan)", "--", "-01:00:00"],
            "\"-01:00:00\"\n",
        ),
        (&["int? Maybe(int?)", "null"], "null\n"),
        (&["byte[] Blob(byte[])", "AQID"], "\"AQID\"\n"),
        (&["void Fire(string)", "x"], ""),
        (&["Task DelayAsync(int)", "0"], ""),
        (&["string get_Name()"], "\"x\"\n"),
        (&["int Overload(string)", "five"], "4\n"),
        (
            &["string Overload(int, string)", "5", "five"],
            "\"five5\"\n",
        ),
    ] {
        let ended = call(&server.endpoint, args);
        assert_eq!(
            (ended.code, &*ended.stdout, &*ended.stderr),
            (0, expected, ""),
            "{args:?}"
        );
    }
}

#[test]
fn arguments_come_from_files_and_stdin_too() {
    let server = serve(&[]);
    let file = TempFile::new(" [ 2,\n 3 ] ");
    let add = ["call", &server.endpoint, "Demo.IEcho", "int Add(int,int)"];
    for (more, input) in [
        (&["--args", file.path()][..], ""),
        (&["--args", "-"], "[2,3]"),
        (&["-"], "[2,3]\n"),
    ] {
        let ended = run_with_input([&add, more].concat(), input);
        assert_eq!(
            (ended.code, &*ended.stdout),
            (0, "5\n"),
            "{more:?} {ended:?}"
        );
    }
    let ended = run_with_input([&add, &["-"][..]].concat(), "[2]");
    fails(&ended, 3, &["Add takes 2 arguments and got 1"]);
    let ended = run_with_input([&add, &["-"][..]].concat(), "{\"a\":2}");
    fails(&ended, 3, &["JSON array of the arguments is expected"]);
    let ended = run([&add, &["--args", "/no/such/file"][..]].concat());
    fails(&ended, 3, &["can't read the arguments from /no/such/file"]);
}

#[test]
fn what_is_wrong_before_the_call_is_told_without_a_server() {
    let nobody = vacant();
    for (args, parts) in [
        (
            &["int Add(int,int"][..],
            &["method line \"int Add(int,int\"", "column 16"][..],
        ),
        (&["int Add(int,int)", "2"], &["takes 2 arguments and got 1"]),
        (
            &["int Add(int,int)", "2", "x"],
            &["argument 2", "\"x\" is no JSON value"],
        ),
        (
            &["int Add(int a,int b)", "2", "9999999999"],
            &["argument 2 \"b\"", "9999999999"],
        ),
        (&["string Echo(string)", "123"], &["write '\"123\"'"]),
        (&["Person Describe(Person)", "{}"], &["Person is neither"]),
        (
            &["int Count()", "--token-file", "/no/such/file"],
            &["/no/such/file"],
        ),
        (
            &["int Count()", "--contract", "/no/such/file"],
            &["contract file /no/such/file"],
        ),
        (
            &[
                "int Count()",
                "--invocation-id",
                "00000000-0000-0000-0000-000000000000",
            ],
            &["all zeros"],
        ),
    ] {
        fails(&call(&nobody, args), 3, parts);
    }
    for endpoint in ["127.0.0.1:5", "http://h:1", "tcp://h", "tcp://*:1"] {
        fails(&call(endpoint, &["int Count()"]), 3, &["endpoint"]);
    }
    let ended = run(["call", &nobody, "not a contract", "int Count()"]);
    fails(&ended, 3, &["contract \"not a contract\""]);
}

#[test]
fn usage_errors_are_code_2() {
    for args in [
        &["call"][..],
        &["call", "tcp://h:1", "C", "M()", "--timeuot", "5s"],
        &["call", "tcp://h:1", "C", "M()", "--timeout", "5"],
        &["call", "tcp://h:1", "C", "M()", "--reconnect=sometimes"],
        &["call", "tcp://h:1", "C", "M()", "--retries", "-1"],
        &["serve", "tcp://h:1"],
        &["nonsense"],
        &[],
    ] {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (2, ""), "{args:?} {ended:?}");
        assert!(!ended.stderr.is_empty());
        let in_json = run([args, &["--json"]].concat());
        assert_eq!(in_json.code, 2);
        let object = json(&in_json.stdout);
        assert_eq!(
            (&object["ok"], &object["code"]),
            (&false.into(), &"usage".into())
        );
        assert_eq!(in_json.stderr, "");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let version = run(["--version"]);
    assert_eq!(version.code, 0);
    assert_eq!(
        version.stdout,
        format!("witrpc {}\n", env!("CARGO_PKG_VERSION"))
    );
    for args in [&["--help"][..], &["call", "--help"], &["help", "listen"]] {
        let help = run(args);
        assert_eq!((help.code, &*help.stderr), (0, ""));
        assert!(help.stdout.contains("Exit codes:"), "{args:?}");
    }
    assert!(
        run(["call", "--help"])
            .stdout
            .contains("A word that is no JSON is taken as text")
    );
}

#[test]
fn the_same_command_is_a_function() {
    let code = |args: &[&str]| witrpc_cli::run(args.iter().map(Into::into));
    let server = serve(&[]);
    assert_eq!(
        code(&[
            "witrpc",
            "call",
            &server.endpoint,
            "Demo.IEcho",
            "void Fire(string)",
            "x"
        ]),
        0
    );
    assert_eq!(
        code(&[
            "witrpc",
            "call",
            &server.endpoint,
            "Demo.IEcho",
            "void Fire(string)"
        ]),
        3
    );
    assert_eq!(code(&["witrpc", "nonsense"]), 2);
    assert_eq!(server.executed(), ["Fire"]);
}

#[test]
fn a_call_that_was_not_sent_is_code_4() {
    let endpoint = vacant();
    let ended = call(&endpoint, &["int Count()"]);
    fails(
        &ended,
        4,
        &[
            &format!("can't connect to {endpoint}"),
            "refused",
            "was not sent",
        ],
    );
    let (_listener, endpoint) = mute();
    let ended = call(&endpoint, &["int Count()", "--connect-timeout", "100ms"]);
    fails(&ended, 4, &["did not finish the handshake in time (100ms)"]);
    let ended = call(&endpoint, &["int Count()", "--timeout", "100ms"]);
    fails(&ended, 4, &["no connection within 100ms"]);
    let ended = call(
        &vacant(),
        &["int Count()", "--timeout", "200ms", "--reconnect"],
    );
    fails(&ended, 4, &["no connection within 200ms", "refused"]);
    let ended = call(
        "tcp://no-such-host.invalid:1",
        &["int Count()", "--timeout", "20s"],
    );
    fails(&ended, 4, &["no-such-host.invalid"]);
}

#[test]
fn a_timeout_is_code_5() {
    let server = serve(&[]);
    let ended = call(
        &server.endpoint,
        &["Task DelayAsync(int)", "60000", "--timeout", "1s"],
    );
    fails(
        &ended,
        5,
        &[
            "No response arrived",
            "Demo.IEcho.DelayAsync at tcp://",
            "may have run",
        ],
    );
    let ended = call(
        &server.endpoint,
        &[
            "Task DelayAsync(int)",
            "60000",
            "--attempt-timeout",
            "100ms",
            "--json",
        ],
    );
    assert_eq!((ended.code, &*ended.stderr), (5, ""));
    let object = json(&ended.stdout);
    assert_eq!(object["code"], "timeout");
    assert_eq!(object["outcome"], "unknown");
    assert_eq!(object["attempts"], 1);
    assert!(object["elapsed_ms"].as_f64().unwrap() >= 100.0);
    assert_eq!(server.executed(), ["DelayAsync"; 2]);
}

#[test]
fn a_connection_lost_in_the_middle_is_code_6() {
    let server = serve(&["--close-after", "1"]);
    let ended = call(&server.endpoint, &["int CountUp(int)", "1"]);
    fails(
        &ended,
        6,
        &[
            "Connection was lost before a response arrived",
            "may have run",
        ],
    );
    assert_eq!(server.executed(), ["CountUp"]);
}

#[test]
fn refusals_are_codes_7_to_10() {
    let server = serve(&["--token", "s3cret"]);
    let ended = call(&server.endpoint, &["int Count()"]);
    fails(&ended, 7, &["the server refused the token", "--token"]);
    let ended = call(&server.endpoint, &["int Count()", "--token", "wrong"]);
    fails(&ended, 7, &[]);
    assert!(server.executed().is_empty());

    let server = serve(&[]);
    let ended = call(&server.endpoint, &["string Fail(string)", "boom"]);
    fails(
        &ended,
        8,
        &["Failed to process request: Exception has been thrown by the target of an invocation."],
    );
    let ended = call(&server.endpoint, &["int Nope()"]);
    fails(
        &ended,
        9,
        &[
            "Method not found on service, method name: Nope",
            "did not run",
        ],
    );

    let server = serve(&["--dedup-records", "0"]);
    let ended = call(&server.endpoint, &["int Count()"]);
    fails(&ended, 10, &["did not run"]);
    assert!(server.executed().is_empty());
}

#[test]
fn a_server_of_another_protocol_is_code_11() {
    use witrpc::wire::{Envelope, InitializationResponse, Kind, frame};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut input = [0; 4];
        stream.read_exact(&mut input).unwrap();
        let mut body = vec![0; i32::from_le_bytes(input).try_into().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let request = Envelope::decode(&body.into()).unwrap().unwrap();
        let mut out = bytes::BytesMut::new();
        frame::write(&mut out, request.id, Kind::INITIALIZATION, |out| {
            let response = InitializationResponse {
                protocol_version: 4,
                error_message: Some("Protocol mismatch: client 3, server 4".into()),
                ..InitializationResponse::default()
            };
            response.encode(out);
        });
        stream.write_all(&out).unwrap();
    });
    let ended = call(&endpoint, &["int Count()"]);
    fails(
        &ended,
        11,
        &["the server refused the connection: Protocol mismatch: client 3, server 4"],
    );
    server.join().unwrap();
}

#[test]
fn a_result_of_another_type_is_code_12() {
    let server = serve(&[]);
    let ended = call(&server.endpoint, &["int Echo(string)", "x"]);
    fails(
        &ended,
        12,
        &["can't be read as int", "a string where an int", "has run"],
    );
    let ended = call(&server.endpoint, &["int Echo(string)", "x", "--json"]);
    let object = json(&ended.stdout);
    assert_eq!(
        (&object["code"], &object["outcome"]),
        (&"protocol".into(), &"answered".into())
    );
}

#[test]
fn signals_cancel_the_call() {
    let server = serve(&[]);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let before = server.executed().len();
        let running = Running::start([
            "call",
            &server.endpoint,
            "Demo.IEcho",
            "Task DelayAsync(int)",
            "-1",
        ]);
        while server.executed().len() == before {
            std::thread::yield_now();
        }
        running.signal(signal);
        fails(
            &running.ended(),
            code,
            &["the call was cancelled", "may have run"],
        );
    }
    // While there is no connection yet.
    let (listener, endpoint) = mute();
    let running = Running::start(["call", &endpoint, "Demo.IEcho", "int Count()", "--json"]);
    let _accepted = listener.accept().unwrap();
    running.signal("INT");
    let ended = running.ended();
    assert_eq!(ended.code, 130);
    let object = json(&ended.stdout);
    assert_eq!(
        (&object["code"], &object["outcome"]),
        (&"cancelled".into(), &"not_sent".into())
    );
}

#[test]
fn json_is_one_object_for_success_and_failure() {
    let server = serve(&[]);
    let ended = call(
        &server.endpoint,
        &["decimal Money(decimal)", "1.50", "--json"],
    );
    assert_eq!((ended.code, &*ended.stderr), (0, ""));
    assert!(
        ended.stdout.contains("\"result\":1.50,"),
        "{}",
        ended.stdout
    );
    let object = json(&ended.stdout);
    assert_eq!(object["ok"], true);
    assert_eq!(object["code"], "ok");
    assert_eq!(object["outcome"], "answered");
    assert_eq!(object["attempts"], 1);
    assert_eq!(object["replayed"], false);
    assert!(object["elapsed_ms"].as_f64().unwrap() > 0.0);

    let ended = call(&server.endpoint, &["void Fire(string)", "x", "--json"]);
    assert_eq!(json(&ended.stdout)["result"], serde_json::Value::Null);

    let ended = call(
        &server.endpoint,
        &["Task FailTaskAsync(string)", "a\nb", "--json"],
    );
    assert_eq!((ended.code, &*ended.stderr), (8, ""));
    let object = json(&ended.stdout);
    assert_eq!(object["ok"], false);
    assert_eq!(object["code"], "remote");
    assert_eq!(object["message"], "Failed to process request");
    assert_eq!(object["details"], "a\nb");
    assert_eq!(object["outcome"], "answered");
    assert_eq!(object["attempts"], 1);
    assert_eq!(object["replayed"], false);
    assert_eq!(object["exit_code"], 8);

    let ended = call(&vacant(), &["int Count()", "--json"]);
    let object = json(&ended.stdout);
    assert_eq!(
        (&object["code"], &object["outcome"]),
        (&"transport".into(), &"not_sent".into())
    );
}

#[test]
fn a_retried_call_executes_once() {
    // With nothing more said the client comes back after a second.
    let server = serve(&["--close-after", "1"]);
    let ended = call(&server.endpoint, &["int CountUp(int)", "1", "--retry"]);
    assert_eq!((ended.code, &*ended.stdout), (0, "1\n"), "{ended:?}");
    let ended = call(&vacant(), &["int CountUp(int)", "1", "--retry"]);
    assert_eq!(ended.code, 4, "{ended:?}");

    let fast = "--reconnect=initial_delay=10ms";
    // The connection goes after the call ran: the repetition gets the stored answer.
    let server = serve(&["--close-after", "1"]);
    let ended = call(
        &server.endpoint,
        &["int CountUp(int)", "1", "--retry", fast, "--json"],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let object = json(&ended.stdout);
    assert_eq!(object["result"], 1);
    assert_eq!(
        (&object["attempts"], &object["replayed"]),
        (&2.into(), &true.into())
    );
    assert_eq!(server.executed(), ["CountUp"]);

    // The same for a call that failed: so the failure is an answer, too.
    let server = serve(&["--close-after", "1"]);
    let ended = call(
        &server.endpoint,
        &["string Fail(string)", "x", "--retry", fast, "--json"],
    );
    assert_eq!(ended.code, 8, "{ended:?}");
    assert_eq!(json(&ended.stdout)["replayed"], true);
    assert_eq!(server.executed(), ["Fail"]);

    // It goes before the call runs: the repetition is the one that runs.
    let server = serve(&["--close-before", "1"]);
    let ended = call(
        &server.endpoint,
        &["int CountUp(int)", "1", "--retry", fast, "--json"],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let object = json(&ended.stdout);
    assert_eq!(object["result"], 1);
    assert_eq!(
        (&object["attempts"], &object["replayed"]),
        (&2.into(), &false.into())
    );
    assert_eq!(server.executed(), ["CountUp"]);
}

#[test]
fn without_reconnection_a_lost_call_has_nowhere_to_go() {
    let server = serve(&["--close-after", "1"]);
    let args = [
        "int CountUp(int)",
        "1",
        "--retry",
        "--reconnect=off",
        "--retries",
        "1",
    ];
    let ended = call(&server.endpoint, &args);
    assert_eq!(ended.code, 6, "{ended:?}");
    assert_eq!(server.executed(), ["CountUp"]);
}

#[test]
fn retries_are_limited_and_off_by_default() {
    let server = serve(&["--close-every", "1"]);
    let fast = "--reconnect=initial_delay=1ms,max_delay=1ms,stable_after=0";
    let ended = call(&server.endpoint, &["int CountUp(int)", "1", fast, "--json"]);
    assert_eq!(
        (ended.code, &json(&ended.stdout)["attempts"]),
        (6, &1.into())
    );
    let args = [
        "int CountUp(int)",
        "1",
        fast,
        "--retries",
        "1",
        "--idempotent",
        "--json",
    ];
    let ended = call(&server.endpoint, &args);
    assert_eq!(
        (ended.code, &json(&ended.stdout)["attempts"]),
        (6, &2.into())
    );
    assert!(server.executed().is_empty());
}

#[test]
fn an_invocation_id_is_recognised_from_another_process() {
    let server = serve(&[]);
    let id = ["--invocation-id", "00112233-4455-6677-8899-aabbccddeeff"];
    let count = |by: &str| {
        call(
            &server.endpoint,
            &["int CountUp(int)", by, id[0], id[1], "--json"],
        )
    };
    let (first, second) = (json(&count("5").stdout), json(&count("5").stdout));
    assert_eq!(
        (&first["result"], &first["replayed"]),
        (&5.into(), &false.into())
    );
    assert_eq!(
        (&second["result"], &second["replayed"]),
        (&5.into(), &true.into())
    );
    let other = count("6");
    assert_eq!(other.code, 9, "{other:?}");
    assert_eq!(server.executed(), ["CountUp"]);
}

#[test]
fn with_reconnect_a_call_waits_for_its_server() {
    let endpoint = vacant();
    let waiting = Running::start([
        "call",
        "--reconnect",
        "fleet,initial_delay=10ms,max_delay=50ms",
        "--timeout",
        "25s",
        &endpoint,
        "Demo.IEcho",
        "string Ping()",
    ]);
    let _server = serve_at(&endpoint, &[]);
    let ended = waiting.ended();
    assert_eq!((ended.code, &*ended.stdout), (0, "\"pong\"\n"), "{ended:?}");
}

#[test]
fn tokens_come_by_option_file_and_environment() {
    let server = serve(&["--token", "s3cret"]);
    let file = TempFile::new("s3cret\n");
    let wrong = TempFile::new("other");
    let ping = ["string Ping()"];
    for (more, code) in [
        (&["--token", "s3cret"][..], 0),
        (&["--token-file", file.path()], 0),
        (&["--token-file", wrong.path()], 7),
        (&[], 7),
    ] {
        let ended = call(&server.endpoint, &[&ping, more].concat());
        assert_eq!(ended.code, code, "{more:?} {ended:?}");
    }
    let out = witrpc()
        .args(["call", &server.endpoint, "Demo.IEcho", "string Ping()"])
        .env("WITRPC_TOKEN", "s3cret")
        .output()
        .unwrap();
    assert!(out.status.success());
    assert!(!run(["call", "--help"]).stdout.contains("s3cret"));
}

#[test]
fn a_contract_file_checks_lines_and_knows_types() {
    let server = serve(&[]);
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/demo-echo.witrpc.json"
    );
    let contract = ["--contract", file];
    for (args, expected) in [
        (&["Ping"][..], "\"pong\"\n"),
        (&["Color? MaybePaint(Color?)", "7"], "7\n"),
        (
            &["Describe", "{\"Name\":\"Ann\",\"Born\":\"1985-02-03\"}"],
            "{\"Name\":\"Ann\",\"Age\":0,\"Favourite\":0,\"Home\":null,\"Tags\":null,\"Scores\":null,\
             \"Photo\":null,\"Born\":\"1985-02-03T00:00:00\",\"Height\":null}\n",
        ),
    ] {
        let ended = call(&server.endpoint, &[args, &contract].concat());
        assert_eq!((ended.code, &*ended.stdout), (0, expected), "{ended:?}");
    }
    for (args, what) in [
        (&["int Nope()"][..], "has no method"),
        (&["Overload", "5"], "3 overloads"),
        (&["Paint", "Blue"], "travels as a number: write 7"),
    ] {
        fails(
            &call(&server.endpoint, &[args, &contract].concat()),
            3,
            &[what],
        );
    }
    let ended = run([
        "call",
        &server.endpoint,
        "Demo.IOther",
        "Ping",
        "--contract",
        file,
    ]);
    fails(&ended, 3, &["it describes Demo.IEcho, not Demo.IOther"]);
}

#[test]
fn a_call_is_repeated_until_it_fails() {
    let server = serve(&["--close-before", "4"]);
    let ended = call(
        &server.endpoint,
        &["int CountUp(int)", "1", "--repeat", "3"],
    );
    assert_eq!((ended.code, &*ended.stdout), (0, "1\n2\n3\n"));
    let ended = call(
        &server.endpoint,
        &["int CountUp(int)", "1", "--repeat", "3"],
    );
    assert_eq!((ended.code, &*ended.stdout), (6, ""));
    let ended = call(
        &server.endpoint,
        &["int CountUp(int)", "1", "--repeat", "2", "--json"],
    );
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("\"result\":4,") && lines[1].contains("\"result\":5,"));
}

#[test]
fn a_closed_stdout_is_an_error_and_no_panic() {
    let server = serve(&[]);
    let mut child = witrpc()
        .args([
            "call",
            &server.endpoint,
            "Demo.IEcho",
            "int SlowAsync(int,int)",
            "100",
            "1",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(stderr.contains("could not be written"), "{stderr}");
}

#[test]
fn verbose_tells_on_stderr_what_happens() {
    let server = serve(&["--close-before", "1"]);
    let args = [
        "string Ping()",
        "--retry",
        "--reconnect=initial_delay=10ms",
        "-vv",
    ];
    let ended = call(&server.endpoint, &args);
    assert_eq!((ended.code, &*ended.stdout), (0, "\"pong\"\n"));
    for part in [
        " connected ",
        "connection lost",
        " reconnecting ",
        " retrying ",
    ] {
        assert!(ended.stderr.contains(part), "no {part}: {}", ended.stderr);
    }
}
