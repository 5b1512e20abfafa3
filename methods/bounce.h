/* bounce.h - runs a stage without CUDA functions on the host for a CUDA device.
 *
 * The stage's CPU functions receive copies in memory of kvr_dev_host(job->dev). Every call
 * synchronises the device: correct, but slow. */
#ifndef KVR_METHODS_BOUNCE_H
#define KVR_METHODS_BOUNCE_H

#include "methods/codec.h"

/* Like the stage's transform; x is device memory. */
void kvr_bounce_transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                          int64_t n, int h0, int nh);

/* Like the stage's encode; x and the buffers of `out` are device memory. */
enum kvr_status kvr_bounce_encode(const struct kvr_stage_job *job, float *x,
                                  struct kvr_stage_data *out);

/* Like the stage's decode. If host memory runs out, here or in a transform, the output becomes NaN;
 * device errors surface at kvr_dev_sync. */
void kvr_bounce_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);

#endif
