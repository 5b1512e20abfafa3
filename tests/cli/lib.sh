# shellcheck shell=bash
# lib.sh - what the end-to-end tests of the command line share. Each script is called from the
# repository's root as `bash tests/cli/test_x.sh path/to/kvreel` and prints one line per check:
# "ok - ...", "FAIL - ..." or "skip - ... (reason)". Its exit status is 1 when one failed.

kvreel=$(realpath "$1")
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-cli-XXXXXX")
out=$work/stdout
err=$work/stderr
n_failed=0
# What tests call Python; asked before the cache folder is another.
python=$(bash tools/test/test-python.sh)
export KVREEL_DATA=$root # models/ and configs/, wherever a test runs
# The user's own settings must not affect the tests.
export XDG_CONFIG_HOME=$work/none XDG_CACHE_HOME=$work/cache KVREEL_ETC=$work/none
unset KVREEL_DB KVREEL_OUT KVREEL_TIMEOUT_S KVREEL_MEMORY_MIB KVREEL_JOBS KVREEL_QUIET

finish() {
    local rc=$?
    chmod -R u+w "$work" 2>/dev/null
    rm -rf "$work"
    [ "$rc" -ne 0 ] || [ "$n_failed" -eq 0 ] || rc=1
    exit "$rc"
}
trap finish EXIT

ok() { echo "ok - $*"; }
skip() { echo "skip - $1 ($2)"; }
# has TOOL NAME: or the check NAME is skipped.
has() {
    command -v "$1" >/dev/null && return
    skip "$2" "$1 is not installed"
    return 1
}
# python_has 'MODULE...' NAME: the same of what $python can import. It must be Python: /bin/true imports everything.
python_has() {
    local module
    for module in $1; do
        [ "$("$python" -c "import $module; print('imported')" 2>/dev/null | tail -n 1)" = imported ] && continue
        skip "$2" "Python has no $module"
        return 1
    done
}
# A browser without a window: $browser, or the check NAME is skipped.
# shellcheck disable=SC2034  # read by the scripts
has_browser() { # NAME
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) && return
    skip "$1" "chromium is not installed"
    return 1
}
# emulates NAME: this program's kernels run on the CPU, or the check NAME is skipped. A program that does not say
# which it has fails.
emulates() {
    local has
    has=$("$kvreel" version | sed -n 's/^ *CUDA kernels *//p')
    case $has in
    emulated*) return ;;
    '') fail "$1: kvreel version says nothing of CUDA kernels" ;;
    *) skip "$1" "this program has nvcc's kernels" ;;
    esac
    return 1
}
fail() {
    echo "FAIL - $*"
    n_failed=$((n_failed + 1))
}

# check NAME COMMAND...: passes when the command succeeds.
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

# exits CODE NAME ARGS...: runs kvreel with ARGS, keeps $out and $err, passes on that exit code.
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

# says NAME PATTERN: passes when the last stderr matches the extended regular expression.
says() { check "$1" grep -qE -- "$2" "$err"; }
# prints NAME PATTERN: the same for stdout.
prints() { check "$1" grep -qE -- "$2" "$out"; }
# json NAME [OPTION...] FILTER: passes when the jq filter is true of the last stdout, which is not empty (of
# nothing jq 1.6 finds everything true).
json() { check "$1" holds_true "${@:2}"; }
holds_true() { [ -s "$out" ] && jq -e "$@" "$out"; }

# three_threads: for what compares numbers of threads. OMP_THREAD_LIMIT would make it compare one with itself.
three_threads() {
    export OMP_NUM_THREADS=3
    check "OpenMP may start three threads" test "${OMP_THREAD_LIMIT:-3}" -ge 3
}

# sql FILE STATEMENT: one value, for checks of the database behind kvreel's back.
sql() { sqlite3 -readonly "$1" "$2"; }

# changed DB STATEMENTS: a database with other results than were measured, sealed as if they had been.
changed() {
    unsealed "$1" "$2" || fail "the database is changed"
    "$kvreel" merge "$1" -o "$1.changed" >"$out" 2>"$err"
    case $? in 0 | 4) ;; *) fail "the database is changed: $(cat "$err")" ;; esac # 4: shards contradict
    mv "$1.changed" "$1" && rm -f "$1-wal" "$1-shm"
}
# The same as a database of the version that had no checksums.
unsealed() { sqlite3 "$1" "$2; DROP TABLE seal; PRAGMA user_version = 5"; }

# A sweep that takes seconds: two prompts, three methods, 6 frames.
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

# shared_sweep CONFIG DB OUT: what `kvreel run CONFIG --db DB --out OUT` leaves behind. Of scripts
# that are run together (tools/test/run-tests.sh) the first measures, the others get copies of their own.
# For tests of what is done with results, not of how they come about.
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

# For every script that needs a sweep with something of everything in it: two suites, one of them
# with two prompts, both readings, a correction, a mixed method. 18 cells of three chunks.
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
