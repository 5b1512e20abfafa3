#!/usr/bin/env bash
# Device memory per phase: the pool's high-water mark and NVML's count, with a replacement for NVML's library.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cd "$work" || exit 1
emulates "an emulated device" || exit 0
folder=$root/tests/fixtures/wan_folder
cp -r "$folder" little
jq '.latent_height = 2 | .latent_width = 2' "$folder/config.json" >little/config.json
cat >m.yaml <<'Y'
model: little
prompts: [{id: one, text: a small dog runs}]
frames: 3
control: 0
baselines: none
videos: false
metrics: [psnr]
device: emulated
methods: [BF16]
Y
t() { "$kvreel" query --db "$1" --csv "$2" | tail -n 1; }
export KVREEL_EMULATED_DEVICES=1 KVREEL_LOCKS=$work KVREEL_NVML=${kvreel%/*}/tests/plugins/fake_nvml.so
MiB=1048576

# KVR_TEST_GPU_MEMORY: the MiB that NVML reports after the context, the weights, the rollout and the decoder.
KVR_TEST_GPU_MEMORY='100 150 160 400' exits 0 "a cell" run m.yaml --db a.db --out a -q
check "each phase has both" test "$(t a.db "SELECT group_concat(name || ' ' || (value / $MiB), ', ') FROM (SELECT * FROM metric
    WHERE name LIKE 'nvml_%' ORDER BY value)")" = \
    '"nvml_context_bytes 100.0, nvml_weights_bytes 150.0, nvml_rollout_bytes 160.0, nvml_decode_bytes 400.0"'
check "the pool's marks rise" test "$(t a.db "SELECT (SELECT value FROM metric WHERE name = 'pool_weights_bytes') > 0 AND
    (SELECT value FROM metric WHERE name = 'pool_rollout_bytes') > (SELECT value FROM metric WHERE name = 'pool_weights_bytes') AND
    (SELECT value FROM metric WHERE name = 'pool_context_bytes') = 0 AND
    (SELECT value FROM metric WHERE name = 'pool_decode_bytes') > 0")" = 1
check "the rollout's is the cell's" test "$(t a.db "SELECT value = device_bytes FROM metric JOIN cell ON key = cell
    WHERE metric.name = 'pool_rollout_bytes'")" = 1
check "what neither explains" test "$(t a.db "SELECT beyond_bytes + device_bytes + context_bytes = nvml_bytes AND
    nvml_bytes = 160 * $MiB AND context_bytes = 100 * $MiB FROM cells_wide")" = 1
exits 0 "the cost table" report --db a.db --table cost
prints "has pool and NVML" 'pool \(MiB\) +NVML \(MiB\) +context \(MiB\) +outside pool and context \(MiB\)'
exits 0 "for programs" report --db a.db --table cost --format json
json "the difference is named" '.[0].memory_says | test("^[0-9.]+ % of NVML is in neither: modules, workspaces of libraries$")'
pool=$(t a.db 'SELECT device_bytes FROM cell')
changed a.db "UPDATE metric SET value = 100 * $MiB + $pool + $MiB WHERE name = 'nvml_rollout_bytes'"
exits 0 "within 2 %" report --db a.db --table cost --format json
json "they agree" '.[0].memory_says | test("^agree within [01]\\.[0-9] %$")'

KVR_TEST_GPU_MEMORY='other 5 6' exits 0 "a process that NVML does not list" run m.yaml --db b.db --out b -q
check "is missing, with the reason" test "$(t b.db "SELECT count(*) FROM metric WHERE name LIKE 'nvml_%' AND value IS NULL AND
    missing LIKE 'NVML: process % is not among the GPU''s 2 processes'")" = 4
exits 0 "its table" report --db b.db --table cost --format json
json "says so" '.[0].nvml_bytes == null and .[0].device_bytes > 0 and (.[0].memory_says | test("not among the GPU"))'
KVREEL_NVML=$work/none.so exits 0 "without NVML" run m.yaml --db c.db --out c -q
check "the reason is the loader's" test "$(t c.db "SELECT count(*) FROM metric WHERE name = 'nvml_rollout_bytes' AND value IS NULL
    AND missing LIKE 'no NVML: %none.so%'")" = 1
unset KVREEL_NVML
exits 0 "on the CPU" run m.yaml --db d.db --out d -q --set device=cpu
check "there is nothing of the kind" test "$(t d.db "SELECT count(*) FROM metric WHERE name LIKE 'nvml_%' OR name LIKE 'pool_%'")" = 0
