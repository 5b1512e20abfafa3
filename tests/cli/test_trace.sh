#!/usr/bin/env bash
# Traces are recorded, checked, replayed and generated; damaged ones are refused.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
lm=$root/tests/fixtures/lm

exits 0 "trace record writes a trace of a rollout" trace record red.kvtrace -n 6 -w 6 --licence Apache-2.0 -q \
    -p 'a large red disc bounces over a plain blue background'
prints "trace record prints the trace's size" '^red.kvtrace: [0-9.]+ MiB$'
exits 0 "trace check accepts the recorded trace" trace check red.kvtrace -q
prints "trace check prints model and licence" '^red.kvtrace: a trace of nano \(licence: Apache-2.0\)$'
prints "trace check prints layers, heads and head dimension" '^6 layers, 3 query heads, 3 key heads, head_dim 64$'
prints "trace check prints frames, chunks, passes and window" '^6 frames of 36 tokens in 2 chunks, 10 forward passes; attention window 6 frames .0: all.$'
prints "trace check prints files and recorded attention outputs" '^60 files, .* all values finite; attention outputs recorded for 60 attention calls$'
exits 0 "trace check --json" trace check red.kvtrace --json
json "the JSON has maxima, layout and prompt" '.largest.k > 0.1 and .layout.heads == 3 and .text == "a large red disc bounces over a plain blue background"'
check "index.json has the parameters of the rotary embedding" jq -e '.rope == {pairs: "adjacent", channels: [24, 20, 20], base: 10000}' red.kvtrace/index.json

exits 0 "trace record writes a trace of a text" trace record text.kvtrace --model "$lm" --name tiny --tokens "$lm/texts.safetensors" \
    --tensor a -n 80 --chunk 32 --no-outputs -q
exits 0 "trace check accepts the text's trace" trace check text.kvtrace -q
prints "the text's attention is causal" 'causal attention$'
prints "--no-outputs records no attention outputs" 'recorded for 0 attention calls$'

exits 2 "trace record refuses a folder that is not empty" trace record red.kvtrace -n 3 -q -p 'a large red disc'
says "the error says that a trace needs its own folder" 'red.kvtrace: the folder is not empty; a trace needs its own folder'
exits 2 "trace record of a video model needs a prompt" trace record no.kvtrace -q
says "the error names --prompt" 'trace: nano is a video model: to record from it, give --prompt TEXT'
exits 2 "trace record of a language model needs tokens" trace record no.kvtrace --model "$lm" -q
says "the error names --tokens and --tensor" 'give --tokens FILE and --tensor NAME, and omit'
exits 2 "trace refuses an unknown action" trace play red.kvtrace
says "the error names the action" "trace: unknown action 'play', need record"
exits 2 "trace check refuses a folder without a trace" trace check "$root/models/nano"
says "the error says that index.json is missing" 'index.json: file not found: the folder is not a trace, or its recording was not finished'
printf 'x' | dd of=red.kvtrace/c00001-p02-l0003.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
exits 2 "trace check finds a changed byte" trace check red.kvtrace -q
says "the error names the file and both hashes" 'c00001-p02-l0003.safetensors: the file.s sha256 is [0-9a-f]{12}, but the index has [0-9a-f]{12}'

# configs/trace.yaml replays two recorded traces. Tables, the Pareto front, a figure and the page show the results.
mkdir out
exits 0 "trace record of prompt red for the sweep" trace record out/red.kvtrace -n 6 -q -p 'a large red disc drifts right'
exits 0 "trace record of prompt green for the sweep" trace record out/green.kvtrace -n 6 -q -p 'a large green square drifts left'
methods='methods=[BF16, RTN_INT4, RTN_INT2@study, KIVI_INT2+taylor]'
exits 0 "run replays both traces" run "$root/configs/trace.yaml" --set "$methods" --set baselines=none -q --json
json "all 16 cells of both kinds succeed" '.ok == 16 and .failed == 0'
exits 0 "a second run of the replays" run "$root/configs/trace.yaml" --set "$methods" --set baselines=none -q --json
json "the second run has no open cell" '.to_run == 0'
value() { sql out/trace.db "SELECT $1 FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE $2"; }
check "BF16 reproduces the recorded attention outputs exactly" test "$(value 'count(*), max(m.value)' "m.name = 'recorded_rel' AND c.method = 'BF16'")" = '4|0.0'
check "RTN_INT4's relative output error is 0.01 to 0.1" test "$(value 'count(*)' "m.name = 'attn_out_rel' AND c.method = 'RTN_INT4' AND m.value BETWEEN 0.01 AND 0.1")" = 4
# Probe cells compare only every 4th query, so their error may differ from that of the 8 bench cells (4 methods, 2
# traces).
check "bench and probe cells agree on the output error within 10 %" test "$(value 'count(*)' "m.name = 'attn_out_rel' AND c.run_kind = 'bench' AND abs(m.value -
    (SELECT p.value FROM metric p JOIN cells_wide d ON d.key = p.cell WHERE p.name = m.name AND d.run_kind = 'probe'
     AND (d.method, d.prompt_id) = (c.method, c.prompt_id))) <= 0.1 * m.value")" = 8
check "cells have the trace's model, frames, window and forcing" test "$(sql out/trace.db "SELECT DISTINCT model || ' ' || suite || ' ' || frames || ' ' || window || ' ' || forcing FROM cells_wide")" = 'nano/trace traces 6 21 teacher'
exits 0 "report --table replay" report --db out/trace.db --table replay --format json
json "the table has errors, compression, recall and times" 'map(select(.method == "RTN_INT4"))[0] | .compression > 3 and .attn_out_rel > 0.01 and
    .topk_recall > 0.9 and .topk_recall < 1 and .jsd > 0 and .attend_s > 0 and .n == 2'
exits 0 "report --table probes_by_age" report --db out/trace.db --table probes_by_age --format json
json "top-k recall falls with fewer bits" 'map(select(.age == 1)) | INDEX(.method) | .BF16.topk_recall == 1 and
    .RTN_INT4.topk_recall > ."RTN_INT2@study".topk_recall'
exits 0 "pareto of output error and compression" pareto --db out/trace.db --objectives attn_out_rel:min,compression:max --format json
json "the Pareto front has four methods" 'length == 4'
exits 0 "plot age_recall" plot age_recall --db out/trace.db -o out/figures
check "plot writes the figure" test -s out/figures/age_recall.svg
exits 0 "report writes a page of the replays" report --db out/trace.db -o out/site
check "the page has the output error" grep -q '"name":"attn_out_rel"' out/site/index.html

sweep() { printf 'trace: %s\nmethods: [BF16, RTN_INT4]\n%s\n' "$1" "${2-}" >s.yaml; }
sweep out/red.kvtrace 'model: nano'
exits 2 "a sweep with both trace and model is refused" run s.yaml --dry-run
says "the error names the line of 'model'" "s.yaml:3:8: 'model' cannot be combined with 'trace'"
sweep '[out/red.kvtrace, ./out/red.kvtrace]'
exits 2 "the same trace twice is refused" run s.yaml --dry-run
says "the error names the trace that is listed twice" "trace 'red' is listed twice"
sweep out/red.kvtrace 'frames: 9'
exits 2 "more frames than the trace has are refused" run s.yaml --dry-run
says "the error gives the trace's number of frames" "9 frames of trace 'red' requested, need a multiple of 3 .frames per chunk., at most 6"
sweep out/red.kvtrace 'model_layers: 7'
exits 2 "more layers than the trace has are refused" run s.yaml --dry-run
says "the error gives the trace's number of layers" "model_layers 7: trace 'red' has only 6"
sweep nowhere.kvtrace
exits 2 "a missing trace is refused" run s.yaml --dry-run
says "the error names the line and the path" 's.yaml:1:8: trace not found at nowhere.kvtrace'
sweep out/red.kvtrace 'forcing: step'
exits 0 "dry run of a trace with forcing: step" run s.yaml --dry-run --json
json "cells of a trace with forcing: step are unsupported" '.unsupported == 2'
sweep text.kvtrace 'frames: 64'
exits 0 "run replays a language model's trace" run s.yaml --db text.db --out t -q --json
json "both cells of the language model's trace succeed" '.ok == 2'
cp -r out/red.kvtrace gone.kvtrace
sweep gone.kvtrace
printf x | dd of=gone.kvtrace/c00000-p00-l0000.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
exits 3 "run of a damaged trace fails" run s.yaml --db gone.db --out g -q
check "the cell's reason names the damaged file" test "$(sql gone.db "SELECT count(*) FROM cells_wide WHERE outcome = 'ERROR' AND reason LIKE '%c00000-p00-l0000.safetensors: the file''s sha256 is%'")" -ge 1

# Generated traces of pseudorandom numbers.
exits 0 "trace synth --like" trace synth like.kvtrace --like out/red.kvtrace -n 6 -q
exits 0 "trace check accepts the synthetic trace" trace check like.kvtrace --json
json "the synthetic trace has the original's heads and passes" '.layout.heads == 3 and .passes == 10 and .outputs == 0 and .source == "randomly drawn, with the statistics of a trace of nano"'
exits 0 "trace synth --preset with outliers" trace synth wan.kvtrace --preset wan-1.3b --layers 1 -n 1 --outliers 6 --size 12 -q --json
exits 0 "trace check accepts the preset's trace" trace check wan.kvtrace --json
json "the preset's trace has outliers in K, not in V" '.layout.head_dim == 128 and .tokens == 1560 and .licence == "none: drawn numbers" and .largest.k > 12 and .largest.v < 8'
sweep like.kvtrace
exits 0 "run replays the synthetic trace" run s.yaml --db like.db --out l -q --json
json "both cells of the synthetic trace succeed" '.ok == 2'
check "RTN_INT4 has an output error on the synthetic trace" test "$(sql like.db "SELECT count(*) FROM metric WHERE name = 'attn_out_rel' AND value BETWEEN 0.01 AND 0.2")" = 1
exits 0 "trace synth --layers 1" trace synth one.kvtrace --like out/red.kvtrace --layers 1 -n 6 -q
sweep one.kvtrace 'device: emulated'
exits 0 "run replays one layer on the emulated device" run s.yaml --db one.db --out n -q
sweep one.kvtrace
exits 0 "run replays one layer on the CPU" run s.yaml --db one.db --out n -q
check "CPU and emulated device use the same number of bytes" test "$(sql one.db "SELECT count(*) || ' ' || count(DISTINCT max_resident_bytes) || ' ' || count(DISTINCT backend) FROM cells_wide WHERE method = 'RTN_INT4' AND outcome = 'OK'")" = '2 1 2'
check "CPU and emulated device have the same output error within 0.1 %" test "$(sql one.db "SELECT count(*), min(m.value) > 0.001, max(m.value) - min(m.value) <= 0.001 * min(m.value) FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE m.name = 'attn_out_rel' AND c.method = 'RTN_INT4'")" = '2|1|1'
# INT8 attention runs on compute capability 9.0 and is refused on others.
exits 0 "trace synth with head dimension 128" trace synth bytes.kvtrace --preset "$root/tests/fixtures/wan_tiny/config.json" \
    --layers 1 -n 9 --outliers 6 --size 12 -q
printf 'trace: bytes.kvtrace\nmethods: [RTN_INT4, QUAROT_KV_INT4]\nattend: [float, int8]\ndevice: emulated\n' >s.yaml
KVREEL_EMULATED_CAPABILITY=9.0 exits 0 "INT8 and float attention run at compute capability 9.0" run s.yaml --db bytes.db --out n -q
check "INT8 and float attention have nearly the same output error" test "$(sql bytes.db "SELECT count(*), count(DISTINCT m.value), max(abs(m.value - 0.0435)) < 0.002 FROM metric m JOIN cells_wide c ON c.key = m.cell WHERE m.name = 'attn_out_rel' AND c.method != 'BF16'")" = '4|4|1'
sed -i 's/^attend.*/attend: int8/' s.yaml
KVREEL_EMULATED_CAPABILITY=8.0 exits 5 "INT8 attention is unsupported at compute capability 8.0" run s.yaml --db other.db --out n -q
check "the cells' reason states the compute capability" test "$(sql other.db "SELECT count(*) FROM cells_wide WHERE outcome = 'UNSUPPORTED' AND reason LIKE 'attend int8 on a device: compute capability is 8.0, need 9.0%'")" = 3
exits 2 "trace synth needs --preset or --like" trace synth no.kvtrace -q
says "the error names --preset and --like" 'synth needs --preset NAME .*, --like DIR .*, or both'
exits 2 "trace synth refuses more layers than --like has" trace synth no.kvtrace --like out/red.kvtrace --layers 7 -q
says "the error states both numbers of layers" '--layers 7 exceeds the number of layers of --like out/red.kvtrace, 6'
