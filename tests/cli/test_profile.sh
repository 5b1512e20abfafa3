#!/usr/bin/env bash
# profile: writes layer budgets from BF16 rollouts to a file for the option layer_budget.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
three_threads

exits 0 "profile" profile --prompts 1 --frames 6 -o budget.txt --json -q
json "a budget and a score for every layer" \
    '(.budget | length) == 6 and (.score | length) == 6 and .prompts == 1 and .frames == 6'
json "from the least to the most that was asked for" '((.budget | min) == 0.7) and ((.budget | max) - 1.3 | fabs) < 1e-9'
check "quiet is quiet" test ! -s "$err"
check "the file has a number a line" test "$(grep -vc '^#' budget.txt)" -eq 6
exits 0 "a method takes it" predict -m FLOWCACHE_PRUNE_INT4 -g nano -n 42 -O layer_budget=budget.txt --json
OMP_NUM_THREADS=1 exits 0 "with one thread" profile --prompts 1 --frames 6 -q
check "the same numbers on stdout" bash -c "diff <(grep -v '^#' budget.txt) <(grep -v '^#' '$out')"
exits 2 "an unknown suite" profile --suite moviegen-nan
says "names the nearest" 'moviegen-nano'
exits 2 "limits the wrong way round" profile --min 1.3 --max 0.7
exits 2 "frames that make no whole chunks" profile --prompts 1 --frames 7

# profile heads: writes classes of heads to a file for the option map.
exits 0 "profile heads" profile heads --frames 9 -o heads.txt --json -q
json "a letter for every head of one prompt" \
    '.prompts == 1 and (.map | length) == 6 and all(.map[]; test("^[sd]+$")) and .rule == "forcing"'
json "static is 0.8 or more near by" \
    '[.map, .measure] | transpose | all(.[]; . as [$m, $x] | [range($x | length) | ($m[. : . + 1] == "s") == ($x[.] >= 0.8)] | all)'
check "the file has them, too" bash -c "diff <(sed -n 's/ *#.*//; /./p' heads.txt) <(jq -r '.map[]' '$out')"
exits 0 "a method takes it" predict -m FORCING_KV -g nano -n 42 -O map=heads.txt --json
OMP_NUM_THREADS=1 exits 0 "with one thread" profile heads --frames 9 -q
check "the same on stdout" bash -c "diff <(grep -v '^#' heads.txt) <(grep -v '^#' '$out')"
exits 0 "every head static" profile heads --frames 6 --alpha 0 --json -q
json "by a share of nothing" 'all(.map[]; test("^s+$"))'
exits 0 "classes of all heads together" profile heads --rule dummy --frames 6 --json -q
json "half of them are left out" '[.map[] | explode[]] | (map(select(. == 120)) | length) * 2 == length'
exits 2 "a rule there is not" profile heads --rule pyramids
says "names the nearest" "did you mean 'pyramid'"
exits 2 "a profile there is not" profile head
exits 2 "a rollout without a past" profile heads --frames 3

# profile levels: writes quantization levels to a file for the option levels; cells with it have another key and
# other frames.
exits 0 "profile levels" profile levels --prompts 1 --frames 3 --bits 2 -o levels.txt --json -q
json "four ascending levels for the keys and the values of every layer" \
    '.prompts == 1 and .bits == 2 and ([.k, .v] | all(length == 6 and all(.[]; length == 4 and . == sort and .[0] >= -1 and .[3] <= 1)))'
check "the file has them, too" bash -c "diff <(grep -v '^#' levels.txt | cut -d' ' -f3- | tr ' ' '\n' | awk '{ printf \"%.6f\n\", \$1 }') \
    <(jq -r '[.k, .v] | transpose | flatten[]' '$out' | awk '{ printf \"%.6f\n\", \$1 }')"
OMP_NUM_THREADS=1 exits 0 "with one thread" profile levels --prompts 1 --frames 3 --bits 2 -q
check "the same on stdout" bash -c "diff levels.txt '$out'"
a='a large red disc drifts right over a plain blue background'
exits 0 "a method codes by them" generate -m KVQUANT_2BIT -O levels=levels.txt -n 6 -p "$a" -o with
exits 0 "and without" generate -m KVQUANT_2BIT -n 6 -p "$a" -o without
check "which is something else" bash -c "! cmp -s with/*.mp4 without/*.mp4"
exits 2 "levels of another width" generate -m KVQUANT_3BIT -O levels=levels.txt -n 6 -p "$a" -o x
says "names file and line" 'levels.txt:[0-9]*: need k .keys. or v .values., a layer index, and 8'

# profile basis: writes basis vectors to a file for the option basis.
exits 0 "profile basis" profile basis --prompts 1 --frames 3 -o basis.safetensors --json -q
json "how much of the variance a quarter of them has" \
    '.prompts == 1 and (.quarter | [.k, .v] | all(length == 6 and all(.[]; length == 3 and all(.[]; . > 0.25 and . <= 1.000001))))'
OMP_NUM_THREADS=1 exits 0 "with one thread" profile basis --prompts 1 --frames 3 -o again.safetensors -q
check "the same file" cmp basis.safetensors again.safetensors
exits 0 "a method codes by them" generate -m LOWRANK_25_PRE -O basis=basis.safetensors -n 6 -p "$a" -o with
exits 0 "and without" generate -m LOWRANK_25_PRE -n 6 -p "$a" -o without
check "which is something else" bash -c "! cmp -s with/*.mp4 without/*.mp4"
exits 2 "tensors do not go to stdout" profile basis --prompts 1 --frames 3
says "says where they go" 'basis writes tensors, so it needs an output file: --out FILE'
