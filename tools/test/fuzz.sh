#!/usr/bin/env bash
# fuzz.sh - runs fuzz targets on new inputs and prints how much of each parser they cover.
#
#   make fuzz SECONDS=60                 all targets, one minute each
#   make fuzz SECONDS=600 FUZZ=torch     one target, ten minutes
#
# make runs `fuzz.sh BUILD SECONDS [TARGET N SEED...]...`, with N seeds for each target. libFuzzer stores inputs
# that reach new code in BUILD/fuzz/corpus/TARGET, and the next run starts with them. It writes inputs that crash,
# hang (10 s) or leak memory to BUILD/fuzz/faults/TARGET-*; the exit status is then 1. `BUILD/fuzz/TARGET FILE`
# repeats such a fault. Add FILE to the target's seeds, so that later runs test it.
set -uo pipefail
build=$1 seconds=$2
shift 2

# Adds up libFuzzer's lines "COVERED_FUNC: hits: 3 edges: 5/9 name file:line" and "UNCOVERED_FUNC: ..." and
# prints "214/260 82%". Only the target's parser (PARSER_TARGET in the Makefile) is instrumented.
reached() { # LOG
    awk '!/tests\/fuzz/ && match($0, /edges: [0-9]+\/[0-9]+/) {
            split(substr($0, RSTART + 7, RLENGTH - 7), e, "/")
            got += $1 == "COVERED_FUNC:" ? e[1] : 0
            all += e[2]
        } END { if (all) printf "%d/%d %d%%", got, all, 100 * got / all; else printf "?" }' "$1"
}

mkdir -p "$build/fuzz/corpus" "$build/fuzz/faults"
export OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
printf '%-12s %10s %8s %8s %7s  %s\n' target inputs seconds corpus faults 'edges of its parser'
bad=0
while [ $# -gt 0 ]; do
    name=$1 n=$2
    seeds=("${@:3:n}")
    shift $((2 + n))
    corpus=$build/fuzz/corpus/$name log=$build/fuzz/faults/$name.log
    mkdir -p "$corpus"
    for seed in "${seeds[@]}"; do # libFuzzer would cut larger files to max_len
        [ "$(stat -c %s "$seed")" -gt 65536 ] || cp -n "$seed" "$corpus/seed-$(basename "$(dirname "$seed")")-$(basename "$seed")"
    done
    words=()
    [ ! -e "tests/fuzz/dict/$name.dict" ] || words=(-dict="tests/fuzz/dict/$name.dict")
    "$build/fuzz/$name" ${words[@]+"${words[@]}"} -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$build/fuzz/faults/$name-" "$corpus" >"$log" 2>&1
    faults=$(find "$build/fuzz/faults" -name "$name-*" ! -name '*.log' | wc -l)
    "$build/fuzz/$name" -runs=0 -print_coverage=1 "$corpus" >"$log.coverage" 2>&1
    printf '%-12s %10s %8s %8s %7s  %s\n' "$name" \
        "$(awk '/number_of_executed_units/ {print $2}' "$log")" "$seconds" \
        "$(find "$corpus" -type f | wc -l)" "$faults" "$(reached "$log.coverage")"
    [ "$faults" -eq 0 ] || bad=1
done
exit $bad
