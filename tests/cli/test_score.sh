#!/usr/bin/env bash
# score: metrics added to a finished sweep equal the metrics of a sweep that computes them while it runs.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
run() { "$kvreel" run tiny.yaml --out o --jobs 2 --filter 'prompt=red' -q "$@" >"$out" 2>"$err" || exit 1; }
run --db t.db
run --db all.db --set 'metrics=[psnr, ssim, sharpness, chunk_discontinuity, ms_ssim]'
same() { check "$1" test "$2" = "$3"; }
rows="SELECT method, m.name, round(m.value, 12), m.unit, m.n, round(m.extra, 12), m.missing FROM
    metric m JOIN cell ON key = m.cell ORDER BY 1, 2"
series="SELECT method, s.name, idx, round(s.value, 12) FROM series s JOIN cell ON key = s.cell
    ORDER BY 1, 2, 3"

# A run with additional metrics only computes the metrics; it does not repeat a rollout.
cp t.db run.db
exits 0 "a run with more metrics" run tiny.yaml --out o --filter 'prompt=red' --db run.db --json \
    --set 'metrics=[psnr, ssim, sharpness, chunk_discontinuity, ms_ssim]'
json "the run scores three cells and runs none" '.ok == 0 and .to_run == 0 and .scored == 3 and .not_scored == 0'
same "after the run, the metrics are those of a complete sweep" "$(sql run.db "$rows")" "$(sql all.db "$rows")"
same "after the run, the series are those of a complete sweep" "$(sql run.db "$series")" "$(sql all.db "$series")"
same "the number of cells does not change" "$(sql run.db 'SELECT count(*) FROM cells_wide')" 3
exits 0 "fsck accepts the database" fsck run.db
exits 0 "score with a metric that the cells have" score sharpness --db run.db --out o --json
json "all three cells have the metric" '.had == 3'
rm "o/$(sql run.db "SELECT artifact.path FROM artifact JOIN cell ON cell = key WHERE artifact.kind = 'frames' AND name = 'RTN_INT4'")"
exits 0 "a dry run after frames were deleted" run tiny.yaml --out o --filter 'prompt=red' --db run.db --json -n --set 'metrics=[psnr, temporal_flicker]'
json "one cell is to run, two are to score" '.to_run == 1 and .to_score == 2'
run --db t.db --force # writes the deleted frames again

exits 0 "score" score sharpness chunk_discontinuity ms_ssim --db t.db --out o --json
json "score scores three cells" '.cells == 3 and .scored == 3 and .had == 0 and .failed == 0'
same "after score, the metrics are those of a complete sweep" "$(sql t.db "$rows")" "$(sql all.db "$rows")"
same "after score, the series are those of a complete sweep" "$(sql t.db "$series")" "$(sql all.db "$series")"
exits 0 "score again" score sharpness chunk_discontinuity ms_ssim --db t.db --out o --json
json "score finds all metrics" '.scored == 0 and .had == 3'
exits 0 "score --force" score sharpness --db t.db --out o --force --json
json "score --force scores three cells again" '.scored == 3'
same "score --force changes no value" "$(sql t.db "$rows")" "$(sql all.db "$rows")"

exits 0 "score --command" score --command 'echo {\"a\":1}' --name one --db t.db --out o --json
json "the program scores three cells" '.scored == 3'
same "the values of the program are stored" "$(sql t.db "SELECT sum(value) FROM metric WHERE name = 'one.a'")" 3.0
exits 2 "score refuses an unknown metric" score sharpnes --db t.db --out o
says "the error suggests sharpness" "did you mean 'sharpness'"
exits 2 "score needs a metric" score --db t.db --out o
exits 2 "score refuses a missing database" score sharpness --db none.db --out o
check "score creates no database" test ! -e none.db

video=$(sql t.db "SELECT path FROM artifact WHERE kind = 'video' LIMIT 1")
cp "o/$video" video.mp4
echo >>"o/$video"
exits 3 "score with a modified video" score --command 'echo {\"a\":1}' --name two --db t.db --out o --json
json "the cell of the modified video is not scored" '.scored == 2 and .failed == 1'
says "the error says that the video was modified" 'modified after the measurement'
cp video.mp4 "o/$video"

cp t.db theirs.db
cp "o/$video" beside.mp4
changed theirs.db "UPDATE artifact SET path = '../beside.mp4' WHERE path = '$video'"
exits 3 "score with a video outside the output folder" score --command 'echo {\"a\":1}' --name two --db theirs.db --out o --force --json
json "the cell of the outside video is not scored" '.scored == 2 and .failed == 1'
says "the error names the output folder" 'outside the out folder'

ref=$(sql t.db "SELECT artifact.path FROM artifact JOIN cell ON key = cell WHERE is_baseline AND artifact.kind = 'frames'")
other=$(sql t.db "SELECT artifact.path FROM artifact JOIN cell ON key = cell WHERE NOT is_baseline AND artifact.kind = 'frames' LIMIT 1")
cp "o/$ref" "o/$other"
exits 3 "score with the frames of another cell" score colour_drift --db t.db --out o --json
json "only the cell with wrong frames is not scored" '.scored == 2 and .failed == 1'
says "the error says that the frames were modified" 'modified after the measurement'
rm "o/$ref"
exits 3 "score without the frames of the baseline" score temporal_flicker --db t.db --out o --json
json "without the frames of the baseline, no cell is scored" '.scored == 0 and .failed == 3'
