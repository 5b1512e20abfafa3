#!/usr/bin/env bash
# Ratios of times from neighbouring rollouts (setting abba): where they are stored, when they are missing, and which
# tables and claims use them.
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
exits 0 "a sweep with blocks" run r.yaml --db r.db --out r -j 1 -q
edit() { changed r.db "$1"; }
t() { "$kvreel" query --db r.db --csv "$1" | tail -n +2; }

check "four pairs a cell, none for BF16" test "$(t "SELECT group_concat(DISTINCT n) || ' ' || count(*) FROM
    (SELECT cell, count(*) AS n FROM series WHERE name = 'runtime_ratio' GROUP BY cell)")" = '4 12'
check "with both times of a pair" test "$(t "SELECT count(*) FROM series r JOIN sample a ON a.cell = r.cell
    AND a.kind = 'abba_method' AND a.round = r.idx JOIN sample b ON b.cell = r.cell AND
    b.kind = 'abba_reference' AND b.round = r.idx WHERE r.name = 'runtime_ratio'
    AND abs(r.value - a.ns * 1.0 / b.ns) < 1e-12")" = 48

# Writes a ratio of 1.05 with a swing of 2 % between pairs, and time code DRIFT, as from a machine whose speed
# drifts.
edit "UPDATE series SET value = 1.05 * iif(idx % 2, 1.02, 1 / 1.02) WHERE name = 'runtime_ratio'"
edit "UPDATE metric SET value = 1.05 WHERE name = 'runtime_ratio'"
edit "UPDATE cell SET time_codes = 'DRIFT'"
exits 0 "the summary" report --db r.db --table summary --format json
json "has no runtime and the planted ratio" 'map(select(.method == "RTN_INT4"))[0] |
    .runtime_s == null and (.runtime_ratio - 1.05 | fabs) < 1e-9 and .ratio_lo > 1.04 and .ratio_hi < 1.06 and
    .ratio_codes == ""'
exits 0 "the cost table" report --db r.db --table cost --format json
json "has it" 'map(select(.method == "RTN_INT4"))[0] | (.runtime_ratio - 1.05 | fabs) < 1e-9 and .ratio_lo > 1'
exits 0 "stats timing" stats timing --db r.db --json
json "has it by prompt" 'map(select(.method == "RTN_INT4")) | length == 12 and
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
json "are judged by the ratio, of a CPU" 'map({(.id): .}) | add |
    .slower.verdict == "holds" and .faster.verdict == "does not hold" and (.slower.why | test("on a CPU, 12 prompts"))'

edit "UPDATE series SET value = 1.05 * iif(idx % 2, 1.3, 1 / 1.3) WHERE name = 'runtime_ratio'"
exits 0 "pairs that swing" stats timing --db r.db --json
json "are WIDE and no ratio" 'map(select(.method == "RTN_INT4")) |
    all(.[]; .runtime_ratio == null and .ratio_codes == "WIDE" and .ratio_hi > .ratio_lo)'

edit "UPDATE cell SET time_codes = 'LOAD DRIFT'"
exits 0 "another program's load" report --db r.db --table cost --format json
json "refuses the ratio, too" 'map(select(.method == "RTN_INT4"))[0] | .runtime_ratio == null and .ratio_codes == "LOAD"'
exits 0 "and the claim" claims ledger.yaml --db r.db --json
json "is open, with what to do" 'map(select(.id == "slower"))[0] |
    .verdict == "cannot be told here" and (.why | test("claims-time.yaml --jobs 1` on an idle machine"))'

exits 2 "without timing" run r.yaml --db n.db --out n --set timing=false
says "says what it needs" "'abba: [0-9]+' .* needs 'timing: true'"
exits 0 "a sweep without blocks" run r.yaml --db n.db --out n --set abba=0 --set 'suite=[{suite: moviegen-nano, prompts: 2}]' -j 1 -q
exits 0 "has times" stats timing --db n.db --json
json "and no ratio" 'length == 4 and all(.[]; .median_s > 0 and .runtime_ratio == null)'
exits 0 "a summary" report --db n.db --table summary --format json
json "without the columns" 'all(.[]; has("runtime_ratio") | not)'
