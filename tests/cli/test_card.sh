#!/usr/bin/env bash
# configs/cost-card.yaml on an emulated device: a tiny Wan model is measured in two runs, and `kvreel merge` joins
# them. Times of an emulated device are never used, so GPU times are written into the databases.
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
check "a package" package a.db "BF16, RTN_INT4@study" 2>"$err"
check "another, with BF16 again" package b.db "BF16, FLOWCACHE_NATIVE@study" 2>"$err"
check "each with BF16's times at both ends" test \
    "$(sql a.db 'SELECT count(*) FROM drift') $(sql b.db 'SELECT count(*) FROM drift')" = '3 3'
check "each cell after a warm-up" test "$(sql b.db "SELECT count(DISTINCT cell) FROM sample WHERE kind = 'warmup' AND ns > 0")" = 2
cp a.db again.db
check "the first package's database goes on, on another day" package again.db "BF16, RTN_INT4@study, KIVI_INT2@study" 2>"$err"
check "BF16 is measured again, in a session of its own" test "$(sql again.db "SELECT count(DISTINCT drift.session) || ' ' || count(*)
    FROM drift JOIN cell ON key = cell WHERE name = 'BF16'")" = '2 6'
check "nothing that was there" test "$(sql again.db "SELECT count(*) FROM attempt")" = 3

# card DB NAME BF16_NS [OTHER_NS]: stores the GPU NAME as the device, and these times for BF16 and for the other
# method.
card() { changed "$1" "UPDATE cell SET spec = json_set(spec, '\$.device', '$2'), time_codes = '',
    verdict_codes = '', verdict = 'VALID', wall_ns = iif(is_baseline, $3, ${4:-$3}); UPDATE drift SET ns = $3"; }
card a.db 'NVIDIA A' 3000000000
card b.db 'NVIDIA B' 2000000000
mkdir empty
exits 5 "a folder without databases" merge empty -o none.db
says "says so" 'no database .\*.db. other than the output none.db'
check "and writes none" test ! -e none.db
exits 2 "packages of two cards" merge a.db b.db -o two.db
says "are refused by name" 'b.db: this database has cells timed on NVIDIA B, but earlier inputs have cells timed on NVIDIA A'
exits 0 "unless asked for" merge a.db b.db -o any.db --any-card
card a.db 'NVIDIA A' 3000000000 6000000000
card b.db 'NVIDIA A' 2000000000 1000000000
exits 0 "those of one are joined" merge a.db b.db -o all.db
exits 0 "the table" report --db all.db --table cost --format json
json "has three methods, with bytes that arithmetic predicts" \
    '(map(.method) | sort) == ["BF16", "FLOWCACHE_NATIVE@study", "RTN_INT4@study"] and
     all(.[]; .runtime_s > 0 and .peak_bytes > 0 and .predicted_bytes > 0)'
json "each method's time is over its own package's BF16" 'map({(.method): .runtime_ratio}) | add ==
    {BF16: 1, "RTN_INT4@study": 2, "FLOWCACHE_NATIVE@study": 0.5}'
exits 0 "the plot" plot cost --db all.db -o figures -f svg
check "has a point for each, and what was published" test "$(cut -f 1 figures/cost.tsv | sort | uniq -c | tr -s ' \n' ' ')" = ' 3 1 3 2 1 panel '
check "with room for the memory axis' numbers and its label" awk '/^set lmargin/ { exit !($5 > 0.08) }' figures/cost.gp
check "as the plot of a measured card" grep -q 'seconds of a rollout, measured' figures/cost.gp
exits 2 "its axes are fixed" plot cost --db all.db -o figures -f svg --y ssim
says "says so" 'plot cost has fixed axes'

# A small Wan with a decoder: frames per second, and the study's launches (`eager`) compared with fused kernels.
cp -r "$root/tests/fixtures/wan_folder" little
jq '.latent_height = 2 | .latent_width = 2' "$root/tests/fixtures/wan_folder/config.json" >little/config.json
exits 0 "both paths, with frames per second" run "$root/configs/cost-card.yaml" --set model=little --set device=emulated --set frames=3 \
    --set 'methods=[BF16, RTN_INT4@study]' --set 'path=[staged,decoded]' --set fps=true --db c.db --out c -j 1 -q
exits 0 "their table" report --db c.db --table cost --format json
json "has each method on both paths" 'length == 4 and all(.[]; .fps_vae_seen > 0 and .fps_transformer_seen > .fps_vae_seen and .fps_vae == null)'
exits 0 "and operation by operation" run "$root/configs/cost-card.yaml" --set model=little --set device=emulated --set frames=3 \
    --set 'methods=[{method: RTN_INT4@study, options: {launches: [fused, eager]}}]' --set path=decoded --db e.db --out e -j 1 -q
check "the row says so" test "$(sql e.db "SELECT group_concat(method, '; ') FROM (SELECT method FROM cell WHERE name = 'RTN_INT4' ORDER BY 1)")" = \
    'RTN_INT4@study launches=eager; RTN_INT4@study launches=fused'
check "the frames are those of the fused kernels" test "$(sql e.db "SELECT count(DISTINCT value) FROM metric JOIN cell ON cell = key
    WHERE metric.name = 'psnr' AND cell.name = 'RTN_INT4'")" = 1
exits 0 "its table" report --db e.db --table cost --format json
json "its scratch is predicted" 'map(.off_bytes) | unique | length == 1'
check "the same frames from both paths, but for roundings" test "$(sql c.db "SELECT min(value) > 40 FROM metric JOIN cell ON cell = key
    WHERE metric.name = 'psnr' AND method = 'BF16'")" = 1
