#!/usr/bin/env bash
# The setting abba measures ratios of a method's time to BF16's in pairs of neighbouring rollouts. The test checks
# where kvreel stores the ratios, when they are missing, and which tables and claims use them.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cd "$work" || exit 1
cat >r.yaml <<'Y'
model: nano
suite: [{suite: moviegen-nano, prompts: 12}]
frames: 3
control: 0
baselines: none
timing: true
abba: 2
videos: false
metrics: [psnr]
methods: [BF16, RTN_INT4]
Y
exits 0 "a sweep with abba: 2" run r.yaml --db r.db --out r -j 1 -q
edit() { changed r.db "$1"; }
t() { "$kvreel" query --db r.db --csv "$1" | tail -n +2; }

check "each cell has four ratios, BF16 none" test "$(t "SELECT group_concat(DISTINCT n) || ' ' || count(*) FROM
    (SELECT cell, count(*) AS n FROM series WHERE name = 'runtime_ratio' GROUP BY cell)")" = '4 12'
check "each ratio is the quotient of the times of its pair" test "$(t "SELECT count(*) FROM series r JOIN sample a ON a.cell = r.cell
    AND a.kind = 'abba_method' AND a.round = r.idx JOIN sample b ON b.cell = r.cell AND
    b.kind = 'abba_reference' AND b.round = r.idx WHERE r.name = 'runtime_ratio'
    AND abs(r.value - a.ns * 1.0 / b.ns) < 1e-12")" = 48

# Sets the ratio to 1.05, with alternating deviations of 2 % between pairs, and the time code to DRIFT, as on a
# machine whose speed drifts.
edit "UPDATE series SET value = 1.05 * iif(idx % 2, 1.02, 1 / 1.02) WHERE name = 'runtime_ratio'"
edit "UPDATE metric SET value = 1.05 WHERE name = 'runtime_ratio'"
edit "UPDATE cell SET time_codes = 'DRIFT'"
exits 0 "the summary" report --db r.db --table summary --format json
json "the summary has the ratio and no runtime" 'map(select(.method == "RTN_INT4"))[0] |
    .runtime_s == null and (.runtime_ratio - 1.05 | fabs) < 1e-9 and .ratio_lo > 1.04 and .ratio_hi < 1.06 and
    .ratio_codes == ""'
exits 0 "the cost table" report --db r.db --table cost --format json
json "the cost table has the ratio" 'map(select(.method == "RTN_INT4"))[0] | (.runtime_ratio - 1.05 | fabs) < 1e-9 and .ratio_lo > 1'
exits 0 "stats timing" stats timing --db r.db --json
json "stats timing has the ratio of each prompt" 'map(select(.method == "RTN_INT4")) | length == 12 and
    all(.[]; (.runtime_ratio - 1.05 | fabs) < 1e-9)'
cat >ledger.yaml <<'Y'
sources: {s: "a paper"}
margins: {runtime_ratio: 0.02}
claims:
  - {id: slower, source: s, at: t, says: x, more: {metric: runtime_ratio, of: RTN_INT4, than: BF16}}
  - {id: faster, source: s, at: t, says: x, less: {metric: runtime_ratio, of: RTN_INT4, than: BF16}}
Y
edit "UPDATE metric SET value = 1.05 + 0.004 * ((SELECT count(*) FROM metric b WHERE b.cell < metric.cell) % 5 - 2)
    WHERE name = 'runtime_ratio'"
exits 0 "claims" claims ledger.yaml --db r.db --json
json "claims are judged by the ratio, measured on a CPU" 'map({(.id): .}) | add |
    .slower.verdict == "holds" and .faster.verdict == "does not hold" and (.slower.why | test("on a CPU, 12 prompts"))'

edit "UPDATE series SET value = 1.05 * iif(idx % 2, 1.3, 1 / 1.3) WHERE name = 'runtime_ratio'"
exits 0 "stats timing with pairs that deviate by 30 %" stats timing --db r.db --json
json "ratios that deviate by 30 % have code WIDE and do not count" 'map(select(.method == "RTN_INT4")) |
    all(.[]; .runtime_ratio == null and .ratio_codes == "WIDE" and .ratio_hi > .ratio_lo)'

edit "UPDATE cell SET time_codes = 'LOAD DRIFT'"
exits 0 "the cost table under the load of another program" report --db r.db --table cost --format json
json "a ratio measured under load does not count" 'map(select(.method == "RTN_INT4"))[0] | .runtime_ratio == null and .ratio_codes == "LOAD"'
exits 0 "claims under load" claims ledger.yaml --db r.db --json
json "a claim under load is open and names the command that settles it" 'map(select(.id == "slower"))[0] |
    .verdict == "cannot be told here" and (.why | test("claims-time.yaml --jobs 1` on an idle machine"))'

exits 2 "abba without timing is refused" run r.yaml --db n.db --out n --set timing=false
says "the error names timing: true" "'abba: [0-9]+' .* needs 'timing: true'"
exits 0 "a sweep with abba: 0" run r.yaml --db n.db --out n --set abba=0 --set 'suite=[{suite: moviegen-nano, prompts: 2}]' -j 1 -q
exits 0 "stats timing without abba" stats timing --db n.db --json
json "there are times and no ratios" 'length == 4 and all(.[]; .median_s > 0 and .runtime_ratio == null)'
exits 0 "stats timing as a table" stats timing --db n.db
check "the table has neither a column nor a note of ratios" bash -c "! grep -qE 'ratio|to BF16' '$out'"
prints "one sample has no confidence level" '^RTN_INT4 .* - +- +- +one sample'
exits 0 "the summary without abba" report --db n.db --table summary --format json
json "the summary has no column of ratios" 'all(.[]; has("runtime_ratio") | not)'
