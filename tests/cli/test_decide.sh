#!/usr/bin/env bash
# until: decided: kvreel adds prompts until every pair of methods has a verdict. The test also covers wrong configs,
# --limit, and a second run.
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
check "a sweep with a slash in its name runs" test $? -ne 1
check "the file name of its ledger has _ instead of the slash" test -e s/a_b.decide.yaml
for bad in 'decided lpips' 'decided psnr ssim' 'undecided'; do
    exits 2 "the stop rule '$bad' is refused" "${run[@]}" --set "until=$bad"
done
says "the error lists the stop rules" "expected 'ci_width N%' with N from 0.01 to 100, or 'decided METRIC'"
sed 's/^until.*/until: decided lpips/' d.yaml >bad.yaml
exits 2 "until needs a metric of the sweep" run bad.yaml --db t.db -o o
says "the error has line and column" "bad.yaml:14:8: 'until: decided lpips': need one of the sweep's metrics"
exits 2 "until: decided refuses two windows" "${run[@]}" --set 'window=[0, 3]'
says "the error says that one window is needed" "needs exactly one value of 'window', not 2"
exits 2 "until: decided refuses a single method" "${run[@]}" --set 'methods=[BF16, RTN_INT8]'
says "the error has the number of methods needed" "needs 2 to 32 methods besides BF16 that can run, but the sweep has only one"
exits 2 "until: decided refuses --shard" "${run[@]}" --shard 0/2
says "the error names --shard" "cannot be combined with --shard"
check "refused sweeps write no database" test ! -e t.db
exits 0 "a dry run" "${run[@]}" --dry-run --json
json "the plan has all prompts and no verdict" '.to_run == 60 and (has("pairs") | not)'
exits 0 "a run with --limit 9" "${run[@]}" --limit 9 --json
json "nine cells are measured and no pair is decided" '.ok == 9 and .limited == 51 and (.pairs | length == 3 and all(.verdict == "open"))'
exits 0 "the same command without --limit resumes" "${run[@]}" --json
json "two clear pairs get a verdict" '.pairs | map(select(.better == "it'"'"'s coarse" or .than == "it'"'"'s coarse")) |
    length == 2 and all(.n >= 12 and .lo != null and .margin >= 0.25) and map(.verdict) == ["holds", "does not hold"]'
json "the run counts the cells that are not needed" '.enough > 0 and .limited == 0 and .cells == .ok + .done_before + .enough and .done_before == 9'
check "the decided method got 12 prompts" test "$(prompts_of "it''s coarse")" -eq 12
check "the methods of the open pair got more prompts" test "$(prompts_of fine)" -gt 12
check "both methods of the open pair got equally many prompts" test "$(prompts_of fine)" = "$(prompts_of RTN_INT8)"
exits 0 "the finished sweep again" "${run[@]}" --json
json "the finished sweep measures nothing again" '.ok == 0 and .to_run == 0 and .failed == 0'
exits 0 "the run prints text" "${run[@]}"
prints "the text has intervals" "^  RTN_INT8 is better than it's coarse: holds; psnr \+[0-9.]+ \[[0-9.]+, [0-9.]+\], margin [0-9.]+, 12 prompts$"
says "the message names the ledger" '[23] of 3 pairs of methods has a verdict; .kvreel claims o/d.decide.yaml --db t.db --most 15. prints'
exits 0 "status --json" status --db t.db --json
json "status has the verdicts" '.sweeps[0] | .open == 0 and .enough > 0 and (.pairs | length == 3 and .[0].verdict == "holds")'
exits 0 "status prints text" status --db t.db
prints "status prints one pair per line" "^  it's coarse is better than fine: does not hold; psnr -"
exits 0 "a sweep from a pipe, which can be read only once" run <(cat d.yaml) --db t.db -o o -j 2 -q --json
json "the sweep from the pipe has the same verdicts" '.pairs | length == 3 and .[0].verdict == "holds"'
exits 0 "claims reads the ledger of the sweep" claims o/d.decide.yaml --db t.db --most 15 --json
json "claims gives the same verdicts" 'length == 3 and .[0].verdict == "holds"'

