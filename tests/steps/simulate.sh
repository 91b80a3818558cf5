# Lives on a fake clock; the table of faults and phases belongs to the result.
. tests/steps/lib.sh

simulate() {
  cargo build --release --quiet -p witrpc-simulator || return 1
  timeout 600 "$target/release/witrpc-simulate" "${SIMULATED_LIVES:-100000}" "${SEED:-1}" >"$work/simulated"
  local rc=$?
  cat "$work/simulated"
  return $rc
}

section "Simulated lives"
check "no promise broken in ${SIMULATED_LIVES:-100000} lives" simulate
grep -vE '^(seed|the|fault [0-9]|again| )' "$work/simulated" 2>/dev/null | grep -v '^$'

finish
