#!/usr/bin/env bash
# run, query, compare, report and plot on a sweep that takes seconds.
# long: some fifty cells.
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
check "whose time is a sample beside the cell's" test "$(sql t.db "SELECT count(*) FROM sample v \
    JOIN sample c USING (cell) WHERE v.kind = 'video' AND v.ns > 0 AND c.kind = 'cell' AND c.ns > 0")" -eq 6
exits 0 "the same again" "${run[@]}" --json
json "finished cells are skipped" '.cells == 6 and .ok == 0 and .skipped == 6'
exits 0 "--force" "${run[@]}" --force --json --filter 'method=RTN_INT4'
json "force measures again, the filter chooses (and what those are compared with)" \
    '.cells == 4 and .ok == 4'
exits 2 "a filter that is none" "${run[@]}" --filter 'methd~x'
exits 5 "a filter nothing passes" "${run[@]}" --filter 'method=BF16 & seed=987654'
exits 2 "a shard that is none" "${run[@]}" --shard 3/2

# A cell encodes its video last, and the cell fails if the encoding fails.
exits 0 "a video" run tiny.yaml --db w.db --out v --filter 'prompt=red & method=BF16'
video=$(sql w.db "SELECT path FROM artifact WHERE kind = 'video'")
rm "v/$video"
mkdir -p "v/$video/in-the-way"
exits 3 "a video that cannot be written" run tiny.yaml --db v.db --out v --filter 'prompt=red & method=BF16'
check "is a failed cell that names it" test \
    "$(sql v.db "SELECT count(*) FROM cell WHERE outcome = 'ERROR' AND reason GLOB '*$video*'")" -eq 1

# Sweeps with the same output folder do not overwrite each other's files.
all_there() { # DATABASE OUT: every file has the measured hash
    sqlite3 -readonly -separator '  ' "$1" "SELECT sha256, '$2/' || path FROM artifact" | sha256sum -c --quiet
}
exits 0 "a sweep" run tiny.yaml --db early.db --out shared -q
exits 0 "another one of other seeds, into the same folder" run tiny.yaml --db late.db --out shared --set seed=4 -q
check "leaves the first one's files alone" all_there early.db shared
check "and has its own" all_there late.db shared
check "by name the first one's" test "$(basename "$(readlink shared/by-name/red/RTN_INT4.mp4)")" = \
    "$(basename "$(sql early.db "SELECT artifact.path FROM artifact JOIN cell ON key = cell WHERE kind = 'video' AND method = 'RTN_INT4' AND prompt_id = 'red'")")"
check "and the other's under a name of its own" test "$(find shared/by-name/red -name 'RTN_INT4*.mp4' | wc -l)" -eq 2
check "frames, too, and every link leads to a file" test "$(find -L shared/by-name -type f -name 'RTN_INT4*.safetensors' | wc -l) \
$(find shared/by-name -type l | wc -l) $(find -L shared/by-name -type l | wc -l)" = '4 24 0'
mv shared moved
check "also when the folder is moved" test -s moved/by-name/green/BF16.mp4
mv moved shared
# The video exists when a metric program that takes it starts.
echo 'test -s "$1" && printf "{\"there\": 1}"' >see.sh
{ cat tiny.yaml; echo 'metrics: [psnr, {command: "sh ./see.sh {video}", name: see, scores: [there]}]'; } >see.yaml
exits 0 "a program that looks at videos" run see.yaml --db see.db --out see --filter 'prompt=red & method=BF16'
check "finds one" test "$(sql see.db "SELECT value FROM metric WHERE name = 'see.there'")" = 1.0

for i in 0 1 2; do
    "$kvreel" run tiny.yaml --db "s$i.db" --out o --shard $i/3 --json -q >"$out" 2>"$err"
    check "shard $i of 3 measures its cells, or says that it has none" \
        jq -e ".ok == .cells and ((.cells > 0) == ($? == 0))" "$out"
    if [ -e "s$i.db" ]; then sql "s$i.db" 'SELECT key FROM cell' >>keys; fi
done
check "the shards are the whole plan" test "$(sort -u keys | wc -l)" -eq 6
for bad in 30x m 5mm ''; do
    exits 2 "a budget of '$bad' is none" "${run[@]}" --budget "$bad"
    says "and what one is" "run: --budget '$bad': need a time such as 90s, 30m or 2h"
done
for bad in -5m 0 1e9h nan 1e999; do
    exits 2 "a budget of '$bad' is none" "${run[@]}" --budget "$bad"
    says "and the bounds" "run: --budget '$bad': need a time from 1s to 2777h"
done
for bad in 1 'width 1%' 'ci_width 0%' 'ci_width 1%%'; do
    exits 2 "a stop rule of '$bad' is none" "${run[@]}" --set "until=$bad" --set timing=true --set repeats=8
    says "and what one is" "expected 'ci_width N%'"
done
exits 2 "a stop rule without timing" "${run[@]}" --set 'until=ci_width 1%' --set repeats=8
exits 2 "a stop rule with nothing to leave out" "${run[@]}" --set 'until=ci_width 1%' --set timing=true --set repeats=6
exits 0 "parts weighed by what cells took" "${run[@]}" --shard 0/2 --costs t.db --dry-run --json
json "are parts" '.cells >= 2 and .cells < 6'
exits 2 "times from nowhere" "${run[@]}" --shard 0/2 --costs none.db --dry-run

exits 0 "query" query --db t.db 'SELECT method, ssim FROM summary'
prints "a row per method" '^RTN_INT2 '
exits 0 "query --json" query --db t.db --json \
    'SELECT method, compression, psnr_db, ssim FROM summary ORDER BY compression'
json "three rows" 'length == 3'
json "compression rises as bits fall" '[.[].method] == ["BF16", "RTN_INT4", "RTN_INT2"]'
json "quality falls with it" '.[1].ssim > .[2].ssim and .[1].psnr_db > .[2].psnr_db'
json "INT4 is harmed, and not destroyed" '.[1].ssim < 1 and .[1].ssim > 0.5'
exits 0 "query --csv" query --db t.db --csv 'SELECT method FROM summary'
prints "CSV has a header" '^method$'
exits 0 "query --md" query --db t.db --md 'SELECT method, ssim FROM summary'
prints "Markdown has a rule" '^\|-+'
exits 2 "bad SQL" query --db t.db 'SELEC 1'
says "says what SQLite says" 'syntax error'
before=$(sha256sum t.db)
exits 2 "SQL that writes" query --db t.db 'DELETE FROM cell'
check "the database is as it was" test "$before" = "$(sha256sum t.db)"
exits 2 "no such database" query --db none.db 'SELECT 1'
check "and none is made" test ! -e none.db

ref=$(find o/frames -name '*.safetensors' | sort | head -n 1)
exits 0 "compare with itself" compare "$ref" "$ref" --json
json "all frames are identical" '.frames == .identical_frames and .ssim == 1 and .frames > 0 and has("psnr_db")'
other=$(find o/frames -name '*.safetensors' | sort | sed -n 2p)
exits 4 "compare out of tolerance" compare "$ref" "$other" --min-psnr 99.9 --min-ssim 0.99999
exits 2 "compare with nothing" compare "$ref" absent.mp4
says "names the file" 'absent.mp4'
head -c 1000 "$ref" >cut.safetensors
exits 2 "compare with a truncated file" compare "$ref" cut.safetensors

for format in txt md csv latex json; do
    exits 0 "report --format $format" report --db t.db --table summary --format "$format"
    prints "it has the methods ($format)" 'RTN.*INT4'
done
exits 2 "report of an unknown table" report --db t.db --table summry
exits 0 "plot pareto" plot pareto --db t.db -o fig
check "the plot's script and data are there" bash -c 'ls fig/*.gp && ls fig/*.tsv'
if has gnuplot "the figure"; then
    check "the figure is there" bash -c 'ls fig/*.svg && ls fig/*.png'
fi
exits 2 "an unknown plot" plot parto --db t.db -o fig

exits 0 "the config in force" run tiny.yaml --dump-config --set frames=6..12+6 --set 'tags={t: [BF16]}'
prints "an override, and a range written out" '^frames: \[6, 12\] +# --set$'
prints "a line of the file" '^model: nano +# tiny\.yaml:2$'
prints "a default" '^timeout_s: 600 +# default$'
cp "$out" dumped.yaml
exits 0 "it can be read again" run dumped.yaml --dump-config
exits 0 "what is left for another time" run tiny.yaml --db limited.db --out o --limit 2 --json
json "two cells, and how many more" '.ok == 2 and .limited == 4'
exits 0 "an estimate from history" run tiny.yaml --db t.db --dry-run --force --json
json "time, memory and disk" '.estimate_s > 0 and .memory_bytes > 1e6 and .disk_bytes > 1e3'
json "by method" '[.methods[] | [.method, .to_run]] == [["BF16", 2], ["RTN_INT4", 2], ["RTN_INT2", 2]]'
exits 0 "nothing is stale" run tiny.yaml --db t.db --out o --stale --json
json "for the code is the same" '.ok == 0 and .stale == 0'
sqlite3 t.db "UPDATE session SET code = 'before'"
exits 0 "other code measured these" run tiny.yaml --db t.db --out o --dry-run --json
json "which is said" '.stale == 6 and .to_run == 0'
exits 0 "of nothing to run" run tiny.yaml --db t.db --out o --dry-run
check "nothing is estimated" bash -c "! grep -qi 'Estimate from earlier cells' '$out'"
exits 0 "and measured again when that is asked" run tiny.yaml --db t.db --out o --stale --json
json "all of them" '.ok == 6'
exits 3 "a limit of what a device may hold, here the CPU's tagged memory" run tiny.yaml --db l.db --out l \
    --set device_mib=1 --set 'methods=[BF16]' --filter prompt=red
check "is out of the device's memory, and says the limit" test "$(sql l.db "SELECT count(*) FROM cell \
    WHERE outcome = 'OOM_DEVICE' AND reason GLOB '*bytes for * exceed the limit of 1048576 bytes'")" -eq 1
exits 0 "with more it is the same cell, tried again" run tiny.yaml --db l.db --out l --set device_mib=4000 \
    --set 'methods=[BF16]' --filter prompt=red --retry failed:OOM_DEVICE --json
json "and fits" '.ok == 1 and .cells == 1'
exits 2 "an empty list of failures to retry" run tiny.yaml --db l.db --out l --retry failed:,
says "with what may be there" "retry 'failed:,': need failed, or failed:TYPE,"
if emulates "an emulated device"; then
    exits 2 "a device of another build" run tiny.yaml --db d.db --out o --set device=cuda
    says "says how to build it" 'make CUDA=1'
    # The device has less memory than one layer's weights.
    export KVREEL_EMULATED_DEVICES=1 KVREEL_LOCKS=$work KVREEL_NVML=$work/none.so
    KVREEL_EMULATED_BYTES=1000 exits 3 "a device that is too small" run tiny.yaml --db d.db --out o \
        --set device=emulated
    check "is an outcome of its own" test \
        "$(sql d.db "SELECT count(*) FROM cell WHERE outcome = 'OOM_DEVICE' AND reason GLOB \
           '*bytes requested, but only * of 1000 bytes are free*' AND backend = 'emulated'")" -eq 2
    check "the session names the device" test "$(sql d.db 'SELECT driver FROM session')" = 'emulated device'
    check "and why nobody tells of its clocks" test \
        "$(sql d.db "SELECT count(*) FROM about WHERE name = 'nvml' AND value GLOB 'no NVML: *none.so*'")" -eq 1
    # A cell of two chunks on the emulated device and on the CPU differs only by BF16 rounding. The model has one
    # small layer and a decoder, because emulated threads are slow.
    one=(run tiny.yaml --set "model=$root/tests/fixtures/wan_folder" --set 'methods=[BF16]' --filter prompt=red)
    export KVREEL_NVML=${kvreel%/*}/tests/plugins/fake_nvml.so
    KVR_TEST_GPU='1980 95 40 80 1' exits 0 "a cell on an emulated device" "${one[@]}" --db e.db --out e \
        --set device=emulated
    unset KVREEL_EMULATED_DEVICES KVREEL_LOCKS KVREEL_NVML
    check "its times do not count, its bytes do" test "$(sql e.db "SELECT count(*) FROM cell WHERE \
        verdict || verdict_codes = 'NOISYEMULATED' AND backend = 'emulated' AND device_bytes >= peak_bytes")" -eq 1
    check "a GPU that is hot and shared is seen" test "$(sql e.db "SELECT count(*) FROM cell JOIN watch ON key = cell \
        WHERE time_codes GLOB 'UNTIMED*GPU_SHARED GPU_SLOWED EMULATED*' AND watch.name = 'gpu_celsius' AND value = 95")" -eq 1
    check "and the session says what tells of it" test "$(sql e.db "SELECT group_concat(value, '; ') FROM (SELECT * \
        FROM about WHERE name IN ('gpus', 'nvml') ORDER BY name)")" = 'emulated-0: memory 3201 MHz, ECC on; NVML of driver 999.1'
    exits 0 "the same cell on the CPU" "${one[@]}" --db e.db --out e
    check "is another cell" test "$(sql e.db "SELECT count(DISTINCT key) FROM cell WHERE outcome = 'OK'")" -eq 2
    frames() { sql e.db "SELECT 'e/' || artifact.path FROM artifact JOIN cell ON key = cell WHERE artifact.kind = 'frames' AND backend = '$1'"; }
    exits 0 "compare the two" compare "$(frames cpu)" "$(frames emulated)" --json
    json "they agree" '.psnr_db > 40'
fi
"$kvreel" run tiny.yaml --db two.db --out o -q & first=$!
for _ in $(seq 100); do [ -s two.db.lock ] && break; sleep 0.05; done
exits 1 "a second run on one database" run tiny.yaml --db two.db --out o
says "names the first" "another run is writing to this database, process $first "
wait $first
check "which is not disturbed" test "$(sql two.db "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -eq 6
