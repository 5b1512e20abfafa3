#!/usr/bin/env bash
# tiny-sweep.sh - runs a sweep of two cells, main process and workers, under a memory or race checker.
#
#     tools/test/tiny-sweep.sh valgrind KVREEL     finds uses of uninitialized or unallocated memory
#     tools/test/tiny-sweep.sh threads KVREEL      finds data races with ThreadSanitizer, in the KVREEL that
#                                                  `make tsan` builds
#
# The model has random weights and the smallest sizes with which a rollout runs all its kernels. valgrind
# does not support AVX-512, so the AVX2 kernels run. They use one thread, because valgrind runs only one thread at a
# time. The exit status is 1 if there was a finding or the sweep failed.
set -uo pipefail
tool=$1
kvreel=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-tiny-XXXXXX")
trap 'rm -rf "$work"' EXIT
export KVREEL_DATA=$PWD XDG_CONFIG_HOME=$work/none KVREEL_ETC=$work/none OMP_WAIT_POLICY=passive
mkdir "$work/model"
cat >"$work/model/config.json" <<'JSON'
{"model_type": "t2v", "dim": 64, "ffn_dim": 64, "freq_dim": 32, "text_dim": 32, "text_len": 16, "in_dim": 3,
 "out_dim": 3, "num_heads": 1, "num_layers": 1, "patch_size": [1, 8, 8], "eps": 1e-06, "qk_norm": true,
 "cross_attn_norm": true, "latent_height": 32, "latent_width": 32, "frames_per_chunk": 3, "prediction": "x0",
 "latent_space": "rgb", "latent_range": [-1, 1], "timestep_shift": 5.0, "denoising_steps": [1000, 500],
 "context_timestep": 0, "window_frames": 21, "weights": {"random": {"seed": 1}}}
JSON
cat >"$work/c.yaml" <<YAML
question: is every access one that may be?
model: $work/model
suite: {suite: moviegen-nano, prompts: 1}
methods: [BF16, RTN_INT4]
frames: 6
timeout_s: 3600
YAML
# Ignores races inside libraries that are not instrumented (libomp, oneDNN, FFmpeg).
look="exitcode=66 ignore_noninstrumented_modules=1"
# Checks the race checker: it must report a race on n without the OpenMP reduction, and none with it.
finds_races() {
    local order code
    for order in '' 'reduction(+ : n)'; do
        cat >"$work/race.c" <<C
#include <omp.h>
#include <stdio.h>
int main(void)
{
    int n = 0;
#pragma omp parallel num_threads(4) $order
    for (int i = 0; i < 1000; i++)
        n += i;
#pragma omp parallel num_threads(4) $order
    n += omp_get_thread_num();
    return printf("%d\\n", n) < 0;
}
C
        clang -fsanitize=thread -fopenmp -g -O1 -o "$work/race" "$work/race.c" || return 1
        TSAN_OPTIONS="$look" "$work/race" >"$work/race.log" 2>&1
        code=$?
        [ "$code" -eq "$([ -n "$order" ] && echo 0 || echo 66)" ] || return 1
    done
}
sweep() { # [COMMAND...]: the command runs kvreel
    "$@" "$kvreel" run "$work/c.yaml" --db "$work/db" -o "$work/out" -q --jobs 1
}
case $tool in
valgrind)
    export KVREEL_SELF=$kvreel KVREEL_CPU=avx2 OMP_NUM_THREADS=1
    sweep valgrind -q --trace-children=yes --log-file="$work/log.%p"
    ;;
threads)
    # libarcher tells ThreadSanitizer how OpenMP's barriers order accesses to memory. libomp loads libarcher from its
    # own folder.
    if ! finds_races; then
        echo "threads: clang's ThreadSanitizer with libomp and libarcher does not tell a race from an order here" >&2
        cat "$work/race.log" >&2
        exit 1
    fi
    echo 'threads: 4' >>"$work/c.yaml"
    TSAN_OPTIONS="$look log_path=$work/log" sweep
    ;;
*)
    echo "tiny-sweep: '$tool', need valgrind or threads" >&2
    exit 2
    ;;
esac
rc=$?
cat "$work"/log.* 2>/dev/null
complaints=$(cat "$work"/log.* 2>/dev/null | wc -l)
ok=$(sqlite3 -readonly "$work/db" "SELECT count(*) FROM cell WHERE outcome = 'OK'")
echo "$tool: exit $rc, $ok of 2 cells, $complaints lines of complaint"
[ "$rc" -eq 0 ] && [ "$complaints" -eq 0 ] && [ "$ok" -eq 2 ]
