//! The `witrpc` command; all of it is in the library.

fn main() {
    std::process::exit(witrpc_cli::run(std::env::args_os()));
}
