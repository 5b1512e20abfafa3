#!/usr/bin/env bash
# profile: writes layer budgets from BF16 rollouts to a file for the option layer_budget.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
three_threads

exits 0 "profile" profile --prompts 1 --frames 6 -o budget.txt --json -q
json "a budget and a score for every layer" \
    '(.budget | length) == 6 and (.score | length) == 6 and .prompts == 1 and .frames == 6'
json "budgets range from 0.7 to 1.3" '((.budget | min) == 0.7) and ((.budget | max) - 1.3 | fabs) < 1e-9'
check "profile -q prints nothing to stderr" test ! -s "$err"
check "the file has one number per layer" test "$(grep -vc '^#' budget.txt)" -eq 6
exits 0 "predict reads the layer budgets" predict -m FLOWCACHE_PRUNE_INT4 -g nano -n 42 -O layer_budget=budget.txt --json
OMP_NUM_THREADS=1 exits 0 "profile with one thread" profile --prompts 1 --frames 6 -q
check "one thread gives the same budgets" bash -c "diff <(grep -v '^#' budget.txt) <(grep -v '^#' '$out')"
exits 2 "an unknown suite" profile --suite moviegen-nan
says "the error suggests moviegen-nano" 'moviegen-nano'
exits 2 "profile refuses --min above --max" profile --min 1.3 --max 0.7
exits 2 "profile refuses 7 frames, no multiple of a chunk" profile --prompts 1 --frames 7

# profile heads: writes classes of heads to a file for the option map.
exits 0 "profile heads" profile heads --frames 9 -o heads.txt --json -q
json "the map has a letter for each head of one prompt" \
    '.prompts == 1 and (.map | length) == 6 and all(.map[]; test("^[sd]+$")) and .rule == "forcing"'
json "a head is static if its measure is at least 0.8" \
    '[.map, .measure] | transpose | all(.[]; . as [$m, $x] | [range($x | length) | ($m[. : . + 1] == "s") == ($x[.] >= 0.8)] | all)'
check "the file has the same map" bash -c "diff <(sed -n 's/ *#.*//; /./p' heads.txt) <(jq -r '.map[]' '$out')"
exits 0 "predict reads the head map" predict -m FORCING_KV -g nano -n 42 -O map=heads.txt --json
OMP_NUM_THREADS=1 exits 0 "profile heads with one thread" profile heads --frames 9 -q
check "one thread gives the same map" bash -c "diff <(grep -v '^#' heads.txt) <(grep -v '^#' '$out')"
exits 0 "profile heads --alpha 0" profile heads --frames 6 --alpha 0 --json -q
json "with --alpha 0, all heads are static" 'all(.map[]; test("^s+$"))'
exits 0 "profile heads --rule dummy" profile heads --rule dummy --frames 6 --json -q
json "rule dummy leaves out half of the heads" '[.map[] | explode[]] | (map(select(. == 120)) | length) * 2 == length'
exits 2 "profile heads refuses an unknown rule" profile heads --rule pyramids
says "the error suggests pyramid" "did you mean 'pyramid'"
exits 2 "profile refuses an unknown kind of profile" profile head
exits 2 "profile heads refuses a rollout of one chunk" profile heads --frames 3

# profile levels: writes quantization levels to a file for the option levels. Cells with these levels have another
# key and other frames.
exits 0 "profile levels" profile levels --prompts 1 --frames 3 --bits 2 -o levels.txt --json -q
json "each layer has four ascending levels for keys and for values" \
    '.prompts == 1 and .bits == 2 and ([.k, .v] | all(length == 6 and all(.[]; length == 4 and . == sort and .[0] >= -1 and .[3] <= 1)))'
check "the file has the same levels" bash -c "diff <(grep -v '^#' levels.txt | cut -d' ' -f3- | tr ' ' '\n' | awk '{ printf \"%.6f\n\", \$1 }') \
    <(jq -r '[.k, .v] | transpose | flatten[]' '$out' | awk '{ printf \"%.6f\n\", \$1 }')"
OMP_NUM_THREADS=1 exits 0 "profile levels with one thread" profile levels --prompts 1 --frames 3 --bits 2 -q
check "one thread gives the same levels" bash -c "diff levels.txt '$out'"
a='a large red disc drifts right over a plain blue background'
exits 0 "generate with the levels" generate -m KVQUANT_2BIT -O levels=levels.txt -n 6 -p "$a" -o with
exits 0 "generate without the levels" generate -m KVQUANT_2BIT -n 6 -p "$a" -o without
check "the levels change the video" bash -c "! cmp -s with/*.mp4 without/*.mp4"
exits 2 "generate refuses levels of another bit width" generate -m KVQUANT_3BIT -O levels=levels.txt -n 6 -p "$a" -o x
says "the error has file, line and syntax" 'levels.txt:[0-9]*: need k .keys. or v .values., a layer index, and 8'

# profile basis: writes basis vectors to a file for the option basis.
exits 0 "profile basis" profile basis --prompts 1 --frames 3 -o basis.safetensors --json -q
json "the JSON has the variance that a quarter of the vectors explains" \
    '.prompts == 1 and (.quarter | [.k, .v] | all(length == 6 and all(.[]; length == 3 and all(.[]; . > 0.25 and . <= 1.000001))))'
OMP_NUM_THREADS=1 exits 0 "profile basis with one thread" profile basis --prompts 1 --frames 3 -o again.safetensors -q
check "one thread writes the same basis" cmp basis.safetensors again.safetensors
exits 0 "generate with the basis" generate -m LOWRANK_25_PRE -O basis=basis.safetensors -n 6 -p "$a" -o with
exits 0 "generate without the basis" generate -m LOWRANK_25_PRE -n 6 -p "$a" -o without
check "the basis changes the video" bash -c "! cmp -s with/*.mp4 without/*.mp4"
exits 2 "profile basis without --out is refused" profile basis --prompts 1 --frames 3
says "the error names --out" 'basis writes tensors, so it needs an output file: --out FILE'
