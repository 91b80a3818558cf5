#!/usr/bin/env bash
# Consumers that know nothing but an installed tree: by CMake, by pkg-config and by hand, with gcc and clang, in
# every standard; and the examples, built from it and run. Ends with "N passed, M failed".
#   check.sh PREFIX LIBDIR [SOURCE BUILT_DIR]    with the last two FetchContent is tried as well
set -u
prefix=$(cd "$1" && pwd) libdir=$2 source=${3:-} built=${4:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill $server 2>/dev/null; rm -rf "$work"' EXIT
passed=0 failed=0
check() { # name, command...
  local name=$1
  shift
  if "$@" >"$work/out" 2>&1; then passed=$((passed + 1)); echo "ok $name"; else
    failed=$((failed + 1)); tail -n 30 "$work/out"; echo "FAILED $name"
  fi
}
skip() { echo "skipped $1: $2"; [ "${WITRPC_REQUIRE_ALL:-}" != 1 ] || { failed=$((failed + 1)); echo "FAILED $1 can't be skipped here"; }; }
has() { command -v "$1" >/dev/null; }
lib=$prefix/$libdir strict=(-Wall -Wextra -pedantic -Werror)
# Only what pkg-config finds in this tree.
export PKG_CONFIG_LIBDIR=$lib/pkgconfig
# The examples are copied, so that nothing beside the tree is in reach.
cp -R "$prefix/share/witrpc/examples" "$here/consumer" "$work/"
cd "$work" || exit 1

by_hand() { # compiler, standard, source
  "$1" -std="$2" "${strict[@]}" -I"$prefix/include" "$3" -o "$work/program" -L"$lib" -lwitrpc -lpthread -Wl,-rpath,"$lib" &&
    timeout 60 "$work/program"
}
as_cpp() { # the C consumer by a C++ compiler
  "$1" -x c++ -std=c++17 "${strict[@]}" -I"$prefix/include" consumer/consumer.c -o "$work/program" -L"$lib" -lwitrpc -lpthread \
    -Wl,-rpath,"$lib" && timeout 60 "$work/program"
}
by_pkg_config() {
  # shellcheck disable=SC2046
  cc -std=c11 "${strict[@]}" consumer/consumer.c -o "$work/program" $(pkg-config --cflags --libs witrpc) -Wl,-rpath,"$lib" &&
    timeout 60 "$work/program" && [ "$(pkg-config --modversion witrpc)" = "$("$work/program" | sed 's/^libwitrpc \(.*\):.*/\1/')" ]
}
by_pkg_config_static() {
  # shellcheck disable=SC2046
  cc -std=c11 consumer/consumer.c -o "$work/program" $(pkg-config --cflags witrpc) "$lib/libwitrpc.a" \
    $(pkg-config --static --libs-only-l witrpc | sed 's/-lwitrpc//') && "$work/program" && ! ldd "$work/program" | grep -q libwitrpc
}
by_cmake() { # compiler for C, for C++
  rm -rf "$work/build" && cmake -S consumer -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$1" \
    -DCMAKE_CXX_COMPILER="$2" && cmake --build "$work/build" || return 1
  local program
  for program in c-shared c-static cpp-shared cpp-static; do timeout 60 "$work/build/$program" || return 1; done
  ldd "$work/build/c-shared" | grep -q "$lib/libwitrpc.so.0" && ! ldd "$work/build/c-static" | grep -q libwitrpc
}
too_new() { # find_package of another minor version must fail
  sed 's/find_package(witrpc 0.1 /find_package(witrpc 0.2 /' consumer/CMakeLists.txt >consumer/new.txt
  mkdir -p newer && cp consumer/new.txt newer/CMakeLists.txt && cp consumer/consumer.* newer/
  ! cmake -S newer -B "$work/newer-build" -DCMAKE_PREFIX_PATH="$prefix"
}
fetch() {
  cmake -S "$here/fetch" -B "$work/fetched" -DWITRPC_SOURCE="$source" -DWITRPC_PREBUILT_DIR="$built" && cmake --build "$work/fetched" &&
    "$work/fetched/shared" && "$work/fetched/static"
}
soname() { readelf -d "$lib/libwitrpc.so" | grep -q 'SONAME.*\[libwitrpc\.so\.0\]' && [ -L "$lib/libwitrpc.so.0" ]; }
no_paths() { ! grep -rlF "$prefix" "$lib/pkgconfig" "$lib/cmake"; }

check "SONAME and links" soname
check "no path of the build machine in what tools read" no_paths
for compiler in gcc clang; do
  has $compiler || { skip "$compiler" "it is not installed"; continue; }
  for std in c99 c11 c17 c2x; do check "$compiler, $std" by_hand $compiler $std consumer/consumer.c; done
done
for compiler in g++ clang++; do
  has $compiler || { skip "$compiler" "it is not installed"; continue; }
  for std in c++17 c++20 c++2b; do check "$compiler, $std" by_hand $compiler $std consumer/consumer.cpp; done
  check "$compiler, the C header in C++" as_cpp $compiler
done
if has pkg-config; then
  check "pkg-config" by_pkg_config
  check "pkg-config, static" by_pkg_config_static
else
  skip "pkg-config" "it is not installed"
fi
if has cmake; then
  check "CMake, gcc" by_cmake gcc g++
  has clang && check "CMake, clang" by_cmake clang clang++
  check "CMake refuses another minor version" too_new
  [ -z "$source" ] || check "FetchContent" fetch
else
  skip "CMake" "it is not installed"
fi

# The examples.
example_c() { cc -std=c11 "${strict[@]}" -I"$prefix/include" "examples/c/$1.c" -o "$work/$1-c" -L"$lib" -lwitrpc -lpthread "${@:2}" -Wl,-rpath,"$lib"; }
example_cpp() { c++ -std="${2:-c++17}" "${strict[@]}" -I"$prefix/include" "examples/cpp/$1.cpp" -o "$work/$1-cpp" -L"$lib" -lwitrpc -lpthread -Wl,-rpath,"$lib"; }
serve() { # command...: sets $endpoint and $server
  : >"$work/listening"
  "$@" >"$work/listening" 2>"$work/serving" &
  server=$!
  until grep -q '^listening' "$work/listening"; do kill -0 $server 2>/dev/null || { cat "$work/serving"; return 1; }; sleep 0.05; done
  endpoint=$(sed -n 's/^listening //p' "$work/listening")
}
stop() { kill $server && wait $server; local rc=$?; server=; return $rc; }
says() { # expected last line, command...
  local expected=$1
  shift
  timeout 60 "$@" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
  [ "$(tail -n 1 "$work/said")" = "$expected" ] || { cat "$work/said"; return 1; }
}
refused() { # text, command...
  local text=$1
  shift
  ! timeout 60 "$@" >"$work/said" 2>&1 && grep -q "$text" "$work/said"
}
c_examples=(client server events encrypted dedup epoll outage)
for name in "${c_examples[@]}"; do check "examples/c/$name.c" example_c "$name"; done
cpp_examples=(client server events encrypted dedup outage)
for name in "${cpp_examples[@]}"; do check "examples/cpp/$name.cpp" example_cpp "$name"; done
check "examples/cpp/coroutine.cpp" example_cpp coroutine c++20
has_uv=
if pkg-config --exists libuv 2>/dev/null || [ -f /usr/include/uv.h ]; then
  check "examples/c/libuv.c" example_c libuv -luv && has_uv=1
else
  skip "examples/c/libuv.c" "libuv is not installed"
fi
for kind in c cpp; do
  check "the server in $kind starts" serve "$work/server-$kind" tcp://127.0.0.1:0
  [ -n "$server" ] || continue
  for client in c cpp; do
    check "client ($client) of the server in $kind" says "2 + 3 = 5" "$work/client-$client" "$endpoint"
    check "events ($client) of the server in $kind" says "step 3" "$work/events-$client" "$endpoint"
  done
  check "dedup (c) of the server in $kind" says "counted 1, with the same id again 1, with another one 2" "$work/dedup-c" "$endpoint"
  check "dedup (cpp) of the server in $kind" says "counted 3, with the same id again 3, with another one 4" "$work/dedup-cpp" "$endpoint"
  check "epoll of the server in $kind" says "answer 5: 5" "$work/epoll-c" "$endpoint"
  [ -z "$has_uv" ] || check "libuv of the server in $kind" says "answer 5: 5" "$work/libuv-c" "$endpoint"
  check "coroutine of the server in $kind" says "1 + 2 + ... + 100 = 5050" "$work/coroutine-cpp" "$endpoint"
  check "the command and the server in $kind" says "5" "$prefix/bin/witrpc" call "$endpoint" Demo.IEcho 'int Add(int,int)' 2 3
  check "the server in $kind stops in order" stop
  check "the encrypted server in $kind starts" serve "$work/server-$kind" tcp://127.0.0.1:0 secret
  for client in c cpp; do
    check "encrypted ($client) of the server in $kind" says "20 + 22 = 42, and nobody could listen" "$work/encrypted-$client" "$endpoint" secret
    check "a wrong token ($client) at the server in $kind" refused "refused the token" "$work/encrypted-$client" "$endpoint" wrong
    check "no token ($client) for the server in $kind" refused "no token today" "$work/encrypted-$client" "$endpoint"
  done
  check "the encrypted server in $kind stops in order" stop
done
if [ -n "$source" ]; then
  for kind in c cpp; do
    check "outage ($kind)" env WITRPC_PEER=/nowhere WITRPC_SHARED=/nowhere "$source/examples/c/demo.sh" "$work/outage-$kind" "$prefix/bin/witrpc"
  done
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
