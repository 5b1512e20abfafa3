#!/usr/bin/env bash
# tools/test/run-tests.sh lists skips by reason. With KVREEL_TEST_ALL=1, only hardware reasons are accepted.
. tests/cli/lib.sh || exit 1
mkdir -p "$work/tree/tests/cli" "$work/tree/tools/test" "$work/tree/build"
cp tools/test/run-tests.sh tools/test/test-python.sh "$work/tree/tools/test"
cp tests/hardware.txt "$work/tree/tests"
cd "$work/tree" || exit 1
unset KVREEL_TEST_ALL KVREEL_UNIT_ONLY KVREEL_TEST_SHARED

runs() { KVREEL_PYTHON=$python bash tools/test/run-tests.sh build >"$out" 2>"$err"; }
fails() { ! runs; }
script() { printf '%s\n' "$2" >"tests/cli/test_$1.sh"; }

script a 'echo "ok - one"; echo "skip - two (this CPU does not have avx512)"'
check "a skip for a hardware reason does not fail the run" runs
prints "the summary lists the hardware skip and what is needed to run it" '^ +1  this CPU does not have avx512: needs a CPU with that instruction set$'
KVREEL_TEST_ALL=1 check "with KVREEL_TEST_ALL=1, a hardware skip does not fail the run" runs
script b 'echo "skip - three (Python has no torch)"; echo "skip - four (Python has no torch)"'
check "a skip for a missing package does not fail the run" runs
prints "the summary lists the package skips and the command that runs them" '^ +2  Python has no torch: KVREEL_TEST_ALL=1 make test'
prints "the summary counts all skips" '^3 checks skipped:$'
KVREEL_TEST_ALL=1 check "with KVREEL_TEST_ALL=1, a skip for a missing package fails the run" fails
prints "the summary marks the package reason as failing" '^ +2  Python has no torch: FAILS'
prints "skips for a package count as failures" '^1 passed, 2 failed$'
script b 'echo "skip - three"'
KVREEL_TEST_ALL=1 check "with KVREEL_TEST_ALL=1, a skip without a reason fails the run" fails
rm tests/cli/test_b.sh
script a 'echo "ok - one"; echo "skip - two (perhaps this CPU does not have avx512 or so)"'
KVREEL_TEST_ALL=1 check "with KVREEL_TEST_ALL=1, a reason that only contains a hardware reason fails the run" fails
script a 'exit 0'
check "a script without checks fails the run" fails
script a 'echo "ok - one"; exit 3'
check "a script that exits with an error fails the run" fails
script a 'echo "FAIL - one"'
check "a script with a failed check fails the run" fails
# A package that pip or apt can install is not a hardware reason.
check "tests/hardware.txt lists no package" bash -c '! grep -v "^#" "$1/tests/hardware.txt" | grep -iE "python|package|module|not installed"' - "$root"
rm tests/cli/test_a.sh
for i in $(seq 20); do script "t$i" 'echo "ok - one"'; done
check "a run of twenty tests passes" runs
prints "the output lists the tests that took the most processor time" '^most processor time:$'
check "the list of processor times has twenty tests" test "$(grep -cE '^  [0-9]+\.[0-9] s CPU, [0-9]+ s, tests/cli/test_t' "$out")" -eq 20
