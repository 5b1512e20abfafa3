# shellcheck shell=bash
# lib.sh - functions of the command-line tests. Each script runs from the repository's root as `bash
# tests/cli/test_x.sh path/to/kvreel` and prints one line per check: "ok - ...", "FAIL - ..." or "skip - ...
# (reason)". Its exit status is 1 if a check failed.

kvreel=$(realpath "$1")
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-cli-XXXXXX")
out=$work/stdout
err=$work/stderr
n_failed=0
# The tests' Python interpreter, searched before XDG_CACHE_HOME changes.
python=$(bash tools/test/test-python.sh)
export KVREEL_DATA=$root # kvreel finds models/ and configs/ from any working directory
# The user's own settings must not affect the tests.
export XDG_CONFIG_HOME=$work/none XDG_CACHE_HOME=$work/cache KVREEL_ETC=$work/none
unset KVREEL_DB KVREEL_OUT KVREEL_TIMEOUT_S KVREEL_MEMORY_MIB KVREEL_JOBS KVREEL_QUIET

finish() {
    local rc=$?
    # If a background job is killed before exec, its subshell also runs this trap. Only the script's own shell may
    # clean up.
    [ "$BASHPID" = "$$" ] || exit "$rc"
    chmod -R u+w "$work" 2>/dev/null
    rm -rf "$work"
    [ "$rc" -ne 0 ] || [ "$n_failed" -eq 0 ] || rc=1
    exit "$rc"
}
trap finish EXIT

ok() { echo "ok - $*"; }
skip() { echo "skip - $1 ($2)"; }
# has PROGRAM NAME: fails, and prints that the check NAME is skipped, if PROGRAM is not installed.
has() {
    command -v "$1" >/dev/null && return
    skip "$2" "$1 is not installed"
    return 1
}
# python_has 'MODULE...' NAME: fails, and prints that the check NAME is skipped, if $python cannot import a module.
# The import must print a word, because tools/test/test-honesty.sh replaces Python by /bin/true, which always
# succeeds.
python_has() {
    local module
    for module in $1; do
        [ "$("$python" -c "import $module; print('imported')" 2>/dev/null | tail -n 1)" = imported ] && continue
        skip "$2" "Python has no $module"
        return 1
    done
}
# Sets $browser to a headless browser, or prints that the check NAME is skipped.
# shellcheck disable=SC2034  # the scripts read it
has_browser() { # NAME
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) && return
    skip "$1" "chromium is not installed"
    return 1
}
# emulates NAME: succeeds if kvreel has emulated CUDA kernels, otherwise prints that the check NAME is skipped. The
# check NAME fails if `kvreel version` does not state the kind of kernels.
emulates() {
    local has
    has=$("$kvreel" version | sed -n 's/^ *CUDA kernels *//p')
    case $has in
    emulated*) return ;;
    '') fail "$1: kvreel version does not state the kind of CUDA kernels" ;;
    *) skip "$1" "this program has nvcc's kernels" ;;
    esac
    return 1
}
fail() {
    echo "FAIL - $*"
    n_failed=$((n_failed + 1))
}

# check NAME COMMAND...: passes if the command succeeds.
check() {
    local name=$1
    shift
    if "$@" >"$work/check" 2>&1; then
        ok "$name"
    else
        fail "$name"
        sed 's/^/  /' "$work/check" | head -n 20
    fi
}

# exits CODE NAME ARGS...: runs kvreel with ARGS, writes $out and $err, and passes if the exit status is CODE.
exits() {
    local want=$1 name=$2 rc
    shift 2
    "$kvreel" "$@" >"$out" 2>"$err"
    rc=$?
    if [ "$rc" -eq "$want" ]; then
        ok "$name"
    else
        fail "$name: exit $rc, expected $want: kvreel $*"
        sed 's/^/  stderr: /' "$err" | tail -n 10
    fi
}

# says NAME PATTERN: passes if the last stderr matches the extended regular expression.
says() { check "$1" grep -qE -- "$2" "$err"; }
# prints NAME PATTERN: passes if the last stdout matches.
prints() { check "$1" grep -qE -- "$2" "$out"; }
# json NAME [OPTION...] FILTER: passes if the last stdout is not empty and the jq filter is true of it. With empty
# input, jq 1.6 would succeed for every filter.
json() { check "$1" holds_true "${@:2}"; }
holds_true() { [ -s "$out" ] && jq -e "$@" "$out"; }

# three_threads: for tests that compare results of several numbers of threads. It checks that OMP_THREAD_LIMIT allows
# three threads.
three_threads() {
    export OMP_NUM_THREADS=3
    check "OpenMP may start three threads" test "${OMP_THREAD_LIMIT:-3}" -ge 3
}

# sql FILE STATEMENT: prints a result of sqlite3, so that checks of a database do not depend on kvreel.
sql() { sqlite3 -readonly "$1" "$2"; }

# changed DB STATEMENTS: changes a database with SQL and recomputes its checksums, so that kvreel accepts the
# changed results.
changed() {
    unsealed "$1" "$2" || fail "the database is changed"
    "$kvreel" merge "$1" -o "$1.changed" >"$out" 2>"$err"
    case $? in 0 | 4) ;; *) fail "the database is changed: $(cat "$err")" ;; esac # 4: shards contradict each other
    mv "$1.changed" "$1" && rm -f "$1-wal" "$1-shm"
}
# unsealed DB STATEMENTS: changes a database, and makes it a version-5 database, which has no checksums.
unsealed() { sqlite3 "$1" "$2; DROP TABLE seal; PRAGMA user_version = 5"; }

# Writes the config of a sweep that takes seconds: two prompts, three methods, 6 frames.
tiny_config() { # FILE [FRAMES]
    cat >"$1" <<YAML
question: does the path from a prompt to the database hold together?
model: nano
prompts:
  - {id: red, text: a large red disc drifts right over a plain blue background}
  - {id: green, text: a large green square drifts left over a plain white background}
methods: [BF16, RTN_INT4, RTN_INT2]
frames: ${2:-6}
YAML
}

# shared_sweep CONFIG DB OUT: provides the results of `kvreel run CONFIG --db DB --out OUT`. If several scripts run
# together (tools/test/run-tests.sh), the first one runs the sweep and all get copies. Tests of `kvreel run` must not
# use it.
shared_sweep() {
    local place lock
    place=${KVREEL_TEST_SHARED:-$work}/sweep-$(sha256sum <"$1" | cut -c 1-16)
    exec {lock}>"$place.lock"
    flock "$lock"
    if [ ! -e "$place/done" ]; then
        rm -rf "$place"
        mkdir "$place"
        "$kvreel" run "$1" --db "$place/db" --out "$place/out" -q >"$out" 2>"$err" && touch "$place/done"
    fi
    exec {lock}>&-
    if [ ! -e "$place/done" ]; then
        fail "the sweep of $1 runs: $(tail -n 3 "$err")"
        exit 1
    fi
    cp "$place/db" "$2"
    cp -r "$place/out" "$3"
}

# Writes the config of a sweep with many features: two suites (of one and two prompts), a method in two versions
# (RTN_INT4 and RTN_INT4@study), a correction (taylor), and a method with two codecs. It has 18 cells of three
# chunks.
common_config() { # FILE
    cat >"$1" <<'YAML'
question: what can be done with what a sweep leaves behind?
model: nano
suite:
  - {suite: moviegen-nano, prompts: 2}
  - {suite: storyeval-nano, prompts: 1}
methods: [BF16, RTN_INT4, RTN_INT4@study, RTN_INT2, RTN_INT2+taylor,
          SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2]
frames: 9
baselines: none
YAML
}
