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
check "a skip for the hardware passes" runs
prints "it is listed, with what runs it" '^ +1  this CPU does not have avx512: needs a CPU with that instruction set$'
KVREEL_TEST_ALL=1 check "with everything installed, too" runs
script b 'echo "skip - three (Python has no torch)"; echo "skip - four (Python has no torch)"'
check "a skip for a package passes" runs
prints "it is listed, with what runs it" '^ +2  Python has no torch: KVREEL_TEST_ALL=1 make test'
prints "and counted" '^3 checks skipped:$'
KVREEL_TEST_ALL=1 check "but not where everything is installed" fails
prints "with the reason" '^ +2  Python has no torch: FAILS'
prints "as failures" '^1 passed, 2 failed$'
script b 'echo "skip - three"'
KVREEL_TEST_ALL=1 check "nor without a reason" fails
rm tests/cli/test_b.sh
script a 'echo "ok - one"; echo "skip - two (perhaps this CPU does not have avx512 or so)"'
KVREEL_TEST_ALL=1 check "nor for a reason that only contains one" fails
script a 'exit 0'
check "a script that checks nothing fails" fails
script a 'echo "ok - one"; exit 3'
check "as does one that ends with an error" fails
script a 'echo "FAIL - one"'
check "and one that says so" fails
# A package that pip or apt can install is not a hardware reason.
check "tests/hardware.txt lists no package" bash -c '! grep -v "^#" "$1/tests/hardware.txt" | grep -iE "python|package|module|not installed"' - "$root"
rm tests/cli/test_a.sh
for i in $(seq 20); do script "t$i" 'echo "ok - one"'; done
check "twenty tests pass" runs
prints "those that took the most processor time are listed" '^most processor time:$'
check "twenty of them" test "$(grep -cE '^  [0-9]+\.[0-9] s CPU, [0-9]+ s, tests/cli/test_t' "$out")" -eq 20
