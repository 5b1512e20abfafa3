/* check_vae.h - compares a VAE decoder with recorded results, as part of `kvreel engine check`.
 *
 *     struct kvr_check_report r = { 0 };
 *     KVR_TRY(kvr_check_vae(&r, "tests/fixtures/wan_real", NULL));
 *     kvr_check_conclude(&r);
 *
 * The file vae_golden.safetensors has the latents `z` [n, channels, h, w] of one clip, or `a.z`,
 * `b.z` and so on of several clips. The recorded frames of a clip are `raw` [frames, 3, H, W]
 * before clamping. `raw_one` has the frames decoded from the first latent frame. `raw_first` has
 * the frames decoded from the first three latent frames, and `raw_second` the clip's remaining
 * frames. `image` has the clip's frames in 0..1, and `video_u8` has them as bytes. `f{k}.{name}`
 * [channel, frame, y, x] is the result of layer {name} for latent frame k. `encoder.latent` is the
 * encoder's result for `encoder.image`, which is in -1..1. The file may omit any of these result
 * tensors. The VAE decoder is read from the folder of vae_golden.safetensors. If how->compute is
 * BF16, each clip is also decoded in BF16. The note of the report's entry `raw in bf16` then states
 * the PSNR of the BF16 frames relative to `raw`. */
#ifndef KVR_VAE_CHECK_VAE_H
#define KVR_VAE_CHECK_VAE_H

#include "harness/engine/check.h"

/* Appends the decoder's comparisons to the report. If the folder `dir` has no
 * vae_golden.safetensors, nothing is appended. If `dir` has that file but no file with the
 * decoder's weights, a note is appended. */
enum kvr_status kvr_check_vae(struct kvr_check_report *r, const char *dir,
                              const struct kvr_check_how *how);

#endif
