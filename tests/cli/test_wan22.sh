#!/usr/bin/env bash
# A small Wan 2.2 from prompts to pixels, MP4 and report, with shots, a first frame from an image, and the solver. A
# cell that Ctrl-C or kill -9 stops gives the same bytes after it was resumed.
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

exits 0 "two prompts" run wan.yaml --db a.db --out a --json
json "become cells" '.cells == 4 and .ok == 4'
check "an MP4 each" test "$(find a/videos -name '*.mp4' | wc -l)" = 4
check "frames of 64x32 pixels, 1 + 4 x 23 of them" bash -c \
    "head -c 400 \$(find a/frames -name '*.safetensors' | head -1) | grep -aq '\[93,32,64,3\]'"
check "four videos" test "$(sums a.db | cut -d'|' -f2 | sort -u | wc -l)" = 4
exits 0 "and a report" report --db a.db --out page
check "is a page" test -s page/index.html
check "the window and the sink are the model's" \
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
    check "SIG$signal stopped it in the middle of a cell ($n of 4 were there)" bash -c "test $n -ge 1 && test $n -lt 4"
    exits 0 "SIG$signal: the same command resumes" run wan.yaml --db $signal.db --out o-$signal.db --jobs 1 --json
    json "SIG$signal: what was missing" ".cells == 4 and .failed == 0 and .ok + .done_before == 4 and .done_before >= $n"
    check "SIG$signal: to the same bytes" bash -c 'test "$(wc -l <<<"$1")" = 4 && test "$1" = "$2"' _ "$(sums $signal.db)" "$(sums a.db)"
    check "SIG$signal: and an MP4 each" test "$(find o-$signal.db/videos -name '*.mp4' | wc -l)" = 4
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
exits 0 "a first frame" run i.yaml --db i.db --out i --json --set frames=6
json "is generated on from" '.ok == 2'
sweep i.yaml "[$(begins same.ppm)]"
exits 0 "the same image by another name" run i.yaml --db i.db --out i --json --set frames=6
json "is the same cell" '.ok == 0 and .done_before == 2'
sweep i.yaml "[$(begins two.ppm)]"
exits 0 "another image" run i.yaml --db i.db --out i --json --set frames=6
json "is another cell" '.ok == 2'
check "and another video" test "$(sums i.db | cut -d'|' -f2 | sort -u | wc -l)" = 4
exits 0 "on an emulated device" run i.yaml --db e.db --out e --json --set frames=4 --set device=emulated --filter method=BF16
json "too" '.ok == 1'

# `generate` makes the same video from the same image, seed and embedding.
drawn=(generate --model "$folder" -n 6 -p first --embedding "$folder/golden.safetensors" --embedding-tensor prompt_a)
film() { sql i.db "SELECT a.path FROM cell c JOIN artifact a ON a.cell = c.key WHERE c.method = 'BF16' AND a.kind = 'frames' AND c.spec LIKE '%$1%'"; }
seed=$(sql i.db "SELECT seed FROM cell LIMIT 1")
pixels=$(tail -c $((64 * 32 * 3)) one.ppm | sha256sum | cut -c1-64)
exits 0 "generate from an image" "${drawn[@]}" --image one.ppm --seed "$seed" -o g -m NVFP4_4OVER6@longlive --reference --json -q
json "names it, and decodes" '.image == "one.ppm" and .frames == 21 and .height == 32 and .width == 64 and .ssim > 0.9 and .ssim < 1'
check "an MP4 of both" test "$(find g -name '*.mp4' | wc -l)" = 2
exits 0 "its reference" compare "i/$(film "$pixels")" g/BF16-seed*.safetensors --json
json "is the sweep's video" '.frames == 21 and .identical_frames == 21'
exits 0 "generate without the image" "${drawn[@]}" --seed "$seed" -o plain --json -q
exits 0 "both" compare plain/BF16-seed*.safetensors g/BF16-seed*.safetensors --json
json "are different videos" '.identical_frames == 0'
exits 2 "neither embedding nor text encoder" generate --model "$folder" -n 6 -p first -o x
says "is told what to give" "no text encoder .*--embedding FILE"
exits 2 "a model of RGB latents" generate -n 6 -p 'a large red disc bounces over a plain blue background' --image one.ppm -o x
says "takes no image" "only models with Wan 2.2's latents"
exits 2 "frames to go on from" "${drawn[@]}" --given 2 -o x
says "are for RGB latents" "--image gives a first frame"
exits 2 "the words of a model" generate -n 6 -p 'a large red disc bounces over a plain blue background' --embedding one.ppm -o x
says "are no embedding" "reads the prompt's words"
exits 0 "a text encoder" generate --model "$root/tests/fixtures/wan_folder" -n 6 -p '@0: a small dog runs; @1: it sleeps' -o t --json -q
check "leaves its pack" test -s t/prompt.safetensors
exits 0 "the pack again" generate --model "$root/tests/fixtures/wan_folder" -n 6 -p '@0: a small dog runs; @1: it sleeps' -o u --json -q \
    --embedding t/prompt.safetensors
check "makes the same video" cmp t/BF16-seed1-0-a-small-dog-runs-1-it-sleeps.safetensors u/BF16-seed1-0-a-small-dog-runs-1-it-sleeps.safetensors

image small.ppm 32 32 1
exits 2 "an image of another size for generate" "${drawn[@]}" --image small.ppm -o x
says "is told the video's" "small.ppm: the image has 32x32 pixels .*, the model needs 64x32"
sweep i.yaml "[$(begins small.ppm)]"
exits 2 "an image of another size" run i.yaml --db x.db --out x --set frames=6
says "is told its size and that of the video" "small.ppm: the image has 32x32 pixels .*, the model needs 64x32; .*ffmpeg"
says "with file and line" "i.yaml:3"
sweep i.yaml "[$(begins none.ppm)]"
exits 2 "an image that is not there" run i.yaml --db x.db --out x --set frames=6
says "is named" "none.ppm"
sweep i.yaml "[$(begins "$(find "$PWD/a/frames" -name '*.safetensors' | head -1)")]"
exits 2 "a video in its place" run i.yaml --db x.db --out x --set frames=6
says "is told" "the file has 93 frames, need an image"
sweep i.yaml "[$(begins one.ppm)]"
sed -i 's/, embeddings: {[^}]*}//; s/text: first/text: a large red disc/; s/^model: .*/model: nano/; s/: model$/: 0/' i.yaml
exits 5 "a model without an encoder" run i.yaml --db n.db --out n --json --set frames=6
json "is not supported" '.unsupported == 2 and .ok == 0'

# The commands of results/claims.yaml for LongLive pass a dry run on the emulated device.
cd "$root" || exit 1
grep -A6 -E '^  - id: (longlive2-|fps-longlive|fkv-longlive|dummy-speed)' results/claims.yaml |
    sed -nE 's/^ *command: "kvreel (.*)"$/\1/p
        s/^ *command: "tools.*CONFIG=(configs\/[a-z-]*\.yaml) .*RUN_ARGS=\\"([^"]*)\\".*$/run \1 --set device=emulated \2/p' |
    sed -E "s/device=cuda/device=emulated/; s/--filter ([^' ]+)/--filter '\1'/" | sort -u >"$work/commands"
check "the ledger has commands for LongLive" test "$(wc -l <"$work/commands")" -ge 5
while read -r line; do
    eval "set -- $line"
    exits 0 "planned: $line" "$@" --dry-run --db "$work/c.db" --out "$work/c" --json
    json "is cells" '.cells > 0 and .unsupported == 0'
done <"$work/commands"
exits 0 "the window's memory" claims --json
json "is as claimed" '[.[] | select(.id == "longlive2-memory") | .verdict] == ["holds"]'
exit 0
