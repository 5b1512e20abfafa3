/* bounce.h - runs the CPU functions of a codec stage on data in CUDA memory, for stages without
 * CUDA functions.
 *
 * A bounce copies the stage's input to host memory (kvr_dev_host(job->dev)), runs the stage's CPU
 * function there, and copies the output back. Every call synchronises the device, so it is slow. */
#ifndef KVR_METHODS_BOUNCE_H
#define KVR_METHODS_BOUNCE_H

#include "methods/codec.h"

/* Runs the CPU function `transform` of the stage on x, in place; x is device memory. */
void kvr_bounce_transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                          int64_t n, int h0, int nh);

/* Runs the CPU function `encode` of the stage; x and the buffers of `out` are device memory. */
enum kvr_status kvr_bounce_encode(const struct kvr_stage_job *job, float *x,
                                  struct kvr_stage_data *out);

/* Runs the CPU function `decode` of the stage; `in` and `out` are device memory. If host memory
 * runs out, here or in kvr_bounce_transform, the output becomes NaN. A device error is reported at
 * the next kvr_dev_sync. */
void kvr_bounce_decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                       int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out);

#endif
