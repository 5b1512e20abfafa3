#!/usr/bin/env bash
# Fronts: the study's four from its own figures, and any objectives of a sweep.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

front() { # SUITE FRONTIER: its members, sorted, on one line
    "$kvreel" pareto --published "$1" --objectives "$2" --front --json | jq -r '[.[].method] | sort | join(" ")'
}
members() { # NAME SUITE FRONTIER MEMBER...
    local name=$1 suite=$2 frontier=$3
    shift 3
    check "$name" test "$(front "$suite" "$frontier")" = "$(printf '%s\n' "$@" | LC_ALL=C sort | paste -sd' ')"
}
compression="BF16 FLOWCACHE_PRUNE_INT2 FLOWCACHE_PRUNE_INT4 FLOWCACHE_SOFT_PRUNE_INT2
    FLOWCACHE_SOFT_PRUNE_INT4 PRQ_INT2 PRQ_INT4 QUAROT_KV_INT4 RTN_INT4_RECENT2"
systems="BF16 FLOWCACHE_NATIVE FLOWCACHE_NATIVE_SOFT_PRUNE_INT4 FLOWCACHE_PRUNE_INT2"
balanced="AGE_TIER_INT4 FLOWCACHE_NATIVE FLOWCACHE_NATIVE_SOFT_PRUNE_INT4 RTN_INT4 RTN_INT4_REFRESH $compression"
# shellcheck disable=SC2086 # lists of names
for suite in moviegen storyeval; do
    members "the study's front for compression, $suite" $suite compression $compression
    members "the study's front for systems, $suite" $suite systems $systems
done
# shellcheck disable=SC2086
members "the study's balanced front, moviegen" moviegen balanced $balanced KIVI_INT4_REFRESH
# shellcheck disable=SC2086
members "the study's balanced front, storyeval" storyeval balanced $balanced
members "the study's front for quality, moviegen" moviegen quality BF16 FLOWCACHE_NATIVE PRQ_INT2
members "the study's front for quality, storyeval" storyeval quality BF16 FLOWCACHE_NATIVE PRQ_INT2 PRQ_INT4

tiny_config "$work/tiny.yaml"
shared_sweep "$work/tiny.yaml" "$work/t.db" "$work/out"
exits 0 "fidelity against compression" pareto --db "$work/t.db" --json
json "three methods, all on the front" '[.[] | select(.verdict == "front") | .method] | sort == ["BF16", "RTN_INT2", "RTN_INT4"]'
exits 0 "the smallest cache alone" pareto --db "$work/t.db" --objectives compression:max --json
json "has one winner, and says why" \
    '([.[] | select(.verdict == "front") | .method] == ["RTN_INT2"]) and
     ([.[] | select(.verdict == "dominated") | .dominated_by == "RTN_INT2" and (.why | test("compression .* instead of"))] | all)'
exits 0 "under a limit" pareto --db "$work/t.db" --objectives compression:max \
    --where 'compression < 4 AND ssim > 0' --json
json "the next one wins" '[.[] | select(.verdict == "front") | .method] == ["RTN_INT4"] and length == 2'
exits 0 "what nobody has is left out" pareto --db "$work/t.db" --objectives balanced
prints "by name" 'left out: lpips, drift_last'
exits 2 "an objective needs a direction" pareto --db "$work/t.db" --objectives ssim
says "which is said" "'ssim': need NAME:max or NAME:min"
exits 2 "an objective is no SQL" pareto --db "$work/t.db" --objectives "ssim' OR 1:max"
exits 2 "nobody fits" pareto --db "$work/t.db" --where 'compression > 100'
