#!/usr/bin/env bash
# --cpu and KVREEL_CPU: where the option may stand and which names are refused. Workers use the same variant, and
# the database stores it. The same binary starts on a CPU without AVX.
. tests/cli/lib.sh || exit 1
unset KVREEL_CPU

chosen() { # NAME VARIANT: the last `version --json` has this variant
    json "$1" ".variant == \"$2\""
}
exits 0 "before the command" --cpu portable version --json
chosen "chosen" portable
exits 0 "with an equals sign" --cpu=portable version --json
chosen "chosen" portable
exits 0 "among the command's options" version --json --cpu portable
chosen "chosen" portable
KVREEL_CPU=portable exits 0 "in the environment" version --json
chosen "chosen" portable
exits 0 "nothing said" version --json
best=$(jq -r .variant "$out")
KVREEL_CPU=portable exits 0 "the option stands above the environment" version --cpu "$best" --json
chosen "chosen" "$best"
KVREEL_CPU='' exits 0 "an empty variable says nothing" version --json
chosen "the best" "$best"

exits 2 "an unknown name" --cpu avx9 version
says "names it, and what this CPU runs" "^kvreel: --cpu: 'avx9' is not a kernel variant; this CPU supports: portable"
KVREEL_CPU=avx9 exits 2 "an unknown name in the environment" list methods
says "names the variable" "^kvreel: KVREEL_CPU: 'avx9'"
exits 2 "no name" --cpu
says "says what it needs" '--cpu needs a value: NAME'
case $(uname -m) in
x86_64) other=neon ;;
*) other=avx2 ;;
esac
exits 2 "another CPU architecture" list methods --cpu $other
says "says so" "'$other' is a kernel variant for another CPU architecture"

exits 0 "doctor, forced" doctor --cpu portable
prints "which one and why" '^ok +CPU kernels +portable, forced by name; this CPU runs portable.*; compiled: portable'
exits 0 "doctor" doctor
prints "the best" "^ok +CPU kernels +$best, the fastest variant that this CPU supports"

tiny_config "$work/tiny.yaml" 3
cd "$work" || exit 1
exits 0 "a sweep with a forced variant" run tiny.yaml --cpu portable --filter 'method=BF16 & prompt=red' --out out
check "its session says which" grep -q ', kernels portable$' <(sql kvreel.db 'SELECT cpu_model FROM session')
exits 0 "a table" report --table summary
prints "names the variant" 'kernels portable'

# The test suite sets OMP_WAIT_POLICY. Users do not, so their waiting threads spin for at most 1500 iterations.
check "the wait policy that users have" env -u OMP_WAIT_POLICY OMP_NUM_THREADS=2 "$kvreel" run tiny.yaml \
    --cpu portable --filter 'method=BF16 & prompt=red' --db spin.db --out spin
check "computes the same frames" cmp <(sql kvreel.db 'SELECT frames_sha256 FROM attempt') \
    <(sql spin.db 'SELECT frames_sha256 FROM attempt')
check "and there are some" grep -qE '^[0-9a-f]{64}$' <(sql spin.db 'SELECT frames_sha256 FROM attempt')
check "the program sets the limit before libgomp reads it" bash -c "env -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose \
    '$kvreel' version 2>&1 | grep -q \"GOMP_SPINCOUNT = '1500'\""

# OMP_WAIT_POLICY is set because otherwise kvreel executes itself again to set GOMP_SPINCOUNT, outside the emulator.
if [ "$(uname -m)" = x86_64 ] && has qemu-x86_64 "starts without AVX"; then
    old() { OMP_WAIT_POLICY=passive qemu-x86_64 -cpu Nehalem "$kvreel" "$@" >"$out" 2>"$err"; }
    check "starts without AVX" old list methods
    check "and chooses portable C" bash -c "OMP_WAIT_POLICY=passive qemu-x86_64 -cpu Nehalem '$kvreel' version --json | jq -e '.variant == \"portable\"'"
    check "AVX2 alone is AVX2" bash -c "OMP_WAIT_POLICY=passive qemu-x86_64 -cpu Haswell '$kvreel' version --json | jq -e '.variant == \"avx2\"'"
fi
