# The wheel: built, installed into a fresh environment, tested there.
. tests/steps/lib.sh

# pytest on the installed wheel.
pytest_tests() {
  local name=$1 p f s
  tools/python.sh test >"$work/out" 2>&1
  local rc=$?
  p=$(grep -oE '[0-9]+ passed' "$work/out" | tail -n 1) f=$(grep -oE '[0-9]+ (failed|error)' "$work/out" | tail -n 1)
  s=$(grep -E '^SKIPPED' "$work/out")
  p=${p%% *} f=${f%% *}
  p=${p:-0} f=${f:-0}
  [ -z "$s" ] || while read -r line; do skip "pytest" "${line#SKIPPED }"; done <<<"$s"
  take "$name" $rc "$p" "$f" 100
}

section "Python"
if reason=$(tools/python.sh usable); then
  check "build the wheel" tools/python.sh wheel
  check "install it into a fresh environment" tools/python.sh install test
  check "ruff" tools/python.sh lint
  check "mypy --strict, of the package itself" tools/python.sh types
  pytest_tests "the installed wheel"
  check "the documentation as HTML" tools/python.sh docs
else
  skip "Python" "$reason"
fi

finish
