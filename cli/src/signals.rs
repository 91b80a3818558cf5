//! Ctrl-C and its kin as something to wait for.

use std::io;

use crate::exit::Exit;

/// Signals that ask the command to end. From its creation on they no longer end the process by
/// themselves.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to listen.
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Begins to listen.
    #[cfg(not(unix))]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal, as the exit code it stands for.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }

    /// The next signal, as the exit code it stands for.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
