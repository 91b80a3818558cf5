//! The command `witrpc` once more, where these tests can start it.

fn main() {
    std::process::exit(witrpc_cli::run(std::env::args_os()));
}
