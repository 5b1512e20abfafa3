#!/usr/bin/env bash
# fuzz-planted.sh - checks that each fuzz target finds the fault that tests/fuzz/planted/TARGET.sed adds to
# its parser. A target that does not find this fault would not find a real one either.
#
# `make fuzz-planted` runs `fuzz-planted.sh BUILD SECONDS [TARGET N SEED...]...`, with N seeds for each target.
# First, the unchanged parser must accept all seeds. Then the target searches for the fault, starting from the
# seeds. Exit status 1 means that a target did not find its fault.
set -uo pipefail
build=$1 seconds=$2
shift 2
work=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-planted-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0
printf '%-12s %10s %8s  %s\n' target inputs seconds fault
missed=0
while [ $# -gt 0 ]; do
    name=$1 n=$2
    seeds=("${@:3:n}")
    shift $((2 + n))
    corpus=$work/$name
    mkdir "$corpus"
    for seed in "${seeds[@]}"; do
        [ "$(stat -c %s "$seed")" -gt 65536 ] || cp "$seed" "$corpus/$(basename "$(dirname "$seed")")-$(basename "$seed")"
    done
    if ! "$build/fuzz/$name" -runs=0 "$corpus" >"$work/log" 2>&1; then
        printf '%-12s the seeds fail without a fault:\n' "$name"
        tail -n 20 "$work/log"
        missed=1
        continue
    fi
    words=()
    [ ! -e "tests/fuzz/dict/$name.dict" ] || words=(-dict="tests/fuzz/dict/$name.dict")
    start=$SECONDS
    "$build/fuzz/planted/$name" ${words[@]+"${words[@]}"} -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$work/fault-$name-" "$corpus" >"$work/log" 2>&1
    if compgen -G "$work/fault-$name-*" >/dev/null; then
        what=$(grep -m 1 -oE 'ERROR: [A-Za-z]+: [A-Za-z -]+|runtime error: .*|Assertion .* failed' "$work/log")
        found=${what:-found}
    else
        found='NOT FOUND'
        missed=1
    fi
    printf '%-12s %10s %8s  %s\n' "$name" "$(awk '/number_of_executed_units/ {print $2}' "$work/log")" \
        $((SECONDS - start)) "$found"
done
exit $missed
