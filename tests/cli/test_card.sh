#!/usr/bin/env bash
# configs/cost-card.yaml on an emulated device: a tiny Wan model is measured in two runs, and `kvreel merge` joins
# their databases. kvreel never uses the times of an emulated device, so the test writes GPU times into the
# databases.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cd "$work" || exit 1
mkdir -p models/small
jq '.dim = 128 | .ffn_dim = 128 | .text_dim = 64 | .text_len = 16 | .num_heads = 1 | .num_layers = 1 |
    .latent_height = 4 | .latent_width = 4' "$root/models/wan-1.3b-random/config.json" >models/small/config.json
package() { # DB METHODS
    "$kvreel" run "$root/configs/cost-card.yaml" --set model=small --set model_steps=1 --set device=emulated \
        --set frames=3 --set "methods=[$2]" --db "$1" --out "${1%.db}" -j 1 -q
}
check "the first run measures BF16 and RTN_INT4@study" package a.db "BF16, RTN_INT4@study" 2>"$err"
check "the second run measures BF16 and FLOWCACHE_NATIVE@study" package b.db "BF16, FLOWCACHE_NATIVE@study" 2>"$err"
check "each run times BF16 at its start, middle and end" test \
    "$(sql a.db 'SELECT count(*) FROM drift') $(sql b.db 'SELECT count(*) FROM drift')" = '3 3'
check "each cell of the second run has a warm-up" test "$(sql b.db "SELECT count(DISTINCT cell) FROM sample WHERE kind = 'warmup' AND ns > 0")" = 2
cp a.db again.db
check "a later run adds a method to the first database" package again.db "BF16, RTN_INT4@study, KIVI_INT2@study" 2>"$err"
check "the later run times BF16 again, in its own session" test "$(sql again.db "SELECT count(DISTINCT drift.session) || ' ' || count(*)
    FROM drift JOIN cell ON key = cell WHERE name = 'BF16'")" = '2 6'
check "the later run repeats no finished cell" test "$(sql again.db "SELECT count(*) FROM attempt")" = 3

# card DB NAME BF16_NS [OTHER_NS]: sets the device to the GPU NAME, the time of BF16 to BF16_NS, and that of the
# other method to OTHER_NS (default: BF16_NS).
card() { changed "$1" "UPDATE cell SET spec = json_set(spec, '\$.device', '$2'), time_codes = '',
    verdict_codes = '', verdict = 'VALID', wall_ns = iif(is_baseline, $3, ${4:-$3}); UPDATE drift SET ns = $3"; }
card a.db 'NVIDIA A' 3000000000
card b.db 'NVIDIA B' 2000000000
mkdir empty
exits 5 "merge refuses a folder without databases" merge empty -o none.db
says "the error says that the folder has no database" 'no database .\*.db. other than the output none.db'
check "the failed merge of no database writes no file" test ! -e none.db
exits 2 "merge refuses databases of two GPUs" merge a.db b.db -o two.db
says "the error names both GPUs" 'b.db: this database has cells timed on NVIDIA B, but earlier inputs have cells timed on NVIDIA A'
exits 0 "merge --any-card joins databases of two GPUs" merge a.db b.db -o any.db --any-card
card a.db 'NVIDIA A' 3000000000 6000000000
card b.db 'NVIDIA A' 2000000000 1000000000
exits 0 "merge joins databases of one GPU" merge a.db b.db -o all.db
exits 0 "the cost table of the merged database" report --db all.db --table cost --format json
json "the cost table has three methods with predicted bytes" \
    '(map(.method) | sort) == ["BF16", "FLOWCACHE_NATIVE@study", "RTN_INT4@study"] and
     all(.[]; .runtime_s > 0 and .peak_bytes > 0 and .predicted_bytes > 0)'
json "each time is divided by the BF16 time of its own run" 'map({(.method): .runtime_ratio}) | add ==
    {BF16: 1, "RTN_INT4@study": 2, "FLOWCACHE_NATIVE@study": 0.5}'
exits 0 "the cost plot of a model that is not Wan 1.3B" plot cost --db all.db -o small -f svg
check "its plot has no published points" test "$(cut -f 1 small/cost.tsv | sort | uniq -c | tr -s ' \n' ' ')" = ' 3 1 1 panel '
cp all.db wan.db
changed wan.db "UPDATE cell SET model = 'wan-1.3b-random'"
exits 0 "the cost plot of Wan 1.3B" plot cost --db wan.db -o figures -f svg
check "the cost plot has measured and published points" test "$(cut -f 1 figures/cost.tsv | sort | uniq -c | tr -s ' \n' ' ')" = ' 3 1 3 2 1 panel '
check "the left margin of the plot fits the memory axis" awk '/^set lmargin/ { exit !($5 > 0.08) }' figures/cost.gp
check "the plot labels its times as measured" grep -q 'seconds of a rollout, measured' figures/cost.gp
exits 2 "plot cost refuses --y" plot cost --db all.db -o figures -f svg --y ssim
says "the error says that the axes are fixed" 'plot cost has fixed axes'

# A small Wan with a decoder. The table has frames per second. `launches=eager` runs one kernel per operation, as the
# study's code does, and produces the frames of the fused kernels.
cp -r "$root/tests/fixtures/wan_folder" little
jq '.latent_height = 2 | .latent_width = 2' "$root/tests/fixtures/wan_folder/config.json" >little/config.json
exits 0 "a sweep over two paths that measures frames per second" run "$root/configs/cost-card.yaml" --set model=little --set device=emulated --set frames=3 \
    --set 'methods=[BF16, RTN_INT4@study]' --set 'path=[staged,decoded]' --set fps=true --db c.db --out c -j 1 -q
exits 0 "the cost table of both paths" report --db c.db --table cost --format json
json "the table has frames per second of each method and path" 'length == 4 and all(.[]; .fps_vae_seen > 0 and .fps_transformer_seen > .fps_vae_seen and .fps_vae == null)'
exits 0 "a sweep over fused and eager launches" run "$root/configs/cost-card.yaml" --set model=little --set device=emulated --set frames=3 \
    --set 'methods=[{method: RTN_INT4@study, options: {launches: [fused, eager]}}]' --set path=decoded --db e.db --out e -j 1 -q
check "the two rows name their kind of launches" test "$(sql e.db "SELECT group_concat(method, '; ') FROM (SELECT method FROM cell WHERE name = 'RTN_INT4' ORDER BY 1)")" = \
    'RTN_INT4@study launches=eager; RTN_INT4@study launches=fused'
check "eager launches produce the frames of the fused kernels" test "$(sql e.db "SELECT count(DISTINCT value) FROM metric JOIN cell ON cell = key
    WHERE metric.name = 'psnr' AND cell.name = 'RTN_INT4'")" = 1
exits 0 "the cost table of fused and eager launches" report --db e.db --table cost --format json
json "the scratch memory of both kinds of launches is predicted" 'map(.off_bytes) | unique | length == 1'
check "both paths produce the same frames to 40 dB PSNR" test "$(sql c.db "SELECT min(value) > 40 FROM metric JOIN cell ON cell = key
    WHERE metric.name = 'psnr' AND method = 'BF16'")" = 1
