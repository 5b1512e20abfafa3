#!/usr/bin/env bash
# Of a command every place that allocates may fail: it does without, or says that it was memory. `make
# fault-malloc` tries all commands so, for hours; here are those that it has found something in, and that
# are quick.
. tests/cli/lib.sh || exit 1
build=$(dirname "$kvreel")
shim=$build/tests/faults/malloc_fault.so
[ -e "$shim" ] || {
    skip "commands without memory" "no $shim: make cli-test builds it"
    exit 0
}
export FAULT_LOG=$work/faults

without_memory() { # COMMAND-PATTERN
    bash tools/fault-malloc.sh "$build" 0 "$1" || { cat "$FAULT_LOG" && false; }
}
# What doctor looks for with the loader is not there, and is: stand-ins for the driver's libraries.
check "doctor, without a GPU's libraries" without_memory '^doctor'
export KVREEL_NVML=$build/tests/plugins/fake_nvml.so KVREEL_CUDNN=$build/tests/plugins/fake_cudnn.so
check "doctor, with them" without_memory '^doctor'
unset KVREEL_NVML KVREEL_CUDNN

# What opens a plug-in opens it with the loader, too.
check "a method of a plug-in" without_memory '^--plugin'

# The n-th allocation below one function: the output is what it is with memory, or memory is named. Each
# of these took no memory for something else, at these places among others.
cd "$work" || exit 1
told() { # NAME FUNCTION N... -- COMMAND...
    local name=$1 function=$2 n places=() rc
    shift 2
    while [ "$1" != -- ]; do places+=("$1") && shift; done
    shift
    "$kvreel" "$@" >want 2>"$err" || { fail "$name: with memory: $(tail -n 1 "$err")" && return; }
    for n in "${places[@]}"; do
        LD_PRELOAD=$shim FAULT_WITHIN=$function FAULT_NTH=$n "$kvreel" "$@" >"$out" 2>"$err"
        rc=$?
        [ "$rc" -eq 1 ] && grep -qi 'memory' "$err" && ! grep -qi damaged "$err" && continue
        [ "$rc" -eq 0 ] && cmp -s "$out" want && continue
        fail "$name: allocation $n: exit $rc, $(tail -n 1 "$err")"
        return
    done
    ok "$name"
}
export OMP_NUM_THREADS=1
cat >plan.yaml <<'YAML'
model: nano
suite: {suite: moviegen-nano, prompts: 1}
methods: [BF16, {method: RTN_INT2, options: {bits: 2}}, {method: RTN_INT4, options: {group: 32}}]
baselines: all
frames: 3
YAML
plan=(run plan.yaml --dry-run --json)
# An option whose codec there was no memory for counted, and its cell had another key.
told "options that count" kvr_given_json 10 11 14 15 -- "${plan[@]}"
told "budgets of the windows beside" kvr_baselines_make 9 11 -- "${plan[@]}"
told "what a cell would take" kvr_estimate 1 3 5 7 -- "${plan[@]}"
told "a codec's options" kvr_opts_parse 1 2 -- show RTN_INT4
told "a filter's expression" kvr_regex_open 1 2 3 -- run plan.yaml --dry-run --json --filter 'method~^RTN'

# A database that there was no memory to look at is not a damaged one.
cd "$root" || exit 1
common_config "$work/p.yaml"
shared_sweep "$work/p.yaml" "$work/a.db" "$work/out"
cd "$work" || exit 1
told "checking a database" kvr_store_check 20 300 1000 -- fsck a.db
told "and its checksums" kvr_sealer_check 2 10 100 -- fsck a.db
told "where a sweep's files are" kvr_html_media 1 2 3 -- sheet s.png --db a.db --media out -m RTN_INT4
told "what a cell would have taken" kvr_scheme_open 1 2 3 -- report --db a.db --table cost
told "who writes to a database" kvr_store_locked 1 2 -- status --db a.db
