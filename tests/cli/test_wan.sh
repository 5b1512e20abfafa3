#!/usr/bin/env bash
# The files of Wan 2.1, small and random: prompts to embeddings.
. tests/cli/lib.sh || exit 1
folder=$root/tests/fixtures/wan_folder

if command -v python3 >/dev/null; then
    check "the folder is what its script writes" \
        bash -c "python3 tools/make-tiny-wan.py --small '$work/again' && diff -r '$work/again' '$folder'"
else
    skip "the folder is what its script writes" "no python3"
fi
printf 'a small dog runs\n\n  \nsalt &amp; pepper in the rain\n' >"$work/prompts.txt"
exits 0 "embed: a text file" embed -p "$work/prompts.txt" --model "$folder" -o "$work/pack.safetensors" -q --json
json "says what is in the pack" '.prompts == 2 and .dim == 32 and .tokens > 8 and .cut == 0'
head -c 4000 "$work/pack.safetensors" | tr -d '\0' >"$work/head"
check "prompts are numbered" grep -q '"p0001".*"p0002"' "$work/head"
check "it knows its encoder" grep -q 'encoder_sha256' "$work/head"
exits 0 "embed: a suite" embed -p configs/suites/moviegen-nano.yaml --model "$folder" -o "$work/suite.safetensors" -q --json
json "all its prompts" ".prompts == $(grep -c '{id:' configs/suites/moviegen-nano.yaml)"
exits 0 "embed: files by name" embed -p "$work/prompts.txt" --encoder "$folder/models_t5_umt5-xxl-enc-bf16.pth" \
    --tokenizer "$folder/google/umt5-xxl" -o "$work/pack2.safetensors" -q
check "the same bytes" cmp "$work/pack.safetensors" "$work/pack2.safetensors"
exits 0 "embed: a short model" embed -p "$work/prompts.txt" --model "$folder" --max-tokens 3 -o "$work/cut.safetensors" -q
check "says that texts are cut off" grep -q 'cut off' "$out"
exits 2 "embed: no encoder" embed -p "$work/prompts.txt" --model models/nano -o "$work/x.safetensors"
says "names the file" 'models_t5_umt5-xxl-enc-bf16.pth'
exits 2 "embed: a tokenizer of another model" embed -p "$work/prompts.txt" --encoder tests/fixtures/wan_real/umt5.safetensors \
    --tokenizer tests/fixtures/wan_real/spiece.model -o "$work/x.safetensors"
says "says both sizes" '1000 pieces, .* 512'
printf 'bad \xff text\n' >"$work/bad.txt"
exits 2 "embed: no UTF-8" embed -p "$work/bad.txt" --model "$folder" -o "$work/x.safetensors"
says "names the prompt" "p0001.*UTF-8"
check "nothing is written" test ! -e "$work/x.safetensors"
