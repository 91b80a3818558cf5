//! The C program that measures blocking calls through the C ABI, and a bare ping-pong in C.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::figures::Sample;
use crate::{bare, calls};

/// One process of the program; it makes a round whenever it is told to.
pub(crate) struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Starts one that plays bare ping-pong and one that makes calls.
pub(crate) fn start(program: &str) -> (Program, Program) {
    let bare = bare::start_server().port().to_string();
    let sizes = [bare::REQUEST.to_string(), bare::ANSWER.to_string()];
    (
        Program::start(program, &["bare", &bare, &sizes[0], &sizes[1]]),
        Program::start(program, &["calls", &calls::start_server()]),
    )
}

impl Program {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = started.unwrap_or_else(|e| panic!("can't start {program}: {e}"));
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Self {
                child,
                stdin,
                stdout: BufReader::new(stdout),
            },
            _ => unreachable!("both are piped"),
        }
    }

    /// One round: a line with its length in ms goes in, a line with latencies in ns comes out.
    pub(crate) fn sequential(&mut self, round: Duration) -> Sample {
        let mut line = String::new();
        let told = writeln!(self.stdin, "{}", round.as_millis());
        let read = self.stdout.read_line(&mut line);
        assert!(
            told.is_ok() && matches!(read, Ok(1..)),
            "the C program ended"
        );
        Sample::of_latencies(line.split_whitespace().filter_map(|n| n.parse().ok()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
