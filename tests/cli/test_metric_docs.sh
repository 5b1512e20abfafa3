#!/usr/bin/env bash
# The documentation's table of metrics agrees with `kvreel list metrics`.
. tests/cli/lib.sh || exit 1

exits 0 "list metrics" list metrics --json
json "each has what a table needs" \
    'all(.[]; .name and .unit and .version >= 1 and .lowest < .highest and .source and .title)'
cp "$out" "$work/metrics.json"
while IFS=$'\t' read -r name unit better lowest highest version; do
    check "docs: $name" grep -qF "| $unit | $better | $lowest .. $highest | $version |" <(
        grep -F "| \`$name\` |" docs/measuring.md
    )
done < <(jq -r '.[] | select(.needs_truth | not) | [.name, .unit, .better, (.lowest | tostring),
    (.highest | if . == 1e6 then "1e6" else tostring end), .version] | @tsv' "$work/metrics.json")
check "no other metric is in the table" test \
    "$(jq 'map(select(.needs_truth | not)) | length' "$work/metrics.json")" -eq \
    "$(grep -cE '^\| `[a-z_]+` \|.*\| (higher|lower) \|' docs/measuring.md)"

# A `_truth` metric has no row of its own: it is named, and a row of the table has the metric without the suffix.
json "a metric against the truth is one against the reference" '. as $all | all(.[] |
    select(.needs_truth); . as $t | any($all[]; .needs_reference and .name + "_truth" == $t.name
    and .unit == $t.unit and .better == $t.better and .version == $t.version))'
json "every metric with a reference has one" '([.[] | select(.needs_truth)] | length) ==
    ([.[] | select(.needs_reference)] | length)'
for name in $(jq -r '.[] | select(.needs_truth) | .name' "$work/metrics.json"); do
    check "docs: $name" grep -qF "\`$name\`" docs/measuring.md
done
