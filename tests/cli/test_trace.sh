#!/usr/bin/env bash
# Traces: recorded, checked, refused.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
lm=$root/tests/fixtures/lm

exits 0 "a rollout is recorded" trace record red.kvtrace -n 6 -w 6 --licence Apache-2.0 -q \
    -p 'a large red disc bounces over a plain blue background'
prints "and its size is said" '^red.kvtrace: [0-9.]+ MiB$'
exits 0 "it is a trace" trace check red.kvtrace -q
prints "of this model" '^red.kvtrace: a trace of nano \(licence: Apache-2.0\)$'
prints "and its layout" '^6 layers, 3 heads over 3 of keys, head_dim 64$'
prints "and its length" '^6 frames of 36 tokens in 2 chunks, 10 passes; window 6$'
prints "and its answers" '^60 files, .* all values finite; answers recorded of 60 calls$'
exits 0 "as JSON" trace check red.kvtrace --json
json "with the largest values" '.largest.k > 0.1 and .layout.heads == 3 and .text == "a large red disc bounces over a plain blue background"'
check "the index has the rotary embedding" jq -e '.rope == {pairs: "adjacent", channels: [24, 20, 20], base: 10000}' red.kvtrace/index.json

exits 0 "a text is recorded" trace record text.kvtrace --model "$lm" --name tiny --tokens "$lm/texts.safetensors" \
    --tensor a -n 80 --chunk 32 --no-outputs -q
exits 0 "it is a trace, too" trace check text.kvtrace -q
prints "of causal attention" 'causal$'
prints "without answers" 'recorded of 0 calls$'

exits 2 "a folder with something in it is not written over" trace record red.kvtrace -n 3 -q -p 'a large red disc'
says "and why" 'red.kvtrace: not empty; a trace has a folder of its own'
exits 2 "a video model needs a prompt" trace record no.kvtrace -q
says "and says so" 'trace: nano needs --prompt TEXT'
exits 2 "a language model needs tokens" trace record no.kvtrace --model "$lm" -q
says "and says so, too" 'it needs --tokens FILE and --tensor NAME'
exits 2 "another word" trace play red.kvtrace
says "is refused" "trace: 'play', need record"
exits 2 "no trace" trace check "$root/models/nano"
says "is told" 'index.json: not there: no trace, or one that was not finished'
printf 'x' | dd of=red.kvtrace/c00001-p02-l0003.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
exits 2 "a changed byte is seen" trace check red.kvtrace -q
says "and where" 'c00001-p02-l0003.safetensors: sha256 is [0-9a-f]{12}, the index has [0-9a-f]{12}'
