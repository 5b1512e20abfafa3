#!/usr/bin/env bash
# --cpu and KVREEL_CPU select the variant of the CPU kernels. The test checks where a command line may contain --cpu,
# and which names kvreel refuses. Workers use the variant of their parent, and the database records it. The binary
# also starts on a CPU without AVX.
. tests/cli/lib.sh || exit 1
unset KVREEL_CPU

chosen() { # NAME VARIANT: the last `version --json` has this variant
    json "$1" ".variant == \"$2\""
}
exits 0 "--cpu before the command" --cpu portable version --json
chosen "--cpu before the command selects portable" portable
exits 0 "--cpu=portable" --cpu=portable version --json
chosen "--cpu=portable selects portable" portable
exits 0 "--cpu after the command" version --json --cpu portable
chosen "--cpu after the command selects portable" portable
KVREEL_CPU=portable exits 0 "KVREEL_CPU=portable" version --json
chosen "KVREEL_CPU selects portable" portable
exits 0 "version without --cpu and KVREEL_CPU" version --json
best=$(jq -r .variant "$out")
KVREEL_CPU=portable exits 0 "--cpu together with KVREEL_CPU" version --cpu "$best" --json
chosen "--cpu overrides KVREEL_CPU" "$best"
KVREEL_CPU='' exits 0 "version with an empty KVREEL_CPU" version --json
chosen "an empty KVREEL_CPU selects the fastest variant" "$best"

exits 2 "--cpu refuses an unknown name" --cpu avx9 version
says "the error lists the variants of this CPU" "^kvreel: --cpu: 'avx9' is not a kernel variant; this CPU supports: portable"
KVREEL_CPU=avx9 exits 2 "KVREEL_CPU refuses an unknown name" list methods
says "the error names KVREEL_CPU" "^kvreel: KVREEL_CPU: 'avx9'"
exits 2 "--cpu needs a name" --cpu
says "the error says that --cpu needs a name" '--cpu needs a value: NAME'
case $(uname -m) in
x86_64) other=neon ;;
*) other=avx2 ;;
esac
exits 2 "--cpu refuses a variant of another architecture" list methods --cpu $other
says "the error names the other architecture" "'$other' is a kernel variant for another CPU architecture"

exits 0 "doctor --cpu portable" doctor --cpu portable
prints "doctor says that the variant was forced" '^ok +CPU kernels +portable, forced by name; this CPU runs portable.*; compiled: portable'
exits 0 "doctor" doctor
prints "doctor names the fastest variant" "^ok +CPU kernels +$best, the fastest variant that this CPU supports"

tiny_config "$work/tiny.yaml" 3
cd "$work" || exit 1
exits 0 "a sweep with a forced variant" run tiny.yaml --cpu portable --filter 'method=BF16 & prompt=red' --out out
check "the session records the variant" grep -q ', kernels portable$' <(sql kvreel.db 'SELECT cpu_model FROM session')
exits 0 "the summary of that sweep" report --table summary
prints "the summary names the variant" 'kernels portable'

# The test suite sets OMP_WAIT_POLICY=passive, but users do not. Without it, kvreel limits the spinning of waiting
# threads to 1500 iterations (GOMP_SPINCOUNT).
check "a sweep without OMP_WAIT_POLICY" env -u OMP_WAIT_POLICY OMP_NUM_THREADS=2 "$kvreel" run tiny.yaml \
    --cpu portable --filter 'method=BF16 & prompt=red' --db spin.db --out spin
check "the wait policy does not change the frames" cmp <(sql kvreel.db 'SELECT frames_sha256 FROM attempt') \
    <(sql spin.db 'SELECT frames_sha256 FROM attempt')
check "the sweep stored the hash of its frames" grep -qE '^[0-9a-f]{64}$' <(sql spin.db 'SELECT frames_sha256 FROM attempt')
check "kvreel sets GOMP_SPINCOUNT before libgomp reads it" bash -c "env -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose \
    '$kvreel' version 2>&1 | grep -q \"GOMP_SPINCOUNT = '1500'\""

# Without OMP_WAIT_POLICY, kvreel would set GOMP_SPINCOUNT and execute itself again, outside qemu.
if [ "$(uname -m)" = x86_64 ] && has qemu-x86_64 "starts without AVX"; then
    old() { OMP_WAIT_POLICY=passive qemu-x86_64 -cpu Nehalem "$kvreel" "$@" >"$out" 2>"$err"; }
    check "starts without AVX" old list methods
    check "without AVX, kvreel selects portable" bash -c "OMP_WAIT_POLICY=passive qemu-x86_64 -cpu Nehalem '$kvreel' version --json | jq -e '.variant == \"portable\"'"
    check "with AVX2 but not AVX-512, kvreel selects avx2" bash -c "OMP_WAIT_POLICY=passive qemu-x86_64 -cpu Haswell '$kvreel' version --json | jq -e '.variant == \"avx2\"'"
fi
