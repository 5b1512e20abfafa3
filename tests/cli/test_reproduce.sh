#!/usr/bin/env bash
# reproduce: figures computed by arithmetic agree with the published ones, and a changed digit is detected.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

exits 0 "study33: compression agrees" reproduce study33 --quantity compression --json
# 63 rows were published, 33 for MovieGen and 30 for StoryEval; three of them have no ratio. The sizes of four
# methods depend on the data, in both suites: two QAQ methods, TPTQ and one SPATIAL method.
json "every row with a closed form is exact" \
    '([.[] | select(.verdict == "exact")] | length) == 52
     and ([.[] | select(.verdict == "data-dependent, within bounds") | .method] | unique | length) == 4
     and ([.[] | select(.verdict == "not published")] | length) == 3 and length == 63'
json "data-dependent rows say by how much they differ" \
    '[.[] | select(.verdict | startswith("data")) | .reason | test("depends on the data: .* published size minus")] | all'
exits 0 "study33: peak memory agrees" reproduce study33 --quantity peak_vram_gib --json
json "the peaks of era A are exact" \
    '[.[] | select(.method | test("^(RTN|KIVI|QUAROT_KV)_INT[24]$")) | .verdict == "exact"] | all'
exits 0 "study33: all quantities, without a database" reproduce study33 --json
json "each of eight quantities has 63 rows with a verdict" \
    'length == 504 and all(.[]; .verdict != null and (.verdict == "exact" or .reason != null))'
exits 0 "jensen" reproduce jensen --json
json "the gains have their published figures" 'any(.[]; .quantity == "gain_psnr_db" and .published == "2.280")'
exits 0 "pafu" reproduce pafu --json
json "cache sizes are whole frames" \
    '[.[] | select(.quantity == "cache_tokens") | .verdict == "exact"] | length == 5 and all'

# `reproduce pafu --db` lists kvreel's cells in the format of the paper's table, with their budgets in frames or
# tokens.
cat >"$work/pafu.yaml" <<END
name: pafu
model: nano
suite: {suite: moviegen-nano, prompts: 1}
frames: 9
window: 0
metrics: [ssim]
baselines: none
db: $work/pafu.db
out: $work/pafu
methods:
  - BF16
  - {method: PAFU_SEH, options: {frames: [2, 3]}}
  - {method: PAFU_ORACLE_NONCAUSAL, options: {tokens: 108, sink: 0}}
END
exits 0 "a sweep over budgets" run "$work/pafu.yaml"
says "the run says that a method is not causal" 'PAFU_ORACLE_NONCAUSAL.*not causal'
exits 0 "reproduce pafu with the database of a sweep" reproduce pafu --db "$work/pafu.db" --json
json "the rows have their budgets in frames or tokens" '[.[] | select(.suite == "kvreel" and .quantity == "ssim") | .method] |
    sort == ["PAFU_ORACLE_NONCAUSAL, 108 tokens, no sink", "PAFU_SEH, 2 frames", "PAFU_SEH, 3 frames"]'
json "each row has the size of its cache" '[.[] | select(.method == "PAFU_SEH, 3 frames") | .reason] | all(test("resident cache: [0-9]+ B"))'

exits 2 "an unknown paper is a usage error" reproduce study34
says "the error suggests study33" study33
exits 2 "an unknown quantity is a usage error" reproduce study33 --quantity compresion

mkdir -p "$work/data/results"
cp -r "$root/results/published" "$work/data/results/"
sed -i 's/^RTN_INT4,3.2000/RTN_INT4,3.2002/' "$work/data/results/published/kvquant33_compression.csv"
cd "$work/data" || exit 1
exits 4 "a changed digit is out of tolerance" reproduce study33 --quantity compression --json
json "only the changed row is out of tolerance" '[.[] | select(.verdict == "OUT OF TOLERANCE") | .method] == ["RTN_INT4"]'
sed -i '5s/,/,,/' "$work/data/results/published/kvquant33_compression.csv"
exits 2 "a broken table is refused" reproduce study33 --quantity compression
says "the error names file and line" 'kvquant33_compression.csv:5: the row has 4 fields, need 3'
