#!/usr/bin/env bash
# docs/compared-to-witrpc.md names tests, as `file#name`: fails when one of them is gone, or a weak spot is
# not in the table.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
page=docs/compared-to-witrpc.md
failed=0
while IFS='#' read -r file name; do
  grep -qE "(fn|void) $name\\(" "$file" 2>/dev/null || { echo "$page names a test that is gone: $file#$name"; failed=1; }
done < <(grep -oE '`[A-Za-z0-9_./-]+\.(rs|c|cpp|py|cs)#[A-Za-z0-9_]+`' "$page" | tr -d '`' | sort -u)
for n in $(seq 1 67); do
  grep -q "^| $n | " "$page" || { echo "$page: weak spot $n is missing"; failed=1; }
done
exit $failed
