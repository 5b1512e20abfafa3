#!/usr/bin/env bash
# profile: layer budgets from BF16 rollouts, as a file that layer_budget takes.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

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
