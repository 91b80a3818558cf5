//! `witrpc serve --demo` as a child process, which is killed when its guard goes.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::port::ReservedPort;
use crate::trace::Trace;

/// The command: it lies beside the folder of the tests.
pub fn command() -> PathBuf {
    program("witrpc-chaos-command")
}

/// One of the programs that cargo builds together with the tests.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name))
        .find(|path| path.exists());
    path.unwrap_or_else(|| panic!("no {name} beside {}", test.display()))
}

/// A folder that is removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("witrpc-chaos-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A serving process. Its port is its own over all its lives, and so is its trace.
pub struct Served {
    child: Child,
    port: ReservedPort,
    scratch: Scratch,
    args: Vec<String>,
}

impl Served {
    /// Starts it with some more arguments and waits until it listens.
    pub fn start(args: &[&str]) -> Self {
        let port = ReservedPort::new();
        let scratch = Scratch::new();
        let args: Vec<_> = args.iter().map(|a| (*a).to_owned()).collect();
        let child = launch(
            Command::new(command()),
            &port.endpoint(),
            scratch.path(),
            &args,
        );
        Self {
            child,
            port,
            scratch,
            args,
        }
    }

    /// Where it listens, as a client names it.
    pub fn endpoint(&self) -> String {
        self.port.endpoint()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL and waits until it is gone. Its port is refused from now on.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Asks it to stop in order (SIGTERM), waits until it has, and starts it again as
    /// [`restart`](Self::restart) does. Returns its exit code.
    pub fn roll(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        let code = self.child.wait().unwrap().code();
        self.restart();
        code
    }

    /// Starts it again, at the same port with the same trace.
    pub fn restart(&mut self) {
        self.kill();
        self.child = launch(
            Command::new(command()),
            &self.port.endpoint(),
            self.scratch.path(),
            &self.args,
        );
    }

    /// The same with other arguments.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.args = args.iter().map(|a| (*a).to_owned()).collect();
        self.restart();
    }

    /// True if it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it has executed so far, in all its lives.
    pub fn trace(&self) -> Trace {
        Trace::read(&self.scratch.path().join("trace"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts `… serve --demo ENDPOINT --trace FILE ARGS` and waits for its first line. `command` may
/// begin with something that runs the rest.
pub fn launch(mut command: Command, endpoint: &str, scratch: &Path, args: &[String]) -> Child {
    let log = scratch.join("stderr");
    let mut child = command
        .args(["serve", "--demo", endpoint, "--trace"])
        .arg(scratch.join("trace"))
        .args(args)
        .env_remove("WITRPC_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(
            std::fs::File::options()
                .append(true)
                .create(true)
                .open(&log)
                .unwrap(),
        )
        .spawn()
        .unwrap();
    let mut line = String::new();
    // A byte at a time: what comes later stays in the pipe, which is closed with the child.
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::with_capacity(1, stdout.by_ref())
        .read_line(&mut line)
        .unwrap();
    if !line.starts_with("listening ") {
        let _ = child.kill();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        panic!("the server did not start: {line:?} {said}");
    }
    child
}
