#!/usr/bin/env bash
# A small random model in Wan 2.1's file formats: text embeddings, sweeps, decoding, and predictions of cost.
. tests/cli/lib.sh || exit 1
folder=$root/tests/fixtures/wan_folder

if has "$python" "make-tiny-wan.py generates tests/fixtures/wan_folder"; then
    check "make-tiny-wan.py generates tests/fixtures/wan_folder" \
        bash -c "'$python' tools/fixtures/make-tiny-wan.py --small '$work/again' && diff -r '$work/again' '$folder'"
fi
printf 'a small dog runs\n\n  \nsalt &amp; pepper in the rain\n' >"$work/prompts.txt"
exits 0 "embed: a text file with one prompt per line" embed -p "$work/prompts.txt" --model "$folder" -o "$work/pack.safetensors" -q --json
json "embed: the JSON counts prompts and tokens" '.prompts == 2 and .dim == 32 and .tokens > 8 and .cut == 0'
head -c 4000 "$work/pack.safetensors" | tr -d '\0' >"$work/head"
check "embed: the pack numbers its prompts p0001 and p0002" grep -q '"p0001".*"p0002"' "$work/head"
check "embed: the pack has its encoder's hash" grep -q 'encoder_sha256' "$work/head"
exits 0 "embed: a suite" embed -p configs/suites/moviegen-nano.yaml --model "$folder" -o "$work/suite.safetensors" -q --json
json "embed: the pack has all prompts of the suite" ".prompts == $(grep -c '{id:' configs/suites/moviegen-nano.yaml)"
exits 0 "embed: --encoder and --tokenizer instead of --model" embed -p "$work/prompts.txt" --encoder "$folder/models_t5_umt5-xxl-enc-bf16.pth" \
    --tokenizer "$folder/google/umt5-xxl" -o "$work/pack2.safetensors" -q
check "embed: --encoder and --tokenizer give the same pack" cmp "$work/pack.safetensors" "$work/pack2.safetensors"
exits 0 "embed: on the emulated device" embed -p "$work/prompts.txt" --model "$folder" -o "$work/there.safetensors" -q --json --device emulated
json "embed: the device's pack has two prompts" '.prompts == 2 and .dim == 32'
# rows FILE: prints the pack's tensors, F32 in the file's order, without its header.
rows() { od -An -v -tf4 -w4 -j $((8 + $(od -An -td8 -N8 "$1"))) "$1"; }
check "embed: device and CPU differ by rounding, at most 1e-5" test "$(paste <(rows "$work/pack.safetensors") <(rows "$work/there.safetensors") |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-5)) far++; n += d > 0 } END { print (NR > 256 && n > 0 && !far) }')" = 1
exits 2 "embed: an unknown device is refused" embed -p "$work/prompts.txt" --model "$folder" -o "$work/x.safetensors" --device gpu
exits 0 "embed: --max-tokens 3" embed -p "$work/prompts.txt" --model "$folder" --max-tokens 3 -o "$work/cut.safetensors" -q
check "embed: truncated texts are reported" grep -q 'truncated' "$out"
exits 2 "embed: a model without a text encoder is refused" embed -p "$work/prompts.txt" --model models/nano -o "$work/x.safetensors"
says "embed: the error names the missing file" 'models_t5_umt5-xxl-enc-bf16.pth'
exits 2 "embed: a tokenizer of another model is refused" embed -p "$work/prompts.txt" --encoder tests/fixtures/wan_real/umt5.safetensors \
    --tokenizer tests/fixtures/wan_real/spiece.model -o "$work/x.safetensors"
says "embed: the error states both vocabulary sizes" '1000 pieces, .*512'
printf 'bad \xff text\n' >"$work/bad.txt"
exits 2 "embed: text that is not UTF-8 is refused" embed -p "$work/bad.txt" --model "$folder" -o "$work/x.safetensors"
says "embed: the error names the prompt" "p0001.*UTF-8"
check "embed: a refused text writes no pack" test ! -e "$work/x.safetensors"

# A run from a prompt's text: tokens, embeddings, 9 latent frames and 33 pixel frames.
cat >"$work/text.yaml" <<YAML
name: wan-small
model: $folder
prompts:
  - {id: p0001, text: a small dog runs}
methods: [BF16, RTN_INT4, KIVI_INT2]
frames: 9
seed: 5
metrics: [psnr, ssim]
YAML
exits 0 "run from a prompt's text" run "$work/text.yaml" --db "$work/a.db" --out "$work/a" -q --json
json "run from text: three cells are ok" '.ok == 3 and .failed == 0'
check "PSNR covers 33 pixel frames" test "$(sql "$work/a.db" "SELECT DISTINCT n FROM metric WHERE name = 'psnr'")" = 33
check "quantization changes the pixels: PSNR is 10 to 100 dB" test "$(sql "$work/a.db" "SELECT min(value) > 10 AND max(value) < 100 FROM metric
    JOIN cell ON cell = key WHERE metric.name = 'psnr' AND method <> 'BF16'")" = 1
check "each cell has an SSIM" test "$(sql "$work/a.db" "SELECT count(*) FROM metric WHERE name = 'ssim' AND value > 0.1")" = 3
check "each cell has a sample of its decoding time" test "$(sql "$work/a.db" "SELECT count(*) FROM sample
    WHERE kind = 'pixels' AND ns > 0")" = 3
check "each cell has the text encoder's hash" test "$(sql "$work/a.db" "SELECT count(*) FROM cell
    WHERE length(json_extract(spec, '$.encoder.sha256')) = 64")" = 3
check "each cell has an MP4 video" test "$(find "$work/a/videos" -name '*.mp4' | wc -l)" = 3
exits 0 "report of the three cells" report --db "$work/a.db"
check "the report has the three methods" test "$(grep -cE '^(BF16|RTN_INT4|KIVI_INT2) ' "$out")" = 3
exits 0 "a second run from text" run "$work/text.yaml" --db "$work/a.db" --out "$work/a" -q --json
json "the second run measures no cell" '.to_run == 0 and .done_before == 3'

# The same run with fewer pixels, on the CPU and on the emulated device. Text encoder, network and decoder run there one
# after the other.
mkdir "$work/little"
cp -r "$folder"/. "$work/little/"
jq '.latent_height = 2 | .latent_width = 2' "$folder/config.json" >"$work/little/config.json"
sed -e "s|^model: .*|model: $work/little|" -e 's/^frames: .*/frames: 3/' -e 's/^methods: .*/methods: [BF16]/' "$work/text.yaml" >"$work/little.yaml"
for device in cpu emulated; do
    exits 0 "run of the smaller model on $device" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set device=$device
    says "$device: the text encoder runs first" 'text encoder: 1 of 1 prompts'
done
mkdir "$work/blocked"
touch "$work/blocked/embeddings"
exits 1 "run fails if no pack can be written" run "$work/little.yaml" --db "$work/blocked.db" --out "$work/blocked" -q
check "the session stores the state failed and the error" test "$(sql "$work/blocked.db" "SELECT group_concat(value, '|')
    FROM (SELECT * FROM about WHERE name IN ('state', 'error') ORDER BY name DESC)" | grep -c '^failed|.*embeddings')" = 1
check "each device has its own pack" test "$(find "$work/e/embeddings" -name '*.safetensors' | wc -l)" = 2
check "each device generates 9 pixel frames" test "$(sql "$work/e.db" "SELECT group_concat(n, ' ') FROM metric JOIN cell ON cell = key WHERE metric.name = 'psnr'")" = "9 9"
check "each device has a sample of its decoding time" test "$(sql "$work/e.db" "SELECT count(*) FROM sample WHERE kind = 'pixels' AND ns > 0")" = 2
# CPU and device may round a value of the cache to different BF16 neighbours, which changes a pixel's byte by 1.
mapfile -t both < <(find "$work/e/frames" -name '*.safetensors')
values() { od -An -v -tu1 -w1 -j $((8 + $(od -An -td8 -N8 "$1"))) "$1"; }
check "CPU and device pixels differ by at most 1, and less than 10 % differ" test "$(paste <(values "${both[0]}") <(values "${both[1]}") |
    awk '{ d = $1 - $2; if (d < -1 || d > 1) far++; n += d != 0 } END { print (NR == 9 * 16 * 16 * 3 && !far && n < NR / 10) }')" = 1

# With overlap_decode, the decoder runs while the network generates the next chunk, otherwise after the rollout. The
# frames must be equal. A BF16 decoder must give other frames.
for device in cpu emulated; do
    for how in overlap_decode=false overlap_decode=true decoder_compute=bf16; do
        exits 0 "two chunks on $device, $how" run "$work/little.yaml" --db "$work/o-$device.db" --out "$work/o" -q --json \
            --set device=$device --set frames=6 --set "$how"
        json "$device, $how: a new cell" '.ok == 1 and .done_before == 0'
    done
    check "$device: overlapped decoding gives the same frames, a BF16 decoder others" test "$(sql "$work/o-$device.db" "SELECT
        count(DISTINCT sha256) FILTER (WHERE decoder_compute = 'f32'), count(DISTINCT sha256), count(*) FROM artifact
        JOIN cell ON cell = key WHERE artifact.kind = 'frames'")" = "1|2|3"
    check "$device: each cell has a sample of its decoding time" test "$(sql "$work/o-$device.db" "SELECT
        count(*) FROM sample JOIN cell ON cell = key WHERE sample.kind = 'pixels' AND ns > 0")" = 3
done
exits 0 "report of the three decoder settings" report --db "$work/o-cpu.db"
check "the report names the decoder's type" grep -q 'bf16' "$out"
frames_of() { sql "$work/o-cpu.db" "SELECT artifact.path FROM artifact JOIN cell ON cell = key WHERE artifact.kind = 'frames' AND $1 LIMIT 1"; }
check "the BF16 decoder's PSNR against F32 is 30 to 60 dB" test "$(paste <(values "$work/o/$(frames_of "decoder_compute = 'f32'")") \
    <(values "$work/o/$(frames_of "decoder_compute = 'bf16'")") |
    awk '{ d = ($1 - $2) / 255; s += d * d } END { db = -10 * log(s / NR) / log(10); print (db >= 30 && db <= 60) }')" = 1
exits 2 "decoder taehv refuses decoder_compute bf16" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set decoder=taehv --set decoder_compute=bf16
says "the error states that taehv supports only f32" 'decoder taehv supports only decoder_compute f32, not bf16'

# autotune with a stand-in for cuBLASLt: the first run measures algorithms for matrix products, and the second run reads
# the results from the cache file.
tuned() { sql "$work/tuned-$1.db" "SELECT value FROM about WHERE name = 'autotune'"; }
for how in first second off; do
    flag=$([ $how = off ] && echo false || echo true)
    KVREEL_CUBLASLT=${kvreel%/*}/tests/plugins/fake_blaslt.so XDG_CACHE_HOME=$work/tuned exits 0 "run with autotune, $how" \
        run "$work/little.yaml" --db "$work/tuned-$how.db" --out "$work/o" -q --set device=emulated --set compute=bf16 --set autotune="$flag"
done
check "the first run measures matrix products" grep -qE "^$work/tuned/kvreel/autotune-[0-9a-f]{16}.txt: 0 matrix products known, [1-9][0-9]* measured$" <(tuned first)
check "the second run measures no matrix product" grep -qE ": [1-9][0-9]* matrix products known, 0 measured$" <(tuned second)
check "a run with autotune: false stores no autotune entry" test -z "$(tuned off)"
check "the cache file names device, driver and library" grep -qE '^kvreel autotune 1; emulated.*; driver .*; cuBLASLt stand-in; kvreel ' <(cat "$work"/tuned/kvreel/autotune-*.txt)

# All embeddings of a sweep come from one device, so `device` may have only one value.
exits 2 "a list of devices is refused" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set 'device=[cpu, emulated]'
says "the error names 'device'" 'device'

# The tiny decoder TAEHV in place of the model's decoder.
exits 2 "decoder taehv without its weights is refused" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set decoder=taehv
says "the error names both possible files" 'decoder taehv needs one of the files taew2_1.pth and taew2_1.safetensors; neither was found'
exits 0 "dry run with decoder taehv without its weights" run "$work/little.yaml" --db "$work/t.db" --dry-run -q --json --set decoder=taehv
json "the plan lists taehv's file as missing, with its size" '(.identified | not) and .phases.decoder.videos == 1 and ([.files[] | select(.what == "decoder")] | length == 1 and (.[0].there | not) and
    .[0].bytes == 22631078 and (.[0].path | test("/taew2_1.pth$")))'
cp tests/fixtures/wan_real/taew2_1_tiny.pth "$work/little/taew2_1.pth"
exits 0 "run with decoder taehv" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" -q --json --set decoder=taehv
json "another decoder gives a new cell" '.ok == 1 and .done_before == 0'
check "taehv decodes as many frames, with other pixels" test "$(sql "$work/e.db" "SELECT count(DISTINCT sha256), group_concat(DISTINCT n) FROM artifact
    JOIN cell ON artifact.cell = key JOIN metric ON metric.cell = key WHERE artifact.kind = 'frames' AND metric.name = 'psnr'
    AND backend = 'cpu'")" = "2|9"
exits 0 "report of both decoders" report --db "$work/e.db"
check "the report names taehv" grep -q 'taehv' "$out"
exits 0 "model check of taehv's weights" model check "$work/little/taew2_1.pth" --json
json "model check recognises taehv" '.kind == "taehv" and (.missing | length) == 0'
sed "s|^model: .*|model: nano|" "$work/little.yaml" >"$work/rgb.yaml"
exits 2 "decoder taehv for RGB latents is refused" run "$work/rgb.yaml" --db "$work/e.db" --out "$work/e" --set decoder=taehv
says "the error states which models decoder taehv supports" "decoder taehv supports only models with trained weights that generate latents of Wan's VAE"

# A pack gives the same frames as the prompt's text, without a text encoder.
mkdir "$work/bare"
cp "$folder"/{config.json,self_forcing_dmd.pt,Wan2.1_VAE.pth} "$work/bare/"
cat >"$work/pack.yaml" <<YAML
name: packed
frames: 9
seed: 5
embeddings: pack.safetensors
prompts:
  - {id: p0001, text: a small dog runs}
YAML
sed -e "s|^model: .*|model: $work/bare|" -e "s|^prompts:|suite: $work/pack.yaml|" -e '/id: p0001/d' -e '/^frames/d' \
    -e '/^seed/d' "$work/text.yaml" >"$work/packed.yaml"
exits 0 "run from a pack" run "$work/packed.yaml" --db "$work/b.db" --out "$work/b" -q --json
json "run from a pack: three cells are ok" '.ok == 3 and .failed == 0'
frames() { sql "$1" "SELECT method, sha256 FROM artifact JOIN cell ON cell = key WHERE artifact.kind = 'frames' ORDER BY method"; }
check "a pack gives the same frames as text" test "$(frames "$work/a.db")" = "$(frames "$work/b.db")"
check "each cell has the embedding's hash and no encoder" test "$(sql "$work/b.db" "SELECT count(*) FROM cell
    WHERE length(json_extract(spec, '$.embedding.sha256')) = 64 AND json_extract(spec, '$.encoder') IS NULL")" = 3
exits 0 "run with schedule lightx2v" run "$work/packed.yaml" --db "$work/b.db" --out "$work/b" -q --json \
    --set schedule=lightx2v --set methods=[BF16]
check "another schedule gives other frames" test "$(sql "$work/b.db" "SELECT count(DISTINCT sha256) FROM artifact JOIN cell ON cell = key
    WHERE artifact.kind = 'frames' AND method = 'BF16'")" = 2
check "the cell stores the schedule" test "$(sql "$work/b.db" "SELECT count(*) FROM cell WHERE schedule = 'lightx2v'")" = 1
sed -e "s|^  - {id: p0001.*|  - {id: p0001, text: a small dog runs, embeddings: {file: $root/tests/fixtures/wan_real/umt5_golden.safetensors, tensor: long.out}}|" \
    "$work/text.yaml" >"$work/wide.yaml"
exits 2 "embeddings of another width are refused" run "$work/wide.yaml" --db "$work/b.db" --out "$work/b" -q
says "the error states both widths" 'of 64 values, .* of 32'
sed -e 's|^  - {id: p0001.*|  - {id: p0001, text: a small dog runs, embeddings: none.safetensors}|' "$work/text.yaml" >"$work/none.yaml"
exits 2 "a missing pack is refused" run "$work/none.yaml" --db "$work/b.db" --out "$work/b" -q
says "the error names the pack" 'none.safetensors'

hex() { od -An -tx1 | tr -d ' \n' | tr a-f A-F; }
# Prompt lists with one prompt per line, as other projects store them. `reproduce --measured` prints this database's
# results beside the study's published figures.
printf 'a small dog runs\n\nsalt &amp; "pepper"\\ in the rain\xe2\x80\xa8 at night\n' >"$work/list.txt"
cat >"$work/lists.yaml" <<YAML
name: lists
model: $folder
suite: [{suite: moviegen, file: list.txt, prompts: 1}, {suite: storyeval, file: none.txt, prompts: 2}]
methods: [RTN_INT4@study]
frames: 3
metrics: [psnr, ssim, {command: "sh $root/tools/vbench.sh {video} imaging_quality", name: vbench}]
YAML
exits 0 "dry run with one present and one missing prompt list" run "$work/lists.yaml" --dry-run -q --json --db "$work/d.db"
json "the plan counts the prompts of both lists" '.to_run == 6 and .identified and ([.files[] | select(.what == "prompts") | .there] == [true, false])'
json "the plan lists the model's files" '[.files[] | select(.there) | .what] == ["network", "decoder", "text encoder", "tokenizer", "prompts"]
    and all(.files[]; .there == false or .bytes > 0)'
exits 2 "run with a missing prompt list is refused" run "$work/lists.yaml" -q --db "$work/d.db"
says "the error names the prompt list" 'storyeval.* none.txt'
sed -i 's/, {suite: storyeval[^}]*}//; s/, prompts: 1}/}/' "$work/lists.yaml"
mkdir "$work/bin"
cat >"$work/bin/vbench" <<'SH'
#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --videos_path) video=$2 ;; --output_path) to=$2 ;; esac; shift; done
[ -s "$video" ] && echo '{"imaging_quality": [0.625, [{"video_path": "x", "video_results": 62.5}]]}' >"$to/a_eval_results.json"
SH
chmod +x "$work/bin/vbench"
PATH=$work/bin:$PATH exits 0 "run of the prompt list" run "$work/lists.yaml" -q --json --db "$work/d.db" --out "$work/d"
json "both prompts of the list are measured with both methods" '.ok == 4'
check "prompt texts are stored unchanged" test "$(sql "$work/d.db" "SELECT group_concat(t, '|') FROM (SELECT DISTINCT prompt_id || '=' ||
    hex(json_extract(spec, '$.prompt.text')) t FROM cell ORDER BY t)")" = \
    "p0001=$(printf 'a small dog runs' | hex)|p0002=$(printf 'salt &amp; "pepper"\\ in the rain\xe2\x80\xa8 at night' | hex)"
exits 0 "reproduce --measured" reproduce study33 --measured --db "$work/d.db" --json
json "reproduce has five quantities of RTN_INT4, and those of BF16" '([.[].method] | unique) == ["BF16", "RTN_INT4"] and all(.[]; .measured != null) and
    ([.[] | select(.method == "RTN_INT4") | .quantity] | sort) == ["compression", "imaging_quality", "peak_vram_gib", "psnr_db", "ssim"]'
json "VBench's score is not comparable with the published one" 'any(.[]; .method == "RTN_INT4" and .quantity == "imaging_quality"
    and .measured == 0.625 and .published == "0.735" and .verdict == "not comparable" and (.reason | test("^another model")))'
exits 2 "reproduce --measured without a database is refused" reproduce study33 --measured
exits 2 "reproduce --measured of another paper is refused" reproduce jensen --measured --db "$work/d.db"

# A dry run of the study's workload needs neither the model's weights nor the prompt lists.
mkdir "$work/empty"
cd "$work/empty" || exit 1
exits 0 "dry run of the study without its files" run "$root/configs/wan-study33.yaml" --dry-run -q --json
json "the plan has 33 methods in two versions, with 20 prompts each" '(.identified | not) and (.methods | length) == 66 and
    all(.methods[]; .unsupported == 0 and (.to_run == 20 or .method == "BF16"))'
json "the plan lists missing files with their sizes" '[.files[] | select(.there | not) | .what] == ["network", "decoder", "text encoder", "tokenizer", "prompts", "prompts"]
    and [.files[].bytes][:4] == [5675987200, 507570124, 11361820672, 4548313]'
# Per video: 2405.4 TFLOP of the network and 559.9 of the decoder (specs/wan_causal). 20 videos per method, each of
# 165 frames of 480x832.
json "the plan has the operations of each phase" '((.phases.network.flop / (.to_run * 2405.4e12) - 1) | fabs) < 0.001 and
    ((.phases.decoder.flop / (.to_run * 559.9e12) - 1) | fabs) < 0.001 and .phases.encoder.prompts == 20'
json "the plan has the memory of each phase and the disk space" '.phases.network.memory_bytes > 1.4e10 and .phases.decoder.memory_bytes > 4e9 and
    .phases.encoder.memory_bytes > 4e8 and .phases.frames_bytes == .to_run * 165 * 480 * 832 * 3'
exits 0 "dry run of the study with decoder taehv" run "$root/configs/wan-study33.yaml" --dry-run -q --json --set decoder=taehv
json "decoder taehv needs less memory and a smaller file" '.phases.decoder.memory_bytes == 4 * (9845507 + 33546240 + 108625920) and .files[1].bytes == 22631078'
exits 0 "dry run of the study, as text" run "$root/configs/wan-study33.yaml" --dry-run -q
prints "the text names a missing file, its size and its use" '^text encoder +about 10.58 GiB +MISSING .*models_t5.*; without it only prompts whose suite gives a file of embeddings'
prints "the text has a line for the decoder phase" '^  decoder +[0-9]+ videos +4.42 GiB of device memory'
# kvreel with emulated kernels finds no CUDA device, but plans a sweep for one (device=cuda).
if "$kvreel" doctor 2>/dev/null | grep -q 'emulated'; then
    exits 0 "dry run of the study with device=cuda" run "$root/configs/wan-study33.yaml" --dry-run -q --json --set device=cuda --set compute=bf16
    json "the plan has all cells, GPU memory, and the reason for no device" '(.identified | not) and (.no_device | test("emulated kernels"))
        and .to_run == 1400 and .phases.network.memory_bytes > 1e10'
fi
check "a dry run writes no file" test -z "$(ls)"
exits 2 "run of the study without weights is refused" run "$root/configs/wan-study33.yaml" -q
cd "$root" || exit 1

exits 0 "model check of a folder without weights" model check models/wan-1.3b --json
json "model check lists missing files with their sizes" '(.missing | length) == 4 and (.missing[0] | test("^self_forcing_dmd.pt: network, about 5413.0 MiB$"))
    and (.missing[2] | test("^models_t5_umt5-xxl-enc-bf16.pth: text encoder, about 10835.5 MiB; without it only prompts whose suite gives a file of embeddings can run$"))'
exits 0 "model check of a path that ends in a slash" model check models/wan-1.3b/
prints "the text names the folder" '^wan-1.3b: folder without weights$'
prints "the text has the path of a missing file" '^missing: google/umt5-xxl/spiece.model: tokenizer, about 4.3 MiB; '
check "the text has no empty table" bash -c "! grep -qE '^name|in memory' '$out'"
mkdir "$work/none"
echo '{}' >"$work/none/config.json"
exits 2 "model check of an empty config is refused" model check "$work/none"
exits 2 "reproduce --measured without @study methods is refused" reproduce study33 --measured --db "$work/b.db"
says "the error names the database" 'no cell of a method in the study.s version .NAME@study. found in .*b.db'
# Without a decoder, a run measures only the cost. A cell with neither a text encoder nor a pack is unsupported.
rm "$work/bare/Wan2.1_VAE.pth"
sed "s|^model: .*|model: $work/bare|" "$work/text.yaml" >"$work/mute.yaml"
exits 5 "run without text encoder and pack" run "$work/mute.yaml" --db "$work/c.db" --out "$work/c" -q --json
json "cells without text encoder and pack are unsupported" '.ok == 0 and .unsupported == 3'

# Expected TFLOP (specs/wan_causal): 2970.5 of the network, 2405.4 with a window of 21 frames, 559.9 of the decoder.
exits 0 "predict: 165 frames" predict -m BF16 --geometry wan-1.3b --frames 165 --json
json "predict: operations of network and decoder" '((.phases.network.flop / 2970.5e12 - 1) | fabs) < 0.001 and
    ((.phases.decoder.flop / 559.9e12 - 1) | fabs) < 0.001'
json "predict: size of the decoder's state" '.phases.decoder.state_bytes == 944286720 * 4'
json "predict: the network's memory includes its activations" '.phases.network.memory_bytes == .peak_bytes + .phases.network.activation_bytes'
exits 0 "predict: decoder taehv" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder taehv --json
json "predict: memory and operations of decoder taehv" '.phases.decoder.name == "taehv" and .phases.decoder.memory_bytes == 4 * (9845507 + 33546240 + 108625920) and
    .phases.decoder.flop < 559.9e12 / 20'
exits 0 "predict: a decoder in BF16" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder-compute bf16 --json
# The decoder's state has 944,286,720 elements. The decoder has 73,295,603 parameters, and 20,371 of them (biases and
# norms) stay F32.
json "predict: a BF16 decoder halves its state and most weights" '.phases.decoder | .compute == "bf16" and
    .state_bytes == 944286720 * 2 and .weight_bytes == (73295603 - 20371) * 2 + 20371 * 4 and
    .memory_bytes == .weight_bytes + .state_bytes + .frame_bytes'
exits 2 "predict: decoder taehv in BF16 is refused" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder taehv --decoder-compute bf16
says "predict: the error recommends f32 or decoder vae" 'decoder taehv supports only decoder_compute f32, not bf16; use f32, or decoder vae'
exits 2 "predict: an unknown decoder is refused" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder tae
exits 0 "predict: window 21" predict -m BF16 --geometry wan-1.3b --frames 165 --window 21 --json
json "predict: a window reduces the network's operations" '((.phases.network.flop / 2405.4e12 - 1) | fabs) < 0.001'
exits 0 "predict: 81 frames" predict -m BF16 --geometry wan-1.3b --frames 81 --json
json "predict: 81 frames need 990.8 TFLOP" '((.phases.network.flop / 990.8e12 - 1) | fabs) < 0.001'
exits 0 "predict: wan-14b at 720x1280" predict -m BF16 --geometry wan-14b --frames 81 --size 720x1280 --json
json "predict: wan-14b at 720x1280 has 3600 tokens per latent frame" '.tokens == 21 * 3600 and .bf16_bytes == .tokens * 819200 and .phases.height == 720'
exits 2 "predict: a height that is not a multiple of the patch is refused" predict -m BF16 --geometry wan-14b --frames 81 --size 721x1280
exits 0 "predict: a model folder" predict -m RTN_INT4 --geometry "$folder" --frames 33 --json
json "predict: 33 frames of 48x32" '.phases.frames == 33 and .phases.height == 48 and .phases.width == 32'

exits 0 "fit: decoder taehv" fit --memory 24GiB -m BF16 --decoder taehv --json
json "fit: memory of decoder taehv" '.[0].decoder_bytes == 4 * (9845507 + 33546240 + 108625920)'
exits 0 "fit: three methods in 24 GiB" fit --memory 24GiB -m BF16 -m KIVI_INT2 -m RTN_INT4 --json
json "fit: methods are sorted by memory" '[.[].method] == ["KIVI_INT2", "RTN_INT4", "BF16"] and all(.[]; .fits)'
reach=$(jq '.[2].max_frames' "$out")
peak() { "$kvreel" predict -m BF16 --geometry wan-1.3b --frames "$1" --device cuda --compute bf16 --json | jq .phases.network.memory_bytes; }
check "fit: the reported maximum of frames fits in 24 GiB" test "$(peak "$reach")" -le $((24 << 30))
check "fit: one more chunk does not fit in 24 GiB" test "$(peak $((reach + 12)))" -gt $((24 << 30))
exits 0 "fit: BF16 in 4 GB" fit --memory 4GB -m BF16 --json
json "fit: BF16 does not fit in 4 GB" '.[0].fits == false and .[0].max_frames < 165'
# 9 frames of 720x1280 need less memory in the network than in the decoder, which runs later. The 9.85 GiB of the decoder
# therefore decide whether the method fits.
for memory in 9 10; do
    exits 0 "fit: $memory GiB" fit --memory ${memory}GiB -m KIVI_INT2 --size 720x1280 --frames 9 --json
    json "fit: $memory GiB, compared with the decoder's 9.85 GiB" --argjson m $memory '.[0].peak_bytes < 9 * 1073741824 and .[0].decoder_bytes > 9.8 * 1073741824 and
        .[0].fits == ($m == 10) and (.[0].max_frames > 0) == ($m == 10)'
done
exits 0 "fit: as text" fit --memory 24GiB -m KIVI_INT2 --geometry wan-14b --size 720x1280 --frames 81
prints "fit: the text has a row for KIVI_INT2" 'KIVI_INT2 .* (yes|no) .* frames'
exits 0 "fit: 13 frames, between one chunk and two" fit --memory 24GiB -m BF16 --frames 13 --json
json "fit: 13 frames fit in 24 GiB" '.[0].fits and .[0].max_frames >= 165'
exits 2 "fit: a size without a unit is refused" fit --memory 24
says "fit: the error lists units" 'GiB, MiB'
