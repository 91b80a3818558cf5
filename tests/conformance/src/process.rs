//! Child processes that never outlive their test.

use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use crate::WATCHDOG;

/// A process; killed when it is dropped, also by a test that fails.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    pub fn start(command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("can't start {command:?}: {error}"),
        }
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(begun.elapsed() < WATCHDOG, "the process does not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
