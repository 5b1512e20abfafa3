#!/usr/bin/env bash
# bench: every micro-benchmark checks its results before it measures, and its JSON has the documented keys.
# long: every measured value is checked first.
. tests/cli/lib.sh || exit 1

# Attention at nano's shape and at Wan's head count with fewer keys. Wan's own shape has 4800 keys, which would
# mostly measure how the cache is filled chunk by chunk.
for what in codec gemm 'attention --shape 108x756x3x64' 'attention --shape 96x1152x12x128'; do
    read -ra words <<<"$what"
    exits 0 "bench $what" bench "${words[@]}" --rounds 3 --json
    json "bench $what has the keys of the contract" \
        'length >= 4 and all(.[]; .name != "" and .median > 0 and .unit != "" and .ratio > 0 and .reference != "")'
    json "bench $what tells cold and warm, and that three rounds are not steady" \
        'all(.[]; .cold > 0 and .warm > 0 and .steady == false and .n == 3)'
done
exits 0 "bench kernels" bench kernels --rounds 3 --json
json "bench kernels has the keys of the contract" \
    'length >= 30 and all(.[]; .name != "" and .variant != "" and .median > 0 and (.unit | test("/element$")) and .ratio > 0 and .reference != "")'
json "bench kernels tells cold and warm" 'all(.[]; .cold > 0 and .warm == .median)'
says "names the CPU, the variant and the load" "^bench: .*, kernels [a-z0-9_]+${KVREEL_CPU:+ [(]forced[)]}, load average [0-9.]+\$"
json "a kernel is beside portable C, memcpy and the library" \
    '[.[] | select(.name == "ops.gelu" and .variant != "portable") | .reference] | unique == ["memcpy", "oneDNN gelu", "portable"] or length == 0'
variants=$("$kvreel" doctor --json | jq -r '.[] | select(.name == "CPU kernels").found | split("; ")[1] | ltrimstr("this CPU runs ") | split(", ")[]')
for v in $variants; do
    case $v in avxvnni | vnni | amx_*) continue ;; esac # these variants have few kernels
    # Kernels on AMX tiles have only a portable and an AMX variant.
    json "every kernel was timed as $v" \
        "(map(select(.variant | test(\"^(portable|amx_.*)\$\") | not).name) | unique) as \$all | (\$all - (map(select(.variant == \"$v\").name) | unique)) == []"
done
# A call this small becomes steady on any machine, so at least one row ends before 400 rounds.
OMP_NUM_THREADS=1 exits 0 "bench attention until it is steady" bench attention --shape 16x64x2x32 --rounds 400 --json
json "rounds end by themselves" 'any(.[]; .steady and .n >= 15 and .n < 400)'
# With AVX2 only, oneDNN has no BF16 products. Three rows then have no reference if kvreel's own AMX kernels run,
# and BF16 linear layers compute F32 products of rounded values.
tiled=0
[ -z "${KVREEL_CPU:-}" ] && [[ $variants == *amx_bf16* ]] && tiled=3
ONEDNN_MAX_CPU_ISA=AVX2 exits 0 "bench attention, oneDNN without BF16" bench attention --shape 8x16x1x16 --rounds 3 --json
json "says why a reference is missing" "([.[] | select(.name | test(\"onednn\$\"))] | length == $tiled and all(.[]; .ratio == null and (.missing | test(\"no BF16 GEMM\")))) and all(.[] | select(.name | test(\"onednn\$\") | not); .ratio > 0)"
ONEDNN_MAX_CPU_ISA=AVX2 exits 0 "bench gemm, oneDNN without BF16" bench gemm --rounds 3 --json
json "every layer was multiplied and checked" 'length >= 5 and all(.[]; .ratio > 0)'
if emulates "an emulated device"; then
    for what in codec attention gemm; do
        exits 0 "bench $what on an emulated device" bench "$what" --device emulated --rounds 3 --json
        json "bench $what says that it was emulated, and gives no ratio" \
            'length >= 3 and all(.[]; .device == "emulated" and .median > 0 and .ratio == null and .cold == null
            and .warm == null and (.missing | test("emulated")))'
    done
    exits 2 "a device of another build" bench codec --device cuda
    exits 2 "what is measured on the CPU alone" bench metrics --device emulated
    says "says so" 'metrics is not supported on device emulated'
fi
exits 2 "a benchmark there is not" bench atention
says "names the nearest" 'attention'
exits 2 "too few rounds" bench gemm --rounds 1
