#!/usr/bin/env bash
# Rollouts that continue recorded clips: given frames stay unchanged, and every `_truth` metric covers only the
# generated frames.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cp "$root/models/nano/truth.safetensors" t.safetensors
frame=6912 # bytes of 48x48 RGB

cat >sweep.yaml <<'YAML'
question: does a rollout go on as the world does?
model: nano
prompts:
  - id: ct01
    text: a large red disc drifts right over a plain blue background
    truth: t.safetensors
    given: 6
  - id: free
    text: a large green ring stays still over a plain white background
methods: [BF16, RTN_INT2]
metrics: [psnr, ssim, sharpness]
frames: 9
seed: 1
YAML
run=(run sweep.yaml --db t.db -o o -q --json)
metric() { # METHOD PROMPT NAME [COLUMN]
    sql t.db "SELECT m.${4:-value} FROM metric m JOIN cell c ON c.key = m.cell
        WHERE c.name = '$1' AND c.prompt_id = '$2' AND m.name = '$3'"
}
exits 0 "run with one prompt that continues a clip and one that does not" "${run[@]}"
json "all four cells are ok" '.cells == 4 and .ok == 4'
check "psnr and ssim have _truth metrics with their curves' statistics" test "$(sql t.db "SELECT
    group_concat(name, ' ') FROM (SELECT m.name FROM metric m JOIN cell c ON c.key = m.cell WHERE
    c.name = 'RTN_INT2' AND prompt_id = 'ct01' AND m.name LIKE '%truth%' ORDER BY m.name)")" = \
    "psnr_truth psnr_truth.drift psnr_truth.harmonic psnr_truth.last psnr_truth.mean psnr_truth.min psnr_truth.p5 psnr_truth.prefix ssim_truth ssim_truth.drift ssim_truth.harmonic ssim_truth.last ssim_truth.min ssim_truth.p5 ssim_truth.prefix"
check "BF16 has _truth metrics" test -n "$(metric BF16 ct01 psnr_truth)"
check "psnr_truth covers only the 3 generated frames" test "$(metric BF16 ct01 psnr_truth n)" = 3
check "a prompt without a clip has no _truth metric" test "$(sql t.db "SELECT count(*) FROM metric m
    JOIN cell c ON c.key = m.cell WHERE prompt_id = 'free' AND m.name LIKE '%truth%'")" = 0
check "the psnr_truth curve is NULL only at the 6 given frames" test "$(sql t.db "SELECT
    group_concat(v, '') FROM (SELECT value IS NOT NULL AS v FROM series s JOIN cell c ON
    c.key = s.cell WHERE c.name = 'BF16' AND s.name = 'psnr_truth' ORDER BY idx)")" = 000000111

check "psnr_truth.min is the curve's minimum, with its frame's index" test "$(metric RTN_INT2 ct01 psnr_truth.min)|$(
    metric RTN_INT2 ct01 psnr_truth.min extra)" = "$(sql t.db "SELECT s.value || '|' || (s.idx * 1.0) FROM series s
    JOIN cell c ON c.key = s.cell WHERE c.name = 'RTN_INT2' AND c.prompt_id = 'ct01' AND s.name = 'psnr_truth'
    AND s.value IS NOT NULL ORDER BY s.value, s.idx LIMIT 1")"
check "the last third of the generated frames begins at frame 8" test "$(metric RTN_INT2 ct01 psnr_truth.last extra)" = 8.0

# Both safetensors files end with their frames' bytes, so `tail` removes the headers.
frames=$(sql t.db "SELECT a.path FROM artifact a JOIN cell c ON c.key = a.cell
    WHERE a.kind = 'frames' AND c.name = 'RTN_INT2' AND c.prompt_id = 'ct01'")
truth=$(sql t.db "SELECT DISTINCT path FROM artifact WHERE kind = 'truth'")
tail -c $((9 * frame)) "o/$frames" >made
tail -c $((42 * frame)) "o/$truth" >real
check "the 6 given frames equal the clip's, byte for byte" cmp -n $((6 * frame)) made real
check "frame 6 differs from the clip's" sh -c "! cmp -s -n $((7 * frame)) made real"
clip() { # FILE: prints frames 6 to 8 as a video
    local h='{"frames":{"dtype":"U8","shape":[3,48,48,3],"data_offsets":[0,20736]}}'
    printf '%b%s' "\\x$(printf %02x ${#h})\\0\\0\\0\\0\\0\\0\\0" "$h"
    tail -c +$((6 * frame + 1)) "$1" | head -c $((3 * frame))
}
clip made >made.safetensors
clip real >real.safetensors
exits 0 "compare of the three generated frames with the clip's" compare real.safetensors made.safetensors --json
for m in psnr:psnr_db ssim:ssim; do
    want=$(metric RTN_INT2 ct01 "${m%:*}_truth")
    json "${m%:*}_truth equals compare's result" ".${m#*:} - $want | fabs <= 1e-12"
done
exits 0 "report --table truth" report --table truth --db t.db --format csv
check "the table has BF16 first, then RTN_INT2" test "$(cut -d, -f1 "$out" | tr '\n' ' ')" = "method BF16 RTN_INT2 "

exits 0 "a second run" "${run[@]}"
json "the second run measures no cell" '.ok == 0 and .skipped == 4'
exits 0 "score adds metrics after the run" score ssim_gauss identical_frames_truth --db t.db -o o
check "score ssim_gauss also adds ssim_gauss_truth" test -n "$(metric RTN_INT2 ct01 ssim_gauss_truth)"
check "no generated frame is identical to the clip's" test "$(metric RTN_INT2 ct01 identical_frames_truth)" = 0.0
check "a requested _truth metric without a clip is NULL, with a reason" test \
    "$(metric RTN_INT2 free identical_frames_truth missing)" = "the prompt has no ground-truth frames (key truth of its suite)"
check "without a clip, a _truth metric that was not requested has no row" test -z "$(metric RTN_INT2 free ssim_gauss_truth n)"
exits 0 "run with metrics=[psnr_truth]" "${run[@]}" -s 'metrics=[psnr_truth]'
json "run scores stored frames and measures no cell" '.ok == 0 and .scored == 4'
check "psnr_truth without a clip is NULL, with a reason" test "$(sql t.db "SELECT DISTINCT missing FROM metric m JOIN cell c ON
    c.key = m.cell WHERE prompt_id = 'free' AND m.name = 'psnr_truth'")" = "the prompt has no ground-truth frames (key truth of its suite)"
check "scoring adds no cell" test "$(sql t.db 'SELECT count(*) FROM cell')" = 4

printf '\377' | dd of=t.safetensors bs=1 seek=$(($(stat -c %s t.safetensors) - 42 * frame * 7 - 1)) \
    conv=notrunc 2>/dev/null # the last byte of ct01, in frame 41
exits 0 "run after the clip's last frame changed" "${run[@]}"
json "a changed clip gives new cells for its prompt only" '.ok == 2 and .skipped == 2'
exits 2 "a clip shorter than the rollout is refused" "${run[@]}" -s frames=45
says "the error names the line and both lengths" "sweep\\.yaml:6:.*'ct01' of key 'truth' has 42 frames, need at least 45"
rm t.safetensors
exits 2 "a missing clip file is refused" "${run[@]}"
says "the error names the line and the file" 'sweep\.yaml:6:.*t\.safetensors'

cp "$root/models/nano/truth.safetensors" g.safetensors
generate=(generate -p 'a large red disc drifts right over a plain blue background' -n 9 -q --json)
exits 0 "list metrics --json" list metrics --json
json "list metrics marks the metrics that need a clip" '[.[] | select(.needs_truth)] | map(.name) | index("psnr_truth") != null'
exits 2 "compare refuses a _truth metric" compare made.safetensors real.safetensors --metrics psnr_truth
says "the error recommends the metric without _truth" 'without _truth'
exits 0 "generate continues a clip" "${generate[@]}" --truth g.safetensors --tensor ct01 --given 6
json "generate reports PSNR and SSIM against the clip" '.psnr_truth_db > 20 and .ssim_truth > 0.5'
exits 2 "generate --given needs --truth" "${generate[@]}" --given 6
exits 2 "--given must be a multiple of the chunk size" "${generate[@]}" --truth g.safetensors --tensor ct01 --given 4
says "the error states the multiple" '--given 4: must be a multiple of 3'
exits 2 "generate refuses an unknown tensor" "${generate[@]}" --truth g.safetensors --tensor ct99 --given 6
says "the error names the tensor" 'ct99'
