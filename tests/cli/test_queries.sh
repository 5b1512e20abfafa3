#!/usr/bin/env bash
# Every query of docs/queries.md answers, and every table of `kvreel report` can be made.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/q.yaml"
shared_sweep "$work/q.yaml" "$work/q.db" "$work/out"
# One cell that did not work out, for the queries about those.
changed "$work/q.db" "UPDATE cell SET outcome = 'TIMEOUT', reason = 'longer than 1 s', verdict = 'INVALID',
    verdict_codes = 'TIMEOUT' WHERE key = (SELECT max(key) FROM cell WHERE method = 'RTN_INT4')"

mkdir "$work/sql"
awk -v dir="$work/sql" '/^### /{n = $2 + 0} /^```sql/{on = 1; next} /^```/{on = 0} on{print > (dir "/" sprintf("%02d", n))}' \
    docs/queries.md
check "there are twenty" test "$(find "$work/sql" -type f | wc -l)" -eq 20
for file in "$work"/sql/*; do
    n=$(basename "$file")
    exits 0 "query $n" query --db "$work/q.db" "$(cat "$file")" --csv
    check "query $n has an answer" test "$(wc -l <"$out")" -gt 1
done

"$kvreel" report --list >"$work/tables"
while read -r name _; do
    case $name in probe* | truth | prefill | replay) continue ;; esac # of probed cells, clips, texts, traces
    exits 0 "table $name" report --db "$work/q.db" -t "$name" -f csv
    if [ "$name" = sensitivity ]; then # three prompts make no verdict that could be sensitive
        says "table $name is empty and says why" 'no rows: .*no two methods are separable'
    else
        check "table $name has rows" test "$(wc -l <"$out")" -gt 1
    fi
    exits 0 "table $name in LaTeX" report --db "$work/q.db" -t "$name" -f latex
done <"$work/tables"
# Against SQLite's own arithmetic.
exits 0 "the study's columns" report --db "$work/q.db" -t appendix_c -f json
want=$(sql "$work/q.db" "SELECT avg(value) FROM metric JOIN cell ON cell = key WHERE metric.name = 'ssim'
    AND method = 'RTN_INT2' AND suite = 'storyeval-nano'")
json "have the mean of the cells" "[.[] | select(.method == \"RTN_INT2\" and .suite == \"storyeval-nano\") |
    (.ssim - $want | fabs) < 1e-12] == [true]"
exits 0 "the table of corrections" report --db "$work/q.db" -t bias -f json
json "has the carrier with and without" '[.[] | .carrier + " " + .correction] == ["RTN_INT2 none", "RTN_INT2 taylor"]'
exits 0 "the summary with intervals" report --db "$work/q.db" -t intervals -f json
json "means lie inside" '[.[] | select(.ssim_lo != null) | .ssim_lo <= .ssim and .ssim <= .ssim_hi] | length > 2 and all'
# RTN_INT2 loses to BF16 on all three prompts, as a fair coin does once in eight times.
json "three prompts tell nobody apart" 'all(.[] | select(.ssim != null); .tie == "a")'
json "a failed cell is counted" 'any(.[]; .method == "RTN_INT4" and .n == "2/3")'

# For other programs.
exits 0 "rows as lines" query --db "$work/q.db" --jsonl 'SELECT * FROM cells_wide'
jq -s . "$out" >"$work/lines.json"
exits 0 "and as one document" query --db "$work/q.db" --json 'SELECT * FROM cells_wide'
check "are the same rows" bash -c "diff <(jq -S . '$work/lines.json') <(jq -S . '$out')"
check "each in a line of its own" test "$("$kvreel" query --db "$work/q.db" --jsonl 'SELECT * FROM cells_wide' | wc -l)" -eq "$(jq length "$out")"
exits 2 "one form at a time" query --db "$work/q.db" --jsonl --csv 'SELECT 1'
exits 0 "a report as lines" report --db "$work/q.db" -t summary -f jsonl
check "has a row per method" test "$(jq -s 'length' "$out")" -eq "$(sql "$work/q.db" 'SELECT count(*) FROM summary')"
if python3 -c 'import pyarrow' 2>/dev/null; then
    check "Parquet of the database" python3 tools/to-parquet.py "$work/q.db" -o "$work/parquet"
    check "has its rows" test "$(python3 -c "
import pyarrow.parquet as p
print(p.read_metadata('$work/parquet/metric.parquet').num_rows)")" -eq "$(sql "$work/q.db" 'SELECT count(*) FROM metric')"
    check "Parquet of lines" bash -c "'$kvreel' query --db '$work/q.db' --jsonl 'SELECT * FROM summary' | python3 tools/to-parquet.py - -o '$work/s.parquet'"
elif command -v python3 >/dev/null; then
    check "to-parquet.py says what it needs" bash -c "python3 tools/to-parquet.py '$work/q.db' -o '$work/parquet' 2>&1 | grep -q 'pip install pyarrow'"
    skip "Parquet" "no pyarrow here"
else
    skip "Parquet" "no python3 here"
fi
