#!/usr/bin/env bash
# Builds and runs the package of tools/device-check.sh with emulated kernels. The committed GPU figures agree with
# the documents. No GPU is needed.
. tests/cli/lib.sh || exit 1
sources=$(cd "$root" && git ls-files '*.cu' | grep -v ^tests/)
groups='harness/cache/attend_bytes.cu harness/cache/attend_wgmma.cu harness/engine/product_cuda.cu'
make -s -C "$root" -n CUDA=1 V=1 NVCC=nvcc BUILD="$work/b" cuda >"$out" 2>"$err"
check "make cuda compiles every kernel source once" \
    test "$(grep -o -- '-c -o [^ ]* [^ ]*\.cu ' "$out" | cut -d' ' -f4 | sort)" = "$(sort <<<"$sources")"
check "make cuda compiles warpgroup kernels for sm_90a" test "$(grep -- sm_90a "$out" | grep -o '[^ ]*\.cu ' | sort -u | xargs)" = "$groups"
nvcc() { # RELEASE: writes a script in place of nvcc, which reports this release and compiles nothing
    printf '#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release %s, V%s.9" && exit\nexit 3\n' "$1" "$1" >"$work/nvcc"
    chmod +x "$work/nvcc"
}
builds() { make -s -C "$root" CUDA=1 NVCC="$work/nvcc" BUILD="$work/b" "$@" >"$out" 2>"$err"; }
for release in 12.6 11.8 9.2; do
    nvcc $release
    builds cuda
    check "make cuda refuses nvcc $release" test $? -ne 0
    check "make cuda names the release $release and the oldest one" \
        test "$(grep -c "'$work/nvcc' has release $release, need 12.8 or newer" "$err")" = 1
done
for release in 12.8 12.10 13.0; do
    nvcc $release
    check "make cuda accepts nvcc $release" builds nvcc-version
done
check "make cuda refuses a program that reports no release" eval "! builds NVCC=false nvcc-version"
# docs/cuda-internals.md and tools/device/model.tsv have the same modelled rates.
for kernel in 'rows, warpgroups |727' 'pair of CTAs (sm_90a), 4 bits over tokens |633' 'pair, 2 bits, values by token |573'; do
    check "docs/cuda-internals.md has ${kernel#*|} TFLOP/s" awk -F'|' -v k="${kernel%|*}" -v v="${kernel#*|}" \
        'index($2, " " k) == 1 && $5 + 0 == v { found = 1 } END { exit !found }' "$root/docs/cuda-internals.md"
    check "tools/device/model.tsv has ${kernel#*|} TFLOP/s" grep -q "	${kernel#*|}000	" "$root/tools/device/model.tsv"
done

# The staged path takes at most 1.15 times BF16's time. The first check uses modelled rates: it multiplies the
# attention time in BF16's forward over five chunks by the rate of BF16 attention over the rate of staged attention.
# The other checks use the rollouts of the newest session that measured both methods.
check "by the model, a staged RTN_INT4 forward takes at most 1.15 times the time of BF16" awk -F'\t' '{ v[$1] = $2 }
    END { all = v["forward.BF16.5spans"]; a = v["forward.BF16.5spans:attention"]
          for (n = 9360; n <= 65520; n += 56160)
              if (!((all + a * (v["attention.dense.BF16.4680x" n] / v["attention.staged.RTN_INT4.4680x" n] - 1)) / all <= 1.15)) exit 1 }' "$root/tools/device/model.tsv"
for method in RTN_INT4 KIVI_INT2 QUAROT_KV_INT4 PRQ_INT4; do
    check "staged rollouts of $method take at most 1.15 times the time of BF16 on an H100" awk -F, -v name="rollout.$method.staged.42x21" '
        $2 == "rollout.BF16.staged.42x21" { bf16[$1] = $4 }
        $2 == name { of[$1] = $4 }
        END { for (s in of) if (s in bf16 && s > newest) newest = s; exit !(newest && of[newest] / bf16[newest] <= 1.15) }' \
        "$root/results/measured/h100/rows.csv"
done

# ---- a package is built and run; a test that hangs or crashes ends only its own process ----------------

program() { # NAME: writes a script in place of bench or forward, with four rows: one works, one hangs, one fails, one works
    cat >"$work/$1" <<'END'
#!/bin/sh
[ $# -gt 1 ] && [ "$2" != cudnn ] || exit 0 # the calls that check the device and cuDNN succeed
for row in one hangs fails two; do
    printf '%s\n' "$KVR_BENCH_SKIP" | grep -qx "$row" && continue
    echo "> $row" >&2
    case $row in
    hangs) sleep 2 && echo 'takes too long' >&2 && exit 124 ;;
    fails) echo 'is "off" by 3' >&2 && exit 1 ;;
    esac
    echo "{\"name\": \"$row\", \"unit\": \"GB/s\", \"median\": 5, \"missing\": null}"
done
END
    chmod +x "$work/$1"
}
program bench
program forward
check "the test program with planted failures builds" "${CC:-gcc}" -std=c17 -D_GNU_SOURCE -I"$root" \
    -I"$root/tools/device/check" -DSHIM_MAIN -Wno-clobbered -o "$work/planted" "$root/tests/device/planted.c"
tool() { (cd "$root" && bash tools/device-check.sh "$@") >"$out" 2>"$err"; }
export PROGRAMS="bin/kvreel=$kvreel bin/bench=$work/bench bin/forward=$work/forward bin/tests/planted=$work/planted"
MOST_MIB=200 tool --pack "$work/p.tar" --emulated
check "device-check.sh --pack writes a package" test $? -eq 0
prints "device-check.sh prints the size and kind of the package" 'p.tar, [0-9]+ KiB, emulated'
MOST_MIB=0 PROGRAMS="bin/kvreel=$work/planted bin/bench=$work/bench bin/tests/cuda/test_kernels=$work/planted" \
    tool --pack "$work/large.tar" --emulated
check "a package above MOST_MIB is refused" test $? -eq 1
tar -tf "$work/p.tar" >"$out"
prints "the package has the libraries of the program" '^\./lib/libsqlite3'
check "the package has no C, CUDA or FFmpeg library" test "$(grep -cE '/libc\.so|/libm\.so|libcuda|libav' "$out")" -eq 0
unset PROGRAMS
CHECK_S=2 PARTS="tests attention forward" METHODS=BF16 PATHS=fused tool --run "$work/p.tar" "$work/hung"
check "a package with hanging tests runs to its end" test $? -eq 0
took=$(jq .seconds "$work/hung/report.json")
check "a hanging test ends at its own limit ($took s)" test "$took" -lt 60
CHECK_S=2 PARTS="tests attention forward rollouts" METHODS=BF16 PATHS=fused MODEL=nano FRAMES=3 WINDOW=0 TIMING=false CELL_S=300 \
    tool --run "$work/p.tar" "$work/run"
check "a package with rollouts runs to its end" test $? -eq 0
out=$work/run/report.json
json "the report counts every check by result" '.tests | map({(.case): [.checks, .pass, .fail, .timeout, .crash, .not_run]}) | add ==
    {"good": [20, 20, 0, 0, 0, 0], "bad things": [24, 20, 1, 1, 2, 0]}'
json "the report names the checks that did not pass" '.not_passed | map("\(.check) \(.state)") | sort ==
    ["first_ends:0 crash", "fourth_hangs:3 timeout", "second_crashes:1 crash", "third_fails:2 fail"]'
json "the report has the message of a failed check" '.not_passed | map(select(.state == "fail")) | .[0].message | test("is two")'
json "the report counts contexts" '.contexts >= 10'
json "the report has the rows after a hang and a failure" '.rows | map(select(.median == 5)) | map(.name) | sort == ["one", "one", "two", "two"]'
json "the report has the reason of missing rows" '.rows | map(select(.median == null)) | map("\(.name): \(.missing)") | unique ==
    ["fails: exit 1: is off by 3", "hangs: exit 124: takes too long"]'
json "the report has the outcome of the rollout" '.rollouts | length == 1 and (.[0] | test("BF16: OK"))'
json "the report names the device" '.package.backend == "emulated" and .gpu == null and .answers and .seconds > 0'
out=$work/stdout
check "tests.tsv has one row per check" test "$(awk -F'\t' 'NR > 1' "$work/run/tests.tsv" | wc -l)" -eq 44
check "the result folder has only the expected files, and no open database" test "$(cd "$work/run" && echo ./*)" = \
    "./logs.tar.gz ./report.json ./rollouts.csv ./rollouts.db ./rows.jsonl ./tests.tsv"
check "fsck accepts the database of rollouts" "$kvreel" fsck "$work/run/rollouts.db"
check "the database has the rollout" test "$("$kvreel" query --db "$work/run/rollouts.db" --raw 'SELECT count(*) FROM summary WHERE n_ok = 1')" = 1
(export PARTS=rollouts METHODS="RTN_INT4 BF16" PATHS=fused MODEL=nano FRAMES=3 WINDOW=0 TIMING=false CELL_S=300 &&
    tool --run "$work/p.tar" "$work/first" && METHODS="RTN_INT4 KIVI_INT2 BF16" DONE="$work/run/rollouts.db $work/first/rollouts.db" tool --run "$work/p.tar" "$work/more")
methods_of() { "$kvreel" query --db "$1" --raw 'SELECT method FROM summary WHERE n_ok = 1 ORDER BY method' | xargs; }
check "the first package measures both methods" test "$(methods_of "$work/first/rollouts.db")" = "BF16 RTN_INT4"
check "a package with DONE repeats only BF16" test "$(methods_of "$work/more/rollouts.db")" = "BF16 KIVI_INT2"
mkdir "$work/fake"
printf '#!/bin/sh\necho "========= ERROR SUMMARY: 3 errors"\nexit 9\n' >"$work/fake/compute-sanitizer"
chmod +x "$work/fake/compute-sanitizer"
(PATH=$work/fake:$PATH && PARTS=memcheck CASES=bad tool --run "$work/large.tar" "$work/clean")
check "the report has the number of sanitizer errors of the selected cases" test "$(jq -c '[.name, .median, .missing]' "$work/clean/rows.jsonl")" = \
    '["memcheck.bad things",3,"exit 9"]'
LIMIT_S=12 CHECK_S=60 PARTS="tests attention" tool --run "$work/p.tar" "$work/short"
took=$(jq .seconds "$work/short/report.json")
check "LIMIT_S ends the run before the 60 s limit of a check ($took s)" test "$took" -lt 40
check "the report counts checks that did not run" jq -e '.tests | map(.not_run) | add > 0' "$work/short/report.json"
tool --run "$work/nothing.tar" "$work/run2"
check "a missing archive is an error" test $? -eq 2

# ---- settings are checked before anything runs --------------------------------------------------------

# A script that lists the test cases of the real test_kernels.
{
    printf '#!/bin/sh\n'
    sed -n 's/.*tcase_create("\([^"]*\)").*/printf "\1\\t3\\n"/p' "$root"/tests/cuda/cases_*.c
} >"$work/kernels"
chmod +x "$work/kernels"
MOST_MIB=200 PROGRAMS="bin/kvreel=$kvreel bin/bench=$work/bench bin/forward=$work/forward bin/tests/cuda/test_kernels=$work/kernels" \
    tool --pack "$work/d.tar" --emulated
dry() { # NAME VARIABLES: a dry run accepts the settings in VARIABLES
    (export DRY=1 && eval "export $2" && tool --run "$work/d.tar" "$work/dry")
    check "$1: $2" test $? -eq 0
    grep -q 'settings are good' "$out" || fail "$1: $(cat "$out" "$err")"
}
refused() { # VARIABLES MESSAGE
    (export DRY=1 && eval "export $1" && tool --run "$work/d.tar" "$work/dry")
    check "refused: $1" test $? -eq 2
    prints "refused: $1: the output names the reason" "$2"
}
refused 'PARTS="tests atention"' "no part 'atention'; there are: tests attention"
refused 'LIMIT_S=2m' 'LIMIT_S=2m: need a whole number'
refused 'PARTS=forward METHODS="BF16 RTN_INT44"' RTN_INT44
refused 'PARTS=forward PATHS=decoded' "part forward has no path 'decoded'"
refused 'PARTS=rollouts RUN_ARGS="--set fsp=true"' "did you mean 'fps'"
refused 'PARTS=rollouts RUN_ARGS="--filter method=NONE"' 'no cell is left'
refused 'PARTS=rollouts CONFIG=configs/cost-crd.yaml' 'configs/cost-crd.yaml: not in the package, which has: configs/cost-card.yaml'
refused 'PARTS=rollouts DONE=/nothing.db' 'DONE: /nothing.db: no such file'
refused 'PARTS=memcheck CASES=atention' 'no test case matches; there are: .*cuda/test_kernels wan'
refused 'PARTS=profile KERNELS=attend_lst' "no kernel 'attend_lst'"
# A dry run accepts the calls that tools/device/README.md lists, and the LIMIT_S of a row's calls add up to the row's
# minutes. A call that sets only RUN_ARGS also uses the variables of the previous complete call.
sed -n '/^## Figures to confirm/,$p' "$root/tools/device/README.md" | grep '^| .* | .* | .* | [0-9]' >"$work/confirm"
check "tools/device/README.md has calls" test "$(wc -l <"$work/confirm")" -ge 9
full=
while IFS='|' read -r _ what spans _ minutes _; do
    seconds=0
    while read -r variables; do
        [[ $variables == RUN_ARGS=* ]] && variables="$full $variables" || full=$variables
        limit=$(grep -o 'LIMIT_S=[0-9]*' <<<"$variables")
        seconds=$((seconds + ${limit#LIMIT_S=}))
        dry "tools/device/README.md,$what" "$variables"
    done < <(grep -oE '`[^`]*(PARTS|RUN_ARGS)=[^`]*`' <<<"$spans" | tr -d '`')
    check "tools/device/README.md,$what: the limits ($seconds s) add up to its minutes" awk -v s="$seconds" -v m="${minutes//[!0-9.]/}" 'BEGIN { exit !(s == 60 * m) }'
done <"$work/confirm"
# A dry run also accepts the calls that docs/claims.md lists.
sed -n 's/^| [0-9]* minutes* of [^|]*| `"\(.*\)"` |.*/\1/p' "$root/docs/claims.md" | sed 's/\\|/|/g' >"$work/claims"
check "docs/claims.md has calls" test "$(wc -l <"$work/claims")" -ge 5
while read -r args; do
    dry docs/claims.md "CONFIG=configs/cost-card.yaml PARTS=rollouts LIMIT_S=240 RUN_ARGS='$args'"
done <"$work/claims"

# ---- committed figures of GPUs ------------------------------------------------------------------------

check "docs/cuda.md has the figures of results/measured" python3 "$root/tools/measure/measured.py" check
sed 's/^\(| 4680x4680 | BF16 | \)[0-9.]*/\1999/' "$root/docs/cuda.md" >"$work/cuda.md"
python3 "$root/tools/measure/measured.py" check "$work/cuda.md" >"$out" 2>"$err"
check "measured.py finds a changed figure" test $? -eq 1
python3 "$root/tools/measure/measured.py" add h100 "$work/run" >"$out" 2>"$err"
check "measured.py refuses an emulated run" test $? -eq 1
says "the error names the emulated backend" 'report.json: backend emulated'
python3 "$root/tools/measure/measured.py" model h100 >"$out"
check "measured.py prints measured and modelled rates" awk '$1 == "attention.dense.BF16.4680x4680" && $3 == 568000 && $2 > 0 && $4 > .5 { found = 1 } END { exit !found }' "$out"
check "measured.py lists modelled rows without a measurement" awk '$1 == "forward.BF16.5spans:linear" || $2 == "-" { found = 1 } END { exit !found }' "$out"
