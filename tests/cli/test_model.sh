#!/usr/bin/env bash
# model check: reports the content of weight files and missing tensors. It neither runs nor prints code in the
# files.
. tests/cli/lib.sh || exit 1

pt=tests/fixtures/pt
exits 0 "model check of a .pt file" model check $pt/good.pt --json
json "the JSON has format, kind and tensors" '.format == "torch zip" and .kind == "tensors" and (.tensors | length) == 6'
json "a tensor has a name, dtype, shape, hash and model name" \
    '.tensors[0] == {name: "generator_ema.model.w", dtype: "F32", shape: [2, 3], model_name: "w",
      sha256: "e2c0a71510b5394df7773b63fb5f54372b84c3564e67811bde7d665be227976d"}'
exits 0 "model check of a legacy .pt file" model check $pt/good_legacy.pt --json
json "the JSON names the legacy format" '.format == "torch legacy"'
exits 0 "model check of a GGUF file" model check tests/fixtures/gguf/blocks.gguf --json
json "tensors have their block types" '.format == "GGUF" and ([.tensors[].dtype] | contains(["Q4_K", "Q6_K"]))'
exits 0 "model check of a model folder" model check models/nano --json
json "the folder lacks nothing" '.format == "folder" and .kind == "wan folder" and .missing == []'
json "the parameters are those of the transformer alone" \
    '.parameters == (.files[] | select(.kind == "wan dit").parameters)'
json "the memory is given for F32 and BF16" '.memory.f32_bytes > 0 and .memory.f32_bytes == 2 * .memory.bf16_bytes'

mkdir "$work/lacking"
cp models/nano/dit.safetensors "$work/lacking/"
exits 0 "a folder without its configuration" model check "$work/lacking" --json
json "config.json is listed as missing" '.missing | index("config.json") != null'
jq '.num_layers = 7' models/nano/config.json >"$work/lacking/config.json"
exits 0 "a configuration with more layers than the weights" model check "$work/lacking" --json
json "the missing tensors are listed" '.missing | index("blocks.6.modulation") != null'
# model check refuses a configuration that a rollout would refuse.
while IFS='|' read -r change reason; do
    sed "$change" models/nano/config.json >"$work/lacking/config.json"
    exits 2 "model check refuses $reason" model check "$work/lacking"
    says "the error has the file and key: $reason" "config.json: $reason"
done <<'CHANGES'
s/"dim": 192/"dim": NaN/|dim: expected integer, found NaN
s/"dim": 192/"dim": "192"/|dim: expected integer, found string
s/"eps": 1e-06/"eps": "1e-6"/|eps: expected number, found string
s/"qk_norm": true/"qk_norm": "true"/|qk_norm: expected boolean, found string
s/"timestep_shift": 5.0/"timestep_shift": Infinity/|timestep_shift: expected number, found Infinity
s/"window_frames": 21/"lora": {"rank": "4"}/|lora: rank: expected integer, found string
s/"window_frames": 21/"lora": {"rank": 4, "alpha": NaN}/|lora: alpha: expected number, found NaN
CHANGES

cp models/nano/dit.safetensors "$work/one.safetensors"
{
    printf '\xef\xbb\xbf'
    "$kvreel" model check models/nano/dit.safetensors --json |
        jq '{metadata: null, weight_map: (.tensors | map({key: .name, value: "one.safetensors"}) | from_entries)}'
} >"$work/m.safetensors.index.json"
exits 0 "an index with a byte order mark" model check "$work/m.safetensors.index.json" --json
json "the shards of the index are found" '.format == "safetensors shards" and .missing == []'

for f in call call_aside hooks legacy_call expanded doubling deep cut empty lfs; do
    exits 2 "$f.pt is refused" model check $pt/$f.pt
    check "$f.pt shows nothing on stdout" test ! -s "$out"
    check "$f.pt does not show its payload" bash -c "! grep -q payload-ran '$err'"
done
exits 2 "model check refuses a missing file" model check "$work/none.pt"
exits 2 "model check refuses a folder without weights" model check "$root/docs"
exits 2 "model refuses an unknown verb" model cheque $pt/good.pt
exits 0 "model check prints text" model check $pt/good.pt
prints "the text lists the tensors" 'generator_ema.model.w +F32 +\[2, 3\]'
