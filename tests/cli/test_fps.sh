#!/usr/bin/env bash
# Frames per second (setting fps): of the transformer alone and with each decoder. The test also covers which phases
# the time includes, and when the metric is missing.
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

# 6 latent frames are 21 pixel frames. The time with a decoder is that of the whole rollout and includes decoding.
check "frames over the wall time" test "$(t f.db "SELECT count(*) FROM metric m JOIN sample s ON s.cell = m.cell
    WHERE (m.name, s.kind) IN (('fps_transformer', 'rollout'), ('fps_vae', 'paced_vae')) AND m.unit = '1/s'
    AND abs(m.value * s.ns / 21e9 - 1) < 1e-9")" = 4
check "the sampler's noise is a phase" test "$(t f.db "SELECT count(*) FROM sample n JOIN sample r ON n.cell = r.cell
    WHERE n.kind = 'noise' AND r.kind = 'rollout' AND n.ns > 0 AND n.ns < r.ns")" = 2
check "decoding is a part of that" test "$(t f.db "SELECT count(*) FROM sample p JOIN sample d ON p.cell = d.cell
    WHERE p.kind = 'paced_vae' AND d.kind = 'decoded_vae' AND d.ns > 0 AND d.ns < p.ns")" = 2
check "more memory with a decoder" test "$(t f.db "SELECT count(*) FROM metric m JOIN cell c ON c.key = m.cell
    WHERE m.name = 'peak_vae_bytes' AND m.value > c.peak_bytes")" = 2
check "a decoder that is not there is missing, with the file" test "$(t f.db "SELECT count(*) FROM metric
    WHERE name = 'fps_taehv' AND value IS NULL AND missing LIKE 'no decoder taehv found at %taew2_1.pth'")" = 2
changed f.db "UPDATE cell SET time_codes = NULL, verdict_codes = '', verdict = 'VALID'"
exits 0 "the summary" report --db f.db --table summary
prints "says what is inside" 'transformer alone \(frames/s\) +with the VAE \(frames/s\)'
exits 0 "for programs" report --db f.db --table summary --format json
json "has both, and why there is no third" 'length == 2 and all(.[]; .fps_transformer > .fps_vae and .fps_vae > 0 and
    .fps_taehv == null and (.fps_missing | test("taehv: no decoder")))'
exits 0 "the cost table" report --db f.db --table cost --format json
json "too" 'all(.[]; .fps_transformer > .fps_vae and .fps_taehv == null and .fps_transformer_seen == null)'

changed f.db "UPDATE cell SET time_codes = 'LOAD'"
exits 0 "under load" report --db f.db --table summary --format json
json "they do not count" 'all(.[]; .fps_transformer == null and .fps_vae == null and .fps_vae_seen > 0 and
    (.fps_missing | test("^LOAD; taehv")))'

cp "$root/tests/fixtures/wan_real/taew2_1_tiny.pth" little/taew2_1.pth
exits 0 "with the tiny decoder's file" run f.yaml --db g.db --out g -j 1 -q --set 'methods=[BF16]'
check "that one, too" test "$(t g.db "SELECT count(*) FROM metric WHERE name = 'fps_taehv' AND value > 0")" = 1
exits 0 "a sweep without" run f.yaml --db h.db --out h -j 1 -q --set fps=false --set 'methods=[BF16]'
check "has none, and says so" test "$(t h.db "SELECT fps_transformer_seen IS NULL, fps_missing FROM cells_wide")" = '1,not measured: fps: true'
exits 0 "decoding beside denoising" run f.yaml --db o.db --out o -j 1 -q --set overlap_decode=true --set 'methods=[BF16]'
check "is not the transformer alone" test "$(t o.db "SELECT count(*) FROM metric WHERE name = 'fps_transformer' AND missing LIKE 'overlap_decode: %'")" = 1
check "the pace with the VAE is overlapped, too" test "$(t o.db "SELECT count(*) FROM metric m JOIN sample p ON p.cell = m.cell
    JOIN sample d ON d.cell = m.cell WHERE m.name = 'fps_vae' AND abs(m.value * p.ns / 21e9 - 1) < 1e-9 AND p.kind = 'paced_vae'
    AND d.kind = 'decoded_vae' AND d.ns > 0 AND d.ns < p.ns")" = 1
exits 0 "and no columns" report --db h.db --table summary
check "of that kind" bash -c "! grep -q 'frames/s' '$out'"

sed -e 's/^model: .*/model: nano/' -e 's/text: .*}/text: a large red disc drifts right over a plain blue background}/' f.yaml >rgb.yaml
exits 0 "latents that are pixels" run rgb.yaml --db n.db --out n -j 1 -q --set 'methods=[BF16]' --set frames=3
check "need no decoder" test "$(t n.db "SELECT count(*) FROM metric WHERE name IN ('fps_vae', 'fps_taehv')
    AND missing = 'not measured: the model''s latents are RGB frames, so no decoder runs'")" = 2
check "and have as many frames" test "$(t n.db "SELECT round(m.value * s.ns / 1e9, 6) FROM metric m JOIN sample s ON s.cell = m.cell
    WHERE m.name = 'fps_transformer' AND s.kind = 'rollout'")" = 3
