//! The real command, started and watched.
#![allow(dead_code, unreachable_pub)]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A test that waits longer than this has failed.
pub const WATCHDOG: Duration = Duration::from_secs(30);

pub fn witrpc() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_witrpc"));
    command.env_remove("WITRPC_TOKEN");
    command
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the command to its end.
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    run_with_input(args, "")
}

pub fn run_with_input<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &str) -> Ended {
    let mut running = Running::start(args);
    let mut stdin = running.child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    running.ended()
}

/// `witrpc call` on the demo contract.
pub fn call(endpoint: &str, args: &[&str]) -> Ended {
    run([&["call", endpoint, "Demo.IEcho"], args].concat())
}

/// A command that runs; killed when it is dropped.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let child = witrpc()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.child.id()))
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < WATCHDOG, "the command does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn ended(mut self) -> Ended {
        fn read_all(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
            std::thread::spawn(move || {
                let mut text = String::new();
                if let Some(mut from) = from {
                    from.read_to_string(&mut text).unwrap();
                }
                text
            })
        }
        let stdout = read_all(self.child.stdout.take());
        let stderr = read_all(self.child.stderr.take());
        let code = self.wait().code().unwrap();
        Ended {
            code,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `witrpc serve --demo` on a port of its own.
pub struct Served {
    pub process: Running,
    pub endpoint: String,
    trace: Option<PathBuf>,
    _stdout: BufReader<ChildStdout>,
}

pub fn serve(args: &[&str]) -> Served {
    serve_at("tcp://127.0.0.1:0", args)
}

pub fn serve_at(endpoint: &str, args: &[&str]) -> Served {
    let trace = scratch("trace");
    let mut process = Running::start(
        [
            &[
                "serve",
                "--demo",
                endpoint,
                "--trace",
                trace.to_str().unwrap(),
            ],
            args,
        ]
        .concat(),
    );
    let mut stdout = BufReader::new(process.child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let endpoint = line.strip_prefix("listening ").unwrap_or_else(|| {
        let mut stderr = String::new();
        let mut pipe = process.child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        panic!("no first line: {line:?} {stderr}");
    });
    Served {
        endpoint: endpoint.trim_end().to_owned(),
        process,
        trace: Some(trace),
        _stdout: stdout,
    }
}

impl Served {
    /// The methods that were executed, in order.
    pub fn executed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.trace.as_ref().unwrap()).unwrap();
        text.lines()
            .map(|line| {
                let mut words = line.split(' ');
                assert_eq!(words.next(), Some("exec"), "{line}");
                let method = words.next().unwrap().to_owned();
                let id: uuid::Uuid = words.next().unwrap().parse().unwrap();
                assert!(!id.is_nil() && words.next().is_none(), "{line}");
                method
            })
            .collect()
    }

    pub fn port(&self) -> u16 {
        self.endpoint.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Waits until a method has begun.
    pub fn wait_for(&self, method: &str) {
        let begun = Instant::now();
        while !self.executed().iter().any(|m| m == method) {
            assert!(begun.elapsed() < WATCHDOG, "{method} did not begin");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(trace) = &self.trace {
            let _ = std::fs::remove_file(trace);
        }
    }
}

/// The name of a file that is not there yet.
pub fn scratch(kind: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    dir.join(format!("{kind}-{}-{n}", std::process::id()))
}

/// A file with some content; removed when it is dropped.
pub struct TempFile(pub PathBuf);

impl TempFile {
    pub fn new(content: &str) -> Self {
        let path = scratch("file");
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The port of a listener that never answers; it lives as long as the listener.
pub fn mute() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    (listener, endpoint)
}

/// An endpoint where nobody listens now.
pub fn vacant() -> String {
    mute().1
}

/// One object, as `--json` prints it.
pub fn json(text: &str) -> serde_json::Value {
    assert_eq!(text.matches('\n').count(), 1, "one line: {text:?}");
    serde_json::from_str(text).unwrap()
}
