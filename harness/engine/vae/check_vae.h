/* check_vae.h - compares a decoder with recorded results, as part of `kvreel engine check`.
 *
 *     struct kvr_check_report r = { 0 };
 *     KVR_TRY(kvr_check_vae(&r, "tests/fixtures/wan_real", NULL));
 *     kvr_check_conclude(&r);
 *
 * vae_golden.safetensors has latents `z` [n, channels, h, w], or several clips `a.z`, `b.z`, ...
 * Each may have `raw` [frames, 3, H, W] before clamping, `raw_one` of the first latent frame,
 * `raw_first` of the first three and `raw_second` of the others. `image` is in 0..1, `video_u8` in
 * bytes; `f{k}.{name}` [channel, frame, y, x] are results of layers. The decoder is read from the
 * same folder. With how->compute BF16 each clip is also decoded in BF16: entry `raw in bf16`, with
 * the PSNR of the pixels as its note. */
#ifndef KVR_VAE_CHECK_VAE_H
#define KVR_VAE_CHECK_VAE_H

#include "harness/engine/check.h"

/* Appends the comparisons to the report; nothing if there are no recorded results, a note if the
 * folder has no decoder. */
enum kvr_status kvr_check_vae(struct kvr_check_report *r, const char *dir,
                              const struct kvr_check_how *how);

#endif
