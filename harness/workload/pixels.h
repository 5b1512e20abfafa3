/* pixels.h - a rollout's latents to frames, by the model's decoder.
 *
 *     KVR_TRY(kvr_rollout_run(dev, scheme, &req, ..., &r));       req.keep_latents
 *     kvr_model_shed(model);                                      the network goes first
 *     KVR_TRY(kvr_rollout_pixels(dev2, model, req.latent_frames, &r, &decode_ns));
 *
 * After the rollout and apart from its time and, on a device of its own, from its memory. */
#ifndef KVR_WORKLOAD_PIXELS_H
#define KVR_WORKLOAD_PIXELS_H

#include "harness/workload/workload.h"

/* By `dev`. Fills r->rgb, n, height and width of r->latents; does nothing where there are no
 * latents, or the model has no decoder. KVR_ENAN: a pixel is not finite. *ns: what it took, 0 for
 * nothing. */
enum kvr_status kvr_rollout_pixels(struct kvr_dev *dev, const struct kvr_model *m,
                                   int latent_frames, struct kvr_rollout_result *r, int64_t *ns);

#endif
