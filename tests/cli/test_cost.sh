#!/usr/bin/env bash
# cost: Wan's sizes with random weights. Every method runs on a small model of the same architecture, and a few run
# with one chunk and one layer of the real sizes. Memory equals the prediction, and results without a value are
# NULL.
# long: every method, and layers of Wan's size.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cut="$root/configs/cost-wan-cut.yaml"
few='[BF16, RTN_INT2@study]'

exits 0 "list models" list models --json
json "says whose weights are none" 'map({(.name): .weights}) | add | ."wan-1.3b-random" == "random" and .nano == "trained"'

# A dry run does not generate the 1.4e9 random weights.
exits 0 "every method is planned" run "$root/configs/cost-wan.yaml" --set frames=12 --dry-run --json
json "33 study rows in both readings, at two windows" \
    '[.methods[].method] | (map(select(endswith("@study"))) | length == 33) and length >= 68'
json "nothing is refused" 'all(.methods[]; .unsupported == 0 and .failed == 0 and .to_run == 2)'
exits 0 "a few at the whole length" run "$root/configs/cost-wan.yaml" --set baselines=none \
    --set 'methods=[BF16, RTN_INT4, F32]' --dry-run --json
json "an estimate by arithmetic, a warm-up for each" \
    '(.flop - .to_run / 2 * 2 * 5.376e15 | fabs) < .flop * 1e-3 and .at_least_s > 0'
json "memory of the largest: 33 GB of keys and values or less, and the weights" \
    '.predicted_bytes > 1.7e10 and .predicted_bytes < 4e10'

# A dry run reads only names and shapes: it needs less memory than the weights.
if ! "$kvreel" version | grep -q -- -fsanitize; then
    (
        ulimit -v 3000000
        exec "$kvreel" run "$root/configs/cost-wan.yaml" --set frames=12 --set baselines=none \
            --set 'methods=[BF16]' --dry-run
    ) >plan.out 2>plan.err
    check "a plan packs no weights" test $? -eq 0
fi

# Only random models can be cut, and a cut cannot have more layers or steps than the model.
exits 2 "a trained model is not cut" run "$cut" --dry-run --set model=nano
says "says why, and where" 'cost-wan-cut.yaml:[0-9]+:[0-9]+: .*trained'
exits 2 "no more layers than there are" run "$cut" --dry-run --set model_layers=31
says "says how many" 'the model has 30'
exits 2 "nor steps" run "$cut" --dry-run --set model_steps=5
exits 0 "predict for two layers" predict -m RTN_INT4 --geometry wan-1.3b-random --layers 2 \
    --frames 9 --json
json "a fifteenth of the cache" '.bf16_bytes == 2 * 2 * 4680 * 1536 * 2 and .layers == 2'
exits 2 "a built-in geometry is whole" predict -m BF16 --geometry wan-1.3b --layers 2 --frames 9

exits 2 "nor is there a video" generate --model wan-1.3b-random -p red -n 3
says "says what there is" 'latents are not RGB'

# The cost table from a GPU's committed figures.
exits 0 "the cost table of a measured card" report --table cost --measured h100 --format json
json "one row a method and path, each with card, date and commit" \
    'length >= 17 and (map([.method, .path]) | unique | length) == length and
     all(.[]; (.card | test("H100")) and (.date | length) == 10 and .commit != "")'
json "a time counts or says why not" 'all(.[]; (.runtime_s == null) == (.runtime_seen_s != null and .time_codes != null))'
exits 0 "drawn" plot cost --measured h100 -o card --format svg
check "two panels" grep -q 'seconds of a video, published' card/cost.gp
exits 2 "other tables need a database" report --table summary --measured h100
says "says so" "'summary' needs --db FILE"
exits 2 "other figures, too" plot pareto --measured h100
exits 2 "a card without figures" report --table cost --measured h1000
says "says which is near" "did you mean 'h100'"

# Every method on a small model. The measured peak exceeds the prediction by the linear layers' workspace, which no
# prediction includes and which is the same for all methods. Sizes that depend on the data are predicted for the
# cheapest or most plausible case and may be wrong by 0.5 %. These are exact outliers, lists of separate frames, and
# frames that are encoded again when their ranks change.
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
exits 0 "its table" report --db small.db --table cost --format json
json "a row for each" 'length >= 68'
json "BF16's work space is small" 'map(select(.method == "BF16"))[0].off_bytes | . >= 0 and . < 65536'
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
json "every method is predicted" --slurpfile miss miss.json \
    'length == ($miss[0] | length) and all(.[]; .method as $m | $miss[0] | has($m))'
json "memory is what arithmetic predicts" --slurpfile miss miss.json \
    'map(select($miss[0][.method] == null and (.method | test("^FLOWCACHE|^(TPTQ|QAQ).*@study$") | not)).off_bytes) |
        unique | length == 1'
json "or, where it hangs on the data, nearly" --slurpfile miss miss.json \
    'all(.[]; (.off_bytes | fabs) < 5e-3 * .predicted_bytes + ($miss[0][.method] // 0))'

if "$kvreel" version | grep -q -- -fsanitize; then
    skip "the cut" "minutes under sanitizers; tests/engine/test_draw.c has a smaller one"
    exit
fi
less=(--set frames=3 --set model_layers=1)
exits 0 "the cut runs" run "$cut" --set "methods=$few" "${less[@]}" --db cut.db --out cut -j 1 -q
check "nothing failed" test "$(sql cut.db "SELECT count(*) FROM cell WHERE outcome = 'OK'")" = 2
check "under the name of the part" test \
    "$(sql cut.db 'SELECT group_concat(DISTINCT model) FROM cell')" = \
    'wan-1.3b-random/layers=1,steps=1'
check "fidelity is NULL with the reason" test "$(sql cut.db \
    "SELECT count(*) FROM metric WHERE value IS NULL AND missing = 'the rollout has no frames, since no decoder is available for this model''s latents'")" = \
    "$(sql cut.db 'SELECT count(*) FROM metric')"
check "of each cell" test "$(sql cut.db 'SELECT count(DISTINCT cell) FROM metric')" = 2
check "no video, no frames" test "$(sql cut.db 'SELECT count(*) FROM artifact')" = 0
check "nothing is left over" test "$(sql cut.db \
    'SELECT count(*) FROM cell WHERE live_start_bytes <> live_end_bytes')" = 0

exits 0 "the table" report --db cut.db --table cost --format json
json "memory is what arithmetic predicts" \
    'length == 2 and all(.[]; .off_bytes >= 0 and .off_bytes < 65536)'
json "the tags are the peak" \
    'all(.[]; .peak_bytes == .kv_bytes + .meta_bytes + .scratch_bytes + .weights_bytes + .act_bytes + .io_bytes)'
json "published figures stand beside, of the method as the study ran it" \
    'map(select(.method == "RTN_INT2@study"))[0] | .published_compression == 5.3333 and .published_runtime_s == 87.1'
json "a ratio to BF16" 'map(select(.method == "BF16"))[0] | .runtime_ratio == 1 or (.runtime_s == null and .time_codes != "")'
json "phases explain the time" \
    'all(.[]; .encode_s + .decode_s + .attend_s + .linear_s + .cross_s + .other_s > 0.9 * .runtime_seen_s)'
exits 0 "the same for people" report --db cut.db --table cost
prints "says whose figures" "published: the 33-method study's figures"
exits 0 "the page copes with cells that show nothing" report --db cut.db -o page

exits 0 "again: nothing to do" run "$cut" --set "methods=$few" "${less[@]}" --db cut.db --out cut \
    --json -q
json "all done before" '.done_before == 2 and .to_run == 0'
exits 0 "one more method, and no baseline again" run "$cut" --set 'methods=[BF16, RTN_INT8]' \
    "${less[@]}" --db cut.db --out cut --dry-run --json
json "one to run" '.to_run == 1'
exits 3 "there is nothing to score" score ms_ssim --db cut.db --out cut
says "says why" 'names no stored frames'
