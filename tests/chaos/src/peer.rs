//! The .NET peer as a child process. It is not part of this repository; where it is not found, tests
//! with it are skipped.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::trace::Trace;

/// Where the peer is: `WITRPC_PEER`, else `shared/peer/run` beside the repository.
fn program() -> Option<PathBuf> {
    let path = match std::env::var_os("WITRPC_PEER") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/peer/run"
        )),
    };
    path.exists().then_some(path)
}

/// A .NET process that serves `Demo.IEcho` over TCP with JSON. Killed when it is dropped.
pub struct DotnetPeer {
    child: Child,
    port: u16,
    trace: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl DotnetPeer {
    /// Starts it with some more arguments; `None` (and a line that says so) where there is none.
    pub fn start(test: &str, port: u16, args: &[&str]) -> Option<Self> {
        let Some(program) = program() else {
            crate::watch::skip(test, "no .NET peer: name it with WITRPC_PEER");
            return None;
        };
        let mut child = Command::new(program)
            .args(["serve", "--trace", "--listen", &format!("tcp:{port}")])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let port = line
            .strip_prefix("ready ")
            .and_then(|p| p.trim().parse().ok());
        let port = port.unwrap_or_else(|| panic!("the .NET peer said {line:?}"));
        let trace = Arc::<Mutex<String>>::default();
        let written = trace.clone();
        let reader = std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let mut written = written.lock();
                written.push_str(&line);
                written.push('\n');
            }
        });
        Some(Self {
            child,
            port,
            trace,
            reader: Some(reader),
        })
    }

    /// Where it listens, as a client names it.
    pub fn endpoint(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it, if it has not ended by itself, and returns all that it has executed.
    pub fn end(mut self) -> Trace {
        self.kill();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let lines = self.trace.lock();
        let executed: String = lines
            .lines()
            .filter(|l| l.starts_with("exec "))
            .fold(String::new(), |text, line| text + line + "\n");
        Trace::parse(&executed)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for DotnetPeer {
    fn drop(&mut self) {
        self.kill();
    }
}
