#!/usr/bin/env bash
# Frames per second (setting fps) of the transformer alone, and of the transformer with each decoder. The test also
# checks which phases the time includes, and when the metric is missing.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cd "$work" || exit 1
folder=$root/tests/fixtures/wan_folder
cp -r "$folder" little
jq '.latent_height = 2 | .latent_width = 2' "$folder/config.json" >little/config.json
cat >f.yaml <<'Y'
model: little
prompts: [{id: one, text: a small dog runs}]
frames: 6
control: 0
baselines: none
timing: true
fps: true
videos: false
metrics: [psnr]
methods: [BF16, RTN_INT4]
Y
exits 0 "a sweep with frames per second" run f.yaml --db f.db --out f -j 1 -q
t() { "$kvreel" query --db "$1" --csv "$2" | tail -n +2; }

# 6 latent frames are 21 pixel frames. The time with a decoder is the wall time of the whole rollout and of decoding.
check "frames per second are 21 frames over the wall time" test "$(t f.db "SELECT count(*) FROM metric m JOIN sample s ON s.cell = m.cell
    WHERE (m.name, s.kind) IN (('fps_transformer', 'rollout'), ('fps_vae', 'paced_vae')) AND m.unit = '1/s'
    AND abs(m.value * s.ns / 21e9 - 1) < 1e-9")" = 4
check "the noise of the sampler is a phase of the rollout" test "$(t f.db "SELECT count(*) FROM sample n JOIN sample r ON n.cell = r.cell
    WHERE n.kind = 'noise' AND r.kind = 'rollout' AND n.ns > 0 AND n.ns < r.ns")" = 2
check "decoding is part of the time with the VAE" test "$(t f.db "SELECT count(*) FROM sample p JOIN sample d ON p.cell = d.cell
    WHERE p.kind = 'paced_vae' AND d.kind = 'decoded_vae' AND d.ns > 0 AND d.ns < p.ns")" = 2
check "the peak memory with the VAE is larger" test "$(t f.db "SELECT count(*) FROM metric m JOIN cell c ON c.key = m.cell
    WHERE m.name = 'peak_vae_bytes' AND m.value > c.peak_bytes")" = 2
check "a missing decoder is NULL with the path of its file" test "$(t f.db "SELECT count(*) FROM metric
    WHERE name = 'fps_taehv' AND value IS NULL AND missing LIKE 'no decoder taehv found at %taew2_1.pth'")" = 2
changed f.db "UPDATE cell SET time_codes = NULL, verdict_codes = '', verdict = 'VALID'"
exits 0 "the summary of a sweep with fps" report --db f.db --table summary
prints "the columns say what the time includes" 'transformer alone \(frames/s\) +with the VAE \(frames/s\)'
exits 0 "the summary with fps as JSON" report --db f.db --table summary --format json
json "the summary has two rates, and why the third is missing" 'length == 2 and all(.[]; .fps_transformer > .fps_vae and .fps_vae > 0 and
    .fps_taehv == null and (.fps_missing | test("taehv: no decoder")))'
exits 0 "the cost table with fps" report --db f.db --table cost --format json
json "the cost table has two rates" 'all(.[]; .fps_transformer > .fps_vae and .fps_taehv == null and .fps_transformer_seen == null)'

changed f.db "UPDATE cell SET time_codes = 'LOAD'"
exits 0 "the summary of rates measured under load" report --db f.db --table summary --format json
json "rates measured under load do not count" 'all(.[]; .fps_transformer == null and .fps_vae == null and .fps_vae_seen > 0 and
    (.fps_missing | test("^LOAD; taehv")))'

cp "$root/tests/fixtures/wan_real/taew2_1_tiny.pth" little/taew2_1.pth
exits 0 "a sweep with the file of the tiny decoder" run f.yaml --db g.db --out g -j 1 -q --set 'methods=[BF16]'
check "the tiny decoder has a rate" test "$(t g.db "SELECT count(*) FROM metric WHERE name = 'fps_taehv' AND value > 0")" = 1
exits 0 "a sweep with fps=false" run f.yaml --db h.db --out h -j 1 -q --set fps=false --set 'methods=[BF16]'
check "its rates are missing with the reason" test "$(t h.db "SELECT fps_transformer_seen IS NULL, fps_missing FROM cells_wide")" = '1,not measured: fps: true'
exits 0 "a sweep with overlap_decode=true" run f.yaml --db o.db --out o -j 1 -q --set overlap_decode=true --set 'methods=[BF16]'
check "with overlap_decode, the transformer alone has no rate" test "$(t o.db "SELECT count(*) FROM metric WHERE name = 'fps_transformer' AND missing LIKE 'overlap_decode: %'")" = 1
check "with overlap_decode, the rate with the VAE includes decoding" test "$(t o.db "SELECT count(*) FROM metric m JOIN sample p ON p.cell = m.cell
    JOIN sample d ON d.cell = m.cell WHERE m.name = 'fps_vae' AND abs(m.value * p.ns / 21e9 - 1) < 1e-9 AND p.kind = 'paced_vae'
    AND d.kind = 'decoded_vae' AND d.ns > 0 AND d.ns < p.ns")" = 1
exits 0 "the summary of the sweep with fps=false" report --db h.db --table summary
check "it has no column in frames/s" bash -c "! grep -q 'frames/s' '$out'"

sed -e 's/^model: .*/model: nano/' -e 's/text: .*}/text: a large red disc drifts right over a plain blue background}/' f.yaml >rgb.yaml
exits 0 "a model whose latents are RGB frames" run rgb.yaml --db n.db --out n -j 1 -q --set 'methods=[BF16]' --set frames=3
check "its decoders have no rate, with the reason" test "$(t n.db "SELECT count(*) FROM metric WHERE name IN ('fps_vae', 'fps_taehv')
    AND missing = 'not measured: the model''s latents are RGB frames, so no decoder runs'")" = 2
check "it counts one frame per latent frame" test "$(t n.db "SELECT round(m.value * s.ns / 1e9, 6) FROM metric m JOIN sample s ON s.cell = m.cell
    WHERE m.name = 'fps_transformer' AND s.kind = 'rollout'")" = 3
