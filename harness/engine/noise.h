/* noise.h - the sampler's noise: counter-based, drawn by the device that reads it.
 *
 *     const struct kvr_noise n = { .seed = 7 };
 *     kvr_noise_to(dev, &n, chunk, -1, frame0, n_frames, frame_elems, x);     the initial noise
 *
 * The CPU's numbers are the definition (rng.h, normal_pair.h); CUDA draws the same bits. */
#ifndef KVR_ENGINE_NOISE_H
#define KVR_ENGINE_NOISE_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where noise comes from. step < 0: the initial noise of `frame`; else eps of (chunk, step).
 * dst [F, frame_elems], memory of the host. */
typedef enum kvr_status kvr_noise_fn(void *ctx, int chunk, int step, int frame0, int n_frames,
                                     int64_t frame_elems, float *dst);
/* Philox noise: initial noise is a function of (seed, frame), eps of (seed, chunk, step, frame).
 * ctx is a const uint64_t * seed. */
kvr_noise_fn kvr_noise_philox;

/* The same, moved a little, to see how far a rollout leads small differences apart:
 *
 *     (eps + m eta) / sqrt(1 + m^2)
 *
 * with eta another N(0,1), a function of the same place and of the draw. The variance stays 1 for
 * any m. Draw 0 is kvr_noise_philox to the bit. ctx is a const struct kvr_noise *. */
struct kvr_noise {
    uint64_t seed;
    int draw;         /* 0 .. KVR_MAX_DRAW */
    double magnitude; /* m >= 0 */
};
enum { KVR_MAX_DRAW = (1 << 24) - 1 };
kvr_noise_fn kvr_noise_moved;

/* What kvr_noise_moved() writes, to dst in memory of `dev`. A kernel is queued; no synchronization. */
enum kvr_status kvr_noise_to(struct kvr_dev *dev, const struct kvr_noise *n, int chunk, int step,
                             int frame0, int n_frames, int64_t frame_elems, float *dst);

#ifdef __cplusplus
}
#endif
#endif
