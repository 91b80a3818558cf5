# The C ABI: what is exported, the header, the tests as they are and under valgrind, the README's example, the demo.
. tests/steps/lib.sh

symbols() {
  nm -D --defined-only "$target/release/libwitrpc.so" | awk '{ print $3 }' | LC_ALL=C sort >"$work/symbols"
  diff -u ffi/symbols.txt "$work/symbols" || return 1
  local name rc=0
  while read -r name; do
    [[ $name == witrpc_* ]] || { echo "exported, and not ours: $name"; rc=1; }
    grep -q "$name(" tests/c/misuse.c || { echo "not called by tests/c/misuse.c: $name"; rc=1; }
    grep -q "$name(" include/witrpc.h || { echo "not in the header: $name"; rc=1; }
  done <"$work/symbols"
  return $rc
}
soname() { readelf -d "$target/release/libwitrpc.so" | grep -q 'SONAME.*libwitrpc\.so\.0' && readelf -d "$target/release/libwitrpc.so" | grep -q NODELETE; }
static_link() {
  cc -std=c11 "${cc_flags[@]}" tests/c/calls.c -o "$work/static" "$target/release/libwitrpc.a" -lpthread -lm -ldl && "$work/static" >/dev/null
}
readme() {
  sed -n '/<!-- example: c -->/,/^```$/p' README.md | sed '1,2d;$d' >"$work/readme.c"
  [ "$(wc -l <"$work/readme.c")" -le 25 ] || { echo "the C example has more than 25 lines"; return 1; }
  cc -std=c11 "${cc_flags[@]}" "$work/readme.c" -o "$work/readme" "${link[@]}" || return 1
  "$target/release/witrpc" serve --demo tcp://127.0.0.1:0 >"$work/listening" &
  local server=$!
  until grep -q listening "$work/listening"; do kill -0 $server || return 1; done
  "$work/readme" "$(sed -n 's/^listening //p' "$work/listening")" | tee "$work/answer"
  kill $server
  wait $server 2>/dev/null
  [ "$(cat "$work/answer")" = "2 + 3 = 5" ]
}
demo() { examples/c/demo.sh "$work/outage" "$target/release/witrpc"; }

section "C"
check "build the library" release
check "exported symbols" symbols
check "SONAME and nodelete" soname
for std in c99 c11 c17; do check "the header as $std" header cc $std c; done
if command -v c++ >/dev/null; then
  for std in c++17 c++20; do check "the header as $std" header c++ $std cpp; done
else
  skip "the header as C++" "no c++ compiler"
fi
# A Redis for those that need one; it listens at a socket file only.
redis_server=$(command -v redis-server || command -v valkey-server)
redis_pid=
if [ -n "$redis_server" ]; then
  "$redis_server" --port 0 --unixsocket "$work/redis.sock" --save "" --dir "$work" >/dev/null &
  redis_pid=$!
  export WITRPC_TEST_REDIS="redis+unix://$work/redis.sock"
  until [ -S "$work/redis.sock" ] || ! kill -0 $redis_pid 2>/dev/null; do :; done
else
  skip "the shared store in C" "no redis-server and no valkey-server"
fi
for name in calls misuse resilience encryption transports codecs tokens generics extension events encoded durable store; do
  check "compile $name.c" cc -std=c11 "${cc_flags[@]}" tests/c/$name.c -o "$work/$name" "${link[@]}"
  counted "$name.c" "$work/$name"
  valgrinded $name.c "$work/$name"
done
[ -z "$redis_pid" ] || { kill $redis_pid; wait $redis_pid 2>/dev/null; }
if command -v python3 >/dev/null; then
  check "compile the torture test" torture
  counted "torture: every function, wrong arguments, every state" "$work/torture"
else
  skip "the torture test" "python3 is not installed"
fi
check "static linking" static_link
check "the README's C example" readme
check "compile outage.c" cc -std=c11 "${cc_flags[@]}" examples/c/outage.c -o "$work/outage" "${link[@]}"
if [ -n "$peer" ]; then check "the demo, with a .NET peer" demo; else
  check "the demo" demo
  skip "the demo with a .NET peer" "no peer found (WITRPC_PEER)"
fi

finish
