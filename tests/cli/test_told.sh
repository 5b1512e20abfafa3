#!/usr/bin/env bash
# Notes and warnings on stderr: results without rows, misspelt KVREEL_ variables, lossy video files. Also tests sizes in
# MiB, and that generate, compare and sheet agree about the same frames.
. tests/cli/lib.sh || exit 1

common_config "$work/q.yaml"
shared_sweep "$work/q.yaml" "$work/q.db" "$work/out"
cd "$work" || exit 1

exits 0 "a query without rows" query --db q.db "SELECT method FROM cell WHERE method = 'RTN_INT22'"
says "query notes on stderr that there are 0 rows" '0 rows'
exits 0 "a query without rows, as CSV" query --db q.db "SELECT method FROM cell WHERE method = 'RTN_INT22'" --csv
says "query --csv notes on stderr that there are 0 rows" '0 rows'
check "CSV output without rows has only a header line" test "$(wc -l <"$out")" -eq 1
exits 0 "a query with rows" query --db q.db "SELECT method FROM cell"
check "a query with rows prints nothing on stderr" test ! -s "$err"
exits 0 "a report table without rows" report --db q.db -t truth
says "report names the empty table and the database" "'truth' has no rows.*q\\.db"
exits 0 "the table of failures of a sweep without failures" report --db q.db -t failures
says "the message says that no cell failed" "'failures' has no rows: in q\.db no cell failed\$"
exits 0 "a report table with rows" report --db q.db
check "a report table with rows prints nothing on stderr" test ! -s "$err"

exits 0 "report --list" report --list
check "titles of tables begin in one column" test "$(cut -c 1-17 "$out" | grep -vc '  $')" -eq 0

exits 0 "query of a byte column as text" query --db q.db "SELECT method, max(peak_bytes) AS peak_bytes FROM cell WHERE is_baseline"
prints "the text shows bytes in MiB, with the unit in the header" '^method +peak_bytes \(MiB\)'
want=$(sql q.db "SELECT printf('%.6g', max(peak_bytes) / 1048576.0) FROM cell WHERE is_baseline")
prints "the value in MiB is right" "^BF16 +$want\$"
exits 0 "query of a byte column as Markdown" query --md --db q.db "SELECT at_peak FROM mem LIMIT 1"
prints "the Markdown header has the unit MiB" 'at_peak \(MiB\)'
exits 0 "query of a byte column as CSV" query --csv --db q.db "SELECT max(peak_bytes) AS peak_bytes FROM cell WHERE is_baseline"
prints "the CSV header has the column's name" '^peak_bytes'
prints "CSV has the value in bytes" "^$(sql q.db "SELECT max(peak_bytes) FROM cell WHERE is_baseline")"

if emulates "a sweep on a GPU"; then
    exits 2 "a sweep on a GPU is refused" run q.yaml --set device=cuda --db gpu.db
    says "the error names the options that select the CPU" "device cpu .--device cpu, or --set device=cpu in a sweep"
    exits 0 "a dry run of a sweep on a GPU" run q.yaml --set device=cuda --db gpu.db --dry-run
    prints "the text says that a run on this machine fails" '^A run on this machine fails\..*emulated kernels'
fi

KVREEL_JOSB=2 exits 0 "a command with a misspelt KVREEL_ variable" list models
says "a warning names the misspelt variable and the nearest one" 'environment variable KVREEL_JOSB; did you mean KVREEL_JOBS'
KVREEL_COLOUR_OF_THE_SKY=blue exits 0 "a command with an unknown KVREEL_ variable" list models
says "a warning names the unknown variable" 'KVREEL_COLOUR_OF_THE_SKY'
KVREEL_JOBS=2 KVREEL_DEB_LEVEL=0 exits 0 "a command with known KVREEL_ variables" list models
check "known variables cause no warning" test ! -s "$err"

# --- a rollout and its reference ------------------------------------------------------------

prompt='a large red disc drifts right over a plain blue background'
exits 0 "generate --reference" generate -m RTN_INT2 -p "$prompt" --frames 6 --reference -q -o g --json
a=$(jq -r .reference_frames_file "$out") b=$(jq -r .frames_file "$out") a4=$(jq -r .reference_video "$out") b4=$(jq -r .video "$out")
ssim=$(jq .ssim "$out")
check "generate --reference writes the reference's video" test -s "$a4"
exits 0 "compare of the two frame files" compare "$a" "$b" --json
json "compare and generate report the same SSIM" ".ssim == $ssim"
json "compare reports no codec for raw frames" 'has("reference_codec") or has("test_codec") | not'
check "compare of raw frames prints no warning" test ! -s "$err"
exits 0 "compare of the two MP4 videos" compare "$a4" "$b4" --json
check "compare warns that both videos were decoded from H.264" test "$(grep -c 'decoded from h264' "$err")" -eq 2
json "compare reports the codec of both videos" '.reference_codec == "h264" and .test_codec == "h264"'
exits 0 "compare of the two MP4 videos, as text" compare "$a4" "$b4"
says "the warning recommends raw frames" 'raw frames'
exits 0 "generate --reference of BF16" generate -m BF16 -p "$prompt" --frames 6 --reference -q -o g --json
json "BF16 with --reference writes one frame file" 'has("reference_frames_file") | not'

# --- sheet from a database ----------------------------------------------------------------

exits 0 "sheet of cells in a database" sheet s.png --db q.db --method RTN_INT2 --prompt mg02
says "sheet prints the prompt and its suite" 'prompt mg02 of suite moviegen-nano'
# The sheet of the database's cells must equal the sheet of the cells' frame files.
file_of() { # method prompt
    echo "out/$(sql q.db "SELECT a.path FROM cell JOIN artifact a ON a.cell = key WHERE kind = 'frames' AND jitter = 0 AND
        method = '$1' AND prompt_id = '$2'")"
}
ssim_of() { sql q.db "SELECT printf('%.4f', value) FROM metric JOIN cell ON key = cell WHERE metric.name = 'ssim' AND jitter = 0 AND
    method = '$1' AND prompt_id = '$2'"; }
exits 0 "sheet of frame files" sheet f.png "BF16  SSIM $(ssim_of BF16 mg02)=$(file_of BF16 mg02)" \
    "RTN_INT2  SSIM $(ssim_of RTN_INT2 mg02)=$(file_of RTN_INT2 mg02)"
check "sheets from cells and from files are equal" cmp s.png f.png
cp "$(file_of BF16 mg02)" a=1.safetensors
exits 0 "labels and file names may contain '='" sheet g.png "RTN_INT2 group=16=$(file_of RTN_INT2 mg02)" a=1.safetensors "frames=9=a=1.safetensors"
exits 0 "sheet --worst into a new folder" sheet new/er/w.png --db q.db -m RTN_INT2 -m RTN_INT4 --worst --columns 3
worst=$(sql q.db "SELECT prompt_id FROM cell JOIN metric m ON m.cell = key WHERE m.name = 'ssim' AND jitter = 0 AND
    method = 'RTN_INT2' ORDER BY value LIMIT 1")
says "sheet --worst selects the prompt of lowest SSIM" "prompt $worst of suite .*lowest SSIM"
exits 0 "sheet of evenly spaced frames" sheet e.png --db q.db -m RTN_INT2 -m RTN_INT4 --prompt "$worst" --columns 3
check "--worst shows other frames than evenly spaced ones" bash -c 'test -s new/er/w.png && ! cmp -s new/er/w.png e.png'
exits 2 "sheet refuses an unknown method" sheet n.png --db q.db -m RTN_INT22
says "the error suggests the nearest method" "did you mean 'RTN_INT2'"
exits 2 "sheet refuses an unknown prompt" sheet n.png --db q.db -m RTN_INT2 --prompt "mg'9%s"
says "the error quotes the prompt" "mg'9%s"
exits 2 "sheet --worst needs --db" sheet n.png "$a" --worst
exits 2 "sheet --db needs --method" sheet n.png --db q.db
exits 2 "sheet refuses --db with files" sheet n.png "$a" --db q.db -m RTN_INT2
exits 2 "sheet needs --db or files" sheet n.png
mkdir -p away/here && cp q.db away/
cd away/here || exit 1
exits 2 "sheet does not find the frame files of a moved database" sheet n.png --db ../q.db -m RTN_INT2
says "the error suggests --media" '--media'
exits 0 "sheet --media finds the frame files" sheet ../../m.png --db ../q.db -m RTN_INT2 --prompt mg02 --media ../../out
cd "$work" || exit 1
check "sheet --media gives the same picture" cmp s.png m.png
printf x >>"$(file_of RTN_INT2 mg02)"
exits 2 "sheet refuses a changed frame file" sheet n.png --db q.db -m RTN_INT2 --prompt mg02
says "the error says that the file changed after the measurement" 'modified after the measurement'
check "a refused sheet writes no picture" test ! -e n.png
