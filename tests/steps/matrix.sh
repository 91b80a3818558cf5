# Every transport, codec and setting of security with a .NET peer, in both roles.
. tests/steps/lib.sh

section "The matrix, with a .NET peer"
if [ -n "$peer" ]; then
  check "build the matrix" cargo build --quiet -p witrpc-conformance --bin witrpc-matrix
  counted "the matrix" "$target/debug/witrpc-matrix"
  sed -n '/^transport/,/^[0-9]* checks/p' "$work/out" | grep -vE '^(FAILED|    |\])'
else
  skip "the matrix" "no peer found (WITRPC_PEER)"
fi

finish
