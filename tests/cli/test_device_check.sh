#!/usr/bin/env bash
# What tools/device-check.sh would do with a GPU, and what it says of what it found: no GPU is needed.
. tests/cli/lib.sh || exit 1
dry() { bash "$root/tools/device-check.sh" --dry; }
dry >"$out" || exit 1
check "in the order of what is worth most" test "$(awk '{ printf "%s ", $1 }' "$out")" = \
    "build kernels occupancy attention pytorch profile codecs forward memcheck racecheck engine layers "
check "nine minutes at most" test "$(awk '{ n += $2 } END { print n }' "$out")" -le 540
check "every step has its seconds" test "$(awk '$2 > 0 && NF > 2' "$out" | wc -l)" -eq "$(wc -l <"$out")"

row() { # FILE NAME MEDIAN RATIO: as tools/device/bench_main.c writes it
    printf '{"name": "%s", "device": "cuda", "median": %s, "min": 1, "ratio": %s, "mhz": 1755, "watts": 612.5, "unit": "GFLOP/s", "reference": "cuDNN SDPA BF16", "missing": null, "n": 15}\n' \
        "$2" "$3" "$4" >>"$work/$1.jsonl"
}
row attention attention.dense.BF16.4680x65520 371000 0.5
row attention attention.staged.RTN_INT4.4680x65520 1 null
row pytorch pytorch.flash.BF16.4680x65520 340000 null
printf '{"name": "forward.BF16.5spans", "unit": "ms", "mean": 224, "linear": 19, "cross": 86, "attention": 58, "other": 123, "layers": 30, "n": 5}\n' >"$work/forward.jsonl"
bash "$root/tools/device-check.sh" --report "$work" >"$out"
check "the report is written" test $? -eq 0
line() { awk -v n="$1" '$1 == n { $1 = ""; sub(/^ /, ""); print }' "$out"; }
check "measured beside modelled, with clock and power" \
    test "$(line attention.dense.BF16.4680x65520)" = "3.71e+05 7.27e+05 0.5103 GFLOP/s 0.5 1755 612.5"
check "without a reference" test "$(line pytorch.flash.BF16.4680x65520)" = "3.4e+05 3.11e+05 1.093 GFLOP/s - 1755 612.5"
check "a forward in all" test "$(line forward.BF16.5spans)" = "224 59.2 3.784 ms - - -"
check "and by phase" test "$(line forward.BF16.5spans:cross)" = "86 2 43 ms - - -"
check "what was not measured is not left out" test "$(line attention.fused.RTN_INT4.4680x65520)" = "- 6.33e+05 - GFLOP/s"
check "what has no model is" test -z "$(line attention.staged.RTN_INT4.4680x65520)"
bash "$root/tools/device-check.sh" --report "$work/nowhere" >"$out" 2>"$err"
check "a folder is needed" test $? -eq 2
# What a GPU's session would build: every source of kernels, for the architecture its instructions are of.
(cd "$root" && bash tools/device-check.sh --commands 90) >"$out" 2>"$err"
check "what is built is said without a GPU" test $? -eq 0
sources=$(cd "$root" && git ls-files '*.cu' | grep -v ^tests/)
check "every source of kernels, once" test "$(grep -o ' -c [^ ]*\.cu ' "$out" | cut -d' ' -f3 | sort)" = "$(sort <<<"$sources")"
groups='harness/cache/attend_bytes.cu harness/cache/attend_wgmma.cu harness/engine/product_cuda.cu'
check "products of warp groups for sm_90a" test "$(grep -- '-arch=sm_90a ' "$out" | grep -o '[^ ]*\.cu ' | sort | xargs)" = "$groups"
(cd "$root" && bash tools/device-check.sh --commands 80) >"$out" 2>"$err"
check "on other devices they are not there" test "$(grep -c sm_90a "$out")" -eq 0
(cd "$root" && bash tools/device-check.sh --build H200) >"$out" 2>"$err"
check "a capability is a number" test $? -eq 2
make -s -C "$root" -n CUDA=1 V=1 NVCC=nvcc BUILD="$work/b" cuda >"$out" 2>"$err"
check "make has the same sources" test "$(grep -o -- '-c -o [^ ]* [^ ]*\.cu ' "$out" | cut -d' ' -f4 | sort)" = "$(sort <<<"$sources")"
check "and the same files for sm_90a" test "$(grep -- sm_90a "$out" | grep -o '[^ ]*\.cu ' | sort -u | xargs)" = "$groups"
# The model's figures are those of the documentation.
for kernel in 'rows, warp groups |727' '4 bits over tokens, half |633' '2 bits, values by token, likewise |573'; do
    check "docs/cuda-internals.md has ${kernel#*|} TFLOP/s" awk -F'|' -v k="${kernel%|*}" -v v="${kernel#*|}" \
        'index($2, " " k) == 1 && $6 + 0 == v { found = 1 } END { exit !found }' "$root/docs/cuda-internals.md"
    check "and so has the model" grep -q "	${kernel#*|}000	" "$root/tools/device/model.tsv"
done
