# Finds the .NET test peer; to be sourced. Sets $peer to a command that takes the peer's arguments, or
# to nothing: WITRPC_PEER if that is set, else the one in $WITRPC_SHARED or beside the project.
_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
peer=${WITRPC_PEER:-${WITRPC_SHARED:-$_root/../shared}/peer/run}
[ -x "$peer" ] || peer=
