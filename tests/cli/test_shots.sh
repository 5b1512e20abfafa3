#!/usr/bin/env bash
# Prompts of several shots, from a sweep to videos. The test covers the cache at a cut (on_switch), the samplers, and
# one text embedding per shot.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

sweep() { # sweep FILE PROMPTS
    cat >"$1" <<YAML
question: what does a cut do?
model: nano
prompts: $2
methods: [BF16, {method: MULTI_SHOT_SINK, options: {frames: 9, sink: 3}}]
frames: 15
window: 9
sink: 3
control: 0
baselines: none
metrics: [psnr]
YAML
}
one='a large red disc bounces over a plain blue background'
sweep shots.yaml "[{id: cut, shots: [{text: $one, chunks: 2}, {text: a small white square spins}]}]"
sweep plain.yaml "[{id: cut, text: '@0: $one; @2: a small white square spins'}]"

exits 0 "a sweep over three values of on_switch" run shots.yaml --db a.db --out a --json -s 'on_switch=[keep, recache, reset]'
json "the six cells are OK" '.cells == 6 and .ok == 6'
exits 0 "the same prompt as one line" run plain.yaml --db a.db --out a --json -s 'on_switch=[keep, recache, reset]'
json "the prompt as one line gives the same cells" '.cells == 6 and .done_before == 6'
exits 0 "a query for the frames of each on_switch" query --db a.db --json "SELECT c.name, c.on_switch, a.frames_sha256 AS f FROM cell c JOIN attempt a ON a.cell = c.key"
json "each on_switch gives other frames" '[.[] | select(.name == "BF16") | .f] | unique | length == 3'
json "MULTI_SHOT_SINK gives other frames than BF16" '(.[] | select(.name == "BF16" and .on_switch == "keep") | .f) != (.[] | select(.name == "MULTI_SHOT_SINK" and .on_switch == "keep") | .f)'
exits 0 "the summary of shots" report --db a.db --table summary
check "the summary has on_switch" grep -q on_switch "$out"

exits 0 "a sweep over three samplers" run shots.yaml --db s.db --out s --json --filter method=BF16 -s 'sampler=[model, unipc, "unipc:2:3"]'
json "the three cells are OK" '.ok == 3'
exits 0 "a query for the frames of each sampler" query --db s.db --json "SELECT c.sampler, a.frames_sha256 AS f FROM cell c JOIN attempt a ON a.cell = c.key"
json "each sampler gives other frames" '[.[].f] | unique | length == 3'
exits 2 "an invalid sampler is refused" run shots.yaml --db s.db --out s -s 'sampler=unipc:0'
says "the error has the sampler" "unipc:0"

exits 2 "shots longer than the video" run shots.yaml --db x.db --out x -s frames=6
says "the error has the chunk of the shot" "@2"
sweep bad.yaml "[{id: cut, shots: [{text: $one}, {text: a small white square}]}]"
exits 2 "a shot without chunks" run bad.yaml --db x.db --out x
says "the error says that chunks are missing" "the shot has no .chunks."
sweep bad.yaml "[{id: cut, text: $one, shots: [{text: $one}]}]"
exits 2 "a prompt with a text and shots" run bad.yaml --db x.db --out x
says "the error says that the prompt has both" "has both"

# A model with random weights accepts any text.
sed 's/^model: nano/model: wan-1.3b-random/; s/^frames: 15/frames: 9/' shots.yaml >drawn.yaml
exits 0 "a dry run with random weights" run drawn.yaml --db d.db --out d --dry-run --json -s model_layers=1 -s model_steps=1
json "the dry run has two cells" '.cells == 2'
exits 0 "a sweep with shot_offset=8" run shots.yaml --db o.db --out o --json --filter method=BF16 -s shot_offset=8
json "the cell with shot_offset is OK" '.ok == 1'
exits 0 "a query for the frames with shot_offset" query --db o.db --json "SELECT frames_sha256 AS f FROM attempt"
f=$(jq -r '.[0].f' "$out")
was=$(sql a.db "SELECT a.frames_sha256 FROM cell c JOIN attempt a ON a.cell = c.key WHERE c.name = 'BF16' AND c.on_switch = 'keep'")
check "shot_offset changes the frames" bash -c '[[ $0 =~ ^[0-9a-f]{64}$ && $1 =~ ^[0-9a-f]{64}$ && $0 != "$1" ]]' "$f" "$was"

# generate --on-switch: each value gives another video.
for how in keep recache reset; do
    exits 0 "generate --on-switch $how" generate -p "@0: $one; @1: a large white square spins" -n 9 -o "g/$how" --on-switch "$how" -q --json
    sha256sum "$(jq -r .frames_file "$out")" | cut -c1-64 >>g.sums
done
check "each --on-switch gives another video" test "$(sort -u g.sums | wc -l)" = 3
exits 2 "generate refuses an unknown --on-switch" generate -p "$one" -n 3 --on-switch forget
says "the error lists the values of --on-switch" "keep, recache or reset"
exits 2 "generate refuses a missing adapter" generate -p "$one" -n 3 --lora none.pt
says "the error names the file of the adapter" "none.pt: LoRA adapter file not found"

exit 0
