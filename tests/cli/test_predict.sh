#!/usr/bin/env bash
# predict: cache sizes without a run, the study's published compression ratios, and methods whose size depends on the
# data.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
wan="--geometry wan-1.3b --frames 165"

# shellcheck disable=SC2086
exits 0 "predict" predict -m RTN_INT4@study $wan --json
json "predict --json has the documented keys" \
    'has("method") and has("latent_frames") and has("tokens") and has("bf16_bytes") and has("nominal_bytes") and has("compression") and has("peak_bytes") and has("peak_by_tag")'
json "165 pixel frames are 42 latent frames" '.latent_frames == 42 and .tokens == 65520'
json "RTN_INT4@study has the bytes and ratio of the study" '.nominal_bytes == 3773952000 and .compression == 3.2'
json "the weights are counted in BF16" '.peak_by_tag.WEIGHTS == 2 * 1418996800'
json "memory that is not predicted is null" '.peak_by_tag.ACT == null and (.peak_by_tag | has("ACT"))'
json "the peak is the sum of the predicted memory" '.peak_bytes == ([.peak_by_tag[] | numbers] | add)'
json "the size of RTN_INT4 does not depend on the data" '.data_dependent == false'

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
json "its size has bounds" \
    '.data_dependent and .nominal_bytes_min == 4434181920 and .nominal_bytes_max == 4434181920 + 6 * 85542 * 30 and (.depends | length > 0)'

# shellcheck disable=SC2086
exits 0 "predict --as-stored study" predict -m RTN_INT4@study $wan --as-stored study --json
json "the peak is the published one" \
    '.as_stored.era == "A" and .as_stored.published_gib == 19.9831 and ((.as_stored.peak_gib - 19.9831) | fabs) < 0.0001'
json "the peak of packed storage is 10.80 GiB" '((.as_stored.packed_peak_gib - 10.80) | fabs) < 0.005'
# shellcheck disable=SC2086
exits 0 "a method whose storage the study did not publish" predict -m RTN_INT4_REFRESH@study $wan --as-stored study --json
json "its stored peak is null" '.as_stored.peak_bytes == null and (.as_stored.stored | test("unpublished"))'
# shellcheck disable=SC2086
exits 0 "a retention policy that keeps no token" predict -m ROLLING_WINDOW -O retention.frames=0 -O retention.tokens=1 $wan --json
json "its cache has no bytes" '.nominal_bytes == 0 and .peak_by_tag.KV == 0 and .peak_by_tag.META == 0 and .compression == null'
exits 0 "the unpublished storage as text" predict -m RTN_INT4_REFRESH@study $wan --as-stored study
prints "the text says that it is not reproducible" 'not reproducible, published 22.6361'
# shellcheck disable=SC2086
exits 2 "--as-stored study refuses a version that is not of the study" predict -m RTN_INT4 $wan --as-stored study
exits 2 "--as-stored study refuses another model" predict -m RTN_INT4@study -g nano -n 42 --as-stored study

exits 0 "a bundled model" predict -m RTN_INT4 -g nano -n 42 --json
json "RGB frames are latent frames" '.latent_frames == 42 and .tokens == 1512'
cat >my.json <<JSON
{"dim": 64, "num_heads": 2, "num_layers": 3, "patch_size": [1, 2, 2], "latent_height": 8,
 "latent_width": 8, "frames_per_chunk": 3}
JSON
exits 0 "a file with the keys of a config.json" predict -m RTN_INT4 -g my.json -n 21 --json
json "weights without a count are null" '.peak_by_tag.WEIGHTS == null and .latent_frames == 6'
echo '{"dim": 64, "num_heads": 3}' >bad.json
exits 2 "a geometry file with missing keys is refused" predict -m RTN_INT4 -g bad.json -n 21
says "the error names the file and a missing key" 'bad.json.*num_layers'
exits 2 "a length that no rollout has is refused" predict -m RTN_INT4 -g wan-1.3b -n 166
says "the error has the two nearest lengths" '165 and 169'
exits 2 "an unknown geometry" predict -m RTN_INT4 -g wan13b -n 165
says "the error suggests wan-1.3b" 'wan-1.3b'
exits 2 "an unknown path" predict -m RTN_INT4 -g nano -n 42 --path stagd
says "the error suggests staged" 'staged'
exits 2 "QUAROT_KV_INT4 refuses a head_dim of 24" predict -m QUAROT_KV_INT4 -g <(sed 's/"dim": 64/"dim": 48/' my.json) -n 21
says "the error has the head_dim" 'head_dim .channels per head. is 24'
exits 0 "the window of LongLive 2.0" predict -m NVFP4_4OVER6@longlive -g wan-5b --json
json "its window takes 9.67 GiB in BF16 and 2.72 GiB in NVFP4" '.latent_frames == 32 and .tokens == 28160 and
    (.bf16_bytes / 1073741824 * 100 | round) == 967 and (.nominal_bytes / 1073741824 * 100 | round) == 272'
json "its video has 125 frames of 704x1280" '.frames == 125 and .phases.height == 704 and .phases.width == 1280 and .phases.decoder.flop > 1e15'
exits 0 "predict with model longlive-2" predict -m BF16 -g longlive-2 --json
json "longlive-2 has the same window" '.bf16_bytes == 10380902400'
exits 0 "predict with model longlive-1" predict -m BF16 -g longlive-1 --json
json "longlive-1 has a window of 12 latent frames" '.latent_frames == 12 and .frames == 45'
exits 2 "predict needs a number of frames" predict -m RTN_INT4 -g wan-1.3b
# shellcheck disable=SC2086
for f in staged fused dense decoded; do
    exits 0 "path $f" predict -m KIVI_INT4 -g nano -n 42 --path $f --json
    jq .peak_by_tag.SCRATCH "$out" >scratch.$f
done
check "fused takes less scratch than staged" test "$(cat scratch.fused)" -lt "$(cat scratch.staged)"
check "decoded takes as much scratch as dense" test "$(cat scratch.decoded)" -eq "$(cat scratch.dense)"
check "dense takes more scratch than staged" test "$(cat scratch.dense)" -gt "$(cat scratch.staged)"

exits 0 "predict --image" predict -m BF16 --geometry wan-5b --image --json
json "the image encoder needs frames of 352x640x160 and its largest layer" \
    '.phases.image | .activation_bytes > 576716800 and .layer_bytes == 44236800 and .memory_bytes == .activation_bytes + .layer_bytes'
exits 2 "--image refuses a model without an image encoder" predict -m BF16 --geometry wan-1.3b --frames 21 --image
says "the error names the models with an image encoder" "only models with Wan 2.2's latents"

# predict accepts lengths that are no multiple of a chunk.
exits 0 "41 latent frames in chunks of 8" predict -m BF16 --geometry wan-5b --frames 161 --json
json "the cache of 41 latent frames is predicted" '.latent_frames == 41'
says "a note has the nearest lengths that can run" '161 frames are 41 latent frames, not a multiple of 8 .* 157 or 189 frames$'
exits 0 "40 latent frames in chunks of 8" predict -m BF16 --geometry wan-5b --frames 157 --json
check "a multiple of the chunk gives no note" test ! -s "$err"
for command in "predict -m BF16 --frames 33" "fit --memory 24GiB"; do
    # shellcheck disable=SC2086
    exits 2 "a language model has no geometry of a video: $command" $command --geometry smollm2-135m
    says "the error says that it is a language model: $command" 'config.json: is a language model'
done
exits 2 "predict refuses path fuse" predict -m BF16 --geometry wan-5b --frames 157 --path fuse
says "the error lists the paths" "need staged, fused, dense or decoded; did you mean 'fused'"
# shellcheck disable=SC2086
exits 0 "predict with the model's own window" predict -m BF16 $wan --window -1 --json
json "the window of Wan has 21 frames" '.phases.network.window == 21 and ((.phases.network.flop / 2405.4e12 - 1) | fabs) < 0.001'
# shellcheck disable=SC2086
exits 0 "predict of a method with entropy coding" predict -m PACKKV $wan
prints "the text has no nominal size" '^  nominal +- +- +.compressed KV cache: within these bounds'
prints "the text has the upper bound" '^  at most +2962944000 B +2.7595 GiB  .4.0759 x smaller.'
check "the text names no JSON keys" bash -c "! grep -q nominal_bytes '$out'"
check "the text has one peak, which includes activations" bash -c \
    "! grep -q 'not predicted' '$out' && grep -q '^  network .* GiB, the memory above and 0[.]5073 GiB of activations' '$out'"
exits 0 "fit of a method with entropy coding" fit --memory 24GiB -m PACKKV -m RTN_INT2 --json
json "fit ranks by the upper bound" '[.[].method] == ["RTN_INT2", "PACKKV"] and .[1].nominal_bytes_max == 2962944000 and
    (.[1] | .nominal_bytes == 40273920 and .compression < 4.08 and .peak_bytes > .nominal_bytes_max + 2837993600)'
exits 0 "fit as a table" fit --memory 24GiB -m PACKKV -m RTN_INT2
prints "the table marks bounds" '^PACKKV +>=4[.]08 +<=2[.]759 +<=6[.]514 +yes '
exits 0 "fit of a method whose choice of tokens depends on the data" fit --memory 24GiB -m H2O --json
json "the row has an upper bound" '.[0].nominal_bytes_max > .[0].nominal_bytes'
exits 0 "fit" fit --memory 24GiB --geometry wan-5b -m BF16
says "fit prints the note, too" '^kvreel: fit: 165 frames are 42 latent frames, not a multiple of 8'
prints "fit prints the size of the video in pixels" '165 pixel frames of 704x1280 .height x width.'
