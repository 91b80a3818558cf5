#!/usr/bin/env bash
# Plays the story of outage.c against a libwitrpc server and, if there is one, against a .NET peer:
# builds nothing, starts servers, kills them when the client says so, and sums up.
#   demo.sh OUTAGE_PROGRAM WITRPC_COMMAND
set -u
outage=$1 witrpc=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tools/peer.sh"
work=$(mktemp -d)
server=
stop_server() { [ -n "$server" ] && kill -9 "$server" 2>/dev/null && wait "$server" 2>/dev/null; server=; }
trap 'stop_server; rm -rf "$work"' EXIT

# Starts a command in the background and waits for the line that says where it listens: its last
# word is put into $port. The first start cuts the first call's connection, the second does not.
start_server() {
  local ready=$1
  shift
  : >"$work/server.out"
  "$@" >"$work/server.out" 2>"$work/server.err" &
  server=$!
  for _ in $(seq 300); do
    port=$(sed -n "s/^$ready.*[^0-9]\([0-9][0-9]*\)\$/\1/p" "$work/server.out" | head -n 1)
    [ -n "$port" ] && return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  echo "the server did not start: $(head -n 3 "$work/server.err")" >&2
  return 1
}

serve_witrpc() { start_server listening "$witrpc" serve --demo "tcp://127.0.0.1:${1:-0}" --trace "$work/trace" "${@:2}"; }
serve_peer() { start_server ready "$peer" serve --listen "tcp:${1:-0}" "${@:2}"; }

# Runs the client and does what its cues say. $1 serves, $2 is how the method is marked.
story() {
  local serve=$1 mark=$2 line
  rm -f "$work/trace"
  "$serve" 0 --close-after 1 || return 1
  local first_port=$port
  exec 3< <("$outage" "tcp://127.0.0.1:$first_port" "$mark" 2>&1)
  while IFS= read -r line <&3; do
    case $line in
    "cue: kill the server") echo "            [the server process is killed: kill -9]"; stop_server ;;
    "cue: start the server")
      "$serve" "$first_port" || return 1
      echo "            [the server process is started again]"
      ;;
    summary:*) summary=${line#summary: } ;;
    *) printf '%s\n' "$line" ;;
    esac
  done
  exec 3<&-
  stop_server
}

echo "=== A C client and a libwitrpc server"
story serve_witrpc deduplicated || exit 1
ours=$summary
executed=$(grep -c '^exec CountUp ' "$work/trace")
echo
if [ -n "$peer" ]; then
  echo "=== The same client and a .NET WitRPC peer (which remembers calls only per connection)"
  story serve_peer idempotent || exit 1
  theirs_idempotent=$summary
  story serve_peer deduplicated >"$work/story" || exit 1
  theirs_deduplicated=$summary
  echo
fi

cat <<EOF
=== Summary
libwitrpc server    $ours
                    its own trace file shows $executed execution of CountUp
EOF
if [ -n "$peer" ]; then
  cat <<EOF
.NET, idempotent    $theirs_idempotent
.NET, deduplicated  $theirs_deduplicated
What differs: a .NET server forgets its calls with the connection. A call that is declared idempotent
is repeated there and runs twice; one that is declared deduplicated is not repeated, and its caller is
told that the outcome is unknown (answered -1).
EOF
else
  echo ".NET peer           skipped: no dotnet on PATH and no peer beside the project"
fi
case $ours in "cut: answered 1, executed 1, "*"Add answered 5 | gone: Failed, later call refused") [ "$executed" = 1 ] && exit 0 ;; esac
echo "The demo did not go as it should." >&2
exit 1
