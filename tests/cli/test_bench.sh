#!/usr/bin/env bash
# bench: every micro-benchmark checks its results before it measures, and its JSON has the documented keys.
# long: runs all benchmarks.
. tests/cli/lib.sh || exit 1

# The shapes of attention are nano's, and Wan's number of heads with fewer keys. With Wan's 4800 keys, most of the
# time would be spent on filling the cache chunk by chunk.
for what in codec gemm 'attention --shape 108x756x3x64' 'attention --shape 96x1152x12x128'; do
    read -ra words <<<"$what"
    exits 0 "bench $what" bench "${words[@]}" --rounds 3 --json
    json "bench $what has the documented keys" \
        'length >= 4 and all(.[]; .name != "" and .median > 0 and .unit != "" and .ratio > 0 and .reference != "")'
    json "bench $what has cold and warm times, and three rounds are not steady" \
        'all(.[]; .cold > 0 and .warm > 0 and .steady == false and .n == 3)'
done
exits 0 "bench kernels" bench kernels --rounds 3 --json
json "bench kernels has the documented keys" \
    'length >= 30 and all(.[]; .name != "" and .variant != "" and .median > 0 and (.unit | test("/element$")) and .ratio > 0 and .reference != "")'
json "bench kernels has cold and warm times" 'all(.[]; .cold > 0 and .warm == .median)'
says "the message names the CPU, the kernel variant and the load" "^bench: .*, kernels [a-z0-9_]+${KVREEL_CPU:+ [(]forced[)]}, load average [0-9.]+\$"
json "references of a kernel are portable C, memcpy and oneDNN" \
    '[.[] | select(.name == "ops.gelu" and .variant != "portable") | .reference] | unique == ["memcpy", "oneDNN gelu", "portable"] or length == 0'
variants=$("$kvreel" doctor --json | jq -r '.[] | select(.name == "CPU kernels").found | split("; ")[1] | ltrimstr("this CPU runs ") | split(", ")[]')
for v in $variants; do
    case $v in avxvnni | vnni | amx_*) continue ;; esac # only few kernels have these variants
    # Kernels on AMX tiles have only a portable and an AMX variant.
    json "every kernel is timed in variant $v" \
        "(map(select(.variant | test(\"^(portable|amx_.*)\$\") | not).name) | unique) as \$all | (\$all - (map(select(.variant == \"$v\").name) | unique)) == []"
done
# The measurement of a call this small becomes steady on any machine, so at least one row ends before 400 rounds.
OMP_NUM_THREADS=1 exits 0 "bench attention with at most 400 rounds" bench attention --shape 16x64x2x32 --rounds 400 --json
json "at least one row ends early, because it is steady" 'any(.[]; .steady and .n >= 15 and .n < 400)'
# Limited to AVX2, oneDNN has no BF16 GEMM. If the AMX kernels of kvreel run, the three rows that compare them with
# oneDNN then have no reference. BF16 linear layers multiply in F32, with values rounded to BF16.
tiled=0
[ -z "${KVREEL_CPU:-}" ] && [[ $variants == *amx_bf16* ]] && tiled=3
ONEDNN_MAX_CPU_ISA=AVX2 exits 0 "bench attention, oneDNN without BF16" bench attention --shape 8x16x1x16 --rounds 3 --json
json "only rows that compare with oneDNN lack a reference, with the reason" "([.[] | select(.name | test(\"onednn\$\"))] | length == $tiled and all(.[]; .ratio == null and (.missing | test(\"no BF16 GEMM\")))) and all(.[] | select(.name | test(\"onednn\$\") | not); .ratio > 0)"
ONEDNN_MAX_CPU_ISA=AVX2 exits 0 "bench gemm, oneDNN without BF16" bench gemm --rounds 3 --json
json "every linear layer has a ratio to its reference" 'length >= 5 and all(.[]; .ratio > 0)'
if emulates "an emulated device"; then
    for what in codec attention gemm; do
        exits 0 "bench $what on an emulated device" bench "$what" --device emulated --rounds 3 --json
        json "bench $what says that the device is emulated, and gives no ratio" \
            'length >= 3 and all(.[]; .device == "emulated" and .median > 0 and .ratio == null and .cold == null
            and .warm == null and (.missing | test("emulated")))'
    done
    exits 2 "bench refuses device cuda in a build without CUDA" bench codec --device cuda
    exits 2 "bench metrics refuses a device" bench metrics --device emulated
    says "the error says that metrics run only on the CPU" 'metrics is not supported on device emulated'
fi
exits 2 "an unknown benchmark is refused" bench atention
says "the error suggests attention" 'attention'
exits 2 "bench gemm refuses a single round" bench gemm --rounds 1
