#!/usr/bin/env bash
# run-tests.sh - run the test programs, then the end-to-end tests of the command line.
#
#     tools/run-tests.sh BUILD [TEST ...]
#
# BUILD holds kvreel and receives the logs. KVREEL_UNIT_ONLY=1 leaves the command line tests
# out. The last line is "N passed, M failed": Check's checks and the command line's together.
set -uo pipefail

build=$1
shift
logs=$build/test-logs
mkdir -p "$logs"
cores=$(nproc 2>/dev/null || echo 2)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores < 4 ? cores : 4))}
# Waiting threads that spin steal the cores of other work on the machine, each other's included.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export CK_VERBOSITY=${CK_VERBOSITY:-normal}
# A wrong test must not hang the run; sanitizers are slow, so the limit is wide.
limit=${KVREEL_TEST_TIMEOUT:-900}

passed=0
failed=0
skipped=0
broken=()

# One line per program; a failing one shows its log.
report() { # name rc n_passed n_failed seconds log
    passed=$((passed + $3))
    failed=$((failed + $4))
    if [ "$4" -eq 0 ]; then
        printf 'ok    %-40s %4d checks %4d s\n' "$1" "$3" "$5"
    else
        printf 'FAIL  %-40s %4d passed, %d failed, exit %d\n' "$1" "$3" "$4" "$2"
        sed 's/^/      | /' "$6" | tail -n 60
        broken+=("$1")
    fi
}

run_unit() { # program
    local name=${1#"$build"/} log rc start line checks=0 failures=0 errors=0
    log=$logs/$(echo "$name" | tr / _).log
    start=$SECONDS
    timeout -k 10 "$limit" "$1" >"$log" 2>&1
    rc=$?
    # Check ends with "98%: Checks: 52, Failures: 1, Errors: 0", one line per runner.
    while read -r line; do
        if [[ $line =~ ^[0-9]+%:\ Checks:\ ([0-9]+),\ Failures:\ ([0-9]+),\ Errors:\ ([0-9]+) ]]; then
            checks=$((checks + BASH_REMATCH[1]))
            failures=$((failures + BASH_REMATCH[2]))
            errors=$((errors + BASH_REMATCH[3]))
        fi
    done <"$log"
    local bad=$((failures + errors))
    if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 # crashed, timed out, or a sanitizer spoke after the last check
    elif ! grep -q '%: Checks: ' "$log"; then
        bad=1
        echo "no summary of checks in the output" >>"$log"
    fi
    local good=$((checks - failures - errors))
    report "$name" "$rc" "$good" "$bad" $((SECONDS - start)) "$log"
    grep '^CUDA: ' "$log"
}

run_cli() { # script
    local name=${1%.sh} log rc start good bad
    log=$logs/$(echo "$name" | tr / _).log
    start=$SECONDS
    timeout -k 10 "$limit" bash "$1" "$build/kvreel" >"$log" 2>&1
    rc=$?
    good=$(grep -c '^ok - ' "$log")
    bad=$(grep -c '^FAIL - ' "$log")
    skipped=$((skipped + $(grep -c '^skip - ' "$log")))
    [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    if [ "$good" -eq 0 ] && [ "$bad" -eq 0 ] && ! grep -q '^skip - ' "$log"; then
        bad=1
        echo "the script checked nothing" >>"$log"
    fi
    report "$name" "$rc" "$good" "$bad" $((SECONDS - start)) "$log"
    grep '^skip - ' "$log" | sed 's/^skip - /skip  /'
}

for t in "$@"; do
    run_unit "$t"
done
if [ -z "${KVREEL_UNIT_ONLY:-}" ]; then
    for t in tests/cli/test_*.sh; do
        [ -e "$t" ] && run_cli "$t"
    done
fi

if [ $((passed + failed)) -eq 0 ]; then
    echo "no test was run" >&2
    failed=1
fi
[ "$skipped" -gt 0 ] && echo "$skipped command line tests skipped, reasons above"
[ ${#broken[@]} -gt 0 ] && echo "failing: ${broken[*]} (logs in $logs)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
