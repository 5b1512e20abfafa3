#!/usr/bin/env bash
# Device memory per phase: the high-water mark of kvreel's pool, and the process's memory according to NVML. A stub
# replaces NVML's library.
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
KVR_TEST_GPU_MEMORY='100 150 160 400' exits 0 "a cell with the NVML stub" run m.yaml --db a.db --out a -q
check "each phase has the bytes that NVML reports" test "$(t a.db "SELECT group_concat(name || ' ' || (value / $MiB), ', ') FROM (SELECT * FROM metric
    WHERE name LIKE 'nvml_%' ORDER BY value)")" = \
    '"nvml_context_bytes 100.0, nvml_weights_bytes 150.0, nvml_rollout_bytes 160.0, nvml_decode_bytes 400.0"'
check "the high-water mark of the pool rises from weights to rollout" test "$(t a.db "SELECT (SELECT value FROM metric WHERE name = 'pool_weights_bytes') > 0 AND
    (SELECT value FROM metric WHERE name = 'pool_rollout_bytes') > (SELECT value FROM metric WHERE name = 'pool_weights_bytes') AND
    (SELECT value FROM metric WHERE name = 'pool_context_bytes') = 0 AND
    (SELECT value FROM metric WHERE name = 'pool_decode_bytes') > 0")" = 1
check "the mark of the rollout is the device memory of the cell" test "$(t a.db "SELECT value = device_bytes FROM metric JOIN cell ON key = cell
    WHERE metric.name = 'pool_rollout_bytes'")" = 1
check "the bytes of NVML are pool, context and the rest" test "$(t a.db "SELECT beyond_bytes + device_bytes + context_bytes = nvml_bytes AND
    nvml_bytes = 160 * $MiB AND context_bytes = 100 * $MiB FROM cells_wide")" = 1
exits 0 "the cost table" report --db a.db --table cost
prints "the cost table has columns of pool and NVML" 'pool \(MiB\) +NVML \(MiB\) +context \(MiB\) +outside pool and context \(MiB\)'
exits 0 "the cost table as JSON" report --db a.db --table cost --format json
json "the table explains the memory outside pool and context" '.[0].memory_says | test("^[0-9.]+ % of NVML is in neither: modules, workspaces of libraries$")'
pool=$(t a.db 'SELECT device_bytes FROM cell')
changed a.db "UPDATE metric SET value = 100 * $MiB + $pool + $MiB WHERE name = 'nvml_rollout_bytes'"
exits 0 "the cost table of figures within 2 %" report --db a.db --table cost --format json
json "the table says that pool and NVML agree" '.[0].memory_says | test("^agree within [01]\\.[0-9] %$")'

KVR_TEST_GPU_MEMORY='other 5 6' exits 0 "a cell whose process NVML does not list" run m.yaml --db b.db --out b -q
check "its NVML metrics are NULL with the reason" test "$(t b.db "SELECT count(*) FROM metric WHERE name LIKE 'nvml_%' AND value IS NULL AND
    missing LIKE 'NVML: process % is not among the GPU''s 2 processes'")" = 4
exits 0 "the cost table without NVML figures" report --db b.db --table cost --format json
json "the table has the reason" '.[0].nvml_bytes == null and .[0].device_bytes > 0 and (.[0].memory_says | test("not among the GPU"))'
KVREEL_NVML=$work/none.so exits 0 "a cell without the NVML library" run m.yaml --db c.db --out c -q
check "its NVML metrics have the message of the loader" test "$(t c.db "SELECT count(*) FROM metric WHERE name = 'nvml_rollout_bytes' AND value IS NULL
    AND missing LIKE 'no NVML: %none.so%'")" = 1
unset KVREEL_NVML
exits 0 "a cell on the CPU" run m.yaml --db d.db --out d -q --set device=cpu
check "a cell on the CPU has no device memory metric" test "$(t d.db "SELECT count(*) FROM metric WHERE name LIKE 'nvml_%' OR name LIKE 'pool_%'")" = 0
