# All tests of cargo: the core, the ABI's own, the command line, conversations with the .NET peer, chaos over real sockets.
. tests/steps/lib.sh

section "Rust"
cargo_tests "workspace" --workspace --no-fail-fast

finish
