#!/usr/bin/env bash
# predict: bytes without a run, the study's published ratios, and what cannot be predicted.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
wan="--geometry wan-1.3b --frames 165"

# shellcheck disable=SC2086
exits 0 "predict" predict -m RTN_INT4@study $wan --json
json "it has the keys of the contract" \
    'has("method") and has("latent_frames") and has("tokens") and has("bf16_bytes") and has("nominal_bytes") and has("compression") and has("peak_bytes") and has("peak_by_tag")'
json "165 pixel frames are 42 latent frames" '.latent_frames == 42 and .tokens == 65520'
json "the study's bytes of RTN_INT4" '.nominal_bytes == 3773952000 and .compression == 3.2'
json "weights in BF16" '.peak_by_tag.WEIGHTS == 2 * 1418996800'
json "what is not predicted is null" '.peak_by_tag.ACT == null and (.peak_by_tag | has("ACT"))'
json "the peak is the sum of what is" '.peak_bytes == ([.peak_by_tag[] | numbers] | add)'
json "nothing depends on the data" '.data_dependent == false'

# The published compression ratios, to four decimals.
while read -r method movie story; do
    # shellcheck disable=SC2086
    got=$("$kvreel" predict -m "$method@study" $wan --json | jq '.compression * 10000 | round')
    check "$method: MovieGen" test "$got" = "$movie"
    # shellcheck disable=SC2086
    got=$("$kvreel" predict -m "$method@study" -O layer_budget=storyeval $wan --json | jq '.compression * 10000 | round')
    check "$method: StoryEval" test "$got" = "$story"
done <<TABLE
KIVI_INT4 31933 31933
PRQ_INT2 20000 20000
RTN_INT4_RECENT2 24348 24348
FLOWCACHE_HYBRID_INT2 46066 45922
FLOWCACHE_PRUNE_INT2 77774 76797
FLOWCACHE_SOFT_PRUNE_INT4 54899 54236
TABLE

# shellcheck disable=SC2086
exits 0 "a row that depends on the data" predict -m TPTQ_INT2@study $wan --json
json "says so, with bounds" \
    '.data_dependent and .nominal_bytes_min == 4434181920 and .nominal_bytes_max == 4434181920 + 6 * 85542 * 30 and (.depends | length > 0)'

# shellcheck disable=SC2086
exits 0 "as the study stored it" predict -m RTN_INT4@study $wan --as-stored study --json
json "the published peak" \
    '.as_stored.era == "A" and .as_stored.published_gib == 19.9831 and ((.as_stored.peak_gib - 19.9831) | fabs) < 0.0001'
json "and what packed storage gives" '((.as_stored.packed_peak_gib - 10.80) | fabs) < 0.005'
# shellcheck disable=SC2086
exits 0 "an era without code" predict -m RTN_INT4_REFRESH@study $wan --as-stored study --json
json "is null, not 0" '.as_stored.peak_bytes == null and (.as_stored.stored | test("unpublished"))'
# shellcheck disable=SC2086
exits 0 "a method that keeps nothing" predict -m ROLLING_WINDOW -O retention.frames=0 -O retention.tokens=1 $wan --json
json "holds no byte of keys and values" '.nominal_bytes == 0 and .peak_by_tag.KV == 0 and .peak_by_tag.META == 0 and .compression == null'
exits 0 "the same in words" predict -m RTN_INT4_REFRESH@study $wan --as-stored study
prints "says so" 'not reproducible, published 22.6361'
# shellcheck disable=SC2086
exits 2 "the study stored nothing as intended" predict -m RTN_INT4 $wan --as-stored study
exits 2 "its constants are of one model" predict -m RTN_INT4@study -g nano -n 42 --as-stored study

exits 0 "a bundled model" predict -m RTN_INT4 -g nano -n 42 --json
json "RGB frames are latent frames" '.latent_frames == 42 and .tokens == 1512'
cat >my.json <<JSON
{"dim": 64, "num_heads": 2, "num_layers": 3, "patch_size": [1, 2, 2], "latent_height": 8,
 "latent_width": 8, "frames_per_chunk": 3}
JSON
exits 0 "a file with the keys of a config.json" predict -m RTN_INT4 -g my.json -n 21 --json
json "weights it cannot count are null" '.peak_by_tag.WEIGHTS == null and .latent_frames == 6'
echo '{"dim": 64, "num_heads": 3}' >bad.json
exits 2 "a file with keys missing" predict -m RTN_INT4 -g bad.json -n 21
says "names file and key" 'bad.json.*num_layers'
exits 2 "frames that no rollout makes" predict -m RTN_INT4 -g wan-1.3b -n 166
says "names the nearest" '165 and 169'
exits 2 "an unknown geometry" predict -m RTN_INT4 -g wan13b -n 165
says "names the nearest one" 'wan-1.3b'
exits 2 "an unknown path" predict -m RTN_INT4 -g nano -n 42 --path stagd
says "names the nearest path" 'staged'
exits 2 "a head width a codec cannot" predict -m QUAROT_KV_INT4 -g <(sed 's/"dim": 64/"dim": 48/' my.json) -n 21
says "names it" 'head_dim .channels per head. is 24'
exits 0 "the window of LongLive 2.0" predict -m NVFP4_4OVER6@longlive -g wan-5b --json
json "takes 9.67 GiB in BF16 and 2.72 in NVFP4" '.latent_frames == 32 and .tokens == 28160 and
    (.bf16_bytes / 1073741824 * 100 | round) == 967 and (.nominal_bytes / 1073741824 * 100 | round) == 272'
json "and is decoded to 704x1280" '.frames == 125 and .phases.height == 704 and .phases.width == 1280 and .phases.decoder.flop > 1e15'
exits 0 "a folder of its sizes" predict -m BF16 -g longlive-2 --json
json "is the same" '.bf16_bytes == 10380902400'
exits 0 "LongLive 1.0" predict -m BF16 -g longlive-1 --json
json "has a window of 12" '.latent_frames == 12 and .frames == 45'
exits 2 "no frames" predict -m RTN_INT4 -g wan-1.3b
# shellcheck disable=SC2086
for f in staged fused dense decoded; do
    exits 0 "path $f" predict -m KIVI_INT4 -g nano -n 42 --path $f --json
    jq .peak_by_tag.SCRATCH "$out" >scratch.$f
done
check "fused takes less scratch than staged" test "$(cat scratch.fused)" -lt "$(cat scratch.staged)"
check "decoded takes as much as dense" test "$(cat scratch.decoded)" -eq "$(cat scratch.dense)"
check "dense takes more" test "$(cat scratch.dense)" -gt "$(cat scratch.staged)"

exits 0 "a first frame from an image" predict -m BF16 --geometry wan-5b --image --json
json "adds its encoder: frames of 352x640x160 and the largest layer" \
    '.phases.image | .activation_bytes > 576716800 and .layer_bytes == 44236800 and .memory_bytes == .activation_bytes + .layer_bytes'
exits 2 "a model without that encoder" predict -m BF16 --geometry wan-1.3b --frames 21 --image
says "is told which have one" "only models with Wan 2.2's latents"

# predict accepts lengths that are not a whole number of chunks.
exits 0 "41 latent frames in chunks of 8" predict -m BF16 --geometry wan-5b --frames 161 --json
json "are predicted" '.latent_frames == 41'
says "with a note of the nearest that are run" '161 frames are 41 latent frames, not a multiple of 8 .* 157 or 189 frames$'
exits 0 "40 of them" predict -m BF16 --geometry wan-5b --frames 157 --json
check "need no note" test ! -s "$err"
for command in "predict -m BF16 --frames 33" "fit --memory 24GiB"; do
    # shellcheck disable=SC2086
    exits 2 "no geometry of a language model: $command" $command --geometry smollm2-135m
    says "for that reason" 'config.json: is a language model'
done
exits 2 "no such path" predict -m BF16 --geometry wan-5b --frames 157 --path fuse
says "lists those there are" "need staged, fused, dense or decoded; did you mean 'fused'"
exits 0 "fit" fit --memory 24GiB --geometry wan-5b -m BF16
says "has the note, too" '^kvreel: fit: 165 frames are 42 latent frames, not a multiple of 8'
prints "and the size in pixels, 16 per latent position" '165 pixel frames of 704x1280 .height x width.'
