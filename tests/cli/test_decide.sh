#!/usr/bin/env bash
# until: decided: pairs of methods get prompts until each pair has a verdict. The test also covers errors, a limit,
# and a second run.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

cat >suite.yaml <<'END'
name: small
model: nano
frames: 6
seed: 5
prompts:
END
i=0
for colour in red green blue yellow purple; do
    for move in "stays still" bounces orbits; do
        i=$((i + 1))
        echo "  - {id: p$i, text: a large $colour disc $move over a plain white background}" >>suite.yaml
    done
done
cat >d.yaml <<'END'
question: which coder is better?
model: nano
suite: suite.yaml
window: 0
control: 0
videos: false
baselines: none
metrics: [ssim, psnr]
methods:
  - BF16
  - RTN_INT8
  - {method: RTN_INT2, options: {group: 64}, label: it's coarse}
  - {method: RTN_INT8, options: {group: 32}, label: fine}
until: decided psnr
END
run=(run d.yaml --db t.db -o o -j 2 -q)
prompts_of() { sql t.db "SELECT count(DISTINCT prompt_id) FROM cells_wide WHERE outcome = 'OK' AND method = '$1'"; }
"$kvreel" "${run[@]}" --set name=a/b --set 'methods=[BF16, RTN_INT8, RTN_INT2]' --db s.db -o s --budget 2s >"$out" 2>"$err"
check "a name with a slash is one" test $? -ne 1
check "is a file's without one" test -e s/a_b.decide.yaml
for bad in 'decided lpips' 'decided psnr ssim' 'undecided'; do
    exits 2 "a stop rule of '$bad' is none" "${run[@]}" --set "until=$bad"
done
says "and what one is" "expected 'ci_width N%' with N from 0.01 to 100, or 'decided METRIC'"
sed 's/^until.*/until: decided lpips/' d.yaml >bad.yaml
exits 2 "a metric that the sweep has not" run bad.yaml --db t.db -o o
says "with its line" "bad.yaml:14:8: 'until: decided lpips': need one of the sweep's metrics"
exits 2 "two windows" "${run[@]}" --set 'window=[0, 3]'
says "are two answers" "needs exactly one value of 'window', not 2"
exits 2 "one method" "${run[@]}" --set 'methods=[BF16, RTN_INT8]'
says "is no pair" "needs 2 to 32 methods besides BF16 that can run, but the sweep has only one"
exits 2 "a part of the cells" "${run[@]}" --shard 0/2
says "gives no verdict" "cannot be combined with --shard"
check "nothing was measured" test ! -e t.db
exits 0 "the plan" "${run[@]}" --dry-run --json
json "has all prompts" '.to_run == 60 and (has("pairs") | not)'
exits 0 "a part of the first look" "${run[@]}" --limit 9 --json
json "is a part" '.ok == 9 and .limited == 51 and (.pairs | length == 3 and all(.verdict == "open"))'
exits 0 "the same command goes on" "${run[@]}" --json
json "to verdicts on the two clear pairs" '.pairs | map(select(.better == "it'"'"'s coarse" or .than == "it'"'"'s coarse")) |
    length == 2 and all(.n >= 12 and .lo != null and .margin >= 0.25) and map(.verdict) == ["holds", "does not hold"]'
json "and says what is not needed" '.enough > 0 and .limited == 0 and .cells == .ok + .done_before + .enough and .done_before == 9'
check "the coarse one, decided, got the prompts of the first look" test "$(prompts_of "it''s coarse")" -eq 12
check "the others got more" test "$(prompts_of fine)" -gt 12
check "as many as each other" test "$(prompts_of fine)" = "$(prompts_of RTN_INT8)"
exits 0 "again" "${run[@]}" --json
json "it measures nothing" '.ok == 0 and .to_run == 0 and .failed == 0'
exits 0 "as text" "${run[@]}"
prints "with intervals" "^  RTN_INT8 is better than it's coarse: holds; psnr \+[0-9.]+ \[[0-9.]+, [0-9.]+\], margin [0-9.]+, 12 prompts$"
says "and the ledger" '[23] of 3 pairs of methods has a verdict; .kvreel claims o/d.decide.yaml --db t.db --most 15. prints'
exits 0 "status" status --db t.db --json
json "has them" '.sweeps[0] | .open == 0 and .enough > 0 and (.pairs | length == 3 and .[0].verdict == "holds")'
exits 0 "as text" status --db t.db
prints "a pair a line" "^  it's coarse is better than fine: does not hold; psnr -"
exits 0 "the sweep from a pipe, which is read once" run <(cat d.yaml) --db t.db -o o -j 2 -q --json
json "has the same verdicts" '.pairs | length == 3 and .[0].verdict == "holds"'
exits 0 "the ledger by itself" claims o/d.decide.yaml --db t.db --most 15 --json
json "says the same" 'length == 3 and .[0].verdict == "holds"'

