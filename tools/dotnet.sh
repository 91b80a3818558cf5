# Finds a .NET 10 SDK; to be sourced. Sets $dotnet to shell code that puts it on PATH, or to nothing: the `dotnet` on PATH
# with the user's own package sources, else the one in $WITRPC_SHARED or beside the project, which works offline.
_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
_env=${WITRPC_SHARED:-$_root/../shared}/dotnet/env
dotnet=
if command -v dotnet >/dev/null && dotnet --list-sdks 2>/dev/null | grep -q '^10\.'; then
  dotnet=true
elif [ -x "$_env" ]; then
  dotnet=$("$_env")
fi
