#!/usr/bin/env bash
# vocabulary: the words that a prompt may have, and which of them the model has learnt.
. tests/cli/lib.sh || exit 1

exits 0 "vocabulary prints text" vocabulary
prints "learnt shapes are listed on one line" 'shape +disc, square, triangle, ring$'
check "'small' is listed under the words that are not learnt" bash -c "sed -n '/not learnt/,\$p' '$out' | grep -qE 'size +small$'"
check "all lists of words begin in the same column" awk '/^  [a-z]/ {bad += substr($0, 14, 1) != " " || substr($0, 15, 1) == " "} END {exit bad > 0}' "$out"
prints "camera words are listed as in a prompt" 'pans left'
exits 0 "vocabulary --json" vocabulary --json
json "the JSON has every word of config.json" "[.words[] | .slot + \":\" + .word] | sort ==
    ($(jq -c '.vocabulary' models/nano/config.json) | map(select(test(\":\") and . != \"dir:-\")) | sort)"
json "the JSON marks learnt words and states one object" '(.words | any(.learnt) and any(.learnt | not)) and .objects == 1'
exits 2 "vocabulary refuses a model that takes embeddings" vocabulary --model wan-1.3b-random
says "the error mentions embeddings" 'embeddings'
exits 2 "vocabulary refuses an unknown model" vocabulary --model nanno
says "the error suggests nano" 'nano'

# `generate` must not warn about unlearnt words for the prompts of configs/suites/moviegen-nano.yaml.
cp -r models/nano "$work/nano"
yaml_prompts() { sed -n 's/^.*text: *\(.*[^ }]\) *}*$/\1/p' "$1" | sed "s/^['\"]//;s/['\"]$//"; }
n=0 unlearnt=
while read -r prompt; do
    n=$((n + 1))
    [ $((n % 5)) -eq 1 ] || continue # every fifth prompt, because rollouts take time
    "$kvreel" generate --frames 3 -q -o "$work/g" -p "$prompt" >"$out" 2>"$err" || unlearnt+=" [$prompt: $(cat "$err")]"
    grep -q 'not learnt' "$err" && unlearnt+=" [$prompt]"
done < <(yaml_prompts configs/suites/moviegen-nano.yaml)
check "moviegen-nano has at least 10 prompts" test "$n" -ge 10
check "no prompt of moviegen-nano has an unlearnt word:$unlearnt" test -z "$unlearnt"
exits 0 "generate accepts a word that is not learnt" generate --frames 3 -q -o "$work/g" -p 'a small red disc'
says "a warning names the unlearnt word" "has not learnt 'size:small'"
exits 0 "generate accepts a second object" generate --frames 3 -q -o "$work/g" -p 'a large red disc in front of a large blue ring'
says "a warning mentions the second object" "second object"

printf '{"objects": 1, "words": ["size:huge"]}' >"$work/nano/learnt.json"
exits 2 "learnt.json with a word outside the vocabulary is refused" vocabulary --model "$work/nano"
says "the error names the word" "size:huge"
printf '{"words": []}' >"$work/nano/learnt.json"
exits 2 "learnt.json without 'objects' is refused" vocabulary --model "$work/nano"
rm "$work/nano/learnt.json"
exits 0 "vocabulary of a model without learnt.json" vocabulary --model "$work/nano"
prints "the text says that learnt words are unknown" 'does not say'
