#!/usr/bin/env bash
# Table `scaled` extrapolates a whole model's time and peak memory from runs with two smaller numbers of layers. For
# linear times, which the test sets, the result is exact; peaks agree with the whole model's. A result that cannot be
# extrapolated is NULL with the reason.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cd "$work" || exit 1
mkdir -p models/small
jq '.dim = 256 | .ffn_dim = 384 | .text_dim = 64 | .text_len = 16 | .num_heads = 2 | .num_layers = 8 |
    .latent_height = 16 | .latent_width = 24' "$root/models/wan-1.3b-random/config.json" >models/small/config.json
cat >c.yaml <<'Y'
model: small
prompts: [{id: one, text: a large red disc}]
frames: 6
baselines: none
control: 0
videos: false
seed: 1
timing: true
model_steps: 1
methods: [BF16, RTN_INT4, RTN_INT4@study]
Y
part() { exits 0 "a sweep with $1 layers (0: all)" run c.yaml --db s.db --out s -j 1 -q --set "model_layers=$1"; }
part 2
exits 0 "table scaled with one number of layers" report --db s.db --table scaled --format json
json "nothing is extrapolated, with the reason" 'length == 3 and all(.[]; .scaled_runtime_s == null and .scaled_seen_s == null and
    .scaled_peak_bytes == null and (.missing | test("extrapolation needs a second value of model_layers")))'
part 4
part 0
# Sets times: a constant 1 s, plus .5 s per layer for BF16 and .75 s for other methods.
changed s.db "UPDATE cell SET time_codes = NULL, verdict_codes = '', verdict = 'VALID', wall_ns = 1000000000 +
    (CASE coalesce(json_extract(spec, '\$.model.layers'), 0) WHEN 0 THEN 8 ELSE json_extract(spec, '\$.model.layers') END) *
    iif(method = 'BF16', 500000000, 750000000)"
exits 0 "table scaled with two numbers of layers and the whole model" report --db s.db --table scaled --format json
json "each method has one row with its numbers of layers" 'length == 3 and all(.[]; .measured_layers == "2, 4" and .layers == 8 and .missing == null)'
json "linear times are extrapolated exactly" 'map({(.method): .}) | add | (.BF16.scaled_runtime_s - 5 | fabs) < 1e-9 and
    (.RTN_INT4.scaled_runtime_s - 7 | fabs) < 1e-9 and (.RTN_INT4.scaled_ratio - 1.4 | fabs) < 1e-9 and
    (.RTN_INT4.error_seen | fabs) < 1e-9'
json "extrapolated peaks agree within 1 %" 'all(.[]; (.error_peak | fabs) <= 0.01 and .whole_peak_bytes > 0)'
exits 0 "table scaled as text" report --db s.db --table scaled
prints "the text says that fidelity cannot be extrapolated" 'fidelity cannot be extrapolated'
changed s.db "UPDATE cell SET time_codes = 'LOAD' WHERE json_extract(spec, '\$.model.layers') = 4"
exits 0 "table scaled of times measured under load" report --db s.db --table scaled --format json
json "times measured under load are not extrapolated" 'all(.[]; .scaled_runtime_s == null and .scaled_seen_s > 0 and .time_codes == "LOAD")'
changed s.db "UPDATE cell SET wall_ns = 1000000000"
exits 0 "table scaled of times that do not grow with the layers" report --db s.db --table scaled --format json
json "times that do not grow are not extrapolated, with the reason" 'all(.[]; .scaled_seen_s == null and .missing == "the runtime does not increase with model_layers, so the runtime is not extrapolated" and .scaled_peak_bytes > 0)'

exits 0 "1080p and 14B are planned" run "$root/configs/cost-cut.yaml" --dry-run --json
json "both models are supported" 'all(.methods[]; .unsupported == 0 and .to_run == 2)'
exits 0 "predict for 1080p" predict -m BF16 -g wan-1.3b-1080p-random --frames 81 --json
json "1080p has 8160 tokens per latent frame" '.tokens == 21 * 8160 and .layers == 30 and .bf16_bytes == 30 * 2 * 2 * 21 * 8160 * 1536'
exits 0 "predict for 14B" predict -m BF16 -g wan-14b-random --frames 81 --json
json "14B has 40 layers of width 5120" '.tokens == 21 * 1560 and .bf16_bytes == 40 * 2 * 2 * 21 * 1560 * 5120'

# At 480p, the predicted peaks and operations for 2, 4 and all 30 layers lie on a line.
for m in BF16 FORCING_KV RTN_INT4 KIVI_INT2; do
    for n in 2 4 0; do
        exits 0 "predict $m in $n layers (0: all)" predict -m "$m" --geometry wan-1.3b-random --layers "$n" --frames 81 \
            --window 21 --device cuda --compute bf16 --json
        cp "$out" "$m.$n.json"
    done
    check "the prediction of $m is linear in the number of layers" test "$(jq -s 'map([.peak_bytes, .phases.network.memory_bytes, .phases.network.flop]) |
        . as [$a, $b, $all] | [range(3) | $a[.] + 14 * ($b[.] - $a[.]) == $all[.]] | all' "$m".{2,4,0}.json)" = true
done
