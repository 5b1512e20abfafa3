#!/usr/bin/env bash
# tools/fixtures/draw-suites.py generates the large suites: balanced, with prompts of unlearnt words marked.
. tests/cli/lib.sh || exit 1

check "both are what the seed draws" python3 tools/fixtures/draw-suites.py --check
for suite in moviegen-nano-200 storyeval-nano-200; do
    file=configs/suites/$suite.yaml
    exits 0 "list suites" list suites --json
    json "$suite has 200 prompts" "any(.[]; .name == \"$suite\" and .prompts == 200)"
    check "twenty have a word that the model has not learnt" test "$(grep -c 'held_out:' $file)" -eq 20
    check "no other prompt has one" test "$(grep -v held_out $file | grep -cE 'text:.*(small|striped|wavy|spins|pulses)')" -eq 0
    check "no text twice" test "$(grep -o 'text: [^,}]*' $file | sort | uniq -d | wc -l)" -eq 0
    check "the first 14 have every motion twice" test "$(grep -oE 'mn[0-9]+, text|sn[0-9]+, text' $file | head -14 | wc -l)" -eq 14 -a \
        "$(grep 'id: [ms]n0' $file | head -14 | grep -oE 'text: a large [a-z]+ [a-z]+ (stays still|drifts (left|right|up|down)|bounces|orbits)' | sed -E 's/.*(stays still|drifts [a-z]+|bounces|orbits)/\1/' | sort | uniq -c | awk '$1 == 2' | wc -l)" -eq 7
done

cd "$work" || exit 1
cat >mine.yaml <<'END'
name: mine
prompts:
  - {id: a, text: a large red disc bounces over a plain blue background, held_out: wavy}
END
cat >sweep.yaml <<'END'
model: nano
suite: mine.yaml
methods: [BF16]
frames: 6
END
exits 2 "a mark of a word that is not there" run sweep.yaml --dry-run --db t.db
says "with its place and the word" "mine.yaml:3:.*held_out 'wavy'"
