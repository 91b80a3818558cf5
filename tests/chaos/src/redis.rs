//! A Redis or Valkey of a test's own: a child process that can be killed, started again and frozen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::port::ReservedPort;
use crate::served::Scratch;
use crate::watch;

/// What a Redis keeps when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// All that it acknowledged.
    Everything,
}

/// See the [module](self). It is killed with its guard.
pub struct Redis {
    program: PathBuf,
    child: Child,
    port: ReservedPort,
    tls_port: ReservedPort,
    folder: Scratch,
    keeps: Keeps,
    primary: Option<u16>,
}

/// The server's program, if there is one.
fn program() -> Option<PathBuf> {
    ["redis-server", "valkey-server"]
        .into_iter()
        .find_map(|name| {
            let runs = Command::new(name)
                .arg("--version")
                .stdout(Stdio::null())
                .status();
            runs.is_ok_and(|status| status.success())
                .then(|| PathBuf::from(name))
        })
}

impl Redis {
    /// Starts one; `None` (and a line that says why) where there is none.
    pub fn start(test: &str, keeps: Keeps) -> Option<Self> {
        let Some(program) = program() else {
            watch::skip(test, "no redis-server and no valkey-server on the PATH");
            return None;
        };
        Some(Self::launch(program, keeps, None))
    }

    /// Starts a replica of this one, and waits until it has all that there is.
    pub fn replica(&self) -> Self {
        let port = self.port.address().port();
        let replica = Self::launch(self.program.clone(), Keeps::Nothing, Some(port));
        until("the replica", || {
            replica
                .command("INFO replication")
                .contains("master_link_status:up")
        });
        replica
    }

    fn launch(program: PathBuf, keeps: Keeps, primary: Option<u16>) -> Self {
        let (port, tls_port, folder) = (ReservedPort::new(), ReservedPort::new(), Scratch::new());
        let child = spawn(&program, &port, &folder, keeps, primary);
        let redis = Self {
            program,
            child,
            port,
            tls_port,
            folder,
            keeps,
            primary,
        };
        redis.is_up();
        redis
    }

    /// Waits until it answers.
    fn is_up(&self) {
        until("Redis", || {
            self.try_command("PING")
                .is_some_and(|pong| pong.contains("PONG"))
        });
    }

    /// Its address, as the store takes it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.port.address())
    }

    /// Listens with TLS, too, with the certificate of the tests. Returns the address; `None` if it was built without.
    pub fn listen_with_tls(&self) -> Option<String> {
        let certificates = concat!(env!("CARGO_MANIFEST_DIR"), "/../certs");
        for (name, file) in [("cert", "server"), ("key", "server-key"), ("ca-cert", "ca")] {
            let words = format!("CONFIG SET tls-{name}-file {certificates}/{file}.pem");
            self.try_command(&words)?;
        }
        self.command("CONFIG SET tls-auth-clients no");
        let port = self.tls_port.address().port();
        let answer = self.command(&format!("CONFIG SET tls-port {port}"));
        answer
            .starts_with("+OK")
            .then(|| format!("rediss://localhost:{port}"))
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same port, with what it has kept.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(
            &self.program,
            &self.port,
            &self.folder,
            self.keeps,
            self.primary,
        );
        self.is_up();
    }

    /// Freezes it.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Has it execute a command of plain words, and returns its answer as it is.
    pub fn command(&self, words: &str) -> String {
        self.try_command(words)
            .unwrap_or_else(|| panic!("{words}: no answer"))
    }

    /// Keys whose names match a pattern.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let answer = self.command(&format!("KEYS {pattern}"));
        let lines = answer.lines().skip(1).filter(|line| !line.starts_with('$'));
        lines.map(ToOwned::to_owned).collect()
    }

    fn try_command(&self, words: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.port.address()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream
            .write_all(format!("{words}\r\nQUIT\r\n").as_bytes())
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < watch::WATCHDOG, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn spawn(
    program: &PathBuf,
    port: &ReservedPort,
    folder: &Scratch,
    keeps: Keeps,
    primary: Option<u16>,
) -> Child {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut command = Command::new(program);
    command
        .args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.address().port().to_string(),
        ])
        .args([
            "--save",
            "",
            "--appendonly",
            yes(keeps == Keeps::Everything),
        ])
        .args(["--appendfsync", "always", "--repl-diskless-sync-delay", "0"])
        .arg("--dir")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(primary) = primary {
        command.args(["--replicaof", "127.0.0.1", &primary.to_string()]);
    }
    let mut child = command.spawn().unwrap();
    // Read to its end, so that it never waits for its log to be read.
    let log = child.stdout.take().unwrap();
    std::thread::spawn(move || BufReader::new(log).lines().for_each(drop));
    child
}
