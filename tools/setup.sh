#!/usr/bin/env bash
# Installs what a make target needs, or says in one line what is missing.
#   setup.sh build|test|bench|python
set -u
need=$1
missing=()
has() { command -v "$1" >/dev/null 2>&1; }
# A command, and the Debian package that brings it.
want() { has "$1" || missing+=("$2"); }

if ! has cargo && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
  export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi
if ! has cargo; then
  echo "missing: a Rust toolchain (cargo, 1.95 or later): install it with rustup" >&2
  exit 1
fi
want cc gcc
want make make
if [ "$need" = test ]; then
  want valgrind valgrind
  want clang-format clang-format
  want nm binutils
  want python3 python3
  want g++ g++
  want clang clang
  want cmake cmake
  want pkg-config pkg-config
  want doxygen doxygen
  want abidiff abigail-tools
  [ -f /usr/include/uv.h ] || missing+=(libuv1-dev)
  want ip iproute2
  want iptables iptables
  # Redis or Valkey, whichever there is.
  has valkey-server || want redis-server redis-server
fi
if [ "$need" = python ] || [ "$need" = test ]; then
  want python3 python3
  # Debian has venv in a package of its own.
  if has python3 && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then missing+=(python3-venv); fi
fi
[ ${#missing[@]} -eq 0 ] && exit 0
if has apt-get && [ "$(id -u)" = 0 ]; then
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -y -q "${missing[@]}" || { apt-get update -q && apt-get install -y -q "${missing[@]}"; }; } \
    >/dev/null 2>&1 && exit 0
fi
echo "missing: ${missing[*]} (Debian packages; install them, or run this as root)" >&2
# Tests say themselves what they skip; a compiler is needed for everything.
has cc && [ "$need" = test ] && [ "${WITRPC_REQUIRE_ALL:-}" != 1 ] && exit 0
exit 1
