/* draw_cuda.h - generates the random weights of draw.h and the noise of noise.h on a CUDA stream,
 * bit-identical to the CPU. */
#ifndef KVR_ENGINE_DRAW_CUDA_H
#define KVR_ENGINE_DRAW_CUDA_H

#include <stdbool.h>

#include "harness/core/rng.h"
#include "harness/device/stream.h"
#include "harness/engine/draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Generates elements [0, n) of a random weight tensor into the device array `to`. The call is
 * asynchronous. */
void kvr_draw_cuda(struct kvr_stream *s, uint64_t seed, const struct kvr_draw *d, int64_t n,
                   float *to);

/* Describes normal noise with the values of kvr_normal() for the random stream (seed, use, a, b);
 * rng.h defines streams. If `moved` is true, each value x is perturbed to (x + magnitude * eta) *
 * rescale (noise.h). Here eta is the value with the same index in the stream (seed, KVR_RNG_JITTER,
 * a, eta_b). The caller sets rescale = 1 / sqrt(1 + magnitude^2), which keeps the variance at 1. */
struct kvr_draw_normal {
    uint64_t seed;
    enum kvr_rng_use use;
    uint32_t a, b;
    bool moved;
    uint32_t eta_b;
    double magnitude, rescale;
};
void kvr_draw_normal_cuda(struct kvr_stream *s, const struct kvr_draw_normal *d, int64_t n,
                          float *to);

#ifdef __cplusplus
}
#endif
#endif
