#!/usr/bin/env bash
# What is done with the Python package, by make and tests/run:
#   python.sh usable           says why it can't be done here, if so
#   python.sh sdist            packs the source into target/wheels
#   python.sh wheel            the same, and builds the wheel from it, so that what is packed is known to build
#   python.sh install test     a fresh environment, target/python-venv, with the wheel and what tests need
#   python.sh install bench    the same for the bench
#   python.sh docs             the documentation as HTML, into target/site
#   python.sh lint|types|test  ruff, mypy --strict on the package, pytest; on what is installed
# Packages come from wherever pip is configured to take them from. Needs CPython 3.11 or later (PYTHON).
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
tools=$target/python-tools
venv=$target/python-venv
python=${PYTHON:-python3}
pip() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }

# Tools that do not see the package: what builds it and what reads its source.
make_tools() {
  [ -x "$tools/bin/maturin" ] && [ -x "$tools/bin/ruff" ] && return
  "$python" -m venv "$tools"
  pip "$tools" 'maturin>=1.14,<2' ruff
}
# The source, packed.
make_sdist() {
  make_tools
  rm -f "$target"/wheels/witrpc-*.tar.gz
  (cd python && "$tools/bin/maturin" sdist --out "$target/wheels")
}
# Unpacks it into target/sdist, and leaves files alone that are there as they are: cargo goes by their times.
unpack_sdist() {
  "$python" - "$target" <<'END'
import pathlib, sys, tarfile
target = pathlib.Path(sys.argv[1])
archive = tarfile.open(next(target.glob("wheels/witrpc-*.tar.gz")))
packed = {target / "sdist" / pathlib.Path(*pathlib.PurePath(entry.name).parts[1:]): entry for entry in archive if entry.isfile()}
for path in (target / "sdist").rglob("*"):
    if path.is_file() and path not in packed:
        path.unlink()
for path, entry in packed.items():
    data = archive.extractfile(entry).read()
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
END
}
wheel() { ls -t "$target"/wheels/witrpc-*.whl 2>/dev/null | head -n 1; }

case $1 in
  usable)
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
      { echo "no CPython 3.11 or later with venv ($python)"; exit 1; }
    make_tools >/dev/null 2>&1 || { echo "maturin and ruff can't be installed by pip"; exit 1; }
    ;;
  sdist)
    make_sdist
    ;;
  wheel)
    make_sdist
    unpack_sdist
    rm -f "$target"/wheels/witrpc-*.whl
    # --locked: the versions that everything else is tested with. First the packed Cargo.lock loses the crates that are
    # not packed, as Cargo does it for everybody.
    (cd "$target/sdist" && cargo metadata --format-version 1 >/dev/null &&
      "$tools/bin/maturin" build --release --locked --out "$target/wheels")
    ;;
  install)
    # For tests nothing is left of an older one; pip has kept what it downloaded.
    [ "$2" != test ] || rm -rf "$venv"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip uninstall --quiet --yes witrpc >/dev/null 2>&1 || true
    if [ "$2" = test ]; then
      pip "$venv" pytest pytest-timeout mypy
      # What is missing of these is skipped by the tests, with a line.
      for name in pyright numpy pydantic uvloop gevent prometheus_client opentelemetry-sdk starlette fastapi; do
        pip "$venv" "$name" || echo "not installed: $name"
      done
    else
      for name in grpcio pyzmq; do pip "$venv" "$name" || echo "not installed: $name"; done
    fi
    pip "$venv" --no-deps "$(wheel)"
    ;;
  docs)
    [ -x "$tools/bin/mkdocs" ] || pip "$tools" 'mkdocs>=1.6,<2'
    NO_MKDOCS_2_WARNING=1 "$tools/bin/mkdocs" build --quiet --strict -f python/mkdocs.yml -d "$target/site"
    ;;
  lint)
    "$tools/bin/ruff" check --no-cache --config python/pyproject.toml python tools/python_api.py benches/python
    "$tools/bin/ruff" format --no-cache --check --config python/pyproject.toml python tools/python_api.py benches/python
    ;;
  types)
    cd "$target"
    "$venv/bin/python" -m mypy --strict --cache-dir "$target/mypy-cache" --config-file= -p witrpc
    ;;
  test)
    cd python/tests
    "$venv/bin/python" -m pytest -c ../pyproject.toml --rootdir .. -rs "${@:2}"
    ;;
  *)
    echo "what is $1?" >&2
    exit 2
    ;;
esac
