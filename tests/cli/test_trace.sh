#!/usr/bin/env bash
# Traces are recorded, checked, replayed and generated; damaged ones are refused.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
lm=$root/tests/fixtures/lm

exits 0 "a rollout is recorded" trace record red.kvtrace -n 6 -w 6 --licence Apache-2.0 -q \
    -p 'a large red disc bounces over a plain blue background'
prints "and its size is said" '^red.kvtrace: [0-9.]+ MiB$'
exits 0 "it is a trace" trace check red.kvtrace -q
prints "of this model" '^red.kvtrace: a trace of nano \(licence: Apache-2.0\)$'
prints "and its layout" '^6 layers, 3 query heads, 3 key heads, head_dim 64$'
prints "and its length" '^6 frames of 36 tokens in 2 chunks, 10 forward passes; attention window 6 frames .0: all.$'
prints "and its answers" '^60 files, .* all values finite; attention outputs recorded for 60 attention calls$'
exits 0 "as JSON" trace check red.kvtrace --json
json "with the largest values" '.largest.k > 0.1 and .layout.heads == 3 and .text == "a large red disc bounces over a plain blue background"'
check "the index has the rotary embedding" jq -e '.rope == {pairs: "adjacent", channels: [24, 20, 20], base: 10000}' red.kvtrace/index.json

exits 0 "a text is recorded" trace record text.kvtrace --model "$lm" --name tiny --tokens "$lm/texts.safetensors" \
    --tensor a -n 80 --chunk 32 --no-outputs -q
exits 0 "it is a trace, too" trace check text.kvtrace -q
prints "of causal attention" 'causal attention$'
prints "without answers" 'recorded for 0 attention calls$'

exits 2 "a folder with something in it is not written over" trace record red.kvtrace -n 3 -q -p 'a large red disc'
says "and why" 'red.kvtrace: the folder is not empty; a trace needs its own folder'
exits 2 "a video model needs a prompt" trace record no.kvtrace -q
says "and says so" 'trace: nano is a video model: to record from it, give --prompt TEXT'
exits 2 "a language model needs tokens" trace record no.kvtrace --model "$lm" -q
says "and says so, too" 'give --tokens FILE and --tensor NAME, and omit'
exits 2 "another word" trace play red.kvtrace
says "is refused" "trace: unknown action 'play', need record"
exits 2 "no trace" trace check "$root/models/nano"
says "is told" 'index.json: file not found: the folder is not a trace, or its recording was not finished'
printf 'x' | dd of=red.kvtrace/c00001-p02-l0003.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
exits 2 "a changed byte is seen" trace check red.kvtrace -q
says "and where" 'c00001-p02-l0003.safetensors: the file.s sha256 is [0-9a-f]{12}, but the index has [0-9a-f]{12}'

# From a recording to the report, with the sweep configs/trace.yaml.
mkdir out
exits 0 "one is recorded" trace record out/red.kvtrace -n 6 -q -p 'a large red disc drifts right'
exits 0 "and another" trace record out/green.kvtrace -n 6 -q -p 'a large green square drifts left'
methods='methods=[BF16, RTN_INT4, RTN_INT2@study, KIVI_INT2+taylor]'
exits 0 "they are replayed" run "$root/configs/trace.yaml" --set "$methods" --set baselines=none -q --json
json "every cell of both kinds" '.ok == 16 and .failed == 0'
exits 0 "again there is nothing to do" run "$root/configs/trace.yaml" --set "$methods" --set baselines=none -q --json
json "for all are there" '.to_run == 0'
value() { sql out/trace.db "SELECT $1 FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE $2"; }
check "BF16 gives the recorded bits" test "$(value 'count(*), max(m.value)' "m.name = 'recorded_rel' AND c.method = 'BF16'")" = '4|0.0'
check "INT4 does not" test "$(value 'count(*)' "m.name = 'attn_out_rel' AND c.method = 'RTN_INT4' AND m.value BETWEEN 0.01 AND 0.1")" = 4
check "the two witnesses of it agree" test "$(value 'count(*)' "m.name = 'attn_out_rel' AND c.run_kind = 'bench' AND abs(m.value -
    (SELECT p.value FROM metric p JOIN cells_wide d ON d.key = p.cell WHERE p.name = m.name AND d.run_kind = 'probe'
     AND (d.method, d.prompt_id) = (c.method, c.prompt_id))) <= 0.1 * m.value")" = 8 # every 4th query is probed
check "cells are of this model" test "$(sql out/trace.db "SELECT DISTINCT model || ' ' || suite || ' ' || frames || ' ' || window || ' ' || forcing FROM cells_wide")" = 'nano/trace traces 6 21 teacher'
exits 0 "the table of replays" report --db out/trace.db --table replay --format json
json "has errors, bytes, recall and times" 'map(select(.method == "RTN_INT4"))[0] | .compression > 3 and .attn_out_rel > 0.01 and
    .topk_recall > 0.9 and .topk_recall < 1 and .jsd > 0 and .attend_s > 0 and .n == 2'
exits 0 "recall by age" report --db out/trace.db --table probes_by_age --format json
json "falls with fewer bits" 'map(select(.age == 1)) | INDEX(.method) | .BF16.topk_recall == 1 and
    .RTN_INT4.topk_recall > ."RTN_INT2@study".topk_recall'
exits 0 "the front" pareto --db out/trace.db --objectives attn_out_rel:min,compression:max --format json
json "of error and compression" 'length == 4'
exits 0 "the figure" plot age_recall --db out/trace.db -o out/figures
check "is there" test -s out/figures/age_recall.svg
exits 0 "the page" report --db out/trace.db -o out/site
check "knows the error" grep -q '"name":"attn_out_rel"' out/site/index.html

sweep() { printf 'trace: %s\nmethods: [BF16, RTN_INT4]\n%s\n' "$1" "${2-}" >s.yaml; }
sweep out/red.kvtrace 'model: nano'
exits 2 "a model beside a trace" run s.yaml --dry-run
says "is refused" "s.yaml:3:8: 'model' cannot be combined with 'trace'"
sweep '[out/red.kvtrace, ./out/red.kvtrace]'
exits 2 "the same trace twice" run s.yaml --dry-run
says "is refused, too" "trace 'red' is listed twice"
sweep out/red.kvtrace 'frames: 9'
exits 2 "more frames than there are" run s.yaml --dry-run
says "are told" "9 frames of trace 'red' requested, need a multiple of 3 .frames per chunk., at most 6"
sweep out/red.kvtrace 'model_layers: 7'
exits 2 "more layers, too" run s.yaml --dry-run
says "by number" "model_layers 7: trace 'red' has only 6"
sweep nowhere.kvtrace
exits 2 "no such trace" run s.yaml --dry-run
says "is told by its place" 's.yaml:1:8: trace not found at nowhere.kvtrace'
sweep out/red.kvtrace 'forcing: step'
exits 0 "what a trace cannot be" run s.yaml --dry-run --json
json "is a cell that is not possible" '.unsupported == 2'
sweep text.kvtrace 'frames: 64'
exits 0 "a language model's trace is replayed" run s.yaml --db text.db --out t -q --json
json "in whole chunks" '.ok == 2'
cp -r out/red.kvtrace gone.kvtrace
sweep gone.kvtrace
printf x | dd of=gone.kvtrace/c00000-p00-l0000.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
exits 3 "a damaged trace" run s.yaml --db gone.db --out g -q
check "is a failure that says why" test "$(sql gone.db "SELECT count(*) FROM cells_wide WHERE outcome = 'ERROR' AND reason LIKE '%c00000-p00-l0000.safetensors: the file''s sha256 is%'")" -ge 1

# Generated traces of pseudorandom numbers.
exits 0 "one like a trace" trace synth like.kvtrace --like out/red.kvtrace -n 6 -q
exits 0 "is a trace" trace check like.kvtrace --json
json "of the same sizes and passes" '.layout.heads == 3 and .passes == 10 and .outputs == 0 and .source == "randomly drawn, with the statistics of a trace of nano"'
exits 0 "one of another size" trace synth wan.kvtrace --preset wan-1.3b --layers 1 -n 1 --outliers 6 --size 12 -q --json
exits 0 "is one, too" trace check wan.kvtrace --json
json "with outliers" '.layout.head_dim == 128 and .tokens == 1560 and .licence == "none: drawn numbers" and .largest.k > 12 and .largest.v < 8'
sweep like.kvtrace
exits 0 "what is drawn is replayed" run s.yaml --db like.db --out l -q --json
json "like any other" '.ok == 2'
check "and has an error" test "$(sql like.db "SELECT count(*) FROM metric WHERE name = 'attn_out_rel' AND value BETWEEN 0.01 AND 0.2")" = 1
exits 0 "one layer" trace synth one.kvtrace --like out/red.kvtrace --layers 1 -n 6 -q
sweep one.kvtrace 'device: emulated'
exits 0 "is replayed on a device" run s.yaml --db one.db --out n -q
sweep one.kvtrace
exits 0 "and on the CPU" run s.yaml --db one.db --out n -q
check "from the same bytes" test "$(sql one.db "SELECT count(*) || ' ' || count(DISTINCT max_resident_bytes) || ' ' || count(DISTINCT backend) FROM cells_wide WHERE method = 'RTN_INT4' AND outcome = 'OK'")" = '2 1 2'
check "with the same error" test "$(sql one.db "SELECT count(*), min(m.value) > 0.001, max(m.value) - min(m.value) <= 0.001 * min(m.value) FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE m.name = 'attn_out_rel' AND c.method = 'RTN_INT4'")" = '2|1|1'
# INT8 attention runs on compute capability 9.0 and is refused on others.
exits 0 "heads of 128" trace synth bytes.kvtrace --preset "$root/tests/fixtures/wan_tiny/config.json" \
    --layers 1 -n 9 --outliers 6 --size 12 -q
printf 'trace: bytes.kvtrace\nmethods: [RTN_INT4, QUAROT_KV_INT4]\nattend: [float, int8]\ndevice: emulated\n' >s.yaml
KVREEL_EMULATED_CAPABILITY=9.0 exits 0 "are attended to by bytes on a device" run s.yaml --db bytes.db --out n -q
check "with nearly the same error" test "$(sql bytes.db "SELECT count(*), count(DISTINCT m.value), max(abs(m.value - 0.0435)) < 0.002 FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE m.name = 'attn_out_rel' AND c.method != 'BF16'")" = '4|4|1'
sed -i 's/^attend.*/attend: int8/' s.yaml
KVREEL_EMULATED_CAPABILITY=8.0 exits 5 "not on another" run s.yaml --db other.db --out n -q
check "which is told" test "$(sql other.db "SELECT count(*) FROM cells_wide WHERE outcome = 'UNSUPPORTED' AND reason LIKE 'attend int8 on a device: compute capability is 8.0, need 9.0%'")" = 3
exits 2 "of nothing" trace synth no.kvtrace -q
says "there is none" 'synth needs --preset NAME .*, --like DIR .*, or both'
exits 2 "more layers than there are" trace synth no.kvtrace --like out/red.kvtrace --layers 7 -q
says "are refused" '--layers 7 exceeds the number of layers of --like out/red.kvtrace, 6'
