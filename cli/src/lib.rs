//! The command `witrpc` as a library function, so that another front (a Python wheel) can offer the
//! same command, and the demo service that it serves.
//!
//! Owns arguments, texts, exit codes and signals. What calls and serves is the crate `witrpc`.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod args;
mod call;
mod client;
pub mod demo;
mod exit;
mod failure;
mod listen;
mod log;
mod output;
mod serve;
mod signals;
mod store;
mod tls;
mod units;
mod values;

use std::ffi::OsString;

use args::{Cli, Command};
use exit::Exit;

/// Runs the command and returns its exit code. `args` begins with the name of the program, as
/// [`std::env::args_os`] does.
///
/// Results go to stdout, everything else to stderr. Nothing but a fault switch of `serve` ends the
/// process.
pub fn run(args: impl Iterator<Item = OsString>) -> i32 {
    let cli = match Cli::read(args) {
        Ok(cli) => cli,
        Err(exit) => return exit.code(),
    };
    log::start(cli.verbose);
    let exit = match cli.command {
        Command::Call(args) => on_this_thread(|| call::run(*args)),
        Command::Listen(args) => beside_a_connection(|| listen::run(*args)),
        Command::Serve(args) => on_all_cores(|| serve::run(*args)),
    };
    exit.code()
}

/// One connection needs no second thread.
fn on_this_thread<F: Future<Output = Exit>>(work: impl FnOnce() -> F) -> Exit {
    drive(tokio::runtime::Builder::new_current_thread(), work)
}

/// The connection is read also while the output takes nothing.
fn beside_a_connection<F: Future<Output = Exit>>(work: impl FnOnce() -> F) -> Exit {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1);
    drive(builder, work)
}

fn on_all_cores<F: Future<Output = Exit>>(work: impl FnOnce() -> F) -> Exit {
    drive(tokio::runtime::Builder::new_multi_thread(), work)
}

fn drive<F: Future<Output = Exit>>(
    mut builder: tokio::runtime::Builder,
    work: impl FnOnce() -> F,
) -> Exit {
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::note(&format!("can't start: {error}"));
            return Exit::Internal;
        }
    };
    let exit = runtime.block_on(async { work().await });
    // A name look-up that hangs must not keep the command from ending.
    runtime.shutdown_background();
    exit
}
