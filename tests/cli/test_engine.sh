#!/usr/bin/env bash
# engine check: the network's outputs agree with recorded tensors, and changed weights fail.
. tests/cli/lib.sh || exit 1
fixture=$(dirname "$(find tests/fixtures -name forward.safetensors | head -n 1)")

exits 0 "engine check" engine check "$fixture"
exits 0 "engine check --json" engine check "$fixture" --json
json "every tensor is told" \
    '.ok == true and (.tensors | length > 20) and all(.tensors[]; has("name") and has("rel_l2") and has("max_abs") and has("ok"))'
json "the network's output is within 1e-5" '.tensors[] | select(.name | test("a\\.flow$")) | .rel_l2 <= 1e-5'

exits 0 "engine check in BF16" engine check "$fixture" --compute bf16 --json
json "is another computation" '.ok and (.tensors[] | select(.name | test("a\\.flow$")) | .rel_l2 > 1e-3 and .rel_l2 <= 1.2e-2)'
exits 0 "a rollout in BF16" engine check "$root/models/nano" --compute bf16 --json
json "is compared in its first chunk" '[.tensors[].name] == ["prompt0.first"] and .tensors[0].rel_l2 > 1e-3 and .tensors[0].rel_l2 <= 1.9e-2'
exits 0 "decoders in BF16" engine check tests/fixtures/wan_real --compute bf16 --json
json "say the PSNR of their pixels" '[.tensors[] | select(.name | endswith("raw in bf16"))] | length == 4 and
    all(.[]; .ok and .rel_l2 > 5e-3 and .rel_l2 <= 0.03 and ((.note | capture("(?<db>[0-9.]+) dB").db | tonumber) > 49))'
exits 0 "Wan 2.2, too" engine check tests/fixtures/wan22 --compute bf16 --json
json "is decoded in BF16" 'any(.tensors[]; .name == "raw in bf16" and .ok)'
exits 2 "no such type" engine check "$fixture" --compute fp8
says "names it" 'fp8'
exits 2 "no such device" engine check "$fixture" --device tpu
says "names it" 'tpu'

# Sets a hundred F32 weights to zero.
cp -r "$fixture" "$work/hurt"
chmod -R u+w "$work/hurt"
size=$(stat -c %s "$work/hurt/dit.safetensors")
dd if=/dev/zero of="$work/hurt/dit.safetensors" bs=1 count=400 seek=$((size - 8000)) conv=notrunc status=none
exits 4 "a damaged weight is out of tolerance" engine check "$work/hurt" --json
json "and says which" '.ok == false and any(.tensors[]; .ok == false)'

exits 2 "no such folder" engine check "$work/absent"
says "names it" 'absent'
exits 2 "an unknown verb" engine chek "$fixture"
head -c 5000 "$fixture/dit.safetensors" >"$work/hurt/dit.safetensors"
exits 2 "truncated weights" engine check "$work/hurt"
says "names the file" 'dit.safetensors'

# The tolerances in a model's golden.json are used.
cp -r models/nano "$work/nano"
chmod -R u+w "$work/nano"
echo '{"rel_l2_all": 1e-9, "rel_l2_first6": 1e-4}' >"$work/nano/golden.json"
exits 4 "a limit that no sum of floats keeps" engine check "$work/nano"
prints "is the folder's own" 'prompt0.frames .* fail .* relative L2 1e-09'
echo '{"rel_l2_all": NaN, "rel_l2_first6": 1e-4}' >"$work/nano/golden.json"
exits 2 "a limit that is no number" engine check "$work/nano"
says "names the key" 'golden.json: rel_l2_all: expected number, found NaN'
