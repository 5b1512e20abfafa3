/* draw_cuda.h - the draws of draw.h and noise.h on a CUDA stream: the same bytes. */
#ifndef KVR_ENGINE_DRAW_CUDA_H
#define KVR_ENGINE_DRAW_CUDA_H

#include <stdbool.h>

#include "harness/core/rng.h"
#include "harness/device/stream.h"
#include "harness/engine/draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements [0, n) of a tensor to `to`, device memory. Nothing waits. */
void kvr_draw_cuda(struct kvr_stream *s, uint64_t seed, const struct kvr_draw *d, int64_t n,
                   float *to);

/* Elements from 0 on of the normals (seed, use, a, b) of rng.h. moved: (x + magnitude eta) whole, with
 * eta the normals (seed, KVR_RNG_JITTER, a, eta_b). */
struct kvr_draw_normal {
    uint64_t seed;
    enum kvr_rng_use use;
    uint32_t a, b;
    bool moved;
    uint32_t eta_b;
    double magnitude, whole;
};
void kvr_draw_normal_cuda(struct kvr_stream *s, const struct kvr_draw_normal *d, int64_t n,
                          float *to);

#ifdef __cplusplus
}
#endif
#endif
