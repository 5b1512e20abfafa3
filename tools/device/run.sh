#!/usr/bin/env bash
# run.sh - runs the tests and benchmarks of an unpacked package on a machine with a GPU, for
# tools/device-check.sh --run FILE OUT.
#
#     bash tools/device/run.sh OUT
#
# OUT gets report.json, rows.jsonl, tests.tsv, rollouts.db, rollouts.csv, log.txt and logs.tar.gz.
#
#     LIMIT_S=520    time limit of the whole script, in seconds
#     PARTS="..."    the default: tests attention forward rollouts gemm codecs profile; also memcheck racecheck
#     METHODS="..."  methods of the parts forward and rollouts
#     PATHS="..."    attention paths of the part rollouts: staged fused
#     CASES=REGEX    runs the test cases whose "PROGRAM CASE" matches
#     CHECK_S=15     time limit of one check of a test, in seconds; a forward has 5 s more
#     JOBS=8         number of parallel test processes
#     DONE="FILE ..." databases of earlier packages on this GPU: their methods are skipped, except BF16
#     DRY=1          checks the settings, prints the selected parts, and measures nothing
#
# All settings are checked first, so that a misspelt part, method or filter uses no GPU time. The checks of a
# test case are divided among several processes with one CUDA context each. A check that hangs or crashes ends
# only its own process; a new process continues with the next check. Each result is written as soon as it is
# known.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

check_s=${CHECK_S:-15}
backend=$(sed -n 's/^backend=//p' package)
export OMP_WAIT_POLICY=passive

ours() { LD_LIBRARY_PATH=$KVR_LIBS "$@"; }

# ---- one process of a test: run.sh --case OUT PROGRAM PART PARTS CASE -------------------------------

if [ "${1:-}" = --case ]; then
    out=$2 program=$3 part=$4 parts=$5 case=$6
    name=${program//\//_}-${case//[^A-Za-z0-9]/_}-$part
    log=$out/logs/$name.log
    from=0 fresh=1 tries=0
    while :; do
        left=$((KVR_DEADLINE - $(date +%s)))
        if [ "$left" -lt 2 ]; then
            printf '%s\t%s\t%s\t-\tnot run\t0\tno time left\n' "$program" "$case" "$part/$parts" >>"$out/logs/$name.rows"
            break
        fi
        : >"$log.now"
        CK_RUN_CASE=$case KVR_TEST_PART=$part/$parts KVR_TEST_FROM=$from KVR_TEST_LIMIT_S=$check_s \
            KVR_TEST_FRESH=$fresh OMP_NUM_THREADS=2 LD_LIBRARY_PATH=$KVR_LIBS \
            timeout -k 1 $((left < 4 * check_s ? left : 4 * check_s)) "bin/tests/$program" >"$log.now" 2>&1 </dev/null
        rc=$?
        echo "$program" >>"$out/logs/contexts"
        cat "$log.now" >>"$log"
        # A process that was stopped at the part's deadline did not hang.
        ended=$([ "$(date +%s)" -ge "$KVR_DEADLINE" ] && echo 1)
        # Writes a row for each check that began. If the last check did not end, its state is crash, timeout
        # or, after the part's deadline, not run.
        last=$(awk -v p="$program" -v c="$case" -v rows="$out/logs/$name.rows" -v rc="$rc" -v ended="$ended" '
            function row(state, ms) { printf "%s\t%s\t%s\t%s\t%s\t%.3f\t%s\n", p, c, n, what, state, ms / 1e3, said >>rows; open = 0; said = "" }
            /^> / { n = $2; what = $3; open = 1; said = ""; next }
            /^< / { row($2, $3); next }
            open { said = said (said == "" ? "" : " | ") $0; gsub(/\t/, " ", said) }
            END {
                if (open) row(rc != 124 && rc != 137 ? "crash" : ended ? "not run" : "timeout", 0)
                print n == "" ? -1 : n
            }' "$log.now")
        rm -f "$log.now"
        # Exit codes 0 and 1: the process ran all its checks. Exit code 3: it stopped after a failed check.
        # Other codes: it was stopped by a limit or crashed.
        [ "$rc" -gt 1 ] || break
        if [ "$last" -lt 0 ]; then # no check had begun
            printf '%s\t%s\t%s\t-\tcrash\t0\texit %d: %s\n' "$program" "$case" "$part/$parts" "$rc" "$(tail -n 1 "$log" | tr '\t' ' ')" >>"$out/logs/$name.rows"
            break
        fi
        from=$((last + 1))
        tries=$((tries + 1))
        [ "$tries" -lt 6 ] || fresh=
        [ "$tries" -lt 12 ] || break
    done
    exit 0
fi

out=${1:?run.sh OUT}
mkdir -p "$out"
out=$(realpath "$out")
rm -rf "$out/logs" "$out"/*.jsonl "$out"/*.json "$out"/rollouts.* "$out"/tests.tsv
mkdir -p "$out/logs"
logs=$out/logs
limit=${LIMIT_S:-520}
begin=$(date +%s)
parts=${PARTS:-tests attention forward rollouts gemm codecs profile}
jobs=${JOBS:-8}
rounds=$([ "$backend" = cuda ] && echo 15 || echo 3)
exec > >(tee -a "$logs/log.txt") 2>&1
tee=$!
finish() { # STATUS: exits after tee has written all output
    rm -rf "$logs"
    exec >&- 2>&-
    wait "$tee"
    exit "$1"
}

say() { printf '%4d s  %s\n' $(($(date +%s) - begin)) "$*"; }
left() { # [SECONDS]: remaining seconds, at most SECONDS
    local most=${1:-9999} all=$((limit - 6 - ($(date +%s) - begin)))
    echo $((most < all ? most : all))
}

# Library path: the package's libraries, then NVIDIA's libraries in Python's site-packages.
KVR_LIBS=$PWD/lib
for lib in libstdc++.so.6 libgomp.so.1 libgcc_s.so.1; do
    ldconfig -p 2>/dev/null | grep -q "$lib" || { KVR_LIBS+=:$PWD/gcc && break; }
done
if [ "$backend" = cuda ]; then
    KVR_LIBS+=$(timeout 20 python3 -c 'import glob, site, sys
seen = []
for want in ("libcublasLt.so.*", "libcudnn.so.9", "libnvrtc.so.*"):
    for d in site.getsitepackages() + sys.path:
        found = sorted(glob.glob(d + "/nvidia/*/lib/" + want))
        if found:
            seen.append(found[-1].rsplit("/", 1)[0])
            break
print("".join(":" + d for d in dict.fromkeys(seen)))' 2>/dev/null)
fi
KVR_LIBS+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export KVR_LIBS

gpu_says() { timeout 10 nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null | head -n 1; }
gpu=
if [ "$backend" = cuda ]; then
    gpu=$(gpu_says name,compute_cap,driver_version,clocks.sm,clocks.max.sm,clocks.mem,memory.total,power.limit)
    [ -n "$gpu" ] || say "nvidia-smi finds no GPU"
fi
say "package $(tr '\n' ' ' <package)"
say "GPU ${gpu:-none}; libraries $KVR_LIBS"

# Checks that the device still works: a program opens it and copies memory.
answers=true
answer() {
    [ "$answers" = true ] || return 1
    if ours timeout -k 1 20 bin/bench 3 >"$logs/answer.log" 2>&1; then
        return 0
    fi
    say "the device does not answer: $(tail -n 1 "$logs/answer.log")"
    answers=false
    return 1
}

# ---- tests ------------------------------------------------------------------------------------------

# Test cases that have failed on a GPU before run first.
first='attention on tensor cores|attention by bytes|products of warpgroups|stages|linear layers|wan|ops'
cases() { # writes to $logs/all-cases, for each process, a line PROGRAM, PART (from 0), number of PARTS, CASE
    local program case n per programs
    programs=$(cd bin/tests && find . -type f | sed 's|^\./||' | sort)
    for program in $programs; do
        KVR_TEST_LIST=1 ours timeout -k 1 20 "bin/tests/$program" 2>/dev/null </dev/null |
            awk -F'\t' -v p="$program" 'NF == 2 && $2 > 0 && $1 != "all" { print p "\t" $1 "\t" $2 }' >"$logs/list.${program//\//_}" &
    done
    wait
    for program in cuda/test_kernels cache/test_device engine/test_device $programs; do
        cat "$logs/list.${program//\//_}" 2>/dev/null && rm "$logs/list.${program//\//_}"
    done | while IFS=$'\t' read -r program case n; do
        case $program in
        engine/*) per=2 ;;
        cuda/test_kernels | cache/test_rows) per=32 ;;
        *) per=8 ;;
        esac
        for ((i = 0; i < (n + per - 1) / per; i++)); do
            printf '%s\t%d\t%d\t%s\n' "$program" "$i" $(((n + per - 1) / per)) "$case"
        done
    done >"$logs/all-cases"
}
list_cases() { [ -s "$logs/all-cases" ] || (cases >/dev/null); } # in a subshell, so that `wait` does not wait for tee
tests() { # SECONDS: time limit
    list_cases
    { grep -E "	($first)" "$logs/all-cases"; grep -vE "	($first)" "$logs/all-cases"; } |
        awk -F'\t' -v want="${CASES:-.}" '($1 " " $4) ~ want' >"$logs/cases"
    export KVR_DEADLINE=$(($(date +%s) + $(left "$1")))
    tr '\t\n' '\0\0' <"$logs/cases" | xargs -0 -r -n 4 -P "$jobs" bash tools/device/run.sh --case "$out"
    touch "$logs/contexts" # empty if no test ran, for example without a device
    report_tests
    if grep -qE '	(timeout|crash)	' "$out/tests.tsv"; then answer || true; fi
}
report_tests() {
    {
        printf 'program\tcase\tcheck\tname\tstate\tseconds\tmessage\n'
        cat "$logs"/*.rows 2>/dev/null
    } >"$out/tests.tsv"
    cat "$logs"/cuda_test_kernels-*.log 2>/dev/null | sed -n 's/^executed: //p' | sort -u >"$logs/executed"
    say "tests: $(awk -F'\t' 'NR > 1 { n[$5]++ } END { for (s in n) printf "%s %d, ", s, n[s] }' "$out/tests.tsv")$(
        sort -u "$logs/executed" | wc -l) of $(kernels_in_all | grep . || echo 0) kernels executed, $(wc -l <"$logs/contexts") contexts"
    awk -F'\t' 'NR > 1 && $5 != "pass" { print "        " $1 " " $2 ": " $4 ": " $5 " " substr($7, 1, 160) }' "$out/tests.tsv" | head -n 40
}
kernels_in_all() { cat "$logs"/cuda_test_kernels-*.log 2>/dev/null | sed -n 's/^CUDA: [0-9]* of \([0-9]*\) kernels.*/\1/p' | head -n 1; }

# ---- rows -------------------------------------------------------------------------------------------

# rows PART SECONDS COMMAND...: runs a benchmark that prints JSON rows on stdout and "> NAME" on stderr before each
# row. A row that fails, or takes more than ROW_S seconds, is written with its name and the error. The next process
# skips all rows that an earlier process has begun.
rows() {
    local part=$1 end=$(($(date +%s) + $(left "$2"))) rc tries why
    shift 2
    for tries in 1 2 3 4 5 6; do
        if [ $((end - $(date +%s))) -lt 2 ] || [ "$answers" != true ]; then
            say "$part: $([ "$tries" -gt 1 ] && echo "no time for the rest" || echo "not run")"
            break
        fi
        : >"$logs/now"
        KVR_BENCH_SKIP=$(sed -n 's/^> //p' "$logs/$part.err" 2>/dev/null) KVR_BENCH_LIMIT_S=${ROW_S:-25} \
            ours timeout -k 1 $((end - $(date +%s))) "$@" 2>"$logs/now" >>"$logs/$part.jsonl"
        rc=$?
        cat "$logs/now" >>"$logs/$part.err"
        # Deletes lines that are incomplete because the process was stopped.
        sed -i '/^{.*}$/!d' "$logs/$part.jsonl"
        if [ "$rc" -ne 0 ]; then
            why=$(grep -v '^> ' "$logs/now" | tail -n 1 | tr -d '"\\')
            [ "$rc" -ne 124 ] || [ -n "$why" ] || why="the part's time is over"
            printf '{"name": "%s", "device": "%s", "median": null, "unit": "", "missing": "exit %d: %s", "n": 0}\n' \
                "$(sed -n 's/^> //p' "$logs/now" | tail -n 1)" "$backend" "$rc" "$why" >>"$logs/$part.jsonl"
            say "$part: $(tail -n 1 "$logs/$part.jsonl")"
        fi
        cat "$logs"/*.jsonl >"$out/rows.jsonl"
        [ "$rc" -lt 124 ] || answer || true
        if [ "$rc" -eq 0 ] || ! grep -q '^> ' "$logs/now"; then break; fi
    done
    say "$part: $(wc -l <"$logs/$part.jsonl") rows ($*)"
}
forward() { # SECONDS: one forward of each method on each path
    local m model=models/wan-1.3b-random end=$(($(date +%s) + $(left "$1")))
    if [ "$backend" = emulated ]; then
        model=$logs/model
        mkdir -p "$model"
        sed -e 's/"dim": [0-9]*/"dim": 64/;s/"ffn_dim": [0-9]*/"ffn_dim": 64/;s/"num_heads": [0-9]*/"num_heads": 2/' \
            -e 's/"num_layers": [0-9]*/"num_layers": 2/;s/"text_dim": [0-9]*/"text_dim": 32/;s/"text_len": [0-9]*/"text_len": 16/' \
            -e 's/"freq_dim": [0-9]*/"freq_dim": 32/;s/"latent_height": [0-9]*/"latent_height": 4/' \
            -e 's/"latent_width": [0-9]*/"latent_width": 4/' models/wan-1.3b-random/config.json >"$model/config.json"
    fi
    for m in ${METHODS:-BF16 RTN_INT4 KIVI_INT2 QUAROT_KV_INT4 PRQ_INT4 QAQ_INT4}; do
        for path in ${PATHS:-staged fused}; do
            [ "$(date +%s)" -lt "$end" ] || break 2
            rows forward "$((check_s + 5))" bin/forward "$model" "$m" 4 "$([ "$backend" = cuda ] && echo 5 || echo 1)" "$path"
            [ "$m" != BF16 ] || break # BF16 has no encoded segments, so its paths are equal
        done
    done
}

# ---- rollouts ---------------------------------------------------------------------------------------

# Writes the config of the part rollouts. kvreel run limits the time of each cell.
write_sweep() { # from METHODS and PATHS
    local list paths
    read -ra list <<<"${METHODS:-BF16 RTN_INT4 KIVI_INT2 QUAROT_KV_INT4 PRQ_INT4 QAQ_INT4}"
    read -ra paths <<<"${PATHS:-staged fused}"
    list=("${list[@]/%/,}") paths=("${paths[@]/%/,}")
    cat >"$logs/rollouts.yaml" <<END
question: what do rollouts of the study's size cost on this device?
name: package
model: ${MODEL:-wan-1.3b-random}
prompts: [{id: wan, text: a large red disc bounces over a plain blue background}]
frames: ${FRAMES:-42}
window: ${WINDOW:-21}
path: [${paths[*]}]
methods: [${list[*]}]
device: $backend
compute: bf16
seed: 1
timing: ${TIMING:-true}
baselines: none
videos: false
timeout_s: ${CELL_S:-60}
END
}
sweep() { # SECONDS CONFIG DB ARGUMENT...: runs `kvreel run`
    local most=$1 config=$2 db=$3
    shift 3
    [ "$backend" = cuda ] || set -- --set "device=$backend" "$@" # runs a GPU's config on the emulated device
    KVREEL_DATA=${CONFIG_DATA:-$PWD} ours timeout -s INT -k 8 "$most" bin/kvreel run "$config" --db "$db" --out "$logs/rollouts.out" "$@"
}
# Sets args to the words of RUN_ARGS. If DONE names databases, adds a filter that excludes the methods measured
# there, except BF16, which every package measures.
run_args() {
    local file i at=-1 methods
    read -ra args <<<"${RUN_ARGS:-}"
    [ -n "${DONE:-}" ] || return 0
    methods=$(for file in $DONE; do
        ours timeout 20 bin/kvreel query --db "$file" --raw "SELECT DISTINCT method || iif(reading = 'study' AND instr(method, '@') = 0, '@study', '')
            FROM summary WHERE n_ok > 0 AND method <> 'BF16'"
    done | sort -u | paste -sd '|')
    for i in "${!args[@]}"; do [ "${args[i]}" != --filter ] || at=$((i + 1)); done
    [ "$at" -ge 0 ] || { at=$((${#args[@]} + 1)) && args+=(--filter ''); }
    args[at]+=${args[at]:+&}"method!~^($methods)\$"
}
rollouts() {
    local most args
    most=$(left "$1")
    if [ "$most" -lt 15 ] || [ "$answers" != true ]; then
        say "rollouts: not run"
        return 0
    fi
    run_args
    # --budget ends a timed sweep early enough to measure the baseline once more. A killed sweep's times would
    # be NOISY.
    [ -z "${CONFIG:-}" ] || args+=(--budget "$((most > 30 ? most - 8 : most))s")
    sweep "$most" "${CONFIG:-$logs/rollouts.yaml}" "$logs/rollouts.db" "${args[@]}" >"$logs/rollouts.txt" 2>&1
    say "rollouts: exit $?, $(grep -c '] wan' "$logs/rollouts.txt") cells"
    sed 's/^/        /' "$logs/rollouts.txt" | tail -n 40
    # Merging writes one closed database, which includes rows that a killed run left in the write-ahead log.
    ours timeout 20 bin/kvreel merge "$logs/rollouts.db" -o "$out/rollouts.db" >>"$logs/rollouts.txt" 2>&1
    ours timeout 20 bin/kvreel query --db "$out/rollouts.db" --csv 'SELECT * FROM summary' >"$out/rollouts.csv" 2>>"$logs/rollouts.txt"
    rm -rf "$logs/rollouts.out" "$out"/rollouts.db-wal "$out"/rollouts.db-shm "$out"/rollouts.db.lock
}

# ---- the profiler -----------------------------------------------------------------------------------

profile() {
    local ncu most
    ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null)
    [ -n "$ncu" ] && [ "$backend" = cuda ] || return 0
    for kernel in ${KERNELS:-attend_list linear_wgmma}; do
        most=$(left $(($1 / 2)))
        [ "$most" -ge 8 ] || return 0
        LD_LIBRARY_PATH=$KVR_LIBS timeout -k 1 "$most" "$ncu" --csv --page details --clock-control none --kill yes -k "regex:$kernel" -c 1 \
            --section SpeedOfLight --section SchedulerStats --section WarpStateStats --section ComputeWorkloadAnalysis \
            --section MemoryWorkloadAnalysis bin/forward models/wan-1.3b-random BF16 4 1 2>>"$logs/profile.err" |
            grep '^"' >"$logs/profile-$kernel.csv"
        say "profile: $kernel, $(wc -l <"$logs/profile-$kernel.csv") lines"
    done
}

# sanitizer TOOL SECONDS: runs each case of cuda/test_kernels under compute-sanitizer and counts the errors in
# its log.
sanitizer() {
    local tool=$1 sanitizer end rc
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    end=$(($(date +%s) + $(left "$2")))
    if [ -z "$sanitizer" ]; then
        say "$tool: no compute-sanitizer"
        return 0
    fi
    list_cases
    for case in $(cut -f 1,4 "$logs/all-cases" 2>/dev/null | sort -u | grep '^cuda/test_kernels' | cut -f 2 | tr ' ' '~'); do
        case=${case//\~/ }
        [[ "cuda/test_kernels $case" =~ ${CASES:-.} ]] || continue
        [ $((end - $(date +%s))) -ge 5 ] || break
        # --report-api-errors no: one test requests more memory than the GPU has and expects the CUDA API's
        # error.
        CK_RUN_CASE=$case LD_LIBRARY_PATH=$KVR_LIBS timeout -k 1 $((end - $(date +%s))) "$sanitizer" --tool "$tool" --report-api-errors no \
            --error-exitcode 9 bin/tests/cuda/test_kernels >"$logs/$tool-${case// /_}.log" 2>&1
        rc=$?
        printf '{"name": "%s.%s", "unit": "errors", "median": %s, "missing": "exit %d", "n": 1}\n' "$tool" "$case" \
            "$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) .*/\1/p;s/.*RACECHECK SUMMARY: \([0-9]*\) .*/\1/p' "$logs/$tool-${case// /_}.log" | tail -n 1 | grep . || echo null)" \
            "$rc" >>"$logs/$tool.jsonl"
        say "$(tail -n 1 "$logs/$tool.jsonl")"
    done
    cat "$logs"/*.jsonl >"$out/rows.jsonl"
}

# ---- settings ---------------------------------------------------------------------------------------

refused=
refuse() { echo "device-check: $*"; refused=yes; }
wanted_part() { # NAME...: succeeds if one of them is in PARTS
    local name
    for name; do [[ " $parts " != *" $name "* ]] || return 0; done
    return 1
}
check_sweep() { # CONFIG ARGUMENT...: succeeds if kvreel accepts the config and at least one cell is left
    # Plans one cell only: planning all cells of cost-card.yaml takes 10 s.
    if ! sweep 60 "$1" "$logs/plan.db" --dry-run --limit 1 "${@:2}" >"$logs/plan" 2>&1; then
        refuse "rollouts: $(sed -n 's/^kvreel: //p' "$logs/plan" | tail -n 1 | grep . || tail -n 1 "$logs/plan")"
    elif grep -q '^0 cells:' "$logs/plan"; then
        refuse "rollouts: no cell is left of $1 with RUN_ARGS='${RUN_ARGS:-}'"
    fi
}
check_cases() {
    local among=.
    wanted_part tests || among='^cuda/test_kernels '
    list_cases
    cut -f 1,4 "$logs/all-cases" | tr '\t' ' ' | grep -E "$among" | sort -u >"$logs/names"
    grep -q '^cuda/test_kernels ' "$logs/names" || return 0 # without a device, programs list no cases; the tests report it
    grep -qE -- "$CASES" "$logs/names" ||
        refuse "CASES=$CASES: no test case matches; there are: $(paste -sd, "$logs/names" | sed 's/,/, /g')"
}
check_settings() {
    local name all='tests attention forward rollouts gemm codecs profile memcheck racecheck' args
    for name in LIMIT_S JOBS CHECK_S ROW_S CELL_S {TESTS,ATTENTION,FORWARD,ROLLOUTS,GEMM,CODECS,PROFILE,SANITIZER}_S; do
        [[ ${!name-1} =~ ^[1-9][0-9]{0,5}$ ]] || refuse "$name=${!name}: need a whole number from 1 on"
    done
    for name in $parts; do
        [[ " $all " == *" $name "* ]] || refuse "PARTS: no part '$name'; there are: $all"
    done
    for name in ${PATHS:-}; do
        [[ " staged fused decoded " == *" $name "* ]] || refuse "PATHS: no path '$name'; there are: staged fused decoded"
        [ "$name" != decoded ] || ! wanted_part forward || refuse "PATHS: part forward has no path 'decoded'; there are: staged fused"
    done
    [ -z "${CASES:-}" ] || ! wanted_part tests memcheck racecheck || check_cases
    for name in ${DONE:-}; do [ -f "$name" ] || refuse "DONE: $name: no such file"; done
    for name in ${KERNELS:-}; do
        grep -rqE --include='*.cu' "\\b$name\\b" harness methods || refuse "KERNELS: no kernel '$name' in the package's sources"
    done
    [ -n "$refused" ] || run_args
    write_sweep
    if [ -n "${CONFIG:-}" ] && wanted_part rollouts && [ ! -f "$CONFIG" ]; then
        refuse "CONFIG=$CONFIG: not in the package, which has: $(echo configs/*.yaml)"
    elif wanted_part rollouts; then
        check_sweep "${CONFIG:-$logs/rollouts.yaml}" "${args[@]}"
    fi
    ! wanted_part forward || check_sweep "$logs/rollouts.yaml"
}

# ---- report and main loop ---------------------------------------------------------------------------

text() { [ -n "$1" ] && printf '"%s"' "$(tr -d '"\\' <<<"$1" | tr '\t' ' ')" || printf null; }
number() { [[ ${1// /} =~ ^[0-9.]+$ ]] && printf '%s' "${1// /}" || printf null; }
array() { # prints the lines of stdin as a JSON array
    sed 's/$/,/' | sed '$ s/,$//' | { printf '[\n' && cat && printf ']'; }
}
report() {
    local name cap driver sm sm_max mem total power
    IFS=, read -r name cap driver sm sm_max mem total power <<<"$gpu"
    {
        printf '{\n"package": {%s},\n' "$(awk -F= '{ printf "%s\"%s\": \"%s\"", (NR > 1 ? ", " : ""), $1, $2 }' package)"
        printf '"date": "%s",\n"seconds": %d,\n"answers": %s,\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" $(($(date +%s) - begin)) \
            "$([ "$answers$answered" = truetrue ] && echo true || echo false)"
        printf '"gpu": %s,\n"compute_capability": %s,\n"driver": %s,\n' "$(text "${name:-}")" "$(text "${cap# }")" "$(text "${driver# }")"
        printf '"sm_mhz": %s,\n"sm_mhz_max": %s,\n"memory_mhz": %s,\n"memory_mib": %s,\n"power_limit_w": %s,\n' \
            "$(number "${sm:-}")" "$(number "${sm_max:-}")" "$(number "${mem:-}")" "$(number "${total:-}")" "$(number "${power:-}")"
        printf '"contexts": %d,\n' "$(cat "$logs/contexts" 2>/dev/null | wc -l)"
        printf '"kernels_executed": %d,\n"kernels": %s,\n' "$(cat "$logs/executed" 2>/dev/null | wc -l)" "$(number "$(kernels_in_all)")"
        printf '"tests": '
        { [ -f "$out/tests.tsv" ] && tail -n +2 "$out/tests.tsv"; } | awk -F'\t' '
            { k = $1 "\t" $2; if (!(k in n)) order[++m] = k; n[k]++; s[k, $5]++; t[k] += $6; if ($6 > most[k]) most[k] = $6 }
            END { for (i = 1; i <= m; i++) { k = order[i]; split(k, f, "\t")
                printf "{\"program\": \"%s\", \"case\": \"%s\", \"checks\": %d, \"pass\": %d, \"fail\": %d, \"timeout\": %d, \"crash\": %d, \"not_run\": %d, \"seconds\": %.3f, \"longest\": %.3f}\n",
                    f[1], f[2], n[k], s[k, "pass"], s[k, "fail"], s[k, "timeout"], s[k, "crash"], s[k, "not run"], t[k], most[k] } }' | array
        printf ',\n"not_passed": '
        { [ -f "$out/tests.tsv" ] && tail -n +2 "$out/tests.tsv"; } | awk -F'\t' '$5 != "pass" { gsub(/["\\]/, "", $7); gsub(/[[:cntrl:]]/, " ", $7)
            printf "{\"program\": \"%s\", \"case\": \"%s\", \"check\": \"%s\", \"state\": \"%s\", \"message\": \"%s\"}\n", $1, $2, $4, $5, substr($7, 1, 240) }' | array
        printf ',\n"rows": '
        cat "$logs"/*.jsonl 2>/dev/null | array
        printf ',\n"rollouts": '
        sed -n 's/^\[[0-9]*\/[0-9]*\] //p' "$logs/rollouts.txt" 2>/dev/null | awk '{ gsub(/["\\]/, ""); printf "\"%s\"\n", $0 }' | array
        printf '\n}\n'
    } >"$out/report.json"
    tar -C "$out" -czf "$out/logs.tar.gz.now" logs && mv "$out/logs.tar.gz.now" "$out/logs.tar.gz"
}

check_settings
[ -z "$refused" ] || finish 2
if [ -n "${DRY:-}" ]; then
    say "settings are good: $parts$(sed -n 's/^[^ ]*: \([0-9]* cells\): .*/, \1 of rollouts/p' "$logs/plan" 2>/dev/null)"
    finish 0
fi
[ "$backend" = emulated ] || answer || say "going on: what cannot run says so"
answered=$answers
answers=true
for part in $parts; do
    [ "$(left)" -ge 3 ] || break
    case $part in
    tests) tests "${TESTS_S:-120}" ;;
    attention)
        CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=$logs/cudnn.log rows cudnn 20 bin/bench "$rounds" cudnn
        rows attention "${ATTENTION_S:-60}" bin/bench "$rounds" occupancy attention
        ;;
    forward) forward "${FORWARD_S:-90}" ;;
    rollouts) rollouts "${ROLLOUTS_S:-200}" ;;
    gemm) rows gemm "${GEMM_S:-20}" bin/bench "$rounds" gemm ;;
    codecs) rows codecs "${CODECS_S:-40}" bin/bench "$rounds" codec ;;
    profile) profile "${PROFILE_S:-40}" ;;
    memcheck | racecheck) sanitizer "$part" "${SANITIZER_S:-60}" ;;
    esac
    report
done
say "end: $out/report.json"
report
finish 0
