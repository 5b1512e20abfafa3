#!/usr/bin/env bash
# equal-bytes.sh - put the table of a database between the markers of docs/equal-bytes.md.
#
#     build/kvreel run configs/budget-nano.yaml
#     tools/equal-bytes.sh KVREEL out/budget-nano.db [FILE]     FILE: default docs/equal-bytes.md
set -euo pipefail

kvreel=$1
db=$2
file=${3:-docs/equal-bytes.md}
table=$(mktemp)
trap 'rm -f "$table" "$table.new"' EXIT
"$kvreel" report --db "$db" --table equal_bytes --format md >"$table"
awk -v table="$table" '
    /^<!-- equal-bytes:end -->$/ { inside = 0; closed++ }
    !inside { print }
    /^<!-- equal-bytes:begin/ {
        inside = 1; opened++
        while ((getline line < table) > 0) print line
    }
    END { if (opened != 1 || closed != 1) exit 1 }
' "$file" >"$table.new" || {
    echo "$file: need one pair of lines <!-- equal-bytes:begin ... --> and <!-- equal-bytes:end -->" >&2
    exit 1
}
cmp -s "$table.new" "$file" || cat "$table.new" >"$file"
