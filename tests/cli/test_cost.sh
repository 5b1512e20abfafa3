#!/usr/bin/env bash
# Cost of methods at Wan's sizes, with random weights. Every method runs on a small model of the same architecture; a
# few run with one chunk and one layer of Wan's size. Measured memory equals the prediction, and a metric that cannot
# be computed is NULL.
# long: runs every method, and layers of Wan's size.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cut="$root/configs/cost-wan-cut.yaml"
few='[BF16, RTN_INT2@study]'

exits 0 "list models" list models --json
json "list models says which weights are random" 'map({(.name): .weights}) | add | ."wan-1.3b-random" == "random" and .nano == "trained"'

# A dry run does not generate the 1.4e9 random weights.
exits 0 "a dry run plans every method" run "$root/configs/cost-wan.yaml" --set frames=12 --dry-run --json
json "the plan has all 33 @study methods" \
    '[.methods[].method] | (map(select(endswith("@study"))) | length == 33) and length >= 68'
json "no method is unsupported" 'all(.methods[]; .unsupported == 0 and .failed == 0 and .to_run == 2)'
exits 0 "a dry run at full length" run "$root/configs/cost-wan.yaml" --set baselines=none \
    --set 'methods=[BF16, RTN_INT4, F32]' --dry-run --json
json "the plan estimates operations and minimum time" \
    '(.flop - .to_run / 2 * 2 * 5.376e15 | fabs) < .flop * 1e-3 and .at_least_s > 0'
json "the predicted memory is between 17 and 40 GB" \
    '.predicted_bytes > 1.7e10 and .predicted_bytes < 4e10'

# A dry run reads only names and shapes: it needs less memory than the weights.
if ! "$kvreel" version | grep -q -- -fsanitize; then
    (
        ulimit -v 3000000
        exec "$kvreel" run "$root/configs/cost-wan.yaml" --set frames=12 --set baselines=none \
            --set 'methods=[BF16]' --dry-run
    ) >plan.out 2>plan.err
    check "a dry run needs less than 3 GB of address space" test $? -eq 0
fi

# Settings model_layers and model_steps reduce a model. They are allowed only for models with random weights, and
# cannot exceed the model's layers and steps.
exits 2 "model_layers is refused for a trained model" run "$cut" --dry-run --set model=nano
says "the error has the line and the reason" 'cost-wan-cut.yaml:[0-9]+:[0-9]+: .*trained'
exits 2 "model_layers cannot exceed the layers of the model" run "$cut" --dry-run --set model_layers=31
says "the error has the number of layers" 'the model has 30'
exits 2 "model_steps cannot exceed the steps of the model" run "$cut" --dry-run --set model_steps=5
exits 0 "predict for two layers" predict -m RTN_INT4 --geometry wan-1.3b-random --layers 2 \
    --frames 9 --json
json "two layers of 30 take a fifteenth of the cache" '.bf16_bytes == 2 * 2 * 4680 * 1536 * 2 and .layers == 2'
exits 2 "--layers is refused for a built-in geometry" predict -m BF16 --geometry wan-1.3b --layers 2 --frames 9

exits 2 "generate refuses a model without a decoder" generate --model wan-1.3b-random -p red -n 3
says "the error says that the latents are not RGB" 'latents are not RGB'

# `report --table cost` and `plot cost` read the committed measurements of a GPU.
exits 0 "the cost table of the H100 measurements" report --table cost --measured h100 --format json
json "each method and path has one row with GPU, date and commit" \
    'length >= 17 and (map([.method, .path]) | unique | length) == length and
     all(.[]; (.card | test("H100")) and (.date | length) == 10 and .commit != "")'
json "a time without runtime_s has a reason" 'all(.[]; (.runtime_s == null) == (.runtime_seen_s != null and .time_codes != null))'
exits 0 "the cost plot of the H100 measurements" plot cost --measured h100 -o card --format svg
check "the plot has a panel of published times" grep -q 'seconds of a video, published' card/cost.gp
exits 2 "a table other than cost needs a database" report --table summary --measured h100
says "the error names --db" "'summary' needs --db FILE"
exits 2 "a figure other than cost needs a database" plot pareto --measured h100
exits 2 "a GPU without measurements is refused" report --table cost --measured h1000
says "the error suggests h100" "did you mean 'h100'"

# Every method on a small model. The measured peak exceeds the prediction by the linear layers' workspace, which no
# prediction includes and which is the same for all methods. Some sizes depend on the data: exact outliers, lists of
# separate frames, and frames that are encoded again when their ranks change. kvreel predicts these sizes for the
# cheapest or most plausible data, so the prediction may be wrong by 0.5 %.
#
# If the data decides which tokens are kept, it also decides how many segments of a layer are encoded again. The
# peak may then be wrong by one layer's maximum size. If the data decides how many tokens are kept, the error may be
# as large as the cache of all tokens. An entropy coder's output may have any size up to that of the codes.
mkdir -p models/small
jq '.dim = 256 | .ffn_dim = 384 | .text_dim = 64 | .text_len = 16 | .num_heads = 2 | .num_layers = 2 |
    .latent_height = 16 | .latent_width = 24' "$root/models/wan-1.3b-random/config.json" \
    >models/small/config.json
exits 0 "every method runs" run "$cut" --set model=small --set model_layers=2 --set threads=1 \
    --db small.db --out small -q
exits 0 "the cost table of every method" report --db small.db --table cost --format json
json "the table has at least 68 rows" 'length >= 68'
json "the work space of BF16 is below 64 KiB" 'map(select(.method == "BF16"))[0].off_bytes | . >= 0 and . < 65536'
mkdir predicted
jq -r '.[].method' "$out" | while read -r method; do
    "$kvreel" predict -m "$method" --geometry models/small/config.json --layers 2 --frames 21 --json >"predicted/$method"
done
jq '{ (input_filename | sub(".*/"; "")): (if .data_dependent then
    (if .depends | startswith("which tokens stay") then .nominal_bytes_max / .layers
     elif .depends | startswith("how many tokens stay") then .nominal_bytes_max
     elif .depends | startswith("the numbers of outliers and of entropy-coded bytes") then .nominal_bytes_max - .nominal_bytes
     else 0 end)
    else null end) }' predicted/* | jq -s add >miss.json
json "every method has a prediction" --slurpfile miss miss.json \
    'length == ($miss[0] | length) and all(.[]; .method as $m | $miss[0] | has($m))'
json "all methods of fixed size exceed their prediction by the same bytes" --slurpfile miss miss.json \
    'map(select($miss[0][.method] == null and (.method | test("^FLOWCACHE|^(TPTQ|QAQ).*@study$") | not)).off_bytes) |
        unique | length == 1'
json "methods of data-dependent size stay within the error of the prediction" --slurpfile miss miss.json \
    'all(.[]; (.off_bytes | fabs) < 5e-3 * .predicted_bytes + ($miss[0][.method] // 0))'

if "$kvreel" version | grep -q -- -fsanitize; then
    skip "one layer of the size of Wan" "minutes under sanitizers; tests/engine/test_draw.c has a smaller one"
    exit
fi
less=(--set frames=3 --set model_layers=1)
exits 0 "two methods run with one layer of the size of Wan" run "$cut" --set "methods=$few" "${less[@]}" --db cut.db --out cut -j 1 -q
check "both cells are OK" test "$(sql cut.db "SELECT count(*) FROM cell WHERE outcome = 'OK'")" = 2
check "the model name of the cells has layers and steps" test \
    "$(sql cut.db 'SELECT group_concat(DISTINCT model) FROM cell')" = \
    'wan-1.3b-random/layers=1,steps=1'
check "fidelity metrics are NULL with the reason" test "$(sql cut.db \
    "SELECT count(*) FROM metric WHERE value IS NULL AND missing = 'the rollout has no frames, since no decoder is available for this model''s latents'")" = \
    "$(sql cut.db 'SELECT count(*) FROM metric')"
check "both cells have metrics" test "$(sql cut.db 'SELECT count(DISTINCT cell) FROM metric')" = 2
check "no video or frames are stored" test "$(sql cut.db 'SELECT count(*) FROM artifact')" = 0
check "the cells free all their memory" test "$(sql cut.db \
    'SELECT count(*) FROM cell WHERE live_start_bytes <> live_end_bytes')" = 0

exits 0 "the cost table of the two cells" report --db cut.db --table cost --format json
json "memory exceeds the prediction by less than 64 KiB" \
    'length == 2 and all(.[]; .off_bytes >= 0 and .off_bytes < 65536)'
json "the bytes by tag add up to the peak" \
    'all(.[]; .peak_bytes == .kv_bytes + .meta_bytes + .scratch_bytes + .weights_bytes + .act_bytes + .io_bytes)'
json "a reduced model has no published figures" 'all(.[]; .published_compression == null and .published_runtime_s == null and .published_peak_gib == null)'
exits 0 "the cost table as text" report --db cut.db --table cost
check "without published figures, the text does not name their source" bash -c "! grep -q 'published: ' '$out'"
cp cut.db whole.db
changed whole.db "UPDATE cell SET model = 'wan-1.3b-random'"
exits 0 "the cost table of a whole model" report --db whole.db --table cost --format json
json "the row has the published figures of the study" \
    'map(select(.method == "RTN_INT2@study"))[0] | .published_compression == 5.3333 and .published_runtime_s == 87.1'
json "the ratio of BF16 to itself is 1, or its time has a reason" 'map(select(.method == "BF16"))[0] | .runtime_ratio == 1 or (.runtime_s == null and .time_codes != "")'
json "the phases take more than 90 % of the time" \
    'all(.[]; .encode_s + .decode_s + .attend_s + .linear_s + .cross_s + .other_s > 0.9 * .runtime_seen_s)'
exits 0 "the cost table of a whole model as text" report --db whole.db --table cost
prints "the text names the source of the published figures" "published: the 33-method study's figures"
exits 0 "the HTML page of cells without videos" report --db cut.db -o page

exits 0 "the same sweep again" run "$cut" --set "methods=$few" "${less[@]}" --db cut.db --out cut \
    --json -q
json "finished cells are not run again" '.done_before == 2 and .to_run == 0'
exits 0 "a dry run with one more method" run "$cut" --set 'methods=[BF16, RTN_INT8]' \
    "${less[@]}" --db cut.db --out cut --dry-run --json
json "only the new method is to run" '.to_run == 1'
exits 3 "score finds no frames to score" score ms_ssim --db cut.db --out cut
says "the error says that no frames are stored" 'names no stored frames'
