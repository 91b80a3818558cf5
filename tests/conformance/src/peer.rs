//! The .NET peer: finding it, and running its commands.
//!
//! It is an executable that understands `serve`, `client` and `call`. `WITRPC_PEER` names it, else it
//! is `peer/run` in the folder that `WITRPC_SHARED` names, else in `../shared` beside the repository.
//! Where there is none the tests that need it are skipped with a line that says so, unless
//! `WITRPC_REQUIRE_ALL` is `1`.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::process::Guard;
use crate::{WATCHDOG, root};

/// The peer's executable.
#[derive(Debug)]
pub struct Peer(PathBuf);

impl Peer {
    /// The peer; `None` where there is none and the test is to be skipped.
    pub fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Peer>> = OnceLock::new();
        FOUND
            .get_or_init(|| match Self::look() {
                Ok(peer) => Some(peer),
                Err(why) => {
                    let required = std::env::var("WITRPC_REQUIRE_ALL").is_ok_and(|v| v == "1");
                    assert!(!required, "{why}");
                    // Not by a macro: what those print is kept back when a test succeeds.
                    let line = format!("skipped: tests against the .NET peer: {why}\n");
                    let _ = std::io::stderr().write_all(line.as_bytes());
                    None
                }
            })
            .as_ref()
    }

    fn look() -> Result<Self, String> {
        let path = match std::env::var_os("WITRPC_PEER") {
            Some(path) => PathBuf::from(path),
            None => match std::env::var_os("WITRPC_SHARED") {
                Some(shared) => PathBuf::from(shared).join("peer/run"),
                None => root().join("../shared/peer/run"),
            },
        };
        // Without a command it says how it is used, if its runtime is there.
        let out = Command::new(&path)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| {
                format!(
                    "can't run {} (WITRPC_PEER names another): {e}",
                    path.display()
                )
            })?;
        let usage = String::from_utf8_lossy(&out.stderr);
        if usage.contains("serve") && usage.contains("client") {
            Ok(Self(path))
        } else {
            Err(format!("{} does not run: {}", path.display(), usage.trim()))
        }
    }

    /// Starts `serve` on a port of its own.
    pub fn serve(&self, args: &[&str]) -> PeerServer {
        self.serve_at(0, args)
    }

    /// Starts `serve` on this port.
    pub fn serve_at(&self, port: u16, args: &[&str]) -> PeerServer {
        self.serve_on(&format!("tcp:{port}"), args)
    }

    /// Starts `serve` at an address in the peer's form.
    pub fn serve_on(&self, listen: &str, args: &[&str]) -> PeerServer {
        let mut process = Guard::start(
            Command::new(&self.0)
                .args(["serve", "--listen", listen])
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit()),
        );
        let stdout = process.child().stdout.take().expect("stdout is a pipe");
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let ready = first.strip_prefix("ready ");
        let ready = ready.unwrap_or_else(|| panic!("the peer did not start: {first:?}"));
        // A pipe has none.
        let port = ready.parse().unwrap_or_default();
        let executed = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn({
            let executed = executed.clone();
            move || {
                for line in lines.map_while(Result::ok) {
                    if let Some(call) = line.strip_prefix("exec ") {
                        executed
                            .lock()
                            .expect("no panic inside")
                            .push(call.to_owned());
                    }
                }
            }
        });
        PeerServer {
            process,
            port,
            executed,
        }
    }

    /// Runs `client`: every method, a duplicate, refusals, all events. Returns what it says about
    /// itself and every line that tells of a failure.
    pub fn client(&self, port: u16, args: &[&str]) -> (String, Vec<String>) {
        self.client_at(&format!("tcp:127.0.0.1:{port}"), args)
    }

    /// The same at an address in the peer's form.
    pub fn client_at(&self, connect: &str, args: &[&str]) -> (String, Vec<String>) {
        let out = self.script_at(connect, args);
        let failed = out.lines().filter(|line| line.contains("\"ok\":false"));
        let failed = failed.map(ToOwned::to_owned).collect();
        (out.lines().last().unwrap_or_default().to_owned(), failed)
    }

    /// Runs `client` and returns all that it prints: a line of JSON for each call and each event.
    pub fn script(&self, port: u16, args: &[&str]) -> String {
        self.script_at(&format!("tcp:127.0.0.1:{port}"), args)
    }

    fn script_at(&self, connect: &str, args: &[&str]) -> String {
        self.run("client", connect, args)
    }

    /// Runs `call`. Returns the printed result, or the error.
    pub fn call(&self, port: u16, method: &str, arguments: &str) -> String {
        self.call_at(&format!("tcp:127.0.0.1:{port}"), &[], method, arguments)
    }

    /// The same at an address in the peer's form, with options.
    pub fn call_at(
        &self,
        connect: &str,
        options: &[&str],
        method: &str,
        arguments: &str,
    ) -> String {
        let args = [options, &[method, arguments]].concat();
        self.run("call", connect, &args).trim().to_owned()
    }

    fn run(&self, command: &str, connect: &str, args: &[&str]) -> String {
        let mut process = Guard::start(
            Command::new(&self.0)
                .arg(command)
                .args(["--connect", connect])
                .args(args)
                // For wss://, where its platform decides whom it trusts.
                .env("SSL_CERT_FILE", root().join("tests/certs/ca.pem"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let child = process.child();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let pipes: [Box<dyn std::io::Read + Send>; 2] = [Box::new(stdout), Box::new(stderr)];
        let readers = pipes.map(|mut pipe| {
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let mut text = String::new();
                let _ = pipe.read_to_string(&mut text);
                let _ = sender.send(text);
            });
            receiver
        });
        // Both end with the process, for which nobody has to look again and again then.
        let texts = readers.map(|reader| reader.recv_timeout(WATCHDOG).unwrap_or_default());
        process.wait();
        texts.concat()
    }
}

/// A peer that serves.
pub struct PeerServer {
    pub process: Guard,
    pub port: u16,
    executed: Arc<Mutex<Vec<String>>>,
}

impl PeerServer {
    pub fn endpoint(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// Waits until the peer, started with `--trace`, has told of this many executions. Returns
    /// `METHOD INVOCATIONID` of each.
    pub fn executed(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let executed = self.executed.lock().expect("no panic inside").clone();
            if executed.len() >= count {
                return executed;
            }
            assert!(
                begun.elapsed() < WATCHDOG,
                "only {executed:?} were executed"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
