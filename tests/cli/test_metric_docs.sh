#!/usr/bin/env bash
# The documentation's table of metrics agrees with `kvreel list metrics`.
. tests/cli/lib.sh || exit 1

exits 0 "list metrics" list metrics --json
json "each metric has a unit, a version, bounds, a source and a title" \
    'all(.[]; .name and .unit and .version >= 1 and .lowest < .highest and .source and .title)'
cp "$out" "$work/metrics.json"
while IFS=$'\t' read -r name unit better lowest highest version; do
    check "docs/measuring.md has the row of $name" grep -qF "| $unit | $better | $lowest .. $highest | $version |" <(
        grep -F "| \`$name\` |" docs/measuring.md
    )
done < <(jq -r '.[] | select(.needs_truth | not) | [.name, .unit, .better, (.lowest | tostring),
    (.highest | if . == 1e6 then "1e6" else tostring end), .version] | @tsv' "$work/metrics.json")
check "no other metric is in the table" test \
    "$(jq 'map(select(.needs_truth | not)) | length' "$work/metrics.json")" -eq \
    "$(grep -cE '^\| `[a-z_]+` \|.*\| (higher|lower) \|' docs/measuring.md)"

# docs/measuring.md names each `_truth` metric, but its table has only the row of the metric without this suffix.
json "each _truth metric has unit, direction and version of its reference metric" '. as $all | all(.[] |
    select(.needs_truth); . as $t | any($all[]; .needs_reference and .name + "_truth" == $t.name
    and .unit == $t.unit and .better == $t.better and .version == $t.version))'
json "each metric with a reference has a _truth metric" '([.[] | select(.needs_truth)] | length) ==
    ([.[] | select(.needs_reference)] | length)'
for name in $(jq -r '.[] | select(.needs_truth) | .name' "$work/metrics.json"); do
    check "docs/measuring.md names $name" grep -qF "\`$name\`" docs/measuring.md
done
