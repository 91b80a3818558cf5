#!/usr/bin/env bash
# Enforces the house: which room may import what, and what stays out of the pure ones. Prints what breaks
# a rule and fails.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0
core=rust-core/src

# The code of a room without comments and strings' worth of prose: doc comments may name anything.
code() { grep -rn --include='*.rs' '' "$@" 2>/dev/null | grep -vE '^[^:]+:[0-9]+:\s*//'; }
rule() { # message, pattern, places...
  local message=$1 pattern=$2 found
  shift 2
  found=$(code "$@" | grep -E "$pattern")
  [ -z "$found" ] && return
  failed=1
  printf '%s\n%s\n' "$message" "$(printf '%s\n' "$found" | head -n 5)"
}

for room in session resilience security; do
  rule "$room/ is pure: no runtime, socket, thread or clock" \
    'tokio|std::(net|thread|time::(Instant|SystemTime))|Instant::now|SystemTime|parking_lot|crate::(client|server|transport|runtime|dispatcher)' \
    "$core/$room"
done
rule "security/ imports the base64 of codec/ and nothing else" \
  'std::fs|crate::(session|resilience|wire|contract|error)|crate::codec::[^b]' "$core/security"
rule "wire/ knows nothing above it" 'tokio|crate::(session|security|resilience|client|server|transport|codec|contract|runtime)' "$core/wire"
rule "contract/ imports no other room" 'tokio|crate::(wire|codec|session|resilience|client|server|transport)' "$core/contract"
rule "codec/ imports contract/ and wire/ only" 'tokio|crate::(session|resilience|client|server|transport|runtime)' "$core/codec"
rule "transport/ moves frames and nothing else" 'crate::(session|resilience|client|server|codec|contract)' "$core/transport"
rule "client/ and server/ do not know each other" 'crate::server' "$core/client"
rule "client/ and server/ do not know each other" 'crate::client' "$core/server"
rule "the simulator knows no runtime, socket or clock" 'tokio|std::(net|time::(Instant|SystemTime))|Instant::now|SystemTime' tests/simulator/src
rule "rust-core/ knows no foreign-function room" 'pyo3|witrpc_ffi|extern "C"|no_mangle' rust-core
rule "unsafe is for ffi/ and the edge of python/ only" '(^|[^"a-z])unsafe (\{|fn|impl|trait|extern "C)' rust-core cli tests/conformance tests/chaos tests/simulator benches
grep -q 'forbid(unsafe_code)' $core/lib.rs || { echo "rust-core must forbid unsafe code"; failed=1; }
rule "python/ has unsafe for buffers and for what a fork must not touch only" 'unsafe' \
  $(git ls-files 'python/src/*.rs' | grep -vE '/(buffer|process)\.rs$')
rule "python/ stands on rust-core/, not on the C ABI" 'witrpc_ffi|witrpc-ffi' python/src
# Every unsafe block of ffi/ says why (clippy enforces it); every pure room has its top comment.
for file in $(git ls-files '*.rs' | grep -vE '/tests?/|/tests\.rs$|build\.rs'); do
  head -n 1 "$file" | grep -q '^//!' || { echo "$file: no top comment that says what it owns"; failed=1; }
done
long=$(git ls-files '*.rs' '*.c' '*.h' '*.py' '*.cs' | grep -v '^include/witrpc.h$' | xargs wc -l | awk '$2 != "total" && $1 > 900 { print $2 ": " $1 " lines" }')
[ -z "$long" ] || { echo "is that one idea? $long"; failed=1; }
paths=$(git ls-files | grep -vE '^(Cargo.lock|tests/vectors/)' | xargs grep -nE '(^|[^a-zA-Z.])/(work|root|home/[a-z]+)/' 2>/dev/null)
[ -z "$paths" ] || { echo "paths of one machine: $paths"; failed=1; }
exit $failed
