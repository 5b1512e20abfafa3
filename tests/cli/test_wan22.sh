#!/usr/bin/env bash
# A small random Wan 2.2: sweeps with shots and with an image as first frame, videos, the report and `generate`. A sweep
# that Ctrl-C or kill -9 interrupts must give the same frames after it is resumed.
. tests/cli/lib.sh || exit 1
folder=$root/tests/fixtures/wan22
cd "$work" || exit 1

rows() { echo "{file: $folder/golden.safetensors, tensor: prompt_$1}"; }
sweep() { # sweep FILE PROMPTS
    cat >"$1" <<YAML
question: does Wan 2.2 run?
model: $folder
prompts: $2
methods: [BF16, NVFP4_4OVER6@longlive]
frames: 24
window: model
sink: model
evict: true
control: 0
baselines: none
metrics: [psnr]
YAML
}
shots="{id: cut, shots: [{text: first, chunks: 4, embeddings: $(rows a)}, {text: second, embeddings: $(rows b)}]}"
plain="{id: plain, text: first, embeddings: $(rows a)}"
sweep wan.yaml "[$shots, $plain]"

sums() { sql "$1" "SELECT c.key, a.frames_sha256 FROM cell c JOIN attempt a ON a.cell = c.key WHERE c.outcome = 'OK' ORDER BY 1"; }
measured() { sql "$1" "SELECT count(*) FROM cell WHERE outcome = 'OK'" 2>/dev/null || echo 0; }

exits 0 "run of two prompts" run wan.yaml --db a.db --out a --json
json "two prompts and two methods give four cells" '.cells == 4 and .ok == 4'
check "each cell has an MP4 video" test "$(find a/videos -name '*.mp4' | wc -l)" = 4
check "videos have 93 frames of 64x32 pixels" bash -c \
    "head -c 400 \$(find a/frames -name '*.safetensors' | head -1) | grep -aq '\[93,32,64,3\]'"
check "the four videos differ" test "$(sums a.db | cut -d'|' -f2 | sort -u | wc -l)" = 4
exits 0 "report writes a page" report --db a.db --out page
check "the page has content" test -s page/index.html
check "cells have the model's window 6 and sink 2" \
    test "$(sql a.db "SELECT count(*) FROM cell WHERE sink = 2 AND window = 6")" = 4

# stop SIGNAL DB: sends the signal when one cell is stored and the next one runs.
stop() {
    env --default-signal=INT "$kvreel" run wan.yaml --db "$2" --out "o-$2" --jobs 1 >run.out 2>run.err &
    pid=$!
    for _ in $(seq 3000); do
        [ "$(measured "$2")" -ge 1 ] && pgrep -P $pid >/dev/null && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.02
    done
    kill "-$1" $pid
    wait $pid 2>/dev/null
}
for signal in INT KILL; do
    stop $signal $signal.db
    n=$(measured $signal.db)
    check "SIG$signal stopped the sweep within a cell ($n of 4 were stored)" bash -c "test $n -ge 1 && test $n -lt 4"
    exits 0 "SIG$signal: the same command resumes" run wan.yaml --db $signal.db --out o-$signal.db --jobs 1 --json
    json "SIG$signal: the resumed run measures the missing cells" ".cells == 4 and .failed == 0 and .ok + .done_before == 4 and .done_before >= $n"
    check "SIG$signal: the frames equal those of an uninterrupted run" bash -c 'test "$(wc -l <<<"$1")" = 4 && test "$1" = "$2"' _ "$(sums $signal.db)" "$(sums a.db)"
    check "SIG$signal: each cell has an MP4 video" test "$(find o-$signal.db/videos -name '*.mp4' | wc -l)" = 4
done

# The first frame may come from any image that FFmpeg reads. The cell depends on the image's content, not on its
# name.
image() { # image FILE WIDTH HEIGHT FIRST
    printf 'P6\n%d %d\n255\n' "$2" "$3" >"$1"
    seq "$4" 99999 | head -c $(($2 * $3 * 3)) >>"$1"
}
image one.ppm 64 32 1000
image two.ppm 64 32 2000
cp one.ppm same.ppm
begins() { echo "{id: i, text: first, image: $1, embeddings: $(rows a)}"; }
sweep i.yaml "[$(begins one.ppm)]"
exits 0 "run with an image as first frame" run i.yaml --db i.db --out i --json --set frames=6
json "run with an image: two cells are ok" '.ok == 2'
sweep i.yaml "[$(begins same.ppm)]"
exits 0 "run with the same image under another name" run i.yaml --db i.db --out i --json --set frames=6
json "an image's name does not change the cell" '.ok == 0 and .done_before == 2'
sweep i.yaml "[$(begins two.ppm)]"
exits 0 "run with another image" run i.yaml --db i.db --out i --json --set frames=6
json "another image gives new cells" '.ok == 2'
check "another image gives other videos" test "$(sums i.db | cut -d'|' -f2 | sort -u | wc -l)" = 4
exits 0 "run with an image on the emulated device" run i.yaml --db e.db --out e --json --set frames=4 --set device=emulated --filter method=BF16
json "the cell on the emulated device is ok" '.ok == 1'

# `generate` makes the same video from the same image, seed and embedding.
drawn=(generate --model "$folder" -n 6 -p first --embedding "$folder/golden.safetensors" --embedding-tensor prompt_a)
film() { sql i.db "SELECT a.path FROM cell c JOIN artifact a ON a.cell = c.key WHERE c.method = 'BF16' AND a.kind = 'frames' AND c.spec LIKE '%$1%'"; }
seed=$(sql i.db "SELECT seed FROM cell LIMIT 1")
pixels=$(tail -c $((64 * 32 * 3)) one.ppm | sha256sum | cut -c1-64)
exits 0 "generate from an image" "${drawn[@]}" --image one.ppm --seed "$seed" -o g -m NVFP4_4OVER6@longlive --reference --json -q
json "generate names the image and decodes 21 frames" '.image == "one.ppm" and .frames == 21 and .height == 32 and .width == 64 and .ssim > 0.9 and .ssim < 1'
check "generate writes an MP4 of the method and of BF16" test "$(find g -name '*.mp4' | wc -l)" = 2
exits 0 "compare of the sweep's and generate's BF16 videos" compare "i/$(film "$pixels")" g/BF16-seed*.safetensors --json
json "generate gives the sweep's video" '.frames == 21 and .identical_frames == 21'
exits 0 "generate without the image" "${drawn[@]}" --seed "$seed" -o plain --json -q
exits 0 "compare of the videos with and without the image" compare plain/BF16-seed*.safetensors g/BF16-seed*.safetensors --json
json "no frame with the image equals one without it" '.identical_frames == 0'
exits 2 "generate without embedding and text encoder is refused" generate --model "$folder" -n 6 -p first -o x
says "the error names --embedding" "no text encoder .*--embedding FILE"
exits 2 "a model of RGB latents refuses --image" generate -n 6 -p 'a large red disc bounces over a plain blue background' --image one.ppm -o x
says "the error states which models take an image" "only models with Wan 2.2's latents"
exits 2 "a model with Wan 2.2's latents refuses --given" "${drawn[@]}" --given 2 -o x
says "the error recommends --image" "--image gives a first frame"
exits 2 "nano refuses --embedding" generate -n 6 -p 'a large red disc bounces over a plain blue background' --embedding one.ppm -o x
says "the error says that the model reads words" "reads the prompt's words"
exits 0 "generate with a text encoder" generate --model "$root/tests/fixtures/wan_folder" -n 6 -p '@0: a small dog runs; @1: it sleeps' -o t --json -q
check "generate writes the pack of its prompt" test -s t/prompt.safetensors
exits 0 "generate from that pack" generate --model "$root/tests/fixtures/wan_folder" -n 6 -p '@0: a small dog runs; @1: it sleeps' -o u --json -q \
    --embedding t/prompt.safetensors
check "the pack gives the same video as the text" cmp t/BF16-seed1-0-a-small-dog-runs-1-it-sleeps.safetensors u/BF16-seed1-0-a-small-dog-runs-1-it-sleeps.safetensors

image small.ppm 32 32 1
exits 2 "generate refuses an image of another size" "${drawn[@]}" --image small.ppm -o x
says "generate's error states both sizes" "small.ppm: the image has 32x32 pixels .*, the model needs 64x32"
sweep i.yaml "[$(begins small.ppm)]"
exits 2 "run refuses an image of another size" run i.yaml --db x.db --out x --set frames=6
says "run's error states both sizes and suggests ffmpeg" "small.ppm: the image has 32x32 pixels .*, the model needs 64x32; .*ffmpeg"
says "run's error names file and line" "i.yaml:3"
sweep i.yaml "[$(begins none.ppm)]"
exits 2 "run refuses a missing image" run i.yaml --db x.db --out x --set frames=6
says "the error names the missing image" "none.ppm"
sweep i.yaml "[$(begins "$(find "$PWD/a/frames" -name '*.safetensors' | head -1)")]"
exits 2 "run refuses a video in place of an image" run i.yaml --db x.db --out x --set frames=6
says "the error states the video's number of frames" "the file has 93 frames, need an image"
sweep i.yaml "[$(begins one.ppm)]"
sed -i 's/, embeddings: {[^}]*}//; s/text: first/text: a large red disc/; s/^model: .*/model: nano/; s/: model$/: 0/' i.yaml
exits 5 "run of an image with model nano" run i.yaml --db n.db --out n --json --set frames=6
json "cells of nano with an image are unsupported" '.unsupported == 2 and .ok == 0'

# The commands of results/claims.yaml for LongLive pass a dry run on the emulated device.
cd "$root" || exit 1
grep -A6 -E '^  - id: (longlive2-|fps-longlive|fkv-longlive|dummy-speed)' results/claims.yaml |
    sed -nE 's/^ *command: "kvreel (.*)"$/\1/p
        s/^ *command: "tools.*CONFIG=(configs\/[a-z-]*\.yaml) .*RUN_ARGS=\\"([^"]*)\\".*$/run \1 --set device=emulated \2/p' |
    sed -E "s/device=cuda/device=emulated/; s/--filter ([^' ]+)/--filter '\1'/" | sort -u >"$work/commands"
check "results/claims.yaml has at least 5 commands for LongLive" test "$(wc -l <"$work/commands")" -ge 5
while read -r line; do
    eval "set -- $line"
    exits 0 "planned: $line" "$@" --dry-run --db "$work/c.db" --out "$work/c" --json
    json "all cells are supported: $line" '.cells > 0 and .unsupported == 0'
done <"$work/commands"
exits 0 "claims --json" claims --json
json "the claim longlive2-memory holds" '[.[] | select(.id == "longlive2-memory") | .verdict] == ["holds"]'
exit 0
