//! A cell where we are the client: of a server of the peer's that is started for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use uuid::Uuid;
use witrpc::ErrorCode;
use witrpc::client::{Client, ClientBuilder, Service};
use witrpc::transport::tls::TlsClientOptions;
use witrpc_cli::demo;
use witrpc_conformance::WATCHDOG;
use witrpc_conformance::peer::{Peer, PeerServer};

use crate::cell::{Cell, Security, Transport};
use crate::values::{Draw, same};

/// Gives the number of checks that passed, or what did not.
pub(crate) fn run(peer: &Peer, cell: Cell) -> Result<usize, String> {
    let certificates = CertDir::new(cell.seed);
    let (server, endpoint, tls) = start(peer, cell, &certificates)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    let builder = || {
        Client::builder(&endpoint)
            .tls(tls.clone())
            .codec(cell.codec)
            .encryption(cell.security.encrypted)
            .connect_timeout(WATCHDOG)
    };
    let checks = async {
        tokio::time::timeout(2 * WATCHDOG, check(cell, builder))
            .await
            .map_err(|_| "it hangs".to_owned())?
    };
    let result = runtime.block_on(checks);
    drop(server);
    result
}

/// Where a server of the peer's leaves its certificate; removed with all it holds.
struct CertDir(PathBuf);

impl CertDir {
    fn new(seed: u64) -> Self {
        Self(std::env::temp_dir().join(format!("witrpc-matrix-{}-{seed}", std::process::id())))
    }
}

impl Drop for CertDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(
    peer: &Peer,
    cell: Cell,
    certificates: &CertDir,
) -> Result<(PeerServer, String, TlsClientOptions), String> {
    let options = cell.peer_options();
    let mut tls = TlsClientOptions::default();
    Ok(match cell.transport {
        Transport::Tcp => {
            let server = peer.serve_on("tcp:0", &options);
            let endpoint = format!("tcp://127.0.0.1:{}", server.port);
            (server, endpoint, tls)
        }
        Transport::Tls => {
            let dir = certificates.0.to_string_lossy().into_owned();
            let server = peer.serve_on("tls:0", &[&options[..], &["--certdir", &dir]].concat());
            tls.pinned
                .push(fingerprint(&certificates.0.join("tls.pem"))?);
            let endpoint = format!("tls://localhost:{}", server.port);
            (server, endpoint, tls)
        }
        Transport::WebSocket => {
            let server = peer.serve_on("http://localhost:0/api/", &options);
            let endpoint = format!("ws://localhost:{}/api/", server.port);
            (server, endpoint, tls)
        }
        Transport::Pipe => {
            let name = format!("witrpc-matrix-{}-{}", std::process::id(), cell.seed);
            let server = peer.serve_on(&format!("pipe:{name}"), &options);
            (server, format!("pipe://{name}"), tls)
        }
        Transport::Wss => return Err("the peer has no such server".into()),
    })
}

/// The peer's certificate is one of an authority and of a server at once, which only a pin can trust.
fn fingerprint(pem: &Path) -> Result<[u8; 32], String> {
    let der = CertificateDer::from_pem_file(pem).map_err(|e| format!("{}: {e}", pem.display()))?;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
    digest
        .as_ref()
        .try_into()
        .map_err(|_| "not 32 bytes".to_owned())
}

async fn json(echo: &Service, line: &str, arguments: &str) -> Result<String, witrpc::Error> {
    let call = echo.call_json::<()>(line, arguments);
    call.timeout(WATCHDOG).json().await
}

async fn check(cell: Cell, builder: impl Fn() -> ClientBuilder) -> Result<usize, String> {
    let mut passed = 0;
    let failed = |e: witrpc::Error| format!("{e:?}");
    let client = builder().token(cell.token()).build().map_err(failed)?;
    client.connect().await.map_err(failed)?;
    let echo = client.service_of(demo::contract());
    let mut draw = Draw::new(cell.seed);

    for call in draw.echoes(cell.codec) {
        let result = json(&echo, call.line, &format!("[{}]", call.argument)).await;
        match result {
            Ok(result) if same(&result, &call.expected) => passed += 1,
            other => return Err(format!("{}({}): {other:?}", call.line, call.argument)),
        }
    }
    for (line, arguments, expected) in [
        ("Ping", "[]", "\"pong\""),
        ("Add", "[2147483647,2]", "-2147483647"),
        ("Not", "[true]", "false"),
        ("string Overload(int a, string b)", "[5,\"x\"]", "\"x5\""),
        ("set_Name", "[\"n\u{eb}w\"]", "null"),
        ("get_Name", "[]", "\"n\u{eb}w\""),
        ("SlowAsync", "[1,9]", "9"),
        ("DelayAsync", "[1]", "null"),
    ] {
        match json(&echo, line, arguments).await {
            Ok(result) if same(&result, expected) => passed += 1,
            other => return Err(format!("{line} {arguments}: {other:?}")),
        }
    }
    passed += errors(&echo).await?;
    passed += repetition(&echo).await?;
    passed += events(cell, &echo, &mut draw).await?;

    if cell.security
        == (Security {
            encrypted: true,
            token: false,
        })
    {
        // A key pair for a stranger costs more than it shows here.
        return Ok(passed);
    }
    // One with another token, or with one where none is wanted.
    let stranger = builder().token("wrong").build().map_err(failed)?;
    match stranger.connect().await {
        Err(error) if error.code() == ErrorCode::Unauthorized => passed += 1,
        other => return Err(format!("a wrong token: {other:?}")),
    }
    Ok(passed)
}

async fn errors(echo: &Service) -> Result<usize, String> {
    for (line, code, text) in [
        ("Fail", ErrorCode::Remote, "by the target of an invocation"),
        (
            "FailAsync",
            ErrorCode::Remote,
            "One or more errors occurred. (b\u{f6}om)",
        ),
        ("FailTaskAsync", ErrorCode::Remote, "b\u{f6}om"),
    ] {
        match json(echo, line, "[\"b\u{f6}om\"]").await {
            Err(e) if e.code() == code && e.details().is_some_and(|d| d.contains(text)) => {}
            other => return Err(format!("{line}: {other:?}")),
        }
    }
    let open = echo
        .client()
        .service("Demo.IEcho")
        .map_err(|e| e.to_string())?;
    match json(&open, "int Nope()", "[]").await {
        Err(error) if error.code() == ErrorCode::BadRequest => Ok(4),
        other => Err(format!("an unknown method: {other:?}")),
    }
}

/// The same call again is answered and does not run.
async fn repetition(echo: &Service) -> Result<usize, String> {
    let id = Uuid::new_v4();
    let before: i32 = echo.call("Count", ()).await.map_err(|e| e.to_string())?;
    for _ in 0..2 {
        let call = echo.call::<i32>("CountUp", (3,)).invocation_id(id);
        let count = call.await.map_err(|e| e.to_string())?;
        if count != before + 3 {
            return Err(format!("a repetition counted from {before} to {count}"));
        }
    }
    Ok(2)
}

async fn events(cell: Cell, echo: &Service, draw: &mut Draw) -> Result<usize, String> {
    let failed = |e: witrpc::Error| format!("events: {e:?}");
    let mut progress = echo.events("Progress").map_err(failed)?;
    let mut person = echo.events("PersonChanged").map_err(failed)?;
    let mut nothing = echo.events("Nothing").map_err(failed)?;
    json(echo, "RaiseMany", "[20]").await.map_err(failed)?;
    let somebody = draw.person(cell.codec);
    json(echo, "RaisePerson", &format!("[{somebody}]"))
        .await
        .map_err(failed)?;
    json(echo, "RaiseNull", "[]").await.map_err(failed)?;
    json(echo, "RaiseNothing", "[]").await.map_err(failed)?;
    let wait = Duration::from_secs(20);
    for n in 0..20 {
        let next = tokio::time::timeout(wait, progress.next()).await;
        let next = next.map_err(|_| format!("event {n} did not come"))?;
        let value = next
            .ok_or("no more events")?
            .get::<(i32,)>()
            .map_err(failed)?
            .0;
        if value != n {
            return Err(format!("event {n} brings {value}"));
        }
    }
    let expected = [format!("[{somebody},\"note\"]"), "[null,null]".into()];
    for expected in expected {
        let next = tokio::time::timeout(wait, person.next()).await;
        let next = next.map_err(|_| "PersonChanged did not come".to_owned())?;
        let arguments = next.ok_or("no more events")?.json().map_err(failed)?;
        if !same(&arguments, &expected) {
            return Err(format!("PersonChanged brings {arguments} for {expected}"));
        }
    }
    let next = tokio::time::timeout(wait, nothing.next()).await;
    next.map_err(|_| "Nothing did not come".to_owned())?;
    Ok(23)
}
