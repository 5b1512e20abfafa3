#!/usr/bin/env bash
# The table of metrics in the documentation says what the program says.
. tests/cli/lib.sh || exit 1

exits 0 "list metrics" list metrics --json
json "each has what a table needs" \
    'all(.[]; .name and .unit and .version >= 1 and .lowest < .highest and .source and .title)'
cp "$out" "$work/metrics.json"
while IFS=$'\t' read -r name unit better lowest highest version; do
    check "docs: $name" grep -qF "| $unit | $better | $lowest .. $highest | $version |" <(
        grep -F "| \`$name\` |" docs/measuring.md
    )
done < <(jq -r '.[] | [.name, .unit, .better, (.lowest | tostring),
    (.highest | if . == 1e6 then "1e6" else tostring end), .version] | @tsv' "$work/metrics.json")
check "no other metric is in the table" test "$(jq length "$work/metrics.json")" -eq \
    "$(grep -cE '^\| `[a-z_]+` \|.*\| (higher|lower) \|' docs/measuring.md)"
