#!/usr/bin/env bash
# vocabulary: the words that a prompt may have, and which of them the model has learnt.
. tests/cli/lib.sh || exit 1

exits 0 "vocabulary" vocabulary
prints "the learnt shapes stand in a line" 'shape +disc, square, triangle, ring$'
check "small is behind what was learnt" bash -c "sed -n '/not learnt/,\$p' '$out' | grep -qE 'size +small$'"
check "its words stand below each other" awk '/^  [a-z]/ {bad += substr($0, 14, 1) != " " || substr($0, 15, 1) == " "} END {exit bad > 0}' "$out"
prints "camera words are those of a prompt" 'pans left'
exits 0 "vocabulary --json" vocabulary --json
json "every word of the model is in it" "[.words[] | .slot + \":\" + .word] | sort ==
    ($(jq -c '.vocabulary' models/nano/config.json) | map(select(test(\":\") and . != \"dir:-\")) | sort)"
json "some were learnt, some not" '(.words | any(.learnt) and any(.learnt | not)) and .objects == 1'
exits 2 "of a model that takes embeddings" vocabulary --model wan-1.3b-random
says "it says why there are none" 'embeddings'
exits 2 "of an unknown model" vocabulary --model nanno
says "it names the nearest" 'nano'

# The prompts of the suite have only learnt words: `generate` prints no warning about them.
cp -r models/nano "$work/nano"
yaml_prompts() { sed -n 's/^.*text: *\(.*[^ }]\) *}*$/\1/p' "$1" | sed "s/^['\"]//;s/['\"]$//"; }
n=0 unlearnt=
while read -r prompt; do
    n=$((n + 1))
    [ $((n % 5)) -eq 1 ] || continue # every fifth prompt, because rollouts take time
    "$kvreel" generate --frames 3 -q -o "$work/g" -p "$prompt" >"$out" 2>"$err" || unlearnt+=" [$prompt: $(cat "$err")]"
    grep -q 'not learnt' "$err" && unlearnt+=" [$prompt]"
done < <(yaml_prompts configs/suites/moviegen-nano.yaml)
check "the suite has prompts" test "$n" -ge 10
check "none asks for what was not learnt:$unlearnt" test -z "$unlearnt"
exits 0 "a word that was not learnt is generated" generate --frames 3 -q -o "$work/g" -p 'a small red disc'
says "and named" "has not learnt 'size:small'"
exits 0 "two objects are generated" generate --frames 3 -q -o "$work/g" -p 'a large red disc in front of a large blue ring'
says "and said" "second object"

printf '{"objects": 1, "words": ["size:huge"]}' >"$work/nano/learnt.json"
exits 2 "a list with a word that is not in the vocabulary" vocabulary --model "$work/nano"
says "names it" "size:huge"
printf '{"words": []}' >"$work/nano/learnt.json"
exits 2 "a list without objects" vocabulary --model "$work/nano"
rm "$work/nano/learnt.json"
exits 0 "a folder without a list" vocabulary --model "$work/nano"
prints "does not say what was learnt" 'does not say'
