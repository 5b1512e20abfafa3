#!/usr/bin/env bash
# bench: every micro-benchmark runs behind its correctness gate and has the contract's keys.
. tests/cli/lib.sh || exit 1

for what in codec attention gemm; do
    exits 0 "bench $what" bench "$what" --rounds 3 --json
    json "bench $what has the keys of the contract" \
        'length >= 4 and all(.[]; .name != "" and .median > 0 and .unit != "" and .ratio > 0 and .reference != "")'
done
if "$kvreel" version | grep -q 'kernels *emulated'; then
    for what in codec attention gemm; do
        exits 0 "bench $what on an emulated device" bench "$what" --device emulated --rounds 3 --json
        json "bench $what says that it was emulated, and gives no ratio" \
            'length >= 3 and all(.[]; .device == "emulated" and .median > 0 and .ratio == null and (.missing | test("emulated")))'
    done
    exits 2 "a device of another build" bench codec --device cuda
    exits 2 "what is measured on the CPU alone" bench metrics --device emulated
    says "says so" 'metrics is not measured on device emulated'
else
    skip "an emulated device" "this program has nvcc's kernels"
fi
exits 2 "a benchmark there is not" bench atention
says "names the nearest" 'attention'
exits 2 "too few rounds" bench gemm --rounds 1
