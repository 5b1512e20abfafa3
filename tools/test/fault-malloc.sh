#!/usr/bin/env bash
# fault-malloc.sh - lets one allocation fail in each run of a command, and checks that the command reports it.
#
#     tools/test/fault-malloc.sh BUILD [MOST [COMMAND-PATTERN [I/N]]]
#
# A place is a call stack that allocates (tests/faults/malloc_fault.c). For each command, the script fails the first
# allocation of every place, one per run. With MOST, it fails only the allocations of MOST places and MOST/4 other
# allocations, each group evenly spaced. With I/N, it fails only every N-th of the selected allocations, from the
# I-th on. Without MOST and I/N, it takes hours. Faults are counted as
#     crash     a signal ended the command or its worker, or it ran for more than 60 s
#     other     the exit status is 0, but stdout or a written file (for a sweep: cells, metrics, frames) differs
#               from a run without a fault; or the database is damaged
#     untyped   another exit status, but neither stderr nor the cell's reason mentions memory
# The script prints one line per command, then the totals; the exit status is 1 unless the totals of faults are 0.
# BUILD/fault-malloc.log, or FAULT_LOG, lists each fault: command, number of the failed allocation, kind, exit
# status, message.
set -uo pipefail

build=$(realpath "$1")
most=${2:-0}
only=${3:-.}
share=${4:-1/1}
kvreel=$build/kvreel
shim=$build/tests/faults/malloc_fault.so
log=${FAULT_LOG:-$build/fault-malloc.log}
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/kvreel-fault-XXXXXX")
trap 'rm -rf "$work"' EXIT
# With one thread, the order of allocations is the same in every run.
export KVREEL_DATA=$root OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
export XDG_CONFIG_HOME=$work/none XDG_CACHE_HOME=$work/cache KVREEL_ETC=$work/none
: >"$log"

cd "$work" || exit 1
cat >sweep.yaml <<'YAML'
question: does it say when memory ends?
model: nano
suite: {suite: moviegen-nano, prompts: 2}
methods: [BF16, RTN_INT4, {method: RTN_INT2, options: {group: [16, 32]}}]
frames: 3
baselines: none
YAML
sed 's/prompts: 2/prompts: 1/; s/^methods.*/methods: [BF16, RTN_INT4]/' sweep.yaml >one.yaml
# The make_* functions write the commands' inputs. The script calls each before the first command that needs it.
make_base() {
    [ ! -e base.db ] || return 0
    "$kvreel" run sweep.yaml --db base.db --out out -q >/dev/null 2>run.err || {
        cat run.err >&2
        return 1
    }
}
make_frames() {
    [ ! -e a.safetensors ] || return 0
    "$kvreel" generate -m RTN_INT4 --reference --frames 3 -q -o g -p 'a large red disc' >/dev/null || return 1
    cp g/BF16-*.safetensors a.safetensors
    cp g/RTN_INT4-*.safetensors b.safetensors
}

commands=(
    "list methods"
    "list metrics --json"
    "list models"
    "list suites --json"
    "show RTN_INT4@study"
    "show SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2 --json"
    "vocabulary --json"
    "codec -m RTN_INT4 --draw 30x2x16 --json"
    "predict -m KIVI_INT2@study --geometry wan-1.3b --frames 33 --json"
    "run sweep.yaml --db base.db --out out --dry-run"
    "run sweep.yaml --db base.db --out out --dry-run --force"
    "run sweep.yaml --dry-run --json"
    "run sweep.yaml --dump-config"
    "status --db base.db"
    "submit slurm sweep.yaml --shards 2"
    "merge base.db -o all.db"
    "fsck base.db"
    "fsck base.db -o new.db"
    "compare a.safetensors b.safetensors --json --series"
    "compare a.safetensors b.safetensors"
    "sheet s.png a.safetensors b.safetensors"
    "sheet s.png --db base.db -m RTN_INT4 --worst"
    "query --db base.db --json SELECT*FROM(cells_wide)"
    "query --db base.db SELECT*FROM(summary)"
    "query --db base.db --check SELECT*FROM(failures)"
    "report --db base.db -t summary -f latex"
    "report --db base.db -o page"
    "stats paired --db base.db --json"
    "pareto --db base.db"
    "plot pareto --db base.db -o figures --format svg"
    "plot drift --db base.db -o figures --format svg"
    "claims --db base.db"
    "report --db base.db --table claims"
    "settle iq-rtn2 --db base.db -q"
    "fit --memory 24GiB -m BF16 -m KIVI_INT2 --frames 33 --json"
    "score sharpness --db new.db --out out"
    "import vbench r.json --db new.db"
    "generate -m RTN_INT4 --frames 3 -q -o made -p a+large+red+disc"
    "trace record made -n 3 -w 3 -q -p a+large+red+disc"
    "trace check red.kvtrace --json"
    "trace synth made --like red.kvtrace -q"
    "profile --prompts 1 --frames 6 -q -o made"
    "nll $root/tests/fixtures/lm $root/tests/fixtures/lm/texts.safetensors --tokens 32"
    "engine check $root/tests/fixtures/wan_tiny"
    "embed -p prompts.txt --model $root/tests/fixtures/wan_folder -o made --max-tokens 3 -q --json"
    "bench attention --shape 8x16x1x16 --rounds 3 --json"
    "reproduce study33 --quantity compression"
    "model check $root/models/nano"
    "doctor --json"
    "completion zsh"
    "completion --values methods"
    "man run"
    "version"
    "help"
    "sweep in the parent"
    "sweep in its workers"
)
[ -e "$build/examples/plugin/center.so" ] && commands+=(
    "--plugin $build/examples/plugin/center.so show CENTERED_INT4"
    "plugin check $build/examples/plugin/center.so --json"
)

make_scores() { # a file of VBench's scores for a video of the sweep
    make_base || return 1
    [ -e r.json ] || (cd out/videos && set -- *.mp4 && echo "{\"imaging_quality\": [0.5, [{\"video_path\": \"$1\", \"video_results\": 50}]]}") >r.json
}
make_trace() {
    [ -e red.kvtrace ] || "$kvreel" trace record red.kvtrace -n 3 -w 3 -q -p 'a large red disc'
}

# Prints a sweep's results without times: for each cell its key, bytes, hash of the frames, and metrics.
found() { # DB
    sqlite3 -readonly "$1" "SELECT c.key, c.nominal_bytes, c.resident_bytes,
        (SELECT group_concat(kind || ' ' || sha256, ' ') FROM (SELECT kind, sha256 FROM artifact a WHERE a.cell = c.key AND kind = 'frames')),
        (SELECT group_concat(name || '=' || coalesce(value, missing), ' ') FROM (SELECT * FROM metric m WHERE m.cell = c.key ORDER BY name))
        FROM cell c WHERE outcome = 'OK' ORDER BY key" 2>&1
}

# Prints hashes of the files that a command has written; for a database, the hash of its content.
written() {
    local db
    find s.png page figures made -type f -exec sha256sum {} + 2>/dev/null | sort -k 2
    for db in all.db new.db; do [ ! -e $db ] || echo "$(sqlite3 -readonly $db .dump 2>&1 | sha256sum) $db"; done
}

all=0 crash=0 other=0 untyped=0
n_commands=0
# try NTH [PLACES]: runs $command with allocation NTH failing, or none if NTH is 0. Sets rc, writes out.txt and err.txt,
# and lists the first allocation of each place in the file PLACES.
try() {
    local call=$command in='' tunables='' words
    rm -rf all.db* s.png page figures new.db* out2 made
    case $command in
    *" --db new.db"*) sqlite3 base.db "VACUUM INTO 'new.db'" ;;
    "sweep in "*)
        call="run one.yaml --db new.db --out out2 --jobs 1 -q"
        [ "$command" = "sweep in the parent" ] || in=worker
        ;;
    esac
    read -ra words <<<"$call"
    words=("${words[@]//+/ }")
    # bench clears the CPU caches with a 64 MiB buffer per row. With these settings, glibc keeps the buffer's pages
    # for the next row and does not return them to the kernel.
    [[ $command != "bench "* ]] || tunables=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1073741824
    timeout -k 5 "${2:+6}60" env LD_PRELOAD="$shim" GLIBC_TUNABLES="$tunables" FAULT_IN="$in" FAULT_NTH="$1" ${2:+FAULT_PLACES="$2"} "$kvreel" "${words[@]}" >out.txt 2>err.txt
    rc=$?
    case $command in
    "sweep in "*) found new.db >out.txt ;;
    "bench "*) # replaces all measured values
        sed -i -E '/"(median|min|ratio|ratio_q1|ratio_q3|cold|warm|error|n)"/s/: [0-9].*/: N/; s/"steady": .*/"steady": N/' out.txt
        ;;
    *" --db new.db"*) found new.db >>out.txt ;;
    *" -o "* | "sheet "* | *" made "*) [ "$rc" -ne 0 ] || written >>out.txt ;;
    *--dry-run*) # replaces the layer's measured rate, whose stored value may be unreadable
        sed -i -E 's/"(flop_per_s|at_least_s)": [0-9][0-9.e+-]*/"\1": N/' out.txt
        ;;
    esac
}
# For `plugin check`: prints the reason of each failed check, one per line. Returns 1 if another check's result
# differs from the run without a fault. The message of the check "no memory" is ignored, as it counts allocations.
broken() {
    jq -e --slurpfile want want.txt '[.checks, $want[0].checks | map(select(.verdict != "FAILED") | del(select(.check == "no memory").said))] | .[0] - .[1] == []' out.txt >/dev/null &&
        jq -r '.checks[] | select(.verdict == "FAILED").said' out.txt
}
judge() { # sets verdict: compares rc, out.txt and err.txt with the run without a fault
    verdict=
    if [ "$rc" -ge 124 ]; then
        verdict=crash
    elif [[ $command == "sweep in "* ]]; then
        if [ -e new.db ] && grep -q '^Error\|no such table' out.txt; then
            verdict=other
        elif [ -e new.db ] && [ -n "$(comm -23 <(sort out.txt) <(sort want.txt))" ]; then
            verdict=other
        elif [ "$rc" -eq 0 ]; then
            cmp -s out.txt want.txt || verdict=other
        elif [ -e new.db ] && [ "$(sqlite3 -readonly new.db "SELECT count(*) FROM attempt WHERE outcome = 'SIGNAL'")" -gt 0 ]; then
            verdict=crash
        elif [ -e new.db ] && [ "$(sqlite3 -readonly new.db "SELECT count(*) FROM attempt WHERE outcome NOT IN ('OK', 'SKIPPED', 'INTERRUPTED')")" -gt 0 ]; then
            [ "$(sqlite3 -readonly new.db "SELECT count(*) FROM attempt WHERE outcome NOT IN ('OK', 'SKIPPED', 'INTERRUPTED', 'OOM_HOST') AND reason NOT LIKE '%memory%'")" -eq 0 ] || verdict=untyped
        elif ! grep -qi memory err.txt; then
            verdict=untyped
        fi
    elif [[ $command == "plugin check "* ]] && [ "$rc" -eq 4 ]; then # a check, not the command, ran out of memory
        broken >said.txt || verdict=other
        ! grep -qv memory said.txt || grep -qi memory err.txt || verdict=untyped # libgomp prints its error there and exits
        ! grep -q crashed said.txt || verdict=crash
    elif [ "$rc" -eq "$want_rc" ] && { [ "$stable" = no ] || cmp -s out.txt want.txt; }; then
        : # the command did not need this allocation
    elif [ "$rc" -eq 0 ]; then
        verdict=other
    elif ! grep -qi memory err.txt; then
        verdict=untyped
    fi
}
said() { # prints the reason in one line
    local text
    text=$(tail -n 1 err.txt)
    [ ! -s new.db ] || text="$text | $(sqlite3 -readonly new.db "SELECT outcome || ': ' || reason FROM attempt WHERE outcome NOT IN ('OK', 'SKIPPED') LIMIT 1" 2>&1)"
    echo "$text"
}
for command in "${commands[@]}"; do
    grep -qE -- "$only" <<<"$command" || continue
    case $command in
    "import "*) make_scores || exit 1 ;;
    "embed "*) echo 'a red disc' >prompts.txt ;;
    *base.db* | *new.db*) make_base || exit 1 ;;
    *red.kvtrace*) make_trace || exit 1 ;;
    *a.safetensors*) make_frames || exit 1 ;;
    esac
    n_commands=$((n_commands + 1))
    rm -f places
    try 0
    cp out.txt want.txt
    want_rc=$rc
    try 0 "$work/places" # a second run shows whether the output depends on time or load
    stable=no
    cmp -s out.txt want.txt && stable=yes
    count=$(tail -n 1 places 2>/dev/null)
    if [ "$want_rc" -ne 0 ] || [ "${count:-0}" -eq 0 ]; then
        echo "fault-malloc: '$command' does not run without a fault: exit $want_rc" >&2
        cat err.txt >&2
        exit 1
    fi
    sort -nu places >asked
    n_places=$(wc -l <asked)
    if [ "$most" -gt 0 ]; then
        {
            awk -v n="$n_places" -v most="$most" 'n <= most || int(NR * most / n) != int((NR - 1) * most / n)' asked
            awk -v n="$count" -v most="$((most / 4))" 'BEGIN { for (i = 0; i < most; i++) print 1 + int((i + 0.5) * n / most) }'
        } | sort -nu >chosen
    else
        cp asked chosen
    fi
    awk -v i="${share%/*}" -v n="${share#*/}" 'NR % n == i % n' chosen >mine
    tries=0 bad=0
    while read -r n; do
        try "$n"
        tries=$((tries + 1))
        judge
        [ -z "$verdict" ] && continue
        bad=$((bad + 1))
        printf -v "$verdict" %d $((${!verdict} + 1))
        printf '%s\t%d\t%s\t%d\t%s\n' "$command" "$n" "$verdict" "$rc" "$(said)" >>"$log"
    done <mine
    all=$((all + tries))
    printf '%-60.60s %7d allocations %5d places %5d tries %4d faults\n' "${command//$root\//}" "$count" "$n_places" "$tries" "$bad"
done
echo "fault-malloc: $n_commands commands, $all tries: $crash crashes, $other other outputs, $untyped untyped"
[ $((crash + other + untyped)) -eq 0 ] && [ "$all" -gt 0 ]
