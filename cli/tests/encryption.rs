//! Encrypted calls with a .NET peer, both ways, and between commands of this program. What needs the
//! peer prints a line `skipped: ...` where there is none; with WITRPC_REQUIRE_ALL=1 it fails.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{TempFile, call, json, run, serve};
use witrpc::client::Client;
use witrpc::{ErrorCode, Outcome};

/// The program of the .NET peer.
fn peer() -> Option<PathBuf> {
    let beside = || {
        let shared = std::env::var_os("WITRPC_SHARED").map(PathBuf::from);
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
        shared.unwrap_or_else(beside).join("peer/run")
    };
    let path = std::env::var_os("WITRPC_PEER").map_or_else(beside, PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    let required = std::env::var("WITRPC_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!required, "no .NET peer at {}", path.display());
    println!("skipped: encryption with a .NET peer: none found (WITRPC_PEER)");
    None
}

/// A .NET server; killed when it is dropped.
struct DotNet {
    child: Child,
    endpoint: String,
}

impl DotNet {
    fn serve(peer: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(peer)
            .args(["serve", "--listen", "tcp:0"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let port = line.trim_end().strip_prefix("ready ").unwrap();
        Self {
            endpoint: format!("tcp://127.0.0.1:{port}"),
            child,
        }
    }
}

impl Drop for DotNet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_dotnet_client_makes_all_its_calls_to_our_encrypting_server() {
    let Some(peer) = peer() else { return };
    for token in [&[][..], &["--token", "s3cret"]] {
        let server = serve(&[&["--encrypt"], token].concat());
        let address = server.endpoint.strip_prefix("tcp://").unwrap();
        let output = Command::new(&peer)
            .args([
                "client",
                "--connect",
                &format!("tcp:{address}"),
                "--encrypt",
            ])
            .args(token)
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let failed: Vec<_> = stdout
            .lines()
            .filter(|l| !l.contains("\"ok\":true"))
            .collect();
        assert_eq!(output.status.code(), Some(0), "{failed:#?}");
        let last = stdout.trim_end().lines().last().unwrap();
        assert!(last.ends_with(" passed, 0 failed"), "{last}");
        assert!(server.executed().len() > 50);
    }
}

#[test]
fn our_client_makes_encrypted_calls_to_a_dotnet_server() {
    let Some(peer) = peer() else { return };
    for token in [&[][..], &["--token", "s3cret"]] {
        let server = DotNet::serve(&peer, &[&["--encrypt"], token].concat());
        let text = format!("{:?}", "h\u{e9}\u{1f600}".repeat(20_000));
        for (method, argument, result) in [
            ("string Echo(string)", &*text, &*text),
            ("int AddOne(int)", "41", "42"),
        ] {
            let args = TempFile::new(&format!("[{argument}]"));
            let ended = call(
                &server.endpoint,
                &[&[method, "--args", args.path(), "--encrypt"], token].concat(),
            );
            assert_eq!(
                (ended.code, ended.stdout.trim_end()),
                (0, result),
                "{}",
                ended.stderr
            );
        }
        // Events come under the same counter as answers.
        let listening = common::Running::start(
            [
                &["listen", &server.endpoint, "Demo.IEcho"][..],
                &["event Action<int> Progress", "--count", "20", "--encrypt"],
                token,
            ]
            .concat(),
        );
        // Until it has subscribed, events pass it by.
        let mut listening = listening;
        while listening.child.try_wait().unwrap().is_none() {
            let args = ["void RaiseMany(int)", "10", "--encrypt"];
            assert_eq!(call(&server.endpoint, &[&args, token].concat()).code, 0);
        }
        let ended = listening.ended();
        assert_eq!(ended.stdout.lines().count(), 20, "{ended:?}");
        assert!(ended.stdout.contains(r#"{"event":"Progress","args":[9]}"#));
    }
}

#[test]
fn who_disagrees_with_a_dotnet_peer_is_told() {
    let Some(peer) = peer() else { return };
    for (theirs, ours) in [(&["--encrypt"][..], &[][..]), (&[], &["--encrypt"])] {
        let server = DotNet::serve(&peer, theirs);
        let ended = call(
            &server.endpoint,
            &[&["string Ping()", "--json"], ours].concat(),
        );
        assert_eq!(ended.code, 11, "{ended:?}");
        let said = json(&ended.stdout);
        assert_eq!(said["code"], "encryption");
        assert!(
            said["message"]
                .as_str()
                .unwrap()
                .contains("switch encryption on")
        );
        let server = serve(theirs);
        let address = server.endpoint.strip_prefix("tcp://").unwrap();
        let output = Command::new(&peer)
            .args(["call", "--connect", &format!("tcp:{address}")])
            .args(ours)
            .args(["Ping", "[]"])
            .output()
            .unwrap();
        assert!(!output.status.success(), "{output:?}");
        assert!(server.executed().is_empty());
    }
}

/// On one connection, encrypted or not: the server takes another token, the client's file follows.
#[test]
fn a_token_is_rotated_at_a_dotnet_server() {
    let Some(peer) = peer() else { return };
    for encrypted in [false, true] {
        let (theirs, ours) = (TempFile::new("one\n"), TempFile::new("one\n"));
        let mut args = vec!["--token-file", theirs.path()];
        if encrypted {
            args.push("--encrypt");
        }
        let server = DotNet::serve(&peer, &args);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = Client::builder(&server.endpoint)
                .encryption(encrypted)
                .token_file(ours.path())
                .build()
                .unwrap();
            client.connect().await.unwrap();
            let echo = client.service("Demo.IEcho").unwrap();
            let up = || echo.call::<i32>("int CountUp(int)", (1,)).into_future();
            assert_eq!(up().await.unwrap(), 1);
            for (n, token) in ["two", "three"].into_iter().enumerate() {
                std::fs::write(&ours.0, token).unwrap();
                std::fs::write(&theirs.0, token).unwrap();
                assert_eq!(up().await.unwrap(), n as i32 + 2);
            }
            std::fs::write(&theirs.0, "four").unwrap();
            let error = up().await.unwrap_err();
            assert_eq!(
                (error.code(), error.outcome(), error.attempts()),
                (ErrorCode::Unauthorized, Outcome::Answered, 2)
            );
            std::fs::write(&ours.0, "four").unwrap();
            assert_eq!(up().await.unwrap(), 4);
            assert_eq!(client.stats().reconnects, 0);
        });
    }
}

#[test]
fn calls_between_commands_are_encrypted_or_refused() {
    let token = TempFile::new("s3cret\r\n");
    let server = serve(&["--encrypt", "--token-file", token.path()]);
    let args = [
        "int AddOne(int)",
        "4",
        "--encrypt",
        "--token-file",
        token.path(),
    ];
    let ended = call(&server.endpoint, &args);
    assert_eq!((ended.code, &*ended.stdout), (0, "5\n"), "{ended:?}");
    let ended = call(&server.endpoint, &["string Ping()", "--token", "s3cret"]);
    assert_eq!(ended.code, 11, "{ended:?}");
    assert!(
        ended.stderr.contains("switch encryption on in the client"),
        "{ended:?}"
    );
    let ended = call(
        &server.endpoint,
        &["string Ping()", "--token", "s3cre", "--encrypt"],
    );
    assert_eq!(ended.code, 7, "{ended:?}");
    // A new token counts at once.
    std::fs::write(&token.0, "n3w").unwrap();
    let ended = call(
        &server.endpoint,
        &["string Ping()", "--token", "n3w", "--encrypt"],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let plain = serve(&[]);
    let ended = call(&plain.endpoint, &["string Ping()", "--encrypt"]);
    assert_eq!(ended.code, 11, "{ended:?}");
    assert!(
        ended.stderr.contains("the server does not encrypt"),
        "{ended:?}"
    );
}

#[test]
fn a_server_whose_token_file_is_not_there_does_not_start() {
    let ended = run([
        "serve",
        "--demo",
        "tcp://127.0.0.1:0",
        "--token-file",
        "/no/such/file",
    ]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("can't read the token from /no/such/file")
    );
    let args = ["--token", "a", "--token-file", "b"];
    let ended = run([&["serve", "--demo", "tcp://127.0.0.1:0"][..], &args].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
}
