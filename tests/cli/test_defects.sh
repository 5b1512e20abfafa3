#!/usr/bin/env bash
# Defects H1 to H10 of the reference study's harness are impossible in kvreel: one check for each, on a small sweep.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cat >a.yaml <<'YAML'
model: nano
prompts:
  - {id: red, text: a large red disc drifts right over a plain blue background}
  - {id: green, text: a large green square drifts left over a plain white background}
  - {id: blue, text: a large blue ring stays still over a plain white background}
methods: [BF16, RTN_INT4@study, AGE_TIER_INT4@study, RTN_INT4, RTN_INT2, KIVI_INT2]
frames: 12
seed: 4
baselines: none
exclude: [{when: name=KIVI_INT2 & prompt=blue, reason: as if it had been forgotten}]
YAML
exits 0 "a sweep" run a.yaml --db a.db --out o -q
q() { sql a.db "$1"; }

check "H1: all prompts of a method have the same peak memory within 1 %" test "$(q "SELECT count(*) FROM
    (SELECT method FROM cell WHERE outcome = 'OK' GROUP BY method
     HAVING max(peak_bytes) - min(peak_bytes) > 0.01 * min(peak_bytes))")" -eq 0
check "H1: as much memory is live after a rollout as before it" \
    test "$(q "SELECT count(*) FROM cell WHERE outcome = 'OK' AND live_start_bytes <> live_end_bytes")" -eq 0
check "H2: low-bit codes are packed: resident bytes exceed the format's bytes by at most 15 %" \
    test "$(q "SELECT count(*) FROM cell WHERE name IN ('RTN_INT4', 'RTN_INT2') AND reading = 'intended'
     AND max_resident_bytes BETWEEN max_nominal_bytes AND 1.15 * max_nominal_bytes")" -eq 6
check "H2: 2-bit codes take less memory than 4-bit codes" test "$(q "SELECT count(*) FROM cell a JOIN cell b
    ON a.prompt_id = b.prompt_id AND a.name = 'RTN_INT2' AND b.name = 'RTN_INT4' AND
    b.reading = 'intended' WHERE a.resident_bytes < 0.7 * b.resident_bytes")" -eq 3
check "H3: phases explain nine tenths of the time (of the cell that was least disturbed)" \
    test "$(q "SELECT max((SELECT sum(ns) FROM sample WHERE cell = key AND kind IN ('encode', 'decode',
    'attend', 'linear', 'cross', 'other')) * 1.0 / wall_ns) >= 0.9 FROM cell WHERE outcome = 'OK'")" -eq 1

sed 's/^methods:.*/methods: [BF16, RTN_INT4]/; s/^exclude.*/timing: true\nrepeats: 2/' a.yaml >t.yaml
exits 0 "a timed sweep" run t.yaml --db t.db --out o -q --filter prompt=red
t() { sql t.db "$1"; }
check "H4: each cell has a warm-up, which is not one of its timed rollouts" \
    test "$(t "SELECT count(*) FROM sample WHERE kind = 'warmup'") $(t "SELECT count(*) FROM cell")" = '4 4'
exits 0 "H4: medians of the times" stats timing --db t.db --json
json "H4: stats timing lists cold times apart from the median" \
    'length == 2 and all(.[]; .n == 2 and .cold_s > 0 and .min_s > 0 and .median_s >= .min_s)'
check "H4: each round of repeats runs all methods" test "$(t "SELECT group_concat(repeat, '') FROM
    (SELECT repeat FROM cell ORDER BY started, finished, repeat)")" = 0011
check "H4: the baseline is measured at the beginning, in the middle and at the end" \
    test "$(t 'SELECT count(*) FROM drift')" -eq 3
check "H4: the session records governor, turbo and the seed of the order" \
    test "$(t "SELECT count(*) FROM session WHERE governor <> '' AND turbo <> '' AND order_seed = 0")" -eq 1
check "H4: the session records the CPUs and memory nodes that workers may use" test "$(t "SELECT value FROM about
    WHERE name = 'cpus'")|$(t "SELECT count(*) FROM about WHERE name IN ('cpu_nodes', 'memory_nodes') AND value <> ''")" = \
    "$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)|2"

exits 0 "H4: the timed sweep resumes with another method" run t.yaml --db t.db --out o -q --filter prompt=red \
    --set 'methods=[BF16, RTN_INT4, RTN_INT2]'
check "H4: the session of the resumed sweep measures the baseline again" \
    test "$(t 'SELECT count(*) FROM drift') $(t 'SELECT count(DISTINCT session) FROM drift')" = '6 2'
exits 0 "H4: timed cells run in parallel" run t.yaml --db j.db --out o -q --filter prompt=red --jobs 2
check "H4: times of parallel cells do not count, and have a reason" test "$(sql j.db "SELECT count(*) FROM cell
    WHERE verdict = 'NOISY' AND ' ' || verdict_codes || ' ' LIKE '% JOBS %'") $(sql j.db "SELECT
    count(*) FROM summary WHERE runtime_s IS NULL AND psnr_db > 0 AND n_noisy = 2")" = '4 2'

check "H5: identical frames give a finite PSNR, and are counted" \
    test "$(q "SELECT count(*) FROM cells_wide WHERE is_baseline AND psnr_db <= 100 AND identical_frames = 12")" -eq 3
check "H5: no number in the database is infinite" test "$(q "SELECT count(*) FROM metric WHERE abs(value) > 1e300")" -eq 0
exits 0 "H6: stats coverage" stats coverage --db a.db --format csv
prints "H6: the coverage table shows the missing cell" '^KIVI_INT2,.*0/1 X'
check "H6: the summary has measured and attempted cells" \
    test "$(q "SELECT n_ok || '/' || n_attempted FROM summary WHERE method = 'KIVI_INT2'")" = 2/3

nulls=$(q "SELECT group_concat('(\"' || p.name || '\" IS NULL)', ' + ') FROM pragma_table_info('session') p")
check "H7: no provenance column is NULL" test "$(q "SELECT sum($nulls) FROM session")" -eq 0
check "H7: the database has no absolute path" test "$(q "SELECT count(*) FROM session WHERE argv LIKE '%\"/%'
    OR config_path LIKE '/%'") $(q "SELECT count(*) FROM artifact WHERE path LIKE '/%'")" = '0 0'
(cd / && "$kvreel" run "$work/a.yaml" --db "$work/abs.db" --out "$work/o" -q --filter 'method=BF16 & prompt=red' >/dev/null)
check "H7: absolute arguments are not stored" \
    test "$(sql abs.db "SELECT count(*) FROM session WHERE argv LIKE '%$work%' AND argv LIKE '%\"/%'")" -eq 0
check "H7: methods of the same arithmetic have the same quality" test "$(q "SELECT count(*)
    FROM cells_wide a JOIN cells_wide b USING (prompt_id) WHERE a.method = 'RTN_INT4@study' AND
    b.method = 'AGE_TIER_INT4@study' AND abs(a.ssim - b.ssim) < 1e-3")" -eq 3
exits 0 "H8: stats paired" stats paired -m ssim --against RTN_INT4 --db a.db --json
json "H8: differences have intervals, and ranks have ties" 'all(.[]; .tie_group >= 1) and (map(select(.lo != null)) | length) >= 4'
check "H9: each metric has one unit, and fractions lie between 0 and 1" test "$(q "SELECT count(*) FROM
    (SELECT name FROM metric GROUP BY name HAVING count(DISTINCT unit) > 1)") $(q "SELECT count(*)
    FROM metric WHERE name = 'ssim' AND value NOT BETWEEN -1 AND 1")" = '0 0'

frames() { q "SELECT a.path FROM artifact a JOIN cell c ON c.key = a.cell WHERE c.method = '$1' AND c.prompt_id = 'red' AND c.jitter = 0 AND a.kind = '$2'"; }
exits 0 "H10: compare reads raw frames" compare "o/$(frames BF16 frames)" "o/$(frames RTN_INT2 frames)" --json
stored=$(q "SELECT psnr_db FROM cells_wide WHERE method = 'RTN_INT2' AND prompt_id = 'red'")
check "H10: a comparison of the raw files gives the stored number" \
    jq -e --argjson x "$stored" '(.psnr_db - $x) | fabs < 1e-9' "$out"
exits 0 "H10: compare reads videos" compare "o/$(frames RTN_INT2 video)" "o/$(frames RTN_INT2 video)" --json
