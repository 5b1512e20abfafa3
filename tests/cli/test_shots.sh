#!/usr/bin/env bash
# Prompts of several shots, from a sweep to videos: the cache at a cut, the samplers, and one embedding per shot.
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

exits 0 "shots under three switches" run shots.yaml --db a.db --out a --json -s 'on_switch=[keep, recache, reset]'
json "are cells" '.cells == 6 and .ok == 6'
exits 0 "the same as a line" run plain.yaml --db a.db --out a --json -s 'on_switch=[keep, recache, reset]'
json "are the same cells" '.cells == 6 and .done_before == 6'
exits 0 "what they made" query --db a.db --json "SELECT c.name, c.on_switch, a.frames_sha256 AS f FROM cell c JOIN attempt a ON a.cell = c.key"
json "differs by the switch" '[.[] | select(.name == "BF16") | .f] | unique | length == 3'
json "and a sink of the shot is one" '(.[] | select(.name == "BF16" and .on_switch == "keep") | .f) != (.[] | select(.name == "MULTI_SHOT_SINK" and .on_switch == "keep") | .f)'
exits 0 "a report" report --db a.db --table summary
check "has the switch" grep -q on_switch "$out"

exits 0 "samplers" run shots.yaml --db s.db --out s --json --filter method=BF16 -s 'sampler=[model, unipc, "unipc:2:3"]'
json "run" '.ok == 3'
exits 0 "what they made" query --db s.db --json "SELECT c.sampler, a.frames_sha256 AS f FROM cell c JOIN attempt a ON a.cell = c.key"
json "differs" '[.[].f] | unique | length == 3'
exits 2 "a sampler that is none" run shots.yaml --db s.db --out s -s 'sampler=unipc:0'
says "is told" "unipc:0"

exits 2 "shots longer than the video" run shots.yaml --db x.db --out x -s frames=6
says "are told" "@2"
sweep bad.yaml "[{id: cut, shots: [{text: $one}, {text: a small white square}]}]"
exits 2 "a shot without chunks" run bad.yaml --db x.db --out x
says "is told" "the shot has no .chunks."
sweep bad.yaml "[{id: cut, text: $one, shots: [{text: $one}]}]"
exits 2 "a text and shots" run bad.yaml --db x.db --out x
says "is told" "has both"

# A model with random weights accepts any text.
sed 's/^model: nano/model: wan-1.3b-random/; s/^frames: 15/frames: 9/' shots.yaml >drawn.yaml
exits 0 "drawn weights" run drawn.yaml --db d.db --out d --dry-run --json -s model_layers=1 -s model_steps=1
json "take shots" '.cells == 2'
exits 0 "an offset" run shots.yaml --db o.db --out o --json --filter method=BF16 -s shot_offset=8
json "runs" '.ok == 1'
exits 0 "what it made" query --db o.db --json "SELECT frames_sha256 AS f FROM attempt"
f=$(jq -r '.[0].f' "$out")
was=$(sql a.db "SELECT a.frames_sha256 FROM cell c JOIN attempt a ON a.cell = c.key WHERE c.name = 'BF16' AND c.on_switch = 'keep'")
check "is not what there was without" bash -c '[[ $0 =~ ^[0-9a-f]{64}$ && $1 =~ ^[0-9a-f]{64}$ && $0 != "$1" ]]' "$f" "$was"

# The same with generate.
for how in keep recache reset; do
    exits 0 "generate: $how" generate -p "@0: $one; @1: a large white square spins" -n 9 -o "g/$how" --on-switch "$how" -q --json
    sha256sum "$(jq -r .frames_file "$out")" | cut -c1-64 >>g.sums
done
check "are three videos" test "$(sort -u g.sums | wc -l)" = 3
exits 2 "a switch that is none" generate -p "$one" -n 3 --on-switch forget
says "is told" "keep, recache or reset"
exits 2 "an adapter that is not there" generate -p "$one" -n 3 --lora none.pt
says "is told" "none.pt: LoRA adapter file not found"

exit 0
