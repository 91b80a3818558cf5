//! The `witrpc` command, built together with these tests, so that they never run an old one.

fn main() {
    std::process::exit(witrpc_cli::run(std::env::args_os()));
}
