#!/usr/bin/env bash
# kvreel accepts text files with byte order marks, quoted numbers, unpadded safetensors headers, and model folders by
# name.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
mark=$'\xef\xbb\xbf'
plan() { exits 0 "$1" run "$2" --db p.db --dry-run; }

# A UTF-8 byte order mark is accepted at the start of every kind of text file.
mkdir -p configs/suites
tiny_config plain.yaml
{ printf %s "$mark"; cat plain.yaml; } >bom.yaml
plan "a config with a byte order mark" bom.yaml
printf '%sname: marked\nprompts:\n  - {id: red, text: a large red disc drifts right over a plain blue background}\n' "$mark" \
    >configs/suites/marked.yaml
printf '%sa large red disc drifts right over a plain blue background\n' "$mark" >list.txt
sed '/^prompts:/,/green/d' plain.yaml >base.yaml
{ cat base.yaml; echo 'suite: marked'; } >suite.yaml
plan "a suite with a byte order mark" suite.yaml
{ cat base.yaml; echo 'suite: {suite: listed, file: list.txt}'; } >listed.yaml
plan "a list of prompts with a byte order mark" listed.yaml
layers=$(jq .num_layers "$root/models/nano/config.json") heads=$(jq .num_heads "$root/models/nano/config.json")
{ printf %s "$mark"; for ((i = 0; i < layers; i++)); do echo 1.0; done; } >layers.txt
exits 0 "layer budgets with a byte order mark" predict -m FLOWCACHE_PRUNE_INT4 --geometry nano --frames 12 -O layer_budget=layers.txt
{ printf %s "$mark"; for ((i = 0; i < layers; i++)); do printf 's%.0s' $(seq "$heads"); echo; done; } >heads.txt
exits 0 "a head map with a byte order mark" predict -m FORCING_KV --geometry nano --frames 12 -O map=heads.txt
for encoding in UTF-16LE UTF-16BE UTF-32LE UTF-32BE; do
    { printf %s "$mark"; cat plain.yaml; } | iconv -f UTF-8 -t "$encoding" >wide.yaml
    exits 2 "a config in $encoding is refused" run wide.yaml --dry-run
    says "the error names $encoding" "wide.yaml: the file is ${encoding%?E} text .* save it as UTF-8"
done
exits 0 "a filter with a byte order mark" run plain.yaml --dry-run --db p.db --filter "${mark}seed=1"

# Numbers and truth values may be in quotes.
sed 's/^frames: 6/frames: "6"\nwindow: ["6", "0"]\nseed: "1"\nrepeats: '"'2'"'\nevict: "false"/' plain.yaml >quoted.yaml
plan "numbers and truth values in quotes" quoted.yaml
cp "$out" quoted.out
sed 's/^frames: 6/frames: 6\nwindow: [6, 0]\nseed: 1\nrepeats: 2\nevict: false/' plain.yaml >bare.yaml
plan "the same config without quotes" bare.yaml
# The estimated time is not compared, because it depends on the machine's load.
check "quoted and bare values give the same plan" diff <(grep -v "TFLOP/s" "$out") <(grep -v "TFLOP/s" quoted.out)

# Keys that begin with x- are allowed, for YAML anchors.
sed 's/^frames: 6/frames: *f/; 1i x-common: &f [6]\nx-more: {a: 1}' plain.yaml >anchors.yaml
plan "keys that begin with x-" anchors.yaml

# A model may be the bare name of a folder in the working directory. A folder in models/ has priority.
cp -r "$root/models/nano" mine
sed 's/^model: nano/model: mine/' plain.yaml >mine.yaml
plan "a model folder in the working directory" mine.yaml
mkdir -p elsewhere && cp mine.yaml elsewhere/ && cp -r mine elsewhere/beside
sed -i 's/^model: mine/model: beside/' elsewhere/mine.yaml
plan "a model folder beside the config" elsewhere/mine.yaml
exits 0 "predict with a model folder" predict -m RTN_INT4 --geometry mine --frames 6
exits 0 "generate with a model folder" generate --model mine -m RTN_INT4 -n 3 -p 'a large red disc drifts right' -o g -q
sed 's/^model: nano/model: absent/' plain.yaml >absent.yaml
exits 2 "a missing model folder is refused" run absent.yaml --dry-run
says "the error says where kvreel searched" 'and for ./absent/config.json|did you mean'

# An error about a length names the command's option and the limit.
while read -r words; do
    # shellcheck disable=SC2086
    exits 2 "$words is refused" $words -p 'a large red disc'
    says "$words: the error names the option and the limit" "${words%% *}: --(frames|window|given) [0-9]+: must be .*(3 .frames per chunk|--frames 6)"
done <<'WORDS'
generate -n 1
generate -n 4
generate -n 6 -w 2
generate -n 6 --given 2
generate -n 6 --given 6
trace record x.kvtrace --licence Apache-2.0 -n 1
trace record x.kvtrace --licence Apache-2.0 -n 6 -w 1
WORDS
exits 2 "profile -n 1 is refused" profile -n 1
says "the error of profile names the option and the limit" 'profile: --frames 1: must be a multiple of 3'

# kvreel reads tensors after a header without padding, as safetensors wrote until 2023.
if command -v python3 >/dev/null; then
    for pad in 0 1 2 3; do
        python3 - $pad >odd.safetensors <<'PY'
import json, struct, sys
kv = {n: {"dtype": "F32", "shape": [4, 1, 8], "data_offsets": [128 * i, 128 * i + 128]} for i, n in enumerate("kv")}
header = json.dumps(kv).encode()
header += b" " * (-len(header) % 4 + int(sys.argv[1]))
sys.stdout.buffer.write(struct.pack("<Q", len(header)) + header + struct.pack("<64f", *range(64)))
PY
        exits 0 "a safetensors header padded with $pad bytes more than a multiple of 4" codec -m BF16 -i odd.safetensors -o "decoded$pad.safetensors" \
            -O tokens_per_frame=4 -O frames_per_chunk=1
        check "the tensors after $pad bytes of padding are the same" cmp decoded0.safetensors "decoded$pad.safetensors"
    done
else
    skip "safetensors headers without padding" "no python3 here"
fi

# model check reports the architecture in a GGUF file's header, whatever the names of its tensors.
if command -v python3 >/dev/null; then
    for architecture in llama qwen2 gemma3; do
        python3 - "$architecture" >"$architecture.gguf" <<'PY'
import struct, sys
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
tensors = ("token_embd.weight", "blk.0.attn_q.weight")
out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1)
out += text("general.architecture") + struct.pack("<I", 8) + text(sys.argv[1])
for i, name in enumerate(tensors):
    out += text(name) + struct.pack("<IQQIQ", 2, 8, 4, 0, 128 * i)
sys.stdout.buffer.write(out + bytes(-len(out) % 32) + bytes(256))
PY
        exits 0 "model check of a GGUF file of $architecture" model check $architecture.gguf
        prints "the text names $architecture" "GGUF, $architecture,"
        exits 0 "model check --json of a GGUF file of $architecture" model check $architecture.gguf --json
        json "the JSON names $architecture" ".architecture == \"$architecture\" and .kind == .architecture"
    done
    LC_ALL=C sed 's/gemma3/ge\x1b\n\x9b3/' gemma3.gguf >control.gguf
    exits 0 "a GGUF architecture with control characters" model check control.gguf
    check "the control characters are not printed" test "$(head -1 "$out" | tr -d '[:print:]')" = ""
else
    skip "GGUF of other architectures" "no python3 here"
fi
