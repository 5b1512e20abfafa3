#!/usr/bin/env bash
# Settings, from a sweep to a table: a mean is over cells with equal settings, each rollout counts once, and a label
# names one method. The test also covers the counts and messages of a run.
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
json "finds its cells" '.cells == 4 and .done_before == 4 and .to_run == 0'
check "and leaves it alone" test "$(sqlite3 old.db 'PRAGMA user_version')" = 3 -a ! -e old.db.schema3
for set in sink=3\ timing=true compute=bf16\ kind=probe\ probe_every=64 metrics=psnr; do
    # shellcheck disable=SC2046,SC2086 # words on purpose
    exits 0 "its cells of $set" run a.yaml --db old.db --out o -n --json -s path=staged $(printf ' -s %s' $set)
    json "are found" '.cells == 2 and .done_before == 2'
done
exits 0 "a run on it" run a.yaml --db old.db --out o
says "tells where it is as it was" "migrated to schema $(sqlite3 old.db 'PRAGMA user_version'); backup: old.db.schema3"
check "and that is so" test "$(sqlite3 old.db.schema3 'PRAGMA user_version')" = 3

# Schema 3 called unquantized tensors `exact`. The stored specs keep this word, because it is part of the keys.
exits 0 "what methods were made of" report --db old.db -t options -f json
json "is told in today's words" '[.[] | select(.method == "BF16") | .codec_k, .codec_v] | unique == ["raw(type=bf16)"]'

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
exits 0 "a run with a method that misleads" run b.yaml --db b.db --out o -s 'path=[staged, dense]'
says "warns before it starts" '^warning: RTN_INT2@study\+taylor: the correction assumes'
exits 0 "the plan" run b.yaml --db b.db --out o -n -q
prints "has the warning, too" '^  warning: the correction assumes'
exits 0 "the plan as JSON" run b.yaml --db b.db --out o -n --json
json "has it" '[.methods[] | select(.warning != "") | .method] == ["RTN_INT2@study+taylor"]'
exits 0 "show" show RTN_INT2@study+taylor
prints "has it" 'the correction assumes'
exits 0 "show of one that does not" show RTN_INT2@study --json
json "has none" '.warning == null'
exits 0 "the rows" query --db b.db --json 'SELECT method FROM summary WHERE warning IS NOT NULL'
json "have it" '[.[].method] | unique == ["RTN_INT2@study+taylor"]'
exits 0 "the summary" report --db b.db -t summary -f json
json "has it" '[.[] | select(.warning != null) | .method] | unique == ["RTN_INT2@study+taylor"]'

cells=$(sql b.db 'SELECT count(*) FROM cell')
exits 0 "a second list of metrics" run b.yaml --db b.db --out o -n --json -s 'metrics=[psnr, ssim]'
json "asks for no rollout" '.to_run == 0 and .to_score == .done_before and .to_score == 6'
exits 0 "a run with it" run b.yaml --db b.db --out o --json -s 'metrics=[psnr, ssim]'
json "scores the frames that are there" '.ok == 0 and .scored == 6 and .not_scored == 0'
check "of the same cells" test "$(sql b.db 'SELECT count(*) FROM cell')" -eq "$cells"
exits 0 "once more" run b.yaml --db b.db --out o --json -s 'metrics=[ssim, psnr]'
json "has them all" '.to_run == 0 and .to_score == 0'
exits 0 "the summary of both" query --db b.db --json \
    "SELECT n_attempted AS n, psnr_db, ssim FROM summary WHERE method = 'int4' AND path = 'staged'"
json "counts a rollout once, with all its metrics" \
    'length == 1 and .[0].n == 2 and .[0].psnr_db > 20 and .[0].ssim > 0.5'
exits 0 "pairs by the metric of the first run" stats paired --metric psnr --db b.db -f json

for table in suites cache_size; do
    exits 0 "table $table" report --db b.db -t $table -f json
    json "has a row per path" '[.[].path] | unique == ["dense", "staged"]'
done
sed 's/group: 16/group: 8/' b.yaml >c.yaml
exits 0 "one label, another group" run c.yaml --db b.db --out o -q
exits 0 "its summary" query --db b.db --json \
    "SELECT method, compression FROM summary WHERE path = 'staged' AND name = 'RTN_INT4' ORDER BY 1"
json "has a row for each" '[.[] | [.method, (.compression * 100 | round)]] ==
    [["int4 defaults", 318], ["int4 group=8", 263]]'
for table in summary intervals cost; do
    exits 0 "table $table" report --db b.db -t $table -f json
    json "has them apart" '[.[].method | select(startswith("int4"))] | unique == ["int4 defaults", "int4 group=8"]'
done

# Cells that failed in an earlier run are counted separately.
changed b.db "UPDATE cell SET outcome = 'TIMEOUT', reason = 'longer than 1 s', verdict = 'INVALID',
    verdict_codes = 'TIMEOUT' WHERE key = (SELECT max(key) FROM cell WHERE method = 'int4' AND path = 'dense')"
exits 3 "a sweep with a cell that failed before" run b.yaml --db b.db --out o -q -s 'path=[staged, dense]'
prints "counts it" '0 failed, 12 not run \(11 done before, 1 failed before, 0 unsupported, 0 excluded\)'
says "says so" '1 cells failed, 1 of them in an earlier run'

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
exits 0 "its summary" report --db e.db -t summary -f json
json "has its bits, mean and most" '[.[] | select(.method == "CACHEGEN_16") |
    .varying_bits > 1 and .varying_bits < .max_varying_bits and .max_varying_bits < 8 and
    (.varying_bits - .bits | fabs) < 0.01] == [true]'
json "and none of those of fixed bytes" '[.[] | select(.method == "RTN_INT4") | .varying_bits] == [null]'
exits 0 "a summary without it" report --db old.db -t summary -f json
json "goes without" '[.[] | has("varying_bits")] | unique == [false]'

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
check "keeps frames alone" test "$(json_sql)" = frames
check "and has links to them alone" test "$(find v/by-name -type l | wc -l)" -eq 1
exits 0 "a run of the same with them" run v.yaml --db v.db --out v -n --json -s videos=true
json "has nothing left to do" '.done_before == 1 and .to_run == 0'
echo 'printf "{\"size\": %s}" "$(stat -c %s "$1")"' >size.sh
echo 'metrics: [psnr, {command: "sh ./size.sh {video}", name: mp4, scores: [size]}]' >>v.yaml
exits 0 "a program that is given the video" run v.yaml --db w.db --out w -q -s 'methods=[Q8_0@llamacpp]'
check "sees one" test "$(sqlite3 w.db "SELECT min(value) > 100 FROM metric WHERE name = 'mp4.size'")" = 1
check "a reading of a program's is one" test "$(sqlite3 w.db "SELECT reading FROM cell WHERE NOT is_baseline")" = llamacpp
