#!/usr/bin/env bash
# A small random model with the files of Wan 2.1: embeddings, sweeps, decoding and predictions.
. tests/cli/lib.sh || exit 1
folder=$root/tests/fixtures/wan_folder

if has "$python" "the folder is what its script writes"; then
    check "the folder is what its script writes" \
        bash -c "'$python' tools/fixtures/make-tiny-wan.py --small '$work/again' && diff -r '$work/again' '$folder'"
fi
printf 'a small dog runs\n\n  \nsalt &amp; pepper in the rain\n' >"$work/prompts.txt"
exits 0 "embed: a text file" embed -p "$work/prompts.txt" --model "$folder" -o "$work/pack.safetensors" -q --json
json "says what is in the pack" '.prompts == 2 and .dim == 32 and .tokens > 8 and .cut == 0'
head -c 4000 "$work/pack.safetensors" | tr -d '\0' >"$work/head"
check "prompts are numbered" grep -q '"p0001".*"p0002"' "$work/head"
check "it knows its encoder" grep -q 'encoder_sha256' "$work/head"
exits 0 "embed: a suite" embed -p configs/suites/moviegen-nano.yaml --model "$folder" -o "$work/suite.safetensors" -q --json
json "all its prompts" ".prompts == $(grep -c '{id:' configs/suites/moviegen-nano.yaml)"
exits 0 "embed: files by name" embed -p "$work/prompts.txt" --encoder "$folder/models_t5_umt5-xxl-enc-bf16.pth" \
    --tokenizer "$folder/google/umt5-xxl" -o "$work/pack2.safetensors" -q
check "the same bytes" cmp "$work/pack.safetensors" "$work/pack2.safetensors"
exits 0 "embed: on a device" embed -p "$work/prompts.txt" --model "$folder" -o "$work/there.safetensors" -q --json --device emulated
json "as many tokens" '.prompts == 2 and .dim == 32'
# rows FILE: prints the pack's tensors, F32 in the file's order, without its header.
rows() { od -An -v -tf4 -w4 -j $((8 + $(od -An -td8 -N8 "$1"))) "$1"; }
check "to roundings the same rows, not to the bit" test "$(paste <(rows "$work/pack.safetensors") <(rows "$work/there.safetensors") |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-5)) far++; n += d > 0 } END { print (NR > 256 && n > 0 && !far) }')" = 1
exits 2 "embed: a device that is none" embed -p "$work/prompts.txt" --model "$folder" -o "$work/x.safetensors" --device gpu
exits 0 "embed: a short model" embed -p "$work/prompts.txt" --model "$folder" --max-tokens 3 -o "$work/cut.safetensors" -q
check "says that texts are cut off" grep -q 'truncated' "$out"
exits 2 "embed: no encoder" embed -p "$work/prompts.txt" --model models/nano -o "$work/x.safetensors"
says "names the file" 'models_t5_umt5-xxl-enc-bf16.pth'
exits 2 "embed: a tokenizer of another model" embed -p "$work/prompts.txt" --encoder tests/fixtures/wan_real/umt5.safetensors \
    --tokenizer tests/fixtures/wan_real/spiece.model -o "$work/x.safetensors"
says "says both sizes" '1000 pieces, .*512'
printf 'bad \xff text\n' >"$work/bad.txt"
exits 2 "embed: no UTF-8" embed -p "$work/bad.txt" --model "$folder" -o "$work/x.safetensors"
says "names the prompt" "p0001.*UTF-8"
check "nothing is written" test ! -e "$work/x.safetensors"

# From a prompt's text to a report: tokens, embeddings, 9 latent frames, 33 pixel frames.
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
exits 0 "a run from text" run "$work/text.yaml" --db "$work/a.db" --out "$work/a" -q --json
json "three cells" '.ok == 3 and .failed == 0'
check "33 frames of 48x32" test "$(sql "$work/a.db" "SELECT DISTINCT n FROM metric WHERE name = 'psnr'")" = 33
check "coding shows in the pixels" test "$(sql "$work/a.db" "SELECT min(value) > 10 AND max(value) < 100 FROM metric
    JOIN cell ON cell = key WHERE metric.name = 'psnr' AND method <> 'BF16'")" = 1
check "SSIM is there" test "$(sql "$work/a.db" "SELECT count(*) FROM metric WHERE name = 'ssim' AND value > 0.1")" = 3
check "what decoding took is a sample of its own" test "$(sql "$work/a.db" "SELECT count(*) FROM sample
    WHERE kind = 'pixels' AND ns > 0")" = 3
check "the cell says which encoder" test "$(sql "$work/a.db" "SELECT count(*) FROM cell
    WHERE length(json_extract(spec, '$.encoder.sha256')) = 64")" = 3
check "there are videos" test "$(find "$work/a/videos" -name '*.mp4' | wc -l)" = 3
exits 0 "a report of it" report --db "$work/a.db"
check "has the three methods" test "$(grep -cE '^(BF16|RTN_INT4|KIVI_INT2) ' "$out")" = 3
exits 0 "the same again" run "$work/text.yaml" --db "$work/a.db" --out "$work/a" -q --json
json "runs nothing" '.to_run == 0 and .done_before == 3'

# The same with fewer pixels, on the CPU and on a device: encoder, network and decoder, one after the other.
mkdir "$work/little"
cp -r "$folder"/. "$work/little/"
jq '.latent_height = 2 | .latent_width = 2' "$folder/config.json" >"$work/little/config.json"
sed -e "s|^model: .*|model: $work/little|" -e 's/^frames: .*/frames: 3/' -e 's/^methods: .*/methods: [BF16]/' "$work/text.yaml" >"$work/little.yaml"
for device in cpu emulated; do
    exits 0 "on $device" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set device=$device
    says "encodes first" 'text encoder: 1 of 1 prompts'
done
mkdir "$work/blocked"
touch "$work/blocked/embeddings"
exits 1 "where no pack can be written" run "$work/little.yaml" --db "$work/blocked.db" --out "$work/blocked" -q
check "the session says that it failed, and why" test "$(sql "$work/blocked.db" "SELECT group_concat(value, '|')
    FROM (SELECT * FROM about WHERE name IN ('state', 'error') ORDER BY name DESC)" | grep -c '^failed|.*embeddings')" = 1
check "two packs, one for each device" test "$(find "$work/e/embeddings" -name '*.safetensors' | wc -l)" = 2
check "two videos of 9 frames" test "$(sql "$work/e.db" "SELECT group_concat(n, ' ') FROM metric JOIN cell ON cell = key WHERE metric.name = 'psnr'")" = "9 9"
check "decoded there, too" test "$(sql "$work/e.db" "SELECT count(*) FROM sample WHERE kind = 'pixels' AND ns > 0")" = 2
# A value that the cache rounds to BF16 may be rounded the other way, which changes a pixel's byte by 1.
mapfile -t both < <(find "$work/e/frames" -name '*.safetensors')
values() { od -An -v -tu1 -w1 -j $((8 + $(od -An -td8 -N8 "$1"))) "$1"; }
check "the same pictures, but for roundings" test "$(paste <(values "${both[0]}") <(values "${both[1]}") |
    awk '{ d = $1 - $2; if (d < -1 || d > 1) far++; n += d != 0 } END { print (NR == 9 * 16 * 16 * 3 && !far && n < NR / 10) }')" = 1

# Two chunks, decoded after the rollout or during the next chunk: the frames are equal. A BF16 decoder gives other
# frames.
for device in cpu emulated; do
    for how in overlap_decode=false overlap_decode=true decoder_compute=bf16; do
        exits 0 "two chunks on $device, $how" run "$work/little.yaml" --db "$work/o-$device.db" --out "$work/o" -q --json \
            --set device=$device --set frames=6 --set "$how"
        json "a cell of its own" '.ok == 1 and .done_before == 0'
    done
    check "overlapped, the same frames; BF16 makes others" test "$(sql "$work/o-$device.db" "SELECT
        count(DISTINCT sha256) FILTER (WHERE decoder_compute = 'f32'), count(DISTINCT sha256), count(*) FROM artifact
        JOIN cell ON cell = key WHERE artifact.kind = 'frames'")" = "1|2|3"
    check "overlapped, the decoder's time is what is left of it" test "$(sql "$work/o-$device.db" "SELECT
        count(*) FROM sample JOIN cell ON cell = key WHERE sample.kind = 'pixels' AND ns > 0")" = 3
done
exits 0 "a report of the three" report --db "$work/o-cpu.db"
check "names the decoder's type" grep -q 'bf16' "$out"
frames_of() { sql "$work/o-cpu.db" "SELECT artifact.path FROM artifact JOIN cell ON cell = key WHERE artifact.kind = 'frames' AND $1 LIMIT 1"; }
check "BF16's pixels are within 30 dB to 60 dB of F32's" test "$(paste <(values "$work/o/$(frames_of "decoder_compute = 'f32'")") \
    <(values "$work/o/$(frames_of "decoder_compute = 'bf16'")") |
    awk '{ d = ($1 - $2) / 255; s += d * d } END { db = -10 * log(s / NR) / log(10); print (db >= 30 && db <= 60) }')" = 1
exits 2 "the tiny decoder in BF16" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set decoder=taehv --set decoder_compute=bf16
says "is refused" 'decoder taehv supports only decoder_compute f32, not bf16'

# autotune, with a replacement for cuBLASLt: products are measured in the first run and known in the second.
tuned() { sql "$work/tuned-$1.db" "SELECT value FROM about WHERE name = 'autotune'"; }
for how in first second off; do
    flag=$([ $how = off ] && echo false || echo true)
    KVREEL_CUBLASLT=${kvreel%/*}/tests/plugins/fake_blaslt.so XDG_CACHE_HOME=$work/tuned exits 0 "a run with products to choose, $how" \
        run "$work/little.yaml" --db "$work/tuned-$how.db" --out "$work/o" -q --set device=emulated --set compute=bf16 --set autotune="$flag"
done
check "measured at first" grep -qE "^$work/tuned/kvreel/autotune-[0-9a-f]{16}.txt: 0 matrix products known, [1-9][0-9]* measured$" <(tuned first)
check "then known" grep -qE ": [1-9][0-9]* matrix products known, 0 measured$" <(tuned second)
check "not where it is turned off" test -z "$(tuned off)"
check "the file names the device and the library" grep -qE '^kvreel autotune 1; emulated.*; driver .*; cuBLASLt stand-in; kvreel ' <(cat "$work"/tuned/kvreel/autotune-*.txt)

# All embeddings of a sweep come from one device, so `device` may have only one value.
exits 2 "devices are no axis" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set 'device=[cpu, emulated]'
says "says so" 'device'

# The tiny decoder TAEHV in place of the model's decoder.
exits 2 "a decoder that is not there" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" --set decoder=taehv
says "says which files it looked for" 'decoder taehv needs one of the files taew2_1.pth and taew2_1.safetensors; neither was found'
exits 0 "its plan" run "$work/little.yaml" --db "$work/t.db" --dry-run -q --json --set decoder=taehv
json "lists it, with its size" '(.identified | not) and .phases.decoder.videos == 1 and ([.files[] | select(.what == "decoder")] | length == 1 and (.[0].there | not) and
    .[0].bytes == 22631078 and (.[0].path | test("/taew2_1.pth$")))'
cp tests/fixtures/wan_real/taew2_1_tiny.pth "$work/little/taew2_1.pth"
exits 0 "the tiny decoder" run "$work/little.yaml" --db "$work/e.db" --out "$work/e" -q --json --set decoder=taehv
json "is a cell of its own" '.ok == 1 and .done_before == 0'
check "as many frames, others" test "$(sql "$work/e.db" "SELECT count(DISTINCT sha256), group_concat(DISTINCT n) FROM artifact
    JOIN cell ON artifact.cell = key JOIN metric ON metric.cell = key WHERE artifact.kind = 'frames' AND metric.name = 'psnr'
    AND backend = 'cpu'")" = "2|9"
exits 0 "a report of both" report --db "$work/e.db"
check "says whose pixels they are" grep -q 'taehv' "$out"
exits 0 "its file" model check "$work/little/taew2_1.pth" --json
json "is known" '.kind == "taehv" and (.missing | length) == 0'
sed "s|^model: .*|model: nano|" "$work/little.yaml" >"$work/rgb.yaml"
exits 2 "a model whose latents are pixels" run "$work/rgb.yaml" --db "$work/e.db" --out "$work/e" --set decoder=taehv
says "has nothing to decode" "decoder taehv supports only models with trained weights that generate latents of Wan's VAE"

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
exits 0 "a run from a pack" run "$work/packed.yaml" --db "$work/b.db" --out "$work/b" -q --json
json "three cells, too" '.ok == 3 and .failed == 0'
frames() { sql "$1" "SELECT method, sha256 FROM artifact JOIN cell ON cell = key WHERE artifact.kind = 'frames' ORDER BY method"; }
check "the same frames" test "$(frames "$work/a.db")" = "$(frames "$work/b.db")"
check "the cell says which embedding" test "$(sql "$work/b.db" "SELECT count(*) FROM cell
    WHERE length(json_extract(spec, '$.embedding.sha256')) = 64 AND json_extract(spec, '$.encoder') IS NULL")" = 3
exits 0 "another schedule" run "$work/packed.yaml" --db "$work/b.db" --out "$work/b" -q --json \
    --set schedule=lightx2v --set methods=[BF16]
check "other frames" test "$(sql "$work/b.db" "SELECT count(DISTINCT sha256) FROM artifact JOIN cell ON cell = key
    WHERE artifact.kind = 'frames' AND method = 'BF16'")" = 2
check "and it is said" test "$(sql "$work/b.db" "SELECT count(*) FROM cell WHERE schedule = 'lightx2v'")" = 1
sed -e "s|^  - {id: p0001.*|  - {id: p0001, text: a small dog runs, embeddings: {file: $root/tests/fixtures/wan_real/umt5_golden.safetensors, tensor: long.out}}|" \
    "$work/text.yaml" >"$work/wide.yaml"
exits 2 "a pack of another width is refused when it is planned" run "$work/wide.yaml" --db "$work/b.db" --out "$work/b" -q
says "with both widths" 'of 64 values, .* of 32'
sed -e 's|^  - {id: p0001.*|  - {id: p0001, text: a small dog runs, embeddings: none.safetensors}|' "$work/text.yaml" >"$work/none.yaml"
exits 2 "a pack that is not there" run "$work/none.yaml" --db "$work/b.db" --out "$work/b" -q
says "is named" 'none.safetensors'

hex() { od -An -tx1 | tr -d ' \n' | tr a-f A-F; }
# Prompt lists with one prompt per line, as other programs store them. reproduce shows results of the study's
# methods beside its figures.
printf 'a small dog runs\n\nsalt &amp; "pepper"\\ in the rain\xe2\x80\xa8 at night\n' >"$work/list.txt"
cat >"$work/lists.yaml" <<YAML
name: lists
model: $folder
suite: [{suite: moviegen, file: list.txt, prompts: 1}, {suite: storyeval, file: none.txt, prompts: 2}]
methods: [RTN_INT4@study]
frames: 3
metrics: [psnr, ssim, {command: "sh $root/tools/vbench.sh {video} imaging_quality", name: vbench}]
YAML
exits 0 "a plan of a list that is there and one that is not" run "$work/lists.yaml" --dry-run -q --json --db "$work/d.db"
json "has what the sweep says of both" '.to_run == 6 and .identified and ([.files[] | select(.what == "prompts") | .there] == [true, false])'
json "has the model's files" '[.files[] | select(.there) | .what] == ["network", "decoder", "text encoder", "tokenizer", "prompts"]
    and all(.files[]; .there == false or .bytes > 0)'
exits 2 "a run is refused" run "$work/lists.yaml" -q --db "$work/d.db"
says "by the list's name" 'storyeval.* none.txt'
sed -i 's/, {suite: storyeval[^}]*}//; s/, prompts: 1}/}/' "$work/lists.yaml"
mkdir "$work/bin"
cat >"$work/bin/vbench" <<'SH'
#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --videos_path) video=$2 ;; --output_path) to=$2 ;; esac; shift; done
[ -s "$video" ] && echo '{"imaging_quality": [0.625, [{"video_path": "x", "video_results": 62.5}]]}' >"$to/a_eval_results.json"
SH
chmod +x "$work/bin/vbench"
PATH=$work/bin:$PATH exits 0 "a run of the list" run "$work/lists.yaml" -q --json --db "$work/d.db" --out "$work/d"
json "both lines" '.ok == 4'
check "with their texts" test "$(sql "$work/d.db" "SELECT group_concat(t, '|') FROM (SELECT DISTINCT prompt_id || '=' ||
    hex(json_extract(spec, '$.prompt.text')) t FROM cell ORDER BY t)")" = \
    "p0001=$(printf 'a small dog runs' | hex)|p0002=$(printf 'salt &amp; "pepper"\\ in the rain\xe2\x80\xa8 at night' | hex)"
exits 0 "reproduce what was measured" reproduce study33 --measured --db "$work/d.db" --json
json "our columns of the one method, and of BF16" '([.[].method] | unique) == ["BF16", "RTN_INT4"] and all(.[]; .measured != null) and
    ([.[] | select(.method == "RTN_INT4") | .quantity] | sort) == ["compression", "imaging_quality", "peak_vram_gib", "psnr_db", "ssim"]'
json "VBench's among them, beside the published" 'any(.[]; .method == "RTN_INT4" and .quantity == "imaging_quality"
    and .measured == 0.625 and .published == "0.735" and .verdict == "not comparable" and (.reason | test("^another model")))'
exits 2 "measured, and no database" reproduce study33 --measured
exits 2 "measured of another paper" reproduce jensen --measured --db "$work/d.db"

# A dry run of the study's workload without any of its files.
mkdir "$work/empty"
cd "$work/empty" || exit 1
exits 0 "the study's plan needs no file" run "$root/configs/wan-study33.yaml" --dry-run -q --json
json "both readings of 33 methods, 20 prompts, and draws of BF16" '(.identified | not) and (.methods | length) == 66 and
    all(.methods[]; .unsupported == 0 and (.to_run == 20 or .method == "BF16"))'
json "what is missing, with sizes" '[.files[] | select(.there | not) | .what] == ["network", "decoder", "text encoder", "tokenizer", "prompts", "prompts"]
    and [.files[].bytes][:4] == [5675987200, 507570124, 11361820672, 4548313]'
# Per video: 2405.4 TFLOP of the network and 559.9 of the decoder (specs/wan_causal). 20 videos per method, each of
# 165 frames of 480x832.
json "operations by phase" '((.phases.network.flop / (.to_run * 2405.4e12) - 1) | fabs) < 0.001 and
    ((.phases.decoder.flop / (.to_run * 559.9e12) - 1) | fabs) < 0.001 and .phases.encoder.prompts == 20'
json "memory by phase, and disk" '.phases.network.memory_bytes > 1.4e10 and .phases.decoder.memory_bytes > 4e9 and
    .phases.encoder.memory_bytes > 4e8 and .phases.frames_bytes == .to_run * 165 * 480 * 832 * 3'
exits 0 "the same with the tiny decoder" run "$root/configs/wan-study33.yaml" --dry-run -q --json --set decoder=taehv
json "takes less" '.phases.decoder.memory_bytes == 4 * (9845507 + 33546240 + 108625920) and .files[1].bytes == 22631078'
exits 0 "in words" run "$root/configs/wan-study33.yaml" --dry-run -q
prints "a file that is missing" '^text encoder +about 10.58 GiB +MISSING .*models_t5.*; without it only prompts whose suite gives a file of embeddings'
prints "a phase" '^  decoder +[0-9]+ videos +4.42 GiB of device memory'
# A program with emulated kernels plans for a GPU of another machine.
if "$kvreel" doctor 2>/dev/null | grep -q 'emulated'; then
    exits 0 "planned for a GPU" run "$root/configs/wan-study33.yaml" --dry-run -q --json --set device=cuda --set compute=bf16
    json "as many cells, the reason, memory of a GPU" '(.identified | not) and (.no_device | test("emulated kernels"))
        and .to_run == 1400 and .phases.network.memory_bytes > 1e10'
fi
check "nothing is written" test -z "$(ls)"
exits 2 "a run without weights" run "$root/configs/wan-study33.yaml" -q
cd "$root" || exit 1

exits 0 "a folder of a config alone" model check models/wan-1.3b --json
json "lists what it lacks, with sizes" '(.missing | length) == 4 and (.missing[0] | test("^self_forcing_dmd.pt: network, about 5413.0 MiB$"))
    and (.missing[2] | test("^models_t5_umt5-xxl-enc-bf16.pth: text encoder, about 10835.5 MiB; without it only prompts whose suite gives a file of embeddings can run$"))'
exits 0 "in words, its name completed by a shell" model check models/wan-1.3b/
prints "the folder by its name" '^wan-1.3b: folder without weights$'
prints "where each file belongs" '^missing: google/umt5-xxl/spiece.model: tokenizer, about 4.3 MiB; '
check "and no table of nothing" bash -c "! grep -qE '^name|in memory' '$out'"
mkdir "$work/none"
echo '{}' >"$work/none/config.json"
exits 2 "a folder of nothing" model check "$work/none"
exits 2 "measured, and none of the study's" reproduce study33 --measured --db "$work/b.db"
says "says where it looked" 'no cell of a method in the study.s version .NAME@study. found in .*b.db'
# Without a decoder, only the cost is measured. Without an encoder and a pack, a prompt is unsupported.
rm "$work/bare/Wan2.1_VAE.pth"
sed "s|^model: .*|model: $work/bare|" "$work/text.yaml" >"$work/mute.yaml"
exits 5 "neither encoder nor pack" run "$work/mute.yaml" --db "$work/c.db" --out "$work/c" -q --json
json "is unsupported" '.ok == 0 and .unsupported == 3'

# Expected TFLOP (specs/wan_causal): 2970.5 of the network, 2405.4 with a window of 21 frames, 559.9 of the decoder.
exits 0 "predict: 165 frames" predict -m BF16 --geometry wan-1.3b --frames 165 --json
json "operations of network and decoder" '((.phases.network.flop / 2970.5e12 - 1) | fabs) < 0.001 and
    ((.phases.decoder.flop / 559.9e12 - 1) | fabs) < 0.001'
json "states of the decoder" '.phases.decoder.state_bytes == 944286720 * 4'
json "the network's peak has its activations" '.phases.network.memory_bytes == .peak_bytes + .phases.network.activation_bytes'
exits 0 "predict: the tiny decoder" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder taehv --json
json "is small" '.phases.decoder.name == "taehv" and .phases.decoder.memory_bytes == 4 * (9845507 + 33546240 + 108625920) and
    .phases.decoder.flop < 559.9e12 / 20'
exits 0 "predict: a decoder in BF16" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder-compute bf16 --json
# Decoder: 944,286,720 elements of state; 73,295,603 parameters, 20,371 of them in F32.
json "half of its states and frames, and of all weights but biases and norms" '.phases.decoder | .compute == "bf16" and
    .state_bytes == 944286720 * 2 and .weight_bytes == (73295603 - 20371) * 2 + 20371 * 4 and
    .memory_bytes == .weight_bytes + .state_bytes + .frame_bytes'
exits 2 "predict: the tiny one has no BF16" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder taehv --decoder-compute bf16
says "which it does not" 'decoder taehv supports only decoder_compute f32, not bf16; use f32, or decoder vae'
exits 2 "predict: no such decoder" predict -m BF16 --geometry wan-1.3b --frames 165 --decoder tae
exits 0 "predict: window 21" predict -m BF16 --geometry wan-1.3b --frames 165 --window 21 --json
json "is less attention" '((.phases.network.flop / 2405.4e12 - 1) | fabs) < 0.001'
exits 0 "predict: 81 frames" predict -m BF16 --geometry wan-1.3b --frames 81 --json
json "990.8 TFLOP" '((.phases.network.flop / 990.8e12 - 1) | fabs) < 0.001'
exits 0 "predict: 720x1280 of 14B" predict -m BF16 --geometry wan-14b --frames 81 --size 720x1280 --json
json "3600 tokens a frame" '.tokens == 21 * 3600 and .bf16_bytes == .tokens * 819200 and .phases.height == 720'
exits 2 "predict: no whole patches" predict -m BF16 --geometry wan-14b --frames 81 --size 721x1280
exits 0 "predict: the small folder" predict -m RTN_INT4 --geometry "$folder" --frames 33 --json
json "33 frames of 48x32" '.phases.frames == 33 and .phases.height == 48 and .phases.width == 32'

exits 0 "fit: the tiny decoder" fit --memory 24GiB -m BF16 --decoder taehv --json
json "is what comes after" '.[0].decoder_bytes == 4 * (9845507 + 33546240 + 108625920)'
exits 0 "fit" fit --memory 24GiB -m BF16 -m KIVI_INT2 -m RTN_INT4 --json
json "the least comes first" '[.[].method] == ["KIVI_INT2", "RTN_INT4", "BF16"] and all(.[]; .fits)'
reach=$(jq '.[2].max_frames' "$out")
peak() { "$kvreel" predict -m BF16 --geometry wan-1.3b --frames "$1" --device cuda --compute bf16 --json | jq .phases.network.memory_bytes; }
check "as far as it says fits" test "$(peak "$reach")" -le $((24 << 30))
check "a chunk more does not" test "$(peak $((reach + 12)))" -gt $((24 << 30))
exits 0 "fit: too little" fit --memory 4GB -m BF16 --json
json "does not fit" '.[0].fits == false and .[0].max_frames < 165'
# 9 frames of 720x1280: a small cache, and later a decoder of 9.85 GiB, which decides.
for memory in 9 10; do
    exits 0 "fit: $memory GiB" fit --memory ${memory}GiB -m KIVI_INT2 --size 720x1280 --frames 9 --json
    json "by the larger phase" --argjson m $memory '.[0].peak_bytes < 9 * 1073741824 and .[0].decoder_bytes > 9.8 * 1073741824 and
        .[0].fits == ($m == 10) and (.[0].max_frames > 0) == ($m == 10)'
done
exits 0 "fit: in words" fit --memory 24GiB -m KIVI_INT2 --geometry wan-14b --size 720x1280 --frames 81
prints "a row" 'KIVI_INT2 .* (yes|no) .* frames'
exits 0 "fit: between one chunk and two" fit --memory 24GiB -m BF16 --frames 13 --json
json "has its row" '.[0].fits and .[0].max_frames >= 165'
exits 2 "fit: a number without a unit" fit --memory 24
says "lists units" 'GiB, MiB'
