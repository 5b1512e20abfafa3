#!/usr/bin/env bash
# bench: every micro-benchmark runs behind its correctness gate and has the contract's keys.
. tests/cli/lib.sh || exit 1

for what in codec attention gemm; do
    exits 0 "bench $what" bench "$what" --rounds 3 --json
    json "bench $what has the keys of the contract" \
        'length >= 4 and all(.[]; .name != "" and .median > 0 and .unit != "" and .ratio > 0 and .reference != "")'
done
exits 2 "a benchmark there is not" bench atention
says "names the nearest" 'attention'
exits 2 "too few rounds" bench gemm --rounds 1
