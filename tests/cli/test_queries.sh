#!/usr/bin/env bash
# Every query of docs/queries.md returns rows, and kvreel can print every table of `kvreel report`.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/q.yaml"
shared_sweep "$work/q.yaml" "$work/q.db" "$work/out"
# The test marks one cell as failed, for the queries about failures.
changed "$work/q.db" "UPDATE cell SET outcome = 'TIMEOUT', reason = 'longer than 1 s', verdict = 'INVALID',
    verdict_codes = 'TIMEOUT' WHERE key = (SELECT max(key) FROM cell WHERE method = 'RTN_INT4')"

mkdir "$work/sql"
awk -v dir="$work/sql" '/^### /{n = $2 + 0} /^```sql/{on = 1; next} /^```/{on = 0} on{print > (dir "/" sprintf("%02d", n))}' \
    docs/queries.md
check "docs/queries.md has 20 queries" test "$(find "$work/sql" -type f | wc -l)" -eq 20
for file in "$work"/sql/*; do
    n=$(basename "$file")
    exits 0 "query $n" query --db "$work/q.db" "$(cat "$file")" --csv
    check "query $n returns rows" test "$(wc -l <"$out")" -gt 1
done

"$kvreel" report --list >"$work/tables"
while read -r name _; do
    case $name in probe* | truth | prefill | replay | variance | scaled) continue ;; esac # their cells are not in this sweep
    exits 0 "table $name" report --db "$work/q.db" -t "$name" -f csv
    if [ "$name" = sensitivity ]; then # no difference over three prompts is significant
        says "table $name is empty and says why" 'no rows: .*no two methods differ significantly'
    else
        check "table $name has rows" test "$(wc -l <"$out")" -gt 1
    fi
    exits 0 "table $name in LaTeX" report --db "$work/q.db" -t "$name" -f latex
done <"$work/tables"
# SQLite computes the same means as table appendix_c.
exits 0 "report --table appendix_c" report --db "$work/q.db" -t appendix_c -f json
want=$(sql "$work/q.db" "SELECT avg(value) FROM metric JOIN cell ON cell = key WHERE metric.name = 'ssim'
    AND method = 'RTN_INT2' AND suite = 'storyeval-nano'")
json "the SSIM in appendix_c is the mean of the cells" "[.[] | select(.method == \"RTN_INT2\" and .suite == \"storyeval-nano\") |
    (.ssim - $want | fabs) < 1e-12] == [true]"
exits 0 "report --table bias" report --db "$work/q.db" -t bias -f json
json "table bias has RTN_INT2 with and without the correction" '[.[] | .carrier + " " + .correction] == ["RTN_INT2 none", "RTN_INT2 taylor"]'
exits 0 "the summary with intervals" report --db "$work/q.db" -t intervals -f json
cp "$out" "$work/intervals.json"
exits 0 "the plain summary" report --db "$work/q.db" -t summary -f json
json "both summaries have the same intervals" --slurpfile i "$work/intervals.json" 'map(select(.ssim_lo != null)) | length > 2 and
    all(.[]; . as $r | any($i[0][]; .method == $r.method and .ssim_lo == $r.ssim_lo and .ssim_hi == $r.ssim_hi and .psnr_hi == $r.psnr_hi))'
json "the summary has no column of_settings" 'all(.[]; has("of_settings") | not)'
exits 0 "the summary in LaTeX" report --db "$work/q.db" -t summary -f latex
prints "means in LaTeX have their intervals" '[0-9]_\{-[0-9.]+\}\^\{\+[0-9.]+\}\$'
prints "LaTeX prints the best value in bold" '\\(mathbf|textbf)\{[0-9]'
cp "$work/intervals.json" "$out"
json "means lie inside their intervals" '[.[] | select(.ssim_lo != null) | .ssim_lo <= .ssim and .ssim <= .ssim_hi] | length > 2 and all'
# RTN_INT2 is worse than BF16 on all three prompts. A fair coin gives this result with probability 1/8, so the report
# calls the two methods a tie.
json "with three prompts, all methods tie" 'all(.[] | select(.ssim != null); .tie == "a")'
json "a failed cell is counted" 'any(.[]; .method == "RTN_INT4" and .n == "2/3")'

# Output formats for other programs: JSON lines, JSON and Parquet.
exits 0 "query --jsonl" query --db "$work/q.db" --jsonl 'SELECT * FROM cells_wide'
jq -s . "$out" >"$work/lines.json"
exits 0 "query --json" query --db "$work/q.db" --json 'SELECT * FROM cells_wide'
check "--jsonl and --json have the same rows" bash -c "diff <(jq -S . '$work/lines.json') <(jq -S . '$out')"
check "--jsonl prints one row per line" test "$("$kvreel" query --db "$work/q.db" --jsonl 'SELECT * FROM cells_wide' | wc -l)" -eq "$(jq length "$out")"
exits 2 "query refuses two formats" query --db "$work/q.db" --jsonl --csv 'SELECT 1'
exits 0 "report --format jsonl" report --db "$work/q.db" -t summary -f jsonl
check "the report has a row per method" test "$(jq -s 'length' "$out")" -eq "$(sql "$work/q.db" 'SELECT count(*) FROM summary')"
if python_has pyarrow "Parquet"; then
    check "to-parquet.py converts the database" "$python" tools/to-parquet.py "$work/q.db" -o "$work/parquet"
    check "every table and view with rows is converted, value by value" "$python" - "$work/q.db" "$work/parquet" <<'PY'
import pathlib, sqlite3, sys
import pyarrow.parquet
db, folder = sqlite3.connect(sys.argv[1]), pathlib.Path(sys.argv[2])
names = [n for n, in db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
                                " AND name NOT LIKE 'sqlite_%'")]
full = [n for n in names if db.execute(f'SELECT 1 FROM "{n}" LIMIT 1').fetchone()]
assert len(full) > 12 and sorted(f"{n}.parquet" for n in full) == sorted(f.name for f in folder.iterdir())
for name in full:
    read = pyarrow.parquet.read_table(folder / f"{name}.parquet")
    want = db.execute(f'SELECT * FROM "{name}"')
    assert read.column_names == [d[0] for d in want.description], name
    assert list(zip(*(c.to_pylist() for c in read.columns))) == want.fetchall(), name
PY
    check "to-parquet.py converts JSON lines" bash -c "'$kvreel' query --db '$work/q.db' --jsonl 'SELECT * FROM summary' | '$python' tools/to-parquet.py - -o '$work/s.parquet'"
    check "the converted lines equal the converted view" "$python" -c "import pyarrow.parquet as p
a, b = (p.read_table('$work/' + f) for f in ('s.parquet', 'parquet/summary.parquet'))
assert a.to_pylist() == b.to_pylist() and a.num_rows > 4"
    check "to-parquet.py refuses an unknown table and lists the tables" bash -c "! '$python' tools/to-parquet.py '$work/q.db' sumary -o '$work/none' 2>'$err' && grep -q \"no table or view 'sumary'; the database has .*summary\" '$err'"
else
    check "to-parquet.py says that it needs pyarrow" bash -c "'$python' tools/to-parquet.py '$work/q.db' -o '$work/parquet' 2>&1 | grep -q 'pip install pyarrow'"
fi

# A repeat is not another prompt: it does not change the interval of any mean.
cp "$work/q.db" "$work/r.db"
stored=$(sqlite3 "$work/r.db" "SELECT group_concat(name) FROM pragma_table_info('cell')")
changed "$work/r.db" "CREATE TABLE x AS SELECT $stored FROM cell WHERE name = 'RTN_INT2' AND prompt_id = (SELECT min(prompt_id)
    FROM cell WHERE name = 'RTN_INT2');
    CREATE TABLE m AS SELECT * FROM metric WHERE cell IN (SELECT key FROM x);
    CREATE TABLE p AS SELECT * FROM pass WHERE cell IN (SELECT key FROM x);
    UPDATE x SET key = key || 'r', repeat = 1; UPDATE m SET cell = cell || 'r'; UPDATE p SET cell = cell || 'r';
    INSERT INTO cell ($stored) SELECT * FROM x; INSERT INTO metric SELECT * FROM m; INSERT INTO pass SELECT * FROM p;
    DROP TABLE x; DROP TABLE m; DROP TABLE p"
for table in bias cache_size; do
    "$kvreel" report --db "$work/q.db" -t $table -f json >"$work/once.json"
    exits 0 "table $table with a repeat" report --db "$work/r.db" -t $table -f json
    json "table $table counts the repeat as a cell" --slurpfile once "$work/once.json" '([.[].n_ok] | add) > ([$once[0][].n_ok] | add)'
    json "table $table has the same intervals with a repeat" --slurpfile once "$work/once.json" \
        'map([.ssim_lo, .psnr_hi]) == ($once[0] | map([.ssim_lo, .psnr_hi])) and any(.[]; .ssim_lo < .ssim)'
done
changed "$work/r.db" "UPDATE cell SET method = 'RTN_INT2@study', reading = 'study' WHERE method = 'RTN_INT2'"
exits 0 "beside published figures" reproduce study33 --db "$work/r.db" --quantity ssim --json
json "reproduce counts prompts, not repeats" '[.[] | select(.method == "RTN_INT2") | .basis | capture("n = (?<n>[0-9]+)").n] | sort == ["1", "2"]'

# Every mean in every table has an interval if there are enough prompts. The test inserts the metrics that this sweep
# lacks (truth, traces, probes) into its database.
cp "$work/q.db" "$work/i.db"
changed "$work/i.db" "CREATE TABLE n AS SELECT name, scale FROM (SELECT 'psnr_truth' AS name, 30 AS scale UNION ALL
        SELECT 'psnr_truth.drift', -2 UNION ALL SELECT 'ssim_truth', 0.9 UNION ALL SELECT 'attn_out_rel', 0.3 UNION ALL
        SELECT 'attn_out_cos', 0.9 UNION ALL SELECT 'recorded_rel', 0.2 UNION ALL SELECT 'lpips', 0.1 UNION ALL
        SELECT 'delta_a', 0.03 UNION ALL SELECT 'jsd', 0.02 UNION ALL SELECT 'topk_recall', 0.8);
    INSERT OR REPLACE INTO metric SELECT m.cell, n.name, n.scale * m.value, '1', 1, NULL, NULL FROM metric m, n
        WHERE m.name = 'ssim' AND m.value IS NOT NULL;
    CREATE TABLE a AS SELECT 'delta_a' AS name UNION ALL SELECT 'mass_bf16' UNION ALL SELECT 'keys_bf16' UNION ALL
        SELECT 'jsd' UNION ALL SELECT 'attn_out_rel' UNION ALL SELECT 'attn_out_rel_k' UNION ALL
        SELECT 'attn_out_rel_v' UNION ALL SELECT 'top1_agreement' UNION ALL SELECT 'topk_recall' UNION ALL
        SELECT 'mass_on_zero' UNION ALL SELECT 'mass_on_summary' UNION ALL SELECT 'mass_lost' UNION ALL
        SELECT 'k_rel_error' UNION ALL SELECT 'v_rel_error' UNION ALL SELECT 'recodes' UNION ALL SELECT 'value_changes';
    INSERT INTO probe(cell, name, layer, head, age, value, n) SELECT m.cell, a.name, p.layer, p.head, p.age,
        m.value * 0.1 * (1 + coalesce(p.head, 0)), 1 FROM metric m, a, (SELECT 0 AS layer, 0 AS head, NULL AS age
        UNION ALL SELECT 0, 1, NULL UNION ALL SELECT NULL, NULL, 1) p WHERE m.name = 'ssim' AND m.value IS NOT NULL;
    UPDATE cell SET verdict = 'VALID', verdict_codes = '' WHERE outcome = 'OK';
    DROP TABLE n; DROP TABLE a"
means='["ssim", "psnr_db", "lpips", "runtime_s", "drift", "smoothness", "sharpness", "psnr_truth", "lost_db", "ssim_truth",
    "truth_drift_db", "attn_out_rel", "attn_out_cos", "recorded_rel", "delta_a", "jsd", "topk_recall", "mass_bf16",
    "keys_bf16", "attn_out_rel_k", "attn_out_rel_v", "top1_agreement", "mass_on_zero", "mass_on_summary", "mass_lost",
    "k_rel_error", "v_rel_error", "recodes", "value_changes", "encode_s", "decode_s", "attend_s"]'
for table in summary intervals truth cache_size bias replay table2 appendix_c probes probes_by_layer probes_by_age; do
    exits 0 "table $table with all metrics" report --db "$work/i.db" -t $table -f json
    case $table in truth | appendix_c) # separate rows per suite; one suite has only one prompt
        jq '[.[] | select(.suite == "moviegen-nano")]' "$out" >"$work/two" && mv "$work/two" "$out" ;;
    esac
    json "table $table: each mean lies inside its interval" --argjson means "$means" '[.[] as $r | $means[] | select($r[.] != null) |
        . as $m | sub("_(db|s)$"; "") as $s | (if $r[$s + "_lo"] then $s else $m end) as $s |
        $r[$s + "_lo"] != null and $r[$s + "_lo"] <= $r[$m] + 1e-12 and $r[$m] <= $r[$s + "_hi"] + 1e-12] | length > 2 and all'
done
# A query with mean_lo() and mean_hi() gives the interval in table truth.
exits 0 "report --table truth" report --db "$work/i.db" -t truth -f json
cp "$out" "$work/truth.json"
exits 0 "a query with mean_lo() and mean_hi()" query --db "$work/i.db" --json "SELECT c.method, avg(m.value) AS mean, max(0.0, mean_lo(m.value)) AS lo, mean_hi(m.value) AS hi
    FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE m.name = 'psnr_truth' AND c.run_kind = 'bench' AND c.jitter = 0
    AND c.outcome = 'OK' AND c.suite = 'moviegen-nano' GROUP BY c.method"
json "the query and table truth have the same interval" --slurpfile t "$work/truth.json" 'length > 2 and all(.[]; . as $r | any($t[0][]; .method == $r.method and .n == 2 and
    ((.psnr_truth - $r.mean | fabs) < 1e-9) and ((.psnr_truth_lo - $r.lo | fabs) < 1e-9) and .psnr_truth_hi == ([$r.hi, 100] | min)))'
exits 0 "table truth as text" report --db "$work/i.db" -t truth
prints "the cell of a mean has its interval" '^RTN_INT2 .* [0-9.]+ \[[0-9.]+, [0-9.]+\]'
