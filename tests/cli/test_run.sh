#!/usr/bin/env bash
# run, query, compare, report and plot on a sweep that takes seconds.
# long: measures some fifty cells.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
run=(run tiny.yaml --db t.db --out o --jobs 2)

exits 0 "dry run" "${run[@]}" --dry-run --json
json "dry run counts the cells" '.cells == 6 and .ok == 0'
check "dry run leaves no database" test ! -e t.db
exits 0 "run" "${run[@]}" --json
json "every cell is ok" '.cells == 6 and .ok == 6 and .failed == 0 and .skipped == 0'
check "every cell has its video" test "$(find o/videos -name '*.mp4' -size +0 | wc -l)" -eq 6
check "the time of encoding the video is a sample of its cell" test "$(sql t.db "SELECT count(*) FROM sample v \
    JOIN sample c USING (cell) WHERE v.kind = 'video' AND v.ns > 0 AND c.kind = 'cell' AND c.ns > 0")" -eq 6
exits 0 "the same sweep again" "${run[@]}" --json
json "finished cells are skipped" '.cells == 6 and .ok == 0 and .skipped == 6'
exits 0 "--force" "${run[@]}" --force --json --filter 'method=RTN_INT4'
json "--force measures the selected cells and their baselines again" \
    '.cells == 4 and .ok == 4'
exits 2 "an invalid filter is refused" "${run[@]}" --filter 'methd~x'
exits 5 "a filter that selects no cell" "${run[@]}" --filter 'method=BF16 & seed=987654'
exits 2 "an invalid shard is refused" "${run[@]}" --shard 3/2

# A cell encodes its video last, and the cell fails if the encoding fails.
exits 0 "a sweep of one cell with a video" run tiny.yaml --db w.db --out v --filter 'prompt=red & method=BF16'
video=$(sql w.db "SELECT path FROM artifact WHERE kind = 'video'")
rm "v/$video"
mkdir -p "v/$video/in-the-way"
exits 3 "a video that cannot be written" run tiny.yaml --db v.db --out v --filter 'prompt=red & method=BF16'
check "the cell fails, and its reason names the video" test \
    "$(sql v.db "SELECT count(*) FROM cell WHERE outcome = 'ERROR' AND reason GLOB '*$video*'")" -eq 1

# Sweeps with the same output folder do not overwrite each other's files.
all_there() { # DATABASE OUT: every file has the measured hash
    sqlite3 -readonly -separator '  ' "$1" "SELECT sha256, '$2/' || path FROM artifact" | sha256sum -c --quiet
}
exits 0 "a sweep into a shared folder" run tiny.yaml --db early.db --out shared -q
exits 0 "a sweep with another seed into the same folder" run tiny.yaml --db late.db --out shared --set seed=4 -q
check "the files of the first sweep are unchanged" all_there early.db shared
check "the files of the second sweep have their hashes" all_there late.db shared
check "the link in by-name leads to the video of the first sweep" test "$(basename "$(readlink shared/by-name/red/RTN_INT4.mp4)")" = \
    "$(basename "$(sql early.db "SELECT artifact.path FROM artifact JOIN cell ON key = cell WHERE kind = 'video' AND method = 'RTN_INT4' AND prompt_id = 'red'")")"
check "the link to the video of the second sweep has its own name" test "$(find shared/by-name/red -name 'RTN_INT4*.mp4' | wc -l)" -eq 2
check "by-name also links frames, and no link is broken" test "$(find -L shared/by-name -type f -name 'RTN_INT4*.safetensors' | wc -l) \
$(find shared/by-name -type l | wc -l) $(find -L shared/by-name -type l | wc -l)" = '4 24 0'
mv shared moved
check "the links work after the folder was moved" test -s moved/by-name/green/BF16.mp4
mv moved shared
# kvreel encodes a cell's video before it starts a metric program that reads the video.
echo 'test -s "$1" && printf "{\"there\": 1}"' >see.sh
{ cat tiny.yaml; echo 'metrics: [psnr, {command: "sh ./see.sh {video}", name: see, scores: [there]}]'; } >see.yaml
exits 0 "a sweep with a metric program that reads videos" run see.yaml --db see.db --out see --filter 'prompt=red & method=BF16'
check "the metric program finds the video" test "$(sql see.db "SELECT value FROM metric WHERE name = 'see.there'")" = 1.0

for i in 0 1 2; do
    "$kvreel" run tiny.yaml --db "s$i.db" --out o --shard $i/3 --json -q >"$out" 2>"$err"
    check "shard $i of 3 measures its cells, or says that it has none" \
        jq -e ".ok == .cells and ((.cells > 0) == ($? == 0))" "$out"
    if [ -e "s$i.db" ]; then sql "s$i.db" 'SELECT key FROM cell' >>keys; fi
done
check "the three shards together are all cells" test "$(sort -u keys | wc -l)" -eq 6
for bad in 30x m 5mm 1.5 ''; do
    exits 2 "a budget of '$bad' is refused" "${run[@]}" --budget "$bad"
    says "the error for '$bad' has the syntax of a time" "run: --budget '$bad': need a time such as 90s, 30m or 2h"
    exits 2 "a time limit of '$bad' is refused" "${run[@]}" --timeout "$bad"
    says "the error for time limit '$bad' has the syntax of a time" "run: --timeout '$bad': need a time such as 90s, 30m or 2h"
done
exits 2 "a time limit above a week is refused" "${run[@]}" --timeout 169h
says "the error has the limits of a time limit" "run: --timeout '169h': need a time from 0s to 168h"
for bad in -5m 0 1e9h nan 1e999; do
    exits 2 "a budget of '$bad' is out of range" "${run[@]}" --budget "$bad"
    says "the error for '$bad' has the limits of a time" "run: --budget '$bad': need a time from 1s to 2777h"
done
for bad in 1 'width 1%' 'ci_width 0%' 'ci_width 1%%'; do
    exits 2 "the stop rule '$bad' is refused" "${run[@]}" --set "until=$bad" --set timing=true --set repeats=8
    says "the error for '$bad' has the syntax of a stop rule" "expected 'ci_width N%'"
done
exits 2 "a stop rule without timing" "${run[@]}" --set 'until=ci_width 1%' --set repeats=8
exits 2 "a stop rule with too few repeats is refused" "${run[@]}" --set 'until=ci_width 1%' --set timing=true --set repeats=6
exits 0 "a shard weighted by earlier times" "${run[@]}" --shard 0/2 --costs t.db --dry-run --json
json "the shard has some of the cells" '.cells >= 2 and .cells < 6'
exits 2 "--costs refuses a missing database" "${run[@]}" --shard 0/2 --costs none.db --dry-run

exits 0 "query" query --db t.db 'SELECT method, ssim FROM summary'
prints "query prints a row per method" '^RTN_INT2 '
exits 0 "query --json" query --db t.db --json \
    'SELECT method, compression, psnr_db, ssim FROM summary ORDER BY compression'
json "query --json prints three rows" 'length == 3'
json "compression rises as bits fall" '[.[].method] == ["BF16", "RTN_INT4", "RTN_INT2"]'
json "quality falls as compression rises" '.[1].ssim > .[2].ssim and .[1].psnr_db > .[2].psnr_db'
json "the SSIM of INT4 is between 0.5 and 1" '.[1].ssim < 1 and .[1].ssim > 0.5'
exits 0 "query --csv" query --db t.db --csv 'SELECT method FROM summary'
prints "--csv prints a header" '^method$'
exits 0 "query --md" query --db t.db --md 'SELECT method, ssim FROM summary'
prints "--md prints a rule" '^\|-+'
exits 2 "query refuses invalid SQL" query --db t.db 'SELEC 1'
says "the error has the message of SQLite" 'syntax error'
before=$(sha256sum t.db)
exits 2 "query refuses SQL that writes" query --db t.db 'DELETE FROM cell'
check "the refused SQL does not change the database" test "$before" = "$(sha256sum t.db)"
exits 2 "query refuses a missing database" query --db none.db 'SELECT 1'
check "query creates no database" test ! -e none.db

ref=$(find o/frames -name '*.safetensors' | sort | head -n 1)
exits 0 "compare with itself" compare "$ref" "$ref" --json
json "all frames are identical" '.frames == .identical_frames and .ssim == 1 and .frames > 0 and has("psnr_db")'
other=$(find o/frames -name '*.safetensors' | sort | sed -n 2p)
exits 4 "compare exits with 4 below --min-psnr" compare "$ref" "$other" --min-psnr 99.9 --min-ssim 0.99999
exits 2 "compare refuses a missing file" compare "$ref" absent.mp4
says "the error names the missing file" 'absent.mp4'
head -c 1000 "$ref" >cut.safetensors
exits 2 "compare refuses a truncated file" compare "$ref" cut.safetensors

for format in txt md csv latex json; do
    exits 0 "report --format $format" report --db t.db --table summary --format "$format"
    prints "the report has the methods ($format)" 'RTN.*INT4'
done
exits 2 "report refuses an unknown table" report --db t.db --table summry
exits 0 "plot pareto" plot pareto --db t.db -o fig
check "the script and data of the figure are written" bash -c 'ls fig/*.gp && ls fig/*.tsv'
if has gnuplot "the figure is drawn"; then
    check "the figure is drawn" bash -c 'ls fig/*.svg && ls fig/*.png'
fi
exits 2 "plot refuses an unknown figure" plot parto --db t.db -o fig

exits 0 "run --dump-config" run tiny.yaml --dump-config --set frames=6..12+6 --set 'tags={t: [BF16]}'
prints "--dump-config expands a range and names --set" '^frames: \[6, 12\] +# --set$'
prints "--dump-config names file and line" '^model: nano +# tiny\.yaml:2$'
prints "--dump-config marks defaults" '^timeout_s: 600 +# default$'
cp "$out" dumped.yaml
exits 0 "the dumped config is valid" run dumped.yaml --dump-config
exits 0 "a run with --limit 2" run tiny.yaml --db limited.db --out o --limit 2 --json
json "two cells run, and four remain" '.ok == 2 and .limited == 4'
exits 0 "a dry run after earlier cells were timed" run tiny.yaml --db t.db --dry-run --force --json
json "it estimates time, memory and disk" '.estimate_s > 0 and .memory_bytes > 1e6 and .disk_bytes > 1e3'
json "it counts the cells of each method" '[.methods[] | [.method, .to_run]] == [["BF16", 2], ["RTN_INT4", 2], ["RTN_INT2", 2]]'
exits 0 "run --stale with unchanged code" run tiny.yaml --db t.db --out o --stale --json
json "with unchanged code, no cell is stale" '.ok == 0 and .stale == 0'
sqlite3 t.db "UPDATE session SET code = 'before'"
exits 0 "a dry run after the code changed" run tiny.yaml --db t.db --out o --dry-run --json
json "all cells are stale, and none is to run" '.stale == 6 and .to_run == 0'
exits 0 "a dry run without cells to run" run tiny.yaml --db t.db --out o --dry-run
check "without cells to run, there is no estimate" bash -c "! grep -qi 'Estimate from earlier cells' '$out'"
exits 0 "run --stale after the code changed" run tiny.yaml --db t.db --out o --stale --json
json "all stale cells are measured again" '.ok == 6'
exits 3 "a cell that exceeds device_mib fails" run tiny.yaml --db l.db --out l \
    --set device_mib=1 --set 'methods=[BF16]' --filter prompt=red
check "its outcome is OOM_DEVICE, with the limit" test "$(sql l.db "SELECT count(*) FROM cell \
    WHERE outcome = 'OOM_DEVICE' AND reason GLOB '*bytes for * exceed the limit of 1048576 bytes'")" -eq 1
exits 0 "the cell is tried again with a larger limit" run tiny.yaml --db l.db --out l --set device_mib=4000 \
    --set 'methods=[BF16]' --filter prompt=red --retry failed:OOM_DEVICE --json
json "with the larger limit, the cell is OK" '.ok == 1 and .cells == 1'
exits 2 "an empty type of failures to retry is refused" run tiny.yaml --db l.db --out l --retry failed:,
says "the error has the syntax of --retry" "retry 'failed:,': need failed, or failed:TYPE,"
if emulates "an emulated device"; then
    exits 2 "device=cuda is refused in a build without CUDA" run tiny.yaml --db d.db --out o --set device=cuda
    says "the error names make CUDA=1" 'make CUDA=1'
    # The emulated device has less memory than the weights of one layer.
    export KVREEL_EMULATED_DEVICES=1 KVREEL_LOCKS=$work KVREEL_NVML=$work/none.so
    KVREEL_EMULATED_BYTES=1000 exits 3 "a device with too little memory" run tiny.yaml --db d.db --out o \
        --set device=emulated
    check "the outcome of both cells is OOM_DEVICE" test \
        "$(sql d.db "SELECT count(*) FROM cell WHERE outcome = 'OOM_DEVICE' AND reason GLOB \
           '*bytes requested, but only * of 1000 bytes are free*' AND backend = 'emulated'")" -eq 2
    check "the session names the device" test "$(sql d.db 'SELECT driver FROM session')" = 'emulated device'
    check "the session says why there are no GPU clocks" test \
        "$(sql d.db "SELECT count(*) FROM about WHERE name = 'nvml' AND value GLOB 'no NVML: *none.so*'")" -eq 1
    # A cell of two chunks on the emulated device and on the CPU differs only by BF16 rounding. The model has one
    # small layer and a decoder, because emulated threads are slow.
    one=(run tiny.yaml --set "model=$root/tests/fixtures/wan_folder" --set 'methods=[BF16]' --filter prompt=red)
    export KVREEL_NVML=${kvreel%/*}/tests/plugins/fake_nvml.so
    KVR_TEST_GPU='1980 95 40 80 1' exits 0 "a cell on an emulated device" "${one[@]}" --db e.db --out e \
        --set device=emulated
    unset KVREEL_EMULATED_DEVICES KVREEL_LOCKS KVREEL_NVML
    check "times on an emulated device do not count, but bytes do" test "$(sql e.db "SELECT count(*) FROM cell WHERE \
        verdict || verdict_codes = 'NOISYEMULATED' AND backend = 'emulated' AND device_bytes >= peak_bytes")" -eq 1
    check "a hot and shared GPU is recorded" test "$(sql e.db "SELECT count(*) FROM cell JOIN watch ON key = cell \
        WHERE time_codes GLOB 'UNTIMED*GPU_SHARED GPU_SLOWED EMULATED*' AND watch.name = 'gpu_celsius' AND value = 95")" -eq 1
    check "the session names the GPU and NVML" test "$(sql e.db "SELECT group_concat(value, '; ') FROM (SELECT * \
        FROM about WHERE name IN ('gpus', 'nvml') ORDER BY name)")" = 'emulated-0: memory 3201 MHz, ECC on; NVML of driver 999.1'
    exits 0 "the same cell on the CPU" "${one[@]}" --db e.db --out e
    check "the cell on the CPU has another key" test "$(sql e.db "SELECT count(DISTINCT key) FROM cell WHERE outcome = 'OK'")" -eq 2
    frames() { sql e.db "SELECT 'e/' || artifact.path FROM artifact JOIN cell ON key = cell WHERE artifact.kind = 'frames' AND backend = '$1'"; }
    exits 0 "compare CPU and emulated device" compare "$(frames cpu)" "$(frames emulated)" --json
    json "CPU and emulated device agree to 40 dB" '.psnr_db > 40'
fi
"$kvreel" run tiny.yaml --db two.db --out o -q & first=$!
for _ in $(seq 100); do [ -s two.db.lock ] && break; sleep 0.05; done
exits 1 "a second run on one database is refused" run tiny.yaml --db two.db --out o
says "the error names the process of the first run" "another run is writing to this database, process $first "
wait $first
check "the first run is not disturbed" test "$(sql two.db "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -eq 6
