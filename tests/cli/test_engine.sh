#!/usr/bin/env bash
# engine check: the network's outputs agree with recorded tensors, and changed weights fail.
. tests/cli/lib.sh || exit 1
fixture=$(dirname "$(find tests/fixtures -name forward.safetensors | head -n 1)")

exits 0 "engine check" engine check "$fixture"
exits 0 "engine check --json" engine check "$fixture" --json
json "engine check reports every tensor" \
    '.ok == true and (.tensors | length > 20) and all(.tensors[]; has("name") and has("rel_l2") and has("max_abs") and has("ok"))'
json "the network's output is within 1e-5" '.tensors[] | select(.name | test("a\\.flow$")) | .rel_l2 <= 1e-5'

exits 0 "engine check in BF16" engine check "$fixture" --compute bf16 --json
json "BF16 outputs differ from the recorded ones by 0.1 to 1.2 %" '.ok and (.tensors[] | select(.name | test("a\\.flow$")) | .rel_l2 > 1e-3 and .rel_l2 <= 1.2e-2)'
exits 0 "a rollout in BF16" engine check "$root/models/nano" --compute bf16 --json
json "a BF16 rollout is compared in its first chunk" '[.tensors[].name] == ["prompt0.first"] and .tensors[0].rel_l2 > 1e-3 and .tensors[0].rel_l2 <= 1.9e-2'
exits 0 "engine check of decoders in BF16" engine check tests/fixtures/wan_real --compute bf16 --json
json "the PSNR of the decoders is above 49 dB" '[.tensors[] | select(.name | endswith("raw in bf16"))] | length == 4 and
    all(.[]; .ok and .rel_l2 > 5e-3 and .rel_l2 <= 0.03 and ((.note | capture("(?<db>[0-9.]+) dB").db | tonumber) > 49))'
exits 0 "engine check of Wan 2.2 in BF16" engine check tests/fixtures/wan22 --compute bf16 --json
json "the decoder of Wan 2.2 runs in BF16" 'any(.tensors[]; .name == "raw in bf16" and .ok)'
exits 2 "engine check refuses an unknown type" engine check "$fixture" --compute fp8
says "the error names the type" 'fp8'
exits 2 "engine check refuses an unknown device" engine check "$fixture" --device tpu
says "the error names the device" 'tpu'

# Sets a hundred F32 weights to zero.
cp -r "$fixture" "$work/hurt"
chmod -R u+w "$work/hurt"
size=$(stat -c %s "$work/hurt/dit.safetensors")
dd if=/dev/zero of="$work/hurt/dit.safetensors" bs=1 count=400 seek=$((size - 8000)) conv=notrunc status=none
exits 4 "a damaged weight exceeds the tolerance" engine check "$work/hurt" --json
json "the report marks a tensor that failed" '.ok == false and any(.tensors[]; .ok == false)'

exits 2 "engine check refuses a missing folder" engine check "$work/absent"
says "the error names the folder" 'absent'
exits 2 "engine refuses an unknown verb" engine chek "$fixture"
head -c 5000 "$fixture/dit.safetensors" >"$work/hurt/dit.safetensors"
exits 2 "engine check refuses truncated weights" engine check "$work/hurt"
says "the error names the weight file" 'dit.safetensors'

# engine check uses the tolerances in the golden.json of a model's folder.
cp -r models/nano "$work/nano"
chmod -R u+w "$work/nano"
echo '{"rel_l2_all": 1e-9, "rel_l2_first6": 1e-4}' >"$work/nano/golden.json"
exits 4 "a tolerance below rounding error fails" engine check "$work/nano"
prints "the report has the tolerance in golden.json" 'prompt0.frames .* fail .* relative L2 1e-09'
echo '{"rel_l2_all": NaN, "rel_l2_first6": 1e-4}' >"$work/nano/golden.json"
exits 2 "a NaN tolerance is refused" engine check "$work/nano"
says "the error names the key of the tolerance" 'golden.json: rel_l2_all: expected number, found NaN'
