# What the steps share: checks that count, and how programs of several kinds say their counts. Sourced by each step; never runs
# anything by itself. A step ends with `finish`, which prints "N passed, M failed" as its last line.
set -u
root=$PWD
export WITRPC_SHARED=${WITRPC_SHARED:-$root/../shared}
. tools/peer.sh
. tools/dotnet.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

section() { echo; echo "== $1"; }
ok() { passed=$((passed + 1)); echo "ok      $1"; }
bad() { failed=$((failed + 1)); echo "FAILED  $1"; }
skip() {
  if [ "${WITRPC_REQUIRE_ALL:-}" = 1 ]; then bad "$1 (can't be skipped here: $2)"; else
    skipped=$((skipped + 1)); echo "skipped $1: $2"
  fi
}
finish() {
  [ $skipped -eq 0 ] || echo "$skipped skipped"
  echo "$passed passed, $failed failed"
  [ $failed -eq 0 ]
}

# One check: name, command...
check() {
  local name=$1
  shift
  if "$@" >"$work/out" 2>&1; then ok "$name"; else tail -n 40 "$work/out"; bad "$name"; fi
}

# Takes over counts: name, exit code, passed, failed, how much of $work/out is worth seeing after a failure.
take() {
  local name=$1 rc=$2 p=$3 f=$4 lines=$5
  passed=$((passed + p))
  if [ "$rc" -ne 0 ] || [ "$f" -ne 0 ]; then
    [ "$f" -ne 0 ] || f=1
    grep -vE '^(test .* ok|running [0-9]+ tests?|)$' "$work/out" | tail -n "$lines"
    failed=$((failed + f))
    echo "FAILED  $name: $p passed, $f failed, code $rc"
  else
    echo "ok      $name: $p passed"
  fi
}

# A program that counts for itself and ends with "N passed, M failed".
counted() {
  local name=$1 p f
  shift
  "$@" >"$work/out" 2>&1
  local rc=$?
  read -r p f < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$work/out" | tail -n 1)
  if [ -z "${p:-}" ]; then tail -n 40 "$work/out"; bad "$name: ended with code $rc"; return; fi
  take "$name" $rc "$p" "$f" 60
}

# cargo test with the given arguments.
cargo_tests() {
  local name=$1 p f
  shift
  cargo test "$@" >"$work/out" 2>&1
  local rc=$?
  p=$(sed -nE 's/^test result: [^.]+\. ([0-9]+) passed; .*/\1/p' "$work/out" | paste -sd+ | bc)
  f=$(sed -nE 's/^test result: [^.]+\. [0-9]+ passed; ([0-9]+) failed.*/\1/p' "$work/out" | paste -sd+ | bc)
  grep -E '^skipped' "$work/out"
  # What failed is told in the middle of what all the others said.
  [ $rc -eq 0 ] || grep -E -A 12 '^(---- .* stdout ----|error(\[|:))' "$work/out" | head -n 200
  take "$name" $rc "${p:-0}" "${f:-0}" 20
}

# A C or C++ test under valgrind, if it is there.
valgrinded() { # name, program
  if command -v valgrind >/dev/null; then
    counted "$1 under valgrind" valgrind -q --leak-check=full --error-exitcode=99 --trace-children=no \
      --show-leak-kinds=definite,indirect,possible --errors-for-leak-kinds=definite,indirect,possible \
      --suppressions=tests/c/valgrind.supp "$2"
  else
    skip "$1 under valgrind" "it is not installed"
  fi
}

# The library and the command line, as they are shipped; and how C programs of the tree are built with them.
release() { cargo build --release --quiet -p witrpc-ffi -p witrpc-cli && ln -sf libwitrpc.so "$target/release/libwitrpc.so.0"; }
cc_flags=(-Wall -Wextra -pedantic -Werror -g -Iinclude)
link=(-L"$target/release" -lwitrpc -lpthread -Wl,-rpath,"$target/release")
header() { # compiler, standard, language
  printf '#include <witrpc.h>\n#include <witrpc.h>\nint main(void) { return WITRPC_CHECK_ABI() ? 0 : 1; }\n' >"$work/header.$3"
  "$1" -std="$2" -Wall -Wextra -pedantic -Werror -Iinclude "$work/header.$3" -o "$work/header" "${link[@]}" && "$work/header"
}
# The generated test that calls every function; with further flags for the compiler.
torture() {
  python3 tools/torture.py include/witrpc.h >"$work/torture.c" &&
    cc -std=c11 "${cc_flags[@]}" "$@" -Itests/c "$work/torture.c" -o "$work/torture" "${link[@]}"
}
