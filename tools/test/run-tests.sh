#!/usr/bin/env bash
# run-tests.sh - runs the test programs, then the tests of the command line.
#
#     tools/test/run-tests.sh BUILD [TEST ...]
#
# BUILD is the build folder, which has kvreel and gets the logs. KVREEL_UNIT_ONLY=1 skips the command-line tests.
# The output lists the twenty tests that took the most processor time. Its last line is "N passed, M failed",
# which counts the checks of all tests. KVREEL_TEST_JOBS is the number of tests that run in parallel (default: the
# number of cores, at most 4). Results are printed in a fixed order. A test whose source has a
# line "alone: REASON" runs after all others, by itself. A test with a line "long: REASON" starts before the
# others, so that it does not end last.
#
# A skipped test prints "skip - NAME (REASON)". The output ends with the number of skips per reason and what
# is needed to run them. With KVREEL_TEST_ALL=1, a skip whose reason tests/hardware.txt does not list is a
# failure.
set -uo pipefail

build=$1
shift
logs=$build/test-logs
mkdir -p "$logs"
cores=$(nproc 2>/dev/null || echo 2)
jobs=${KVREEL_TEST_JOBS:-$((cores < 4 ? cores : 4))}
# OpenMP uses two threads in each test (one on a single core), so that parallel code is tested.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores < 2 ? 1 : 2))}
# Waiting threads sleep: spinning threads would use the cores that other tests need.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export CK_VERBOSITY=${CK_VERBOSITY:-normal}
# Time limit of one test program or script, in seconds. It is large, because sanitizers are slow.
limit=${KVREEL_TEST_TIMEOUT:-900}
# Time limit of one test function in a program, in seconds. Check's default of 4 s is too short on a busy
# machine.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-120}

passed=0
failed=0
broken=()
skips=$logs/skips # one line per skip: REASON<TAB>NAME
: >"$skips"
# Finds the Python interpreter of the tests once for all scripts.
KVREEL_PYTHON=$(bash tools/test/test-python.sh)
export KVREEL_PYTHON

# Prints one line per test program or script, and the end of its log if it failed.
report() { # name rc n_passed n_failed seconds log processor_ms
    passed=$((passed + $3))
    failed=$((failed + $4))
    if [ "$4" -eq 0 ]; then
        printf 'ok    %-40s %4d checks %4d s, %d.%d s CPU\n' "$1" "$3" "$5" $(($7 / 1000)) $(($7 % 1000 / 100))
    else
        printf 'FAIL  %-40s %4d passed, %d failed, exit %d\n' "$1" "$3" "$4" "$2"
        sed 's/^/      | /' "$6" | tail -n 60
        broken+=("$1")
    fi
}

note_skips() { # log
    sed -nE 's/^skip - (.*)/skip  \1/p' "$1"
    sed -nE 's/^skip - (.*) \(([^()]*(\([^()]*\))?[^()]*)\)$/\2\t\1/p; t; s/^skip - (.*)/no reason given\t\1/p' "$1" >>"$skips"
}

report_unit() { # name rc seconds log processor_ms
    local line checks=0 failures=0 errors=0
    # Each of a program's runners prints a line such as "98%: Checks: 52, Failures: 1, Errors: 0".
    while read -r line; do
        if [[ $line =~ ^[0-9]+%:\ Checks:\ ([0-9]+),\ Failures:\ ([0-9]+),\ Errors:\ ([0-9]+) ]]; then
            checks=$((checks + BASH_REMATCH[1]))
            failures=$((failures + BASH_REMATCH[2]))
            errors=$((errors + BASH_REMATCH[3]))
        fi
    done <"$4"
    local bad=$((failures + errors))
    if [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 # a crash, a timeout, or a sanitizer's report after the last check
    elif ! grep -q '%: Checks: ' "$4"; then
        bad=1
        echo "no summary of checks in the output" >>"$4"
    fi
    local good=$((checks - failures - errors))
    report "$1" "$2" "$good" "$bad" "$3" "$4" "$5"
    grep '^CUDA: ' "$4"
    note_skips "$4"
}

report_cli() { # name rc seconds log processor_ms
    local good bad
    good=$(grep -c '^ok - ' "$4")
    bad=$(grep -c '^FAIL - ' "$4")
    [ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    if [ "$good" -eq 0 ] && [ "$bad" -eq 0 ] && ! grep -q '^skip - ' "$4"; then
        bad=1
        echo "the script checked nothing" >>"$4"
    fi
    report "$1" "$2" "$good" "$bad" "$3" "$4" "$5"
    note_skips "$4"
}

# --- selection and order of the tests -----------------------------------------------------

name_of() { # PATH of a program or script: prints the name of the test
    local name=${1#"$build"/}
    echo "${name%.sh}"
}
log_of() { echo "$logs/$(name_of "$1" | tr / _).log"; }
source_of() { case $1 in *.sh) echo "$1" ;; *) echo "$(name_of "$1").c" ;; esac }

long=()
together=()
alone=()
scripts=()
[ -n "${KVREEL_UNIT_ONLY:-}" ] || scripts=(tests/cli/test_*.sh)
for t in "$@" ${scripts[@]+"${scripts[@]}"}; do
    if grep -qE '^(# | \* )alone: ' "$(source_of "$t")" 2>/dev/null; then
        alone+=("$t")
    elif grep -qE '^(# | \* )long: ' "$(source_of "$t")" 2>/dev/null; then
        long+=("$t")
    else
        together+=("$t")
    fi
done
together=(${long[@]+"${long[@]}"} ${together[@]+"${together[@]}"})
tests=(${together[@]+"${together[@]}"} ${alone[@]+"${alone[@]}"})

# --- execution ----------------------------------------------------------------------------

declare -A place # process id -> index in tests
began=() # start time, by index in tests
rcs=() # exit status, by index; unset while the test runs
took=()
cpu_ms=()
all_ms=0 # processor time of all tests that have ended
n_running=0
n_reported=0

# The folder has results of sweeps that several scripts use. The first script that needs a sweep runs it
# (shared_sweep in tests/cli/lib.sh).
KVREEL_TEST_SHARED=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-shared-XXXXXX")
export KVREEL_TEST_SHARED

finish() {
    local pid
    for pid in "${!place[@]}"; do
        kill "$pid" 2>/dev/null # `timeout` passes the signal on to its command
    done
    chmod -R u+w "$KVREEL_TEST_SHARED"
    rm -rf "$KVREEL_TEST_SHARED"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() { # INDEX in tests
    local t=${tests[$1]} log
    log=$(log_of "$t")
    began[$1]=$SECONDS
    case $t in
    *.sh) timeout -k 10 "$limit" bash "$t" "$build/kvreel" >"$log" 2>&1 & ;;
    *) timeout -k 10 "$limit" "$t" >"$log" 2>&1 & ;;
    esac
    place[$!]=$1
    n_running=$((n_running + 1))
}

# Sets children to the processor time, in ms, of all ended tests and their child processes. The second line of
# `times` contains their user and system times, for example "1m2.345s 0m0.678s".
children_ms() {
    local user system t
    times >"$logs/times"
    { read -r _ && read -r user system; } <"$logs/times"
    children=0
    for t in "$user" "$system"; do
        t=${t%s}
        children=$((children + ${t%m*} * 60000))
        t=${t#*m}
        children=$((children + 10#${t/[.,]/}))
    done
}

await_one() {
    local pid rc i children
    wait -n -p pid "${!place[@]}"
    rc=$?
    children_ms
    i=${place[$pid]}
    unset "place[$pid]"
    n_running=$((n_running - 1))
    took[i]=$((SECONDS - began[i]))
    cpu_ms[i]=$((children - all_ms))
    all_ms=$children
    rcs[i]=$rc
    while [ -n "${rcs[n_reported]:-}" ]; do
        i=$n_reported
        n_reported=$((n_reported + 1))
        case ${tests[i]} in
        *.sh) report_cli "$(name_of "${tests[i]}")" "${rcs[i]}" "${took[i]}" "$(log_of "${tests[i]}")" "${cpu_ms[i]}" ;;
        *) report_unit "$(name_of "${tests[i]}")" "${rcs[i]}" "${took[i]}" "$(log_of "${tests[i]}")" "${cpu_ms[i]}" ;;
        esac
    done
}

for i in "${!tests[@]}"; do
    most=$jobs
    [ "$i" -ge ${#together[@]} ] && most=1
    while [ "$n_running" -ge "$most" ]; do
        await_one
    done
    start "$i"
done
while [ "$n_running" -gt 0 ]; do
    await_one
done

if [ $((passed + failed)) -eq 0 ]; then
    echo "no test was run" >&2
    failed=1
fi

# Prints the number of skips for each reason, and what is needed to run those tests.
lacking() { # REASON: prints what the tests need; fails if installing a package would be enough
    local pattern takes
    while IFS=$'\t' read -r pattern takes; do
        [[ $pattern != '#'* ]] && [[ $1 =~ ^($pattern)$ ]] && { echo "$takes"; return 0; }
    done <tests/hardware.txt
    echo "KVREEL_TEST_ALL=1 make test, which installs what they need"
    return 1
}
if [ -s "$skips" ]; then
    echo "$(wc -l <"$skips") checks skipped:"
    while IFS=$'\t' read -r n reason; do
        if takes=$(lacking "$reason"); then
            printf '  %3d  %s: needs %s\n' "$n" "$reason" "$takes"
        elif [ -n "${KVREEL_TEST_ALL-}" ]; then
            printf '  %3d  %s: FAILS, no reason of tests/hardware.txt\n' "$n" "$reason"
            failed=$((failed + n))
            broken+=("skipped")
        else
            printf '  %3d  %s: %s\n' "$n" "$reason" "$takes"
        fi
    done < <(cut -f 1 "$skips" | sort | uniq -c | sort -rn | sed -E 's/^ *([0-9]+) /\1\t/')
fi
[ ${#broken[@]} -gt 0 ] && echo "failing: ${broken[*]} (logs in $logs)"
if [ ${#tests[@]} -ge 20 ]; then
    echo "most processor time:"
    for i in "${!tests[@]}"; do
        printf '%d.%d s CPU, %d s, %s\n' $((cpu_ms[i] / 1000)) $((cpu_ms[i] % 1000 / 100)) "${took[i]}" "$(name_of "${tests[i]}")"
    done | sort -rn | head -n 20 | sed 's/^/  /'
fi
printf '%d s, %d s CPU\n' "$SECONDS" $((all_ms / 1000))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
