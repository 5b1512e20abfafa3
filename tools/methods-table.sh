#!/usr/bin/env bash
# methods-table.sh - put the registry's tables between the markers of docs/methods.md.
#
#     tools/methods-table.sh KVREEL [FILE]    rewrites FILE (default: docs/methods.md)
set -euo pipefail

kvreel=$1
file=${2:-docs/methods.md}
table=$(mktemp)
trap 'rm -f "$table" "$table.new"' EXIT
"$kvreel" list methods --md >"$table"
awk -v table="$table" '
    /^<!-- methods:end -->$/ { inside = 0; closed++ }
    !inside { print }
    /^<!-- methods:begin/ {
        inside = 1; opened++
        while ((getline line < table) > 0) print line
    }
    END { if (opened != 1 || closed != 1) exit 1 }
' "$file" >"$table.new" || {
    echo "$file: need one pair of lines <!-- methods:begin ... --> and <!-- methods:end -->" >&2
    exit 1
}
cmp -s "$table.new" "$file" || cat "$table.new" >"$file"
