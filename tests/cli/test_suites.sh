#!/usr/bin/env bash
# tools/fixtures/draw-suites.py generates two suites of 200 prompts. Prompts with a word that the model has not learnt
# have the key held_out.
. tests/cli/lib.sh || exit 1

check "draw-suites.py generates both suite files" python3 tools/fixtures/draw-suites.py --check
for suite in moviegen-nano-200 storyeval-nano-200; do
    file=configs/suites/$suite.yaml
    exits 0 "list suites, for $suite" list suites --json
    json "$suite has 200 prompts" "any(.[]; .name == \"$suite\" and .prompts == 200)"
    check "$suite: 20 prompts are marked with an unlearnt word" test "$(grep -c 'held_out:' $file)" -eq 20
    check "$suite: no other prompt has an unlearnt word" test "$(grep -v held_out $file | grep -cE 'text:.*(small|striped|wavy|spins|pulses)')" -eq 0
    check "$suite: no prompt's text occurs twice" test "$(grep -o 'text: [^,}]*' $file | sort | uniq -d | wc -l)" -eq 0
    check "$suite: the first 14 prompts have each of 7 motions twice" test "$(grep -oE 'mn[0-9]+, text|sn[0-9]+, text' $file | head -14 | wc -l)" -eq 14 -a \
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
exits 2 "held_out with a word that is not in the prompt is refused" run sweep.yaml --dry-run --db t.db
says "the error names the line and the word" "mine.yaml:3:.*held_out 'wavy'"
