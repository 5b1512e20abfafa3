#!/usr/bin/env bash
# between.sh - replaces the text between two markers of a page with standard input.
#
#     COMMAND | tools/measure/between.sh FILE NAME    between <!-- NAME:begin ... --> and <!-- NAME:end -->
#
# An empty line separates the text from each marker, because a Markdown table needs one.
set -euo pipefail

file=$1
name=$2
table=$(mktemp)
trap 'rm -f "$table" "$table.new"' EXIT
cat >"$table"
awk -v table="$table" -v name="$name" '
    $0 == "<!-- " name ":end -->" { inside = 0; closed++ }
    !inside { print }
    index($0, "<!-- " name ":begin") == 1 {
        inside = 1; opened++
        print ""
        while ((getline line < table) > 0) print line
        print ""
    }
    END { if (opened != 1 || closed != 1) exit 1 }
' "$file" >"$table.new" || {
    echo "$file: need one pair of lines <!-- $name:begin ... --> and <!-- $name:end -->" >&2
    exit 1
}
cmp -s "$table.new" "$file" || cat "$table.new" >"$file"
