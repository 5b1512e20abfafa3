/* bounce.h - a stage that has no CUDA functions, run on the host for a CUDA device.
 *
 * Its CPU functions are given copies in memory of kvr_dev_host(job->dev). Every call waits for the
 * device: right, and slow. */
#ifndef KVR_METHODS_BOUNCE_H
#define KVR_METHODS_BOUNCE_H

#include "methods/codec.h"

/* As the stage's transform: x is device memory. */
void kvr_bounce_transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                          int64_t n, int h0, int nh);

/* As the stage's encode: x and the buffers of `out` are device memory. */
enum kvr_status kvr_bounce_encode(const struct kvr_stage_job *job, float *x,
                                  struct kvr_stage_data *out);

/* As the stage's decode. Where the host has no memory for this or for a transform, what should be
 * written becomes NaN; what the device refuses shows at kvr_dev_sync. */
void kvr_bounce_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);

#endif
