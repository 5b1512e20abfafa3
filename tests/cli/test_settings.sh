#!/usr/bin/env bash
# Settings in tables: a mean covers only cells with equal settings, each rollout counts once, and a label names one
# method. The test also covers the counts and messages of a run.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

cat >a.yaml <<'YAML'
question: does a database of schema 3 open, read and resume?
model: nano
prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]
methods: [BF16, {method: RTN_INT4, options: {group: 16}, label: int4}]
frames: 6
path: [staged, dense]
YAML

# Cell keys are equal to those of a database of schema 3, which had no table of settings.
sqlite3 old.db <"$root/tests/fixtures/schema_3.sql"
exits 0 "a dry run on a database of schema 3" run a.yaml --db old.db --out o --dry-run --json
json "the dry run finds the cells" '.cells == 4 and .done_before == 4 and .to_run == 0'
check "the dry run does not change the database" test "$(sqlite3 old.db 'PRAGMA user_version')" = 3 -a ! -e old.db.schema3
for set in sink=3\ timing=true compute=bf16\ kind=probe\ probe_every=64 metrics=psnr; do
    # shellcheck disable=SC2046,SC2086 # $set is split into words
    exits 0 "a dry run with $set on the old database" run a.yaml --db old.db --out o -n --json -s path=staged $(printf ' -s %s' $set)
    json "the cells with $set are found" '.cells == 2 and .done_before == 2'
done
exits 0 "a run on a database of schema 3" run a.yaml --db old.db --out o
says "the message names the schema and the backup" "migrated to schema $(sqlite3 old.db 'PRAGMA user_version'); backup: old.db.schema3"
check "the backup has schema 3" test "$(sqlite3 old.db.schema3 'PRAGMA user_version')" = 3

# Schema 3 called unquantized tensors `exact`. The stored specs keep this word, because it is part of the keys.
exits 0 "table options of the migrated database" report --db old.db -t options -f json
json "table options calls unquantized tensors raw" '[.[] | select(.method == "BF16") | .codec_k, .codec_v] | unique == ["raw(type=bf16)"]'

# The sweep has two suites and two paths. Its second run has another metric, and one label for two methods.
cat >b.yaml <<'YAML'
question: are these means of what belongs together?
model: nano
suite:
  - {suite: moviegen-nano, prompts: 1}
  - {suite: storyeval-nano, prompts: 1}
methods: [{method: RTN_INT4, options: {group: 16}, label: int4}, RTN_INT2@study+taylor]
frames: 6
metrics: [ssim]
YAML
exits 0 "a run with a correction that does not suit its method" run b.yaml --db b.db --out o -s 'path=[staged, dense]'
says "the run warns before it starts" '^warning: RTN_INT2@study\+taylor: the correction assumes'
exits 0 "a dry run of that sweep" run b.yaml --db b.db --out o -n -q
prints "the dry run has the warning" '^  warning: the correction assumes'
exits 0 "a dry run of that sweep as JSON" run b.yaml --db b.db --out o -n --json
json "the JSON has the warning" '[.methods[] | select(.warning != "") | .method] == ["RTN_INT2@study+taylor"]'
exits 0 "show of that method" show RTN_INT2@study+taylor
prints "show has the warning" 'the correction assumes'
exits 0 "show of a method without a warning" show RTN_INT2@study --json
json "show has no warning" '.warning == null'
exits 0 "a query for warnings" query --db b.db --json 'SELECT method FROM summary WHERE warning IS NOT NULL'
json "the view summary has the warning" '[.[].method] | unique == ["RTN_INT2@study+taylor"]'
exits 0 "the summary" report --db b.db -t summary -f json
json "the table summary has the warning" '[.[] | select(.warning != null) | .method] | unique == ["RTN_INT2@study+taylor"]'

# A default baseline is named in a note, not in a warning. Databases of earlier versions have a warning for it.
exits 0 "a plan with default baselines" run b.yaml --db b.db --out o -n -s baselines=all
says "names them once" '^note: default baselines \(.*\): INT8_PTH, FP8_PTH, ROLLING_WINDOW fit=[0-9]+'
check "and not as a warning" test "$(grep -c 'warning:' "$out")" -eq 1
cp b.db before.db
sqlite3 before.db "UPDATE cell SET warning = 'baseline: added by default (\`baselines: none\` omits it)' WHERE method = 'int4'"
exits 0 "the rows of an earlier version" query --db before.db --json 'SELECT method FROM summary WHERE warning IS NOT NULL'
json "have no such warning" '[.[].method] | unique == ["RTN_INT2@study+taylor"]'

cells=$(sql b.db 'SELECT count(*) FROM cell')
exits 0 "a dry run with a second metric" run b.yaml --db b.db --out o -n --json -s 'metrics=[psnr, ssim]'
json "six cells are to score, and none is to run" '.to_run == 0 and .to_score == .done_before and .to_score == 6'
exits 0 "a run with a second metric" run b.yaml --db b.db --out o --json -s 'metrics=[psnr, ssim]'
json "the run scores the stored frames" '.ok == 0 and .scored == 6 and .not_scored == 0'
check "the run adds no cell" test "$(sql b.db 'SELECT count(*) FROM cell')" -eq "$cells"
exits 0 "a run with the metrics in another order" run b.yaml --db b.db --out o --json -s 'metrics=[ssim, psnr]'
json "no cell is to run or to score" '.to_run == 0 and .to_score == 0'
exits 0 "a query for both metrics" query --db b.db --json \
    "SELECT n_attempted AS n, psnr_db, ssim FROM summary WHERE method = 'int4' AND path = 'staged'"
json "the summary counts each rollout once, with both metrics" \
    'length == 1 and .[0].n == 2 and .[0].psnr_db > 20 and .[0].ssim > 0.5'
exits 0 "stats paired by the metric of the second run" stats paired --metric psnr --db b.db -f json

for table in suites cache_size; do
    exits 0 "table $table" report --db b.db -t $table -f json
    json "table $table has a row per path" '[.[].path] | unique == ["dense", "staged"]'
done
sed 's/group: 16/group: 8/' b.yaml >c.yaml
exits 0 "the same label for another group size" run c.yaml --db b.db --out o -q
exits 0 "a query for both group sizes" query --db b.db --json \
    "SELECT method, compression FROM summary WHERE path = 'staged' AND name = 'RTN_INT4' ORDER BY 1"
json "the summary has a row per group size" '[.[] | [.method, (.compression * 100 | round)]] ==
    [["int4 defaults", 318], ["int4 group=8", 263]]'
for table in summary intervals cost; do
    exits 0 "table $table with both group sizes" report --db b.db -t $table -f json
    json "table $table has a row per group size" '[.[].method | select(startswith("int4"))] | unique == ["int4 defaults", "int4 group=8"]'
done

# Cells that failed in an earlier run are counted separately.
changed b.db "UPDATE cell SET outcome = 'TIMEOUT', reason = 'longer than 1 s', verdict = 'INVALID',
    verdict_codes = 'TIMEOUT' WHERE key = (SELECT max(key) FROM cell WHERE method = 'int4' AND path = 'dense')"
exits 3 "a sweep with a cell that failed before" run b.yaml --db b.db --out o -q -s 'path=[staged, dense]'
prints "the run counts failed cells of earlier runs" '0 failed, 12 not run \(11 done before, 1 failed before, 0 unsupported, 0 excluded\)'
says "the message counts failed cells of earlier runs" '1 cells failed, 1 of them in an earlier run'

# The bits of an entropy coder depend on the data: the cell has their mean and their maximum per block.
cat >e.yaml <<'YAML'
question: what does an entropy coder take?
model: nano
prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]
methods: [CACHEGEN_16, RTN_INT4]
frames: 6
control: 0
videos: false
YAML
exits 0 "a run with an entropy coder" run e.yaml --db e.db --out e -q
exits 0 "the summary with an entropy coder" report --db e.db -t summary -f json
json "the summary has the mean and maximum bits of the coder" '[.[] | select(.method == "CACHEGEN_16") |
    .varying_bits > 1 and .varying_bits < .max_varying_bits and .max_varying_bits < 8 and
    (.varying_bits - .bits | fabs) < 0.01] == [true]'
json "a method of fixed size has no such bits" '[.[] | select(.method == "RTN_INT4") | .varying_bits] == [null]'
exits 0 "the summary of a sweep without an entropy coder" report --db old.db -t summary -f json
json "the summary has no column varying_bits" '[.[] | has("varying_bits")] | unique == [false]'

# videos: false encodes no video, unless a metric program takes one.
cat >v.yaml <<'YAML'
question: is a cell the same without its video?
model: nano
prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]
methods: [BF16]
frames: 6
control: 0
videos: false
YAML
exits 0 "a run without videos" run v.yaml --db v.db --out v -q
json_sql() { sqlite3 v.db "SELECT group_concat(kind, ' ') FROM (SELECT kind FROM artifact ORDER BY kind)"; }
check "only frames are stored" test "$(json_sql)" = frames
check "only frames have a link" test "$(find v/by-name -type l | wc -l)" -eq 1
exits 0 "a dry run of the same sweep with videos" run v.yaml --db v.db --out v -n --json -s videos=true
json "the cell is done" '.done_before == 1 and .to_run == 0'
echo 'printf "{\"size\": %s}" "$(stat -c %s "$1")"' >size.sh
echo 'metrics: [psnr, {command: "sh ./size.sh {video}", name: mp4, scores: [size]}]' >>v.yaml
exits 0 "a run with a metric program that reads the video" run v.yaml --db w.db --out w -q -s 'methods=[Q8_0@llamacpp]'
check "the metric program gets a video" test "$(sqlite3 w.db "SELECT min(value) > 100 FROM metric WHERE name = 'mp4.size'")" = 1
check "the cell has the version llamacpp" test "$(sqlite3 w.db "SELECT reading FROM cell WHERE NOT is_baseline")" = llamacpp
