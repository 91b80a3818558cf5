# The .NET binding: build, format, packages, tests.
. tests/steps/lib.sh

# The test program counts for itself, in its last line; its counts become ours.
dotnet_tests() {
  local p f s
  WITRPC_CLI="$target/release/witrpc" timeout 900 dotnet tests/dotnet/WitRpc.Native.Tests/bin/Release/net10.0/WitRpc.Native.Tests.dll \
    -noLogo -noColor >"$work/out" 2>&1
  local rc=$?
  read -r p f s < <(sed -nE 's/.*Total: ([0-9]+), Errors: ([0-9]+), Failed: ([0-9]+), Skipped: ([0-9]+).*/\1 \2 \3 \4/p' "$work/out" |
    awk '{ print $1 - $2 - $3 - $4, $2 + $3, $4 }' | tail -n 1)
  if [ -z "${p:-}" ]; then tail -n 60 "$work/out"; bad "the .NET tests: ended with code $rc"; return; fi
  skipped=$((skipped + s))
  take "the .NET tests" $rc "$p" "$f" 120
}
# All packages; the main one brings the native library and the source generator.
dotnet_pack() {
  dotnet pack -c Release -v q --no-build -o "$work/packages" bindings/dotnet/WitRpc.Native.slnx || return 1
  [ "$(ls "$work"/packages/WitRpc.Native*.nupkg | wc -l)" = 7 ] || { ls "$work/packages"; return 1; }
  python3 -m zipfile -l "$work"/packages/WitRpc.Native.[0-9]*.nupkg >"$work/listing"
  cat "$work/listing"
  grep -qE 'runtimes/[a-z0-9-]+/native/(libwitrpc\.(so|dylib)|witrpc\.dll) ' "$work/listing" &&
    grep -q 'analyzers/dotnet/cs/WitRpc.Native.Generators.dll ' "$work/listing"
}
# Packages as a stranger uses them: in a folder of packages of its own, so that none is remembered from another time.
dotnet_consumer() {
  local version
  version=$(sed -n 's:.*<Version>\(.*\)</Version>.*:\1:p' bindings/dotnet/Directory.Build.props)
  rm -rf "$work/consumer" && cp -r tests/dotnet/Consumer tests/dotnet/Directory.Build.props "$work/" && mv "$work/Consumer" "$work/consumer" || return 1
  rm -rf "$work/consumer/bin" "$work/consumer/obj"
  NUGET_PACKAGES="$work/nuget" dotnet build -c Release -v q -p:WitRpcVersion="$version" -p:RestoreAdditionalProjectSources="$work/packages" "$work/consumer" &&
    env -u WITRPC_LIBRARY timeout 120 dotnet "$work/consumer/bin/Release/net10.0/Consumer.dll" | tee "$work/said" && grep -q '^all is well$' "$work/said"
}
# By whitespace alone, which needs no build. The pieces of WitRPC's page stay as they are there.
dotnet_format() {
  local folder
  for folder in bindings tests examples benches; do
    (cd "$folder/dotnet" && dotnet format whitespace . --folder --verify-no-changes --exclude WitRpc.Native.Tests/ResiliencePage.cs) || return 1
  done
}

section ".NET"
if [ -n "$dotnet" ]; then
  eval "$dotnet"
  check "build the library" release
  check "build the binding, without a warning, and in style" dotnet build -c Release -v q bindings/dotnet/WitRpc.Native.slnx
  check "dotnet format" dotnet_format
  check "dotnet pack" dotnet_pack
  check "a program that knows nothing but the packages" dotnet_consumer
  dotnet_tests
else
  skip ".NET" "no .NET 10 SDK found (dotnet on PATH)"
fi

finish
