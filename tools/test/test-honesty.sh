#!/usr/bin/env bash
# test-honesty.sh - lists the tests that pass although a dependency is missing.
#
#     tools/test/test-honesty.sh BUILD [BREAK [TEST]]     only breaks and tests that match the regular expressions
#
# In a copy of the tracked files, the script breaks one dependency at a time and runs the tests whose source names
# it. The values of BREAK are:
#
#     program NAME      a program that the tests call is not in PATH
#     kvreel NAME       /bin/true or /bin/false replaces kvreel; all scripts run
#     python true       /bin/true replaces Python
#     library           a text file replaces libkvreel.so
#     plugins           the plug-ins are missing
#     fixture NAME      the folder tests/fixtures/NAME is empty
#     data FOLDER       a folder that tests read is empty
#     variable NAME=X   an environment variable disables a code path
#
#     kernel OBJECT     the object file OBJECT is missing, which has kernels for one instruction set or emulated CUDA
#                       kernels. No test runs. "link" fails if another object file needs a symbol of OBJECT
#
# A test notices a break if it fails, or skips for a reason that is not in tests/hardware.txt; its first such line ends
# the run. The script prints each test that passes, unless tests/honesty.txt has a line BREAK<TAB>TEST<TAB>REASON for
# it. The exit status is 1 if a test passes without such a line, or if the test of a line no longer passes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

build=$(realpath "${1:?usage: tools/test/test-honesty.sh BUILD [PATTERN]}")
pattern=${2:-.} tests_wanted=${3:-.}
work=$(mktemp -d "$build/honesty-XXXXXX") # on the same file system as the programs, which are hard-linked
trap 'rm -rf "$work"' EXIT
jobs=${KVREEL_TEST_JOBS:-$(nproc)}
limit=${HONESTY_LIMIT:-300} # a test that hangs without its dependency counts as failed
KVREEL_PYTHON=$(bash tools/test/test-python.sh)
export KVREEL_PYTHON CK_DEFAULT_TIMEOUT=120 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
unset KVREEL_TEST_ALL
# The reasons of tests/hardware.txt as one regular expression. A skip for another reason means that the test noticed
# the break.
hardware=$(grep -v '^#' tests/hardware.txt | cut -f 1 | paste -sd '|')
export hardware
: >"$work/results"

# --- a copy of the tree ----------------------------------------------------------------------

# linked FROM TO: makes the folder TO with a symbolic link to each entry of FROM.
linked() {
    mkdir -p "$2"
    find "$1" -mindepth 1 -maxdepth 1 -exec ln -sfn -t "$2" {} +
}
# Copies the tracked files and the build files that tests use, because tests write into the source folder.
fresh() {
    local name
    tree=$work/tree.$((n_trees += 1))
    mkdir -p "$tree/build"
    git ls-files -z | xargs -0 cp -p --parents -t "$tree"
    [ ! -d models/stlpips ] || cp -rp models/stlpips "$tree/models/" # downloaded, not tracked
    # Uses hard links: programs search for plug-ins in their own folder, and symbolic links would lead them to the
    # original folder.
    for name in libkvreel.so libkvreel.so.1 examples tests; do cp -rpl "$build/$name" "$tree/build/$name"; done
    cp -p "$build/kvreel" "$tree/build/kvreel"
}
n_trees=0

# --- running ---------------------------------------------------------------------------------

# Runs one test in TREE with the variables ENV. Records BREAK, TEST and the result: fails, skips or PASSES.
one() { # BREAK TEST TREE ENV...
    local name=$1 test=$2 tree=$3 log rc command
    shift 3
    log=$(mktemp "$work/log-XXXXXX")
    cd "$tree" || exit 1
    case $test in
    *.sh) command=(bash "$test" build/kvreel) ;;
    *) command=("build/$test") ;;
    esac
    # awk exits at the first failure, or skip for a reason other than hardware. The test then ends at its next write
    # to the closed pipe.
    env "$@" timeout -k 5 "$limit" "${command[@]}" 2>&1 | timeout $((limit + 10)) awk '
        /^FAIL - / { print "fails"; exit }
        /^skip - / && $0 !~ ("\\((" ENVIRON["hardware"] ")\\)$") { print "skips"; exit }' >"$log"
    rc=${PIPESTATUS[0]}
    if [ -s "$log" ]; then
        rc=$(cat "$log")
    elif [ "$rc" -ne 0 ]; then
        rc=fails
    else
        rc=PASSES
    fi
    noted "$name" "$test" "$rc"
    rm -f "$log"
}
noted() { # BREAK TEST RESULT
    printf '%s\t%s\t%s\n' "$@" | tee -a "$work/results" | sed -n 's/\tPASSES$/ passes, see below/p' >&2
}

running=0
try() { # BREAK TEST ENV...
    [[ $2 =~ $tests_wanted ]] || return 0
    one "$1" "$2" "$tree" "${@:3}" &
    running=$((running + 1))
    while [ "$running" -ge "$jobs" ]; do
        wait -n
        running=$((running - 1))
    done
}
settle() {
    wait
    running=0
    rm -rf "$tree"
}
wanted() { [[ $1 =~ $pattern ]]; }

# naming REGEX: prints the scripts, and the built test programs, whose source matches.
naming() {
    local f
    for f in $(grep -lE -- "$1" tests/cli/test_*.sh) $(grep -lE -- "$1" tests/*/test_*.c); do
        case $f in
        *.sh) echo "$f" ;;
        *) [ ! -x "$build/${f%.c}" ] || echo "${f%.c}" ;;
        esac
    done
}

# --- the breaks ------------------------------------------------------------------------------

for program in true false; do
    wanted "kvreel $program" || continue
    fresh
    cp "/bin/$program" "$tree/build/kvreel"
    for t in tests/cli/test_*.sh; do try "kvreel $program" "$t"; done
    settle
done

if wanted 'python true'; then
    fresh
    for t in $(naming '\$python|runs_python|needs_python'); do try 'python true' "$t" KVREEL_PYTHON=/bin/true; done
    settle
fi

for program in gnuplot ffmpeg ffprobe jq sqlite3 node git man zsh fish qemu-x86_64 objdump nm; do
    wanted "program $program" && command -v "$program" >/dev/null || continue
    called="(^|[^a-z_./-])$program [^=]"
    case $program in # functions of tests/cli/lib.sh that call the program
    jq) called+='|^ *json "' ;;
    sqlite3) called='(^|[^a-z_./-])sqlite3 [^=*]|\bsql [a-z"$]|^ *(changed|unsealed) "' ;;
    esac
    fresh
    mkdir "$tree/.path"
    for folder in /bin /usr/bin /sbin /usr/sbin /usr/local/bin; do linked "$folder" "$tree/.path"; done
    rm -f "$tree/.path/$program"
    [ "$program" != ffmpeg ] || rm -f "$tree/.path/ffprobe"
    for t in $(naming "$called"); do
        try "program $program" "$t" PATH="$tree/.path"
    done
    settle
done

if wanted library; then
    fresh
    rm "$tree/build/libkvreel.so" "$tree/build/libkvreel.so.1"
    echo nothing >"$tree/build/libkvreel.so"
    for t in $(naming 'libkvreel\.so|needs_library'); do try library "$t"; done
    settle
fi

if wanted plugins; then
    fresh
    rm -r "$tree/build/examples" "$tree/build/tests/plugins"
    for t in $(naming 'tests/plugins/|examples/plugin/.*\.so'); do try plugins "$t"; done
    settle
fi

for folder in tests/fixtures/*/; do
    name=$(basename "$folder")
    wanted "fixture $name" || continue
    fresh
    rm -r "${tree:?}/tests/fixtures/$name"
    mkdir "$tree/tests/fixtures/$name"
    for t in $(naming "fixtures/$name\b"); do try "fixture $name" "$t"; done
    settle
done

for folder in models/nano results/golden results/published configs/suites; do
    wanted "data $folder" || continue
    fresh
    rm -r "${tree:?}/$folder"
    mkdir "$tree/$folder"
    for t in $(naming "$folder"); do try "data $folder" "$t"; done
    settle
done

for variable in KVREEL_CPU=portable OMP_THREAD_LIMIT=1; do
    wanted "variable $variable" || continue
    fresh
    case $variable in
    KVREEL_CPU*) tests='tests/methods/test_isa tests/cli/test_cpu.sh tests/bench/test_kernel_cases' ;;
    *) tests=$(naming '\bset_threads\(|^ *three_threads') ;; # tests that need several threads
    esac
    for t in $tests; do try "variable $variable" "$t" "$variable"; done
    settle
done

# The break `kernel` fails if an object file has an undefined reference to a strong symbol that OBJECT defines.
if wanted kernel; then
    find "$build/harness" "$build/methods" "$build/metrics" -name '*.o' ! -name '*.cuda.o' -exec nm -gA {} + | awk -v build="$build/" '
        { file = $1; sub(/:[^:]*$/, "", file); kind = $(NF - 1) }
        kind == "U" { asked[$NF] = 1 }
        kind ~ /[TDRB]/ && file ~ /(_isa|_dot)\.[a-z0-9]+\.o$|\.emu\.o$/ { has[file] = has[file] " " $NF }
        END {
            for (f in has) {
                n = split(has[f], symbols, " ")
                result = "PASSES"
                for (i = 1; i <= n; i++) if (symbols[i] in asked) result = "fails"
                name = f
                sub(build, "", name)
                print name, result
            }
        }' >"$work/kernels"
    while read -r object result; do
        noted "kernel $object" link "$result"
    done <"$work/kernels"
fi

# --- results ---------------------------------------------------------------------------------

n=$(wc -l <"$work/results")
grep -vE '^(#|$)' tests/honesty.txt | cut -f 1,2 | sort >"$work/explained"
awk -F'\t' '$3 == "PASSES" { print $1 "\t" $2 }' "$work/results" | sort >"$work/passes"
comm -23 "$work/passes" "$work/explained" | sed 's/\t/: /; s/$/ passes/'
# Lists the unneeded lines of tests/honesty.txt: their test ran but did not pass.
cut -f 1,2 "$work/results" | sort >"$work/tried"
comm -12 "$work/explained" "$work/tried" | comm -23 - "$work/passes" | sed 's/\t/: /; s/$/ does not pass: its line in tests\/honesty.txt is not needed/'
printf '%d runs: %d failed, %d skipped, %d passed, %d of them explained\n' "$n" \
    "$(grep -c '	fails$' "$work/results")" "$(grep -c '	skips$' "$work/results")" \
    "$(wc -l <"$work/passes")" "$(comm -12 "$work/passes" "$work/explained" | wc -l)"
[ "$n" -gt 0 ] || { echo "honesty: no break matches '$pattern'" >&2; exit 2; }
! comm -23 "$work/passes" "$work/explained" | grep -q . &&
    ! comm -12 "$work/explained" "$work/tried" | comm -23 - "$work/passes" | grep -q .
