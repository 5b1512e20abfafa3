#!/usr/bin/env bash
# valgrind.sh - a tiny sweep, parent and workers, under valgrind: every byte that is read was written
# and is ours. Minutes: by hand.
#
#     tools/valgrind.sh KVREEL [ARGUMENTS OF `kvreel run CONFIG`]
#
# valgrind knows no AVX-512, so the kernels are those of AVX2; one thread, because it runs one at a
# time anyway.
set -uo pipefail
kvreel=$(realpath "$1")
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-valgrind-XXXXXX")
trap 'rm -rf "$work"' EXIT
export KVREEL_DATA=$PWD KVREEL_SELF=$kvreel KVREEL_CPU=avx2 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
cat >"$work/c.yaml" <<'YAML'
question: is every byte that is read one that was written?
model: nano
suite: {suite: moviegen-nano, prompts: 1}
methods: [BF16, RTN_INT4]
frames: 3
timeout_s: 3600
YAML
valgrind -q --trace-children=yes --log-file="$work/log.%p" \
    "$kvreel" run "$work/c.yaml" --db "$work/db" -o "$work/out" -q --jobs 1 "$@"
rc=$?
cat "$work"/log.*
complaints=$(cat "$work"/log.* | wc -l)
echo "valgrind: exit $rc, $complaints lines of complaint in $(find "$work" -name 'log.*' | wc -l) processes"
[ "$rc" -eq 0 ] && [ "$complaints" -eq 0 ]
