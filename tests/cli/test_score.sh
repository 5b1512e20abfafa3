#!/usr/bin/env bash
# score: metrics added to a finished sweep equal those of a sweep that computes them itself.
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
json "runs no cell" '.ok == 0 and .to_run == 0 and .scored == 3 and .not_scored == 0'
same "its rows are those of a sweep" "$(sql run.db "$rows")" "$(sql all.db "$rows")"
same "the series, too" "$(sql run.db "$series")" "$(sql all.db "$series")"
same "n stays" "$(sql run.db 'SELECT count(*) FROM cells_wide')" 3
exits 0 "and it is whole" fsck run.db
exits 0 "scores of it" score sharpness --db run.db --out o --json
json "are there" '.had == 3'
rm "o/$(sql run.db "SELECT artifact.path FROM artifact JOIN cell ON cell = key WHERE artifact.kind = 'frames' AND name = 'RTN_INT4'")"
exits 0 "without its frames" run tiny.yaml --out o --filter 'prompt=red' --db run.db --json -n --set 'metrics=[psnr, temporal_flicker]'
json "a cell is run, the others are scored" '.to_run == 1 and .to_score == 2'
run --db t.db --force # writes the deleted frames again

exits 0 "score" score sharpness chunk_discontinuity ms_ssim --db t.db --out o --json
json "three cells" '.cells == 3 and .scored == 3 and .had == 0 and .failed == 0'
same "the rows are those of a sweep" "$(sql t.db "$rows")" "$(sql all.db "$rows")"
same "and the series" "$(sql t.db "$series")" "$(sql all.db "$series")"
exits 0 "the same again" score sharpness chunk_discontinuity ms_ssim --db t.db --out o --json
json "finds everything there" '.scored == 0 and .had == 3'
exits 0 "--force" score sharpness --db t.db --out o --force --json
json "does it again" '.scored == 3'
same "and changes nothing" "$(sql t.db "$rows")" "$(sql all.db "$rows")"

exits 0 "a program" score --command 'echo {\"a\":1}' --name one --db t.db --out o --json
json "is a score, too" '.scored == 3'
same "with its value" "$(sql t.db "SELECT sum(value) FROM metric WHERE name = 'one.a'")" 3.0
exits 2 "an unknown metric" score sharpnes --db t.db --out o
says "nearest name" "did you mean 'sharpness'"
exits 2 "nothing asked for" score --db t.db --out o
exits 2 "no such database" score sharpness --db none.db --out o
check "and none is made" test ! -e none.db

video=$(sql t.db "SELECT path FROM artifact WHERE kind = 'video' LIMIT 1")
cp "o/$video" video.mp4
echo >>"o/$video"
exits 3 "a video that is not the cell's" score --command 'echo {\"a\":1}' --name two --db t.db --out o --json
json "is not scored" '.scored == 2 and .failed == 1'
says "and the message says how" 'modified after the measurement'
cp video.mp4 "o/$video"

cp t.db theirs.db
cp "o/$video" beside.mp4
changed theirs.db "UPDATE artifact SET path = '../beside.mp4' WHERE path = '$video'"
exits 3 "a file outside of the folder" score --command 'echo {\"a\":1}' --name two --db theirs.db --out o --force --json
json "is none of the cell's" '.scored == 2 and .failed == 1'
says "and the message says so" 'outside the out folder'

ref=$(sql t.db "SELECT artifact.path FROM artifact JOIN cell ON key = cell WHERE is_baseline AND artifact.kind = 'frames'")
other=$(sql t.db "SELECT artifact.path FROM artifact JOIN cell ON key = cell WHERE NOT is_baseline AND artifact.kind = 'frames' LIMIT 1")
cp "o/$ref" "o/$other"
exits 3 "frames of another cell" score colour_drift --db t.db --out o --json
json "fail that cell alone" '.scored == 2 and .failed == 1'
says "and the message says how" 'modified after the measurement'
rm "o/$ref"
exits 3 "no frames of the baseline" score temporal_flicker --db t.db --out o --json
json "fail all its cells" '.scored == 0 and .failed == 3'
