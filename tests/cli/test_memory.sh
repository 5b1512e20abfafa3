#!/usr/bin/env bash
# If any one allocation fails, a command must succeed without it or report that memory ran out. `make fault-malloc`
# tests all commands for hours; this script tests fast commands in which it has found defects.
. tests/cli/lib.sh || exit 1
build=$(dirname "$kvreel")
shim=$build/tests/faults/malloc_fault.so
[ -e "$shim" ] || {
    skip "commands without memory" "no $shim: make cli-test builds it"
    exit 0
}
export FAULT_LOG=$work/faults

without_memory() { # COMMAND-PATTERN
    bash tools/test/fault-malloc.sh "$build" 0 "$1" || { cat "$FAULT_LOG" && false; }
}
# doctor loads the GPU driver's libraries. The test runs it without them and with stubs.
check "doctor, without a GPU's libraries" without_memory '^doctor'
export KVREEL_NVML=$build/tests/plugins/fake_nvml.so KVREEL_CUDNN=$build/tests/plugins/fake_cudnn.so
check "doctor, with stubs of a GPU's libraries" without_memory '^doctor'
unset KVREEL_NVML KVREEL_CUDNN

# Earlier defect: if fit could not sort its rows, it did not print them.
check "fit, which lists the methods that fit in memory" without_memory '^fit'

# With a plug-in, the dynamic loader also allocates memory.
check "a method of a plug-in" without_memory '^--plugin'

# told NAME FUNCTION N... -- COMMAND...: lets the N-th allocation in FUNCTION and its callees fail. The output and
# the files in $made must equal those without the fault, or the message must mention memory. Each call below had a
# defect at some of these allocations.
cd "$work" || exit 1
made=''
sums() { [ -z "$made" ] || find "$made" -type f -exec sha256sum {} + | sort -k 2; }
# A dry run times one matrix product to estimate the minimum time, so flop_per_s and at_least_s differ between runs.
untimed() { sed -i -E 's/"(flop_per_s|at_least_s)": [0-9.e+]+/"\1": TIMED/' "$1"; }
told() { # NAME FUNCTION N... -- COMMAND...
    local name=$1 function=$2 n places=() rc
    shift 2
    while [ "$1" != -- ]; do places+=("$1") && shift; done
    shift
    "$kvreel" "$@" >want 2>"$err" </dev/null || { fail "$name: with memory: $(tail -n 1 "$err")" && return; }
    untimed want && sums >>want
    for n in "${places[@]}"; do
        [ -z "$made" ] || rm -rf "$made"
        LD_PRELOAD=$shim FAULT_WITHIN=$function FAULT_NTH=$n "$kvreel" "$@" >"$out" 2>"$err" </dev/null
        rc=$?
        [ "$rc" -eq 1 ] && grep -qi 'memory' "$err" && ! grep -qi damaged "$err" && continue
        [ "$rc" -eq 0 ] && untimed "$out" && sums >>"$out" && cmp -s "$out" want && continue
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
# Earlier defect: kvreel compares codecs to find the options that enter a cell's key. If it could not allocate a
# codec, the option entered the key, so the cell had another key.
told "options that enter the key of a cell" kvr_key_options_json 10 11 14 15 -- "${plan[@]}"
told "budgets of the window baselines" kvr_baselines_make 9 11 -- "${plan[@]}"
told "the estimated cost of a cell" kvr_estimate 1 3 5 7 -- "${plan[@]}"
told "a codec's options" kvr_opts_parse 1 2 -- show RTN_INT4
# Earlier defect: without memory for the condition of a rule, kvreel reported an error in the config, with exit status 2.
sed '$a exclude: [{when: "method=RTN_INT4", reason: an example}]' plan.yaml >rule.yaml
told "the condition of a rule" kvr_filter_open 1 2 3 -- run rule.yaml --dry-run --json
# Earlier defect: the prediction lacked the phases of the network.
told "the config of a model" kvr_resources_config 1 2 3 4 -- predict -m RTN_INT4 --geometry nano --frames 6 --json
told "a filter's expression" kvr_regex_open 1 2 3 -- run plan.yaml --dry-run --json --filter 'method~^RTN'

# C++ libraries. Earlier defects: an exception reached kvreel's C code and ended the program, and protobuf crashed.
made=pack.safetensors
echo 'a red disc' >prompts.txt
embed=(embed -p prompts.txt --model "$root/tests/fixtures/wan_folder" -o pack.safetensors --max-tokens 3 -q)
told "a tokenizer's model" kvr_spiece_open 2 11 30 100 500 -- "${embed[@]}"
told "a text's tokens" kvr_spiece_encode 1 2 3 4 -- "${embed[@]}"
made=''
told "a matrix product of oneDNN" kvr_dnnl_sgemm 1 2 -- bench attention --shape 8x16x1x16 --rounds 3

# A database that could not be checked for lack of memory must not be reported as damaged.
cd "$root" || exit 1
common_config "$work/p.yaml"
shared_sweep "$work/p.yaml" "$work/a.db" "$work/out"
cd "$work" || exit 1
told "checking a database" kvr_store_check 20 300 1000 -- fsck a.db
told "checking the checksums of a database" kvr_checksums_check 2 10 100 -- fsck a.db
told "the files of a contact sheet" kvr_html_media 1 2 3 -- sheet s.png --db a.db --media out -m RTN_INT4
told "the predicted sizes in the cost table" kvr_scheme_open 1 2 3 -- report --db a.db --table cost
told "the process that writes to a database" kvr_store_locked 1 2 -- status --db a.db
# Earlier defect: without memory for a sorted copy, a median was NULL. It now needs no memory.
told "medians" kvr_median 1 2 3 -- query --db a.db 'SELECT method, median(value) FROM metric JOIN cell ON key = cell GROUP BY 1'

# Earlier defect: output to a memory buffer lacked some bytes if the buffer could not grow.
made=page
told "the HTML page" kvr_escape_json 1 3 -- report --db a.db --media out -o page
made=figures
if has gnuplot "figures without memory"; then
    told "starting gnuplot" kvr_gnuplot_run 1 2 3 -- plot pareto --db a.db -o figures -f svg
    told "the methods on a front" kvr_pareto 1 10 100 -- plot drift --db a.db -o figures -f svg
fi
made=''

"$kvreel" trace record red.kvtrace -n 3 -w 3 -q -p 'a large red disc' >"$out" 2>"$err"
told "a trace's folder" kvr_trace_check 1 2 -- trace check red.kvtrace

# Earlier defect: if SQLite cannot allocate the terminator of a text, it returns NULL, which kvreel read as a missing
# text.
cp a.db scored.db
told "scores of a finished sweep" kvr_rescore 33600 33618 33637 -- score sharpness --db scored.db -o out --force

# Earlier defect: if posix_spawn_file_actions_adddup2() ran out of memory, the worker inherited a descriptor of
# kvreel.
cat >one.yaml <<'YAML'
model: nano
suite: {suite: moviegen-nano, prompts: 1}
methods: [BF16]
frames: 3
videos: false
YAML
told "starting a worker" kvr_child_start 1 2 3 4 -- run one.yaml --db n.db -o n -q --force
