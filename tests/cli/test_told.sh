#!/usr/bin/env bash
# Messages on stderr: no rows, losses of a video encoder, a misspelt variable, sizes in MiB. The test also covers
# files that one command writes and another reads.
. tests/cli/lib.sh || exit 1

common_config "$work/q.yaml"
shared_sweep "$work/q.yaml" "$work/q.db" "$work/out"
cd "$work" || exit 1

exits 0 "a query without rows" query --db q.db "SELECT method FROM cell WHERE method = 'RTN_INT22'"
says "says so" '0 rows'
exits 0 "as CSV" query --db q.db "SELECT method FROM cell WHERE method = 'RTN_INT22'" --csv
says "too" '0 rows'
check "its data are the header alone" test "$(wc -l <"$out")" -eq 1
exits 0 "a query with rows" query --db q.db "SELECT method FROM cell"
check "says nothing" test ! -s "$err"
exits 0 "a table without rows" report --db q.db -t truth
says "says so, with its name and the database" "'truth' has no rows.*q\\.db"
exits 0 "a table with rows" report --db q.db
check "says nothing more" test ! -s "$err"

exits 0 "bytes for people" query --db q.db "SELECT method, max(peak_bytes) AS peak_bytes FROM cell WHERE is_baseline"
prints "are MiB, and the head says so" '^method +peak \(MiB\)'
want=$(sql q.db "SELECT printf('%.6g', max(peak_bytes) / 1048576.0) FROM cell WHERE is_baseline")
prints "with the right value" "^BF16 +$want\$"
exits 0 "in Markdown" query --md --db q.db "SELECT at_peak FROM mem LIMIT 1"
prints "too" 'at_peak \(MiB\)'
exits 0 "bytes for programs" query --csv --db q.db "SELECT max(peak_bytes) AS peak_bytes FROM cell WHERE is_baseline"
prints "keep their name" '^peak_bytes'
prints "and their value" "^$(sql q.db "SELECT max(peak_bytes) FROM cell WHERE is_baseline")"

KVREEL_JOSB=2 exits 0 "a misspelt variable" list models
says "is named, with the nearest" 'environment variable KVREEL_JOSB; did you mean KVREEL_JOBS'
KVREEL_COLOUR_OF_THE_SKY=blue exits 0 "a variable that is like none" list models
says "is named, too" 'KVREEL_COLOUR_OF_THE_SKY'
KVREEL_JOBS=2 KVREEL_DEB_LEVEL=0 exits 0 "those that are read, one by make deb" list models
check "are not" test ! -s "$err"

# --- a rollout and its reference ------------------------------------------------------------

prompt='a large red disc drifts right over a plain blue background'
exits 0 "generate with a reference" generate -m RTN_INT2 -p "$prompt" --frames 6 --reference -q -o g --json
a=$(jq -r .reference_frames_file "$out") b=$(jq -r .frames_file "$out") a4=$(jq -r .reference_video "$out") b4=$(jq -r .video "$out")
ssim=$(jq .ssim "$out")
check "the reference's video is kept" test -s "$a4"
exits 0 "compare of the two files" compare "$a" "$b" --json
json "has the numbers that generate told" ".ssim == $ssim"
json "and no codec" 'has("reference_codec") or has("test_codec") | not'
check "nothing to warn of" test ! -s "$err"
exits 0 "compare of the videos" compare "$a4" "$b4" --json
check "warns of both" test "$(grep -c 'decoded from h264' "$err")" -eq 2
json "and has the codec" '.reference_codec == "h264" and .test_codec == "h264"'
exits 0 "as text" compare "$a4" "$b4"
says "it warns, too" 'raw frames'
exits 0 "generate of the baseline with a reference" generate -m BF16 -p "$prompt" --frames 6 --reference -q -o g --json
json "keeps one file" 'has("reference_frames_file") | not'

# --- sheet from a database ----------------------------------------------------------------

exits 0 "sheet of cells" sheet s.png --db q.db --method RTN_INT2 --prompt mg02
says "tells the prompt" 'prompt mg02 of suite moviegen-nano'
# The picture equals the one made from the files.
file_of() { # method prompt
    echo "out/$(sql q.db "SELECT a.path FROM cell JOIN artifact a ON a.cell = key WHERE kind = 'frames' AND jitter = 0 AND
        method = '$1' AND prompt_id = '$2'")"
}
ssim_of() { sql q.db "SELECT printf('%.4f', value) FROM metric JOIN cell ON key = cell WHERE metric.name = 'ssim' AND jitter = 0 AND
    method = '$1' AND prompt_id = '$2'"; }
exits 0 "sheet of files" sheet f.png "BF16  SSIM $(ssim_of BF16 mg02)=$(file_of BF16 mg02)" \
    "RTN_INT2  SSIM $(ssim_of RTN_INT2 mg02)=$(file_of RTN_INT2 mg02)"
check "is the same picture" cmp s.png f.png
cp "$(file_of BF16 mg02)" a=1.safetensors
exits 0 "labels and files with '='" sheet g.png "RTN_INT2 group=16=$(file_of RTN_INT2 mg02)" a=1.safetensors "frames=9=a=1.safetensors"
exits 0 "sheet of the worst, in a folder that is not there" sheet new/er/w.png --db q.db -m RTN_INT2 -m RTN_INT4 --worst --columns 3
worst=$(sql q.db "SELECT prompt_id FROM cell JOIN metric m ON m.cell = key WHERE m.name = 'ssim' AND jitter = 0 AND
    method = 'RTN_INT2' ORDER BY value LIMIT 1")
says "takes the prompt of lowest SSIM" "prompt $worst of suite .*lowest SSIM"
exits 0 "evenly spread ones" sheet e.png --db q.db -m RTN_INT2 -m RTN_INT4 --prompt "$worst" --columns 3
check "are others" bash -c 'test -s new/er/w.png && ! cmp -s new/er/w.png e.png'
exits 2 "a method that is not there" sheet n.png --db q.db -m RTN_INT22
says "names the nearest" "did you mean 'RTN_INT2'"
exits 2 "a prompt that is not there" sheet n.png --db q.db -m RTN_INT2 --prompt "mg'9%s"
says "is named" "mg'9%s"
exits 2 "--worst without --db" sheet n.png "$a" --worst
exits 2 "--db without --method" sheet n.png --db q.db
exits 2 "--db with files" sheet n.png "$a" --db q.db -m RTN_INT2
exits 2 "neither" sheet n.png
mkdir -p away/here && cp q.db away/
cd away/here || exit 1
exits 2 "where the files are not" sheet n.png --db ../q.db -m RTN_INT2
says "--media is offered" '--media'
exits 0 "and does" sheet ../../m.png --db ../q.db -m RTN_INT2 --prompt mg02 --media ../../out
cd "$work" || exit 1
check "the same picture again" cmp s.png m.png
printf x >>"$(file_of RTN_INT2 mg02)"
exits 2 "a file that is not what was measured" sheet n.png --db q.db -m RTN_INT2 --prompt mg02
says "is refused" 'modified after the measurement'
check "and nothing was drawn" test ! -e n.png
