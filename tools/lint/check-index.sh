#!/usr/bin/env bash
# check-index.sh - fails if tools/README.md misses a script of tools/, or lists a script that does not exist.
#
#     tools/lint/check-index.sh [ROOT]
#
# The scripts of tools/peers are listed in tools/peers/README.md instead.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}/tools"

missing=$(comm -3 \
    <(find . -path ./peers -prune -o -type f \( -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.jq' -o -path './container/*' \) \
        -print | sed 's|^\./||' | LC_ALL=C sort) \
    <(sed -n 's/^| `\([^`]*\)` |.*/\1/p' README.md | LC_ALL=C sort) | LC_ALL=C sort)
if [ -n "$missing" ]; then
    sed -n 's/^\([^\t].*\)/tools\/\1: no line in tools\/README.md/p; s/^\t\(.*\)/tools\/README.md: no script tools\/\1/p' <<<"$missing"
    exit 1
fi
echo "index: every script of tools/ has its line"
