#!/usr/bin/env bash
# Licences of all dependencies, and advisories as far as that works offline.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# Licences that may go into a program under MIT or Apache-2.0. MPL-2.0 is a build tool's (cbindgen).
allowed='^(MIT|Apache-2\.0|BSD-[23]-Clause|ISC|Unicode-3\.0|Zlib|0BSD|CC0-1\.0|Unlicense|OpenSSL|MPL-2\.0)$'
echo "== licences"
licences=$(cargo tree --workspace --edges normal,build,dev --prefix none --no-dedupe --format '{p}|{l}' |
  grep -vE '^(witrpc.*)?$' | sort -u)
printf '%s\n' "$licences" | cut -d'|' -f2 | sort | uniq -c | sort -rn
bad=$(printf '%s\n' "$licences" | while IFS='|' read -r package licence; do
  fine=no
  for one in $(printf '%s' "$licence" | sed -E 's/ (OR|AND|WITH) /\n/g; s#/#\n#g; s/[()]//g'); do
    [[ $one =~ $allowed ]] && fine=yes
  done
  [ $fine = yes ] || echo "$package: $licence"
done)
[ -z "$bad" ] || printf 'not allowed:\n%s\n' "$bad"
echo "== advisories"
if command -v cargo-audit >/dev/null; then
  cargo audit || exit 1
else
  echo "skipped: cargo-audit is not installed (cargo install cargo-audit)"
fi
[ -z "$bad" ]
