//! The command over every transport, with every codec, and the options of TLS.

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::{Running, call, run, scratch, serve, serve_at, witrpc};

/// One of the test certificates.
fn cert(name: &str) -> String {
    format!("{}/../tests/certs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn contract() -> String {
    format!(
        "{}/../examples/demo-echo.witrpc.json",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn pin() -> String {
    let pin = std::fs::read_to_string(cert("server.sha256")).unwrap();
    pin.trim().to_owned()
}

/// What a server needs to be one with TLS, asking clients for certificates or not.
fn identity() -> [String; 4] {
    [
        "--cert".into(),
        cert("server.pem"),
        "--key".into(),
        cert("server-key.pem"),
    ]
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn one_server_is_reached_by_every_kind_of_endpoint() {
    let pipe = format!("pipe://witrpc-cli-{}", std::process::id());
    let file = format!("pipe://{}", scratch("socket").display());
    let endpoints = [
        "tcp://127.0.0.1:0",
        "tls://127.0.0.1:0",
        "ws://127.0.0.1:0/api/",
        "wss://localhost:0/",
        &pipe,
        &file,
        "tcp://[::1]:0",
    ];
    let mut process =
        Running::start([&["serve", "--demo"][..], &endpoints, &strs(&identity())].concat());
    let mut stdout = BufReader::new(process.child.stdout.take().unwrap());
    for (given, has_tls) in endpoints.into_iter().zip(
        [false, true, false, true]
            .into_iter()
            .chain(std::iter::repeat(false)),
    ) {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let endpoint = line.trim_end().strip_prefix("listening ").unwrap();
        let scheme = given.split("://").next().unwrap();
        assert!(endpoint.starts_with(&format!("{scheme}://")), "{line}");
        assert!(!endpoint.ends_with(":0"), "{line}");
        let ca = cert("ca.pem");
        let trust: &[&str] = if has_tls { &["--ca-file", &ca] } else { &[] };
        let args = [&["int Add(int, int)", "2", "3"], trust].concat();
        let ended = call(endpoint, &args);
        assert_eq!(
            (ended.code, &*ended.stdout, &*ended.stderr),
            (0, "5\n", ""),
            "{endpoint}"
        );
    }
}

#[test]
fn every_codec_carries_what_the_contract_declares() {
    let person = r#"{"Name":"Åsa","Age":3,"Favourite":4,"Home":null,"Tags":["a"],"Scores":{"x":1},"Photo":"AQID","Born":"2026-11-30T05:06:07Z","Height":1.5}"#;
    for codec in ["json", "memorypack", "messagepack", "protobuf"] {
        let server = serve(&["--codec", codec]);
        let with = ["--codec", codec, "--contract", &contract()];
        for (args, expected) in [
            (&["int Add(int, int)", "2", "3"][..], "5\n"),
            (&["Money", "1.10"], "1.10\n"),
            (&["Paint", "7"], "7\n"),
            (
                &["Ints", "[]"],
                if codec == "protobuf" {
                    "null\n"
                } else {
                    "[]\n"
                },
            ),
        ] {
            let ended = call(&server.endpoint, &[args, &with].concat());
            assert_eq!(
                (ended.code, &*ended.stdout),
                (0, expected),
                "{codec} {args:?}: {ended:?}"
            );
        }
        // A codec that has no form for a part of it says so; here all have.
        let ended = call(
            &server.endpoint,
            &[&["Describe", person], &with[..]].concat(),
        );
        assert_eq!(ended.code, 0, "{codec}: {ended:?}");
        assert!(ended.stdout.contains(r#""Scores":{"x":1},"Photo":"AQID""#));
        // Infinity has no form in JSON only.
        let ended = call(
            &server.endpoint,
            &[&["Double", "Infinity"], &with[..]].concat(),
        );
        if codec == "json" {
            assert_eq!(ended.code, 3, "{ended:?}");
        } else {
            assert_eq!(
                (ended.code, &*ended.stdout),
                (0, "\"Infinity\"\n"),
                "{codec}"
            );
        }
        let mut listener = Running::start(
            [
                &["listen", &server.endpoint, "Demo.IEcho", "PersonChanged"][..],
                &["--count", "1"],
                &with,
            ]
            .concat(),
        );
        let mut notes = BufReader::new(listener.child.stderr.take().unwrap());
        let mut note = String::new();
        notes.read_line(&mut note).unwrap();
        assert!(note.contains("listening at"), "{note}");
        let raise = call(
            &server.endpoint,
            &[&["RaisePerson", person], &with[..]].concat(),
        );
        assert_eq!((raise.code, &*raise.stdout), (0, ""), "{raise:?}");
        let heard = listener.ended();
        assert!(
            heard
                .stdout
                .starts_with(r#"{"event":"PersonChanged","args":[{"Name":"Åsa","Age":3"#),
            "{codec}: {heard:?}"
        );
    }
}

#[test]
fn another_codec_or_a_missing_contract_is_an_error_with_advice() {
    let server = serve(&["--codec", "memorypack"]);
    let ended = call(&server.endpoint, &["string Echo(string)", "hello"]);
    assert_eq!(ended.code, 9, "{ended:?}");
    assert!(ended.stderr.contains("--codec"), "{ended:?}");
    let args = [
        "Demo.Person Describe(Demo.Person)",
        "{}",
        "--codec",
        "memorypack",
    ];
    let ended = call(&server.endpoint, &args);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("Demo.Person"), "{ended:?}");
    let ended = call(&server.endpoint, &["string Ping()", "--codec", "xml"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("memorypack"), "{ended:?}");
    assert!(server.executed().is_empty());
}

#[test]
fn a_server_is_trusted_by_authority_name_or_pin() {
    let server = serve_at("tls://127.0.0.1:0", &strs(&identity()));
    let (ca, stranger, pin) = (cert("ca.pem"), cert("stranger.pem"), pin());
    let colons: Vec<_> = pin
        .as_bytes()
        .chunks(2)
        .map(String::from_utf8_lossy)
        .collect();
    let colons = colons.join(":").to_uppercase();
    let wrong_pin = "0".repeat(64);
    for (args, code, text) in [
        (&["--ca-file", &*ca][..], 0, ""),
        (&["--ca-file", &ca, "--server-name", "localhost"], 0, ""),
        (&["--pin", &pin], 0, ""),
        (&["--pin", &wrong_pin, "--pin", &colons], 0, ""),
        (&["--pin", &wrong_pin], 11, "check --ca-file"),
        (&["--ca-file", &stranger], 11, "certificate is not accepted"),
        (
            &["--ca-file", &ca, "--server-name", "other"],
            11,
            "--server-name",
        ),
        (
            &["--ca-file", "/no/such/file"],
            3,
            "--ca-file: can't read /no/such/file",
        ),
        (&["--ca-file", &pin], 3, "--ca-file: can't read"),
        (&["--pin", "abc"], 2, "64 hexadecimal digits"),
        (&["--pin", &pin, "--ca-file", &ca], 2, "cannot be used with"),
        (&["--key", &ca], 2, "--cert"),
        (&["--system-ca"], 2, "--ca-file"),
    ] {
        let ended = call(&server.endpoint, &[&["string Ping()"], args].concat());
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(text), "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, if code == 0 { "\"pong\"\n" } else { "" });
    }
    assert_eq!(server.executed().len(), 4);
}

#[test]
fn a_client_shows_a_certificate_where_one_is_asked_for() {
    let ca = cert("ca.pem");
    let server = serve_at(
        "wss://localhost:0/",
        &[&strs(&identity())[..], &["--client-ca", &ca]].concat(),
    );
    // Certificate and key in one file, and in two.
    let both = common::TempFile::new(&format!(
        "{}{}",
        std::fs::read_to_string(cert("client-key.pem")).unwrap(),
        std::fs::read_to_string(cert("client.pem")).unwrap()
    ));
    let (certificate, key) = (cert("client.pem"), cert("client-key.pem"));
    for (args, code, text) in [
        (&["--cert", both.path()][..], 0, ""),
        (&["--cert", &certificate, "--key", &key], 0, ""),
        (&[], 11, "certificate"),
        (
            &["--cert", &certificate],
            3,
            "private key: there is none in it",
        ),
    ] {
        let args = [&["string Ping()", "--ca-file", &ca], args].concat();
        let ended = call(&server.endpoint, &args);
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(text), "{args:?}: {ended:?}");
    }
}

#[test]
fn what_was_meant_to_protect_is_not_passed_over() {
    let ca = cert("ca.pem");
    let server = serve(&[]);
    let ended = call(&server.endpoint, &["string Ping()", "--ca-file", &ca]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("--ca-file is for tls:// and wss://"));
    let ended = run(["serve", "--demo", "tls://127.0.0.1:0"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("needs a certificate"), "{ended:?}");
    // What is wrong with an endpoint comes first.
    let ended = run(["serve", "--demo", "http://a:1"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("unknown scheme"), "{ended:?}");
    let identity = identity();
    let args = [
        &["serve", "--demo", "tcp://127.0.0.1:0"][..],
        &strs(&identity),
    ]
    .concat();
    let ended = run(args);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("--cert is for"), "{ended:?}");
}

#[cfg(unix)]
#[test]
fn a_pipe_has_the_permissions_that_are_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    for (options, expected) in [(&[][..], 0o600), (&["--pipe-mode", "660"], 0o660)] {
        let path = scratch("socket");
        let server = serve_at(&format!("pipe://{}", path.display()), options);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected);
        assert_eq!(call(&server.endpoint, &["string Ping()"]).code, 0);
    }
    let ended = run(["serve", "--demo", "pipe://x", "--pipe-mode", "rw"]);
    assert_eq!(ended.code, 2, "{ended:?}");
}

/// Encryption and tokens go over everything.
#[test]
fn encryption_and_tokens_go_over_websockets_and_pipes() {
    let pipe = format!("pipe://witrpc-cli-sealed-{}", std::process::id());
    for endpoint in ["ws://127.0.0.1:0/api/", &pipe] {
        let options = ["--encrypt", "--token", "t", "--codec", "messagepack"];
        let server = serve_at(endpoint, &options);
        let args = [&["int AddOne(int)", "4"][..], &options].concat();
        let ended = call(&server.endpoint, &args);
        assert_eq!((ended.code, &*ended.stdout), (0, "5\n"), "{ended:?}");
        let args = ["string Ping()", "--encrypt", "--token", "u"];
        assert_eq!(call(&server.endpoint, &args).code, 7);
    }
}

/// A path that the server does not serve is refused with its reason.
#[test]
fn a_wrong_websocket_path_is_named() {
    let server = serve_at("ws://127.0.0.1:0/api/", &[]);
    let wrong = server.endpoint.replace("/api/", "/other/");
    let ended = call(&wrong, &["string Ping()"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stderr.contains("404"), "{ended:?}");
    let mut command = witrpc();
    let out = command
        .args(["call", "ws://127.0.0.1:1", "Demo.IEcho", "string Ping()"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(4), "{out:?}");
}
