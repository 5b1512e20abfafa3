/* noise.h - generates the sampler's noise by a counter-based generator, on the device that uses the
 * noise.
 *
 *     const struct kvr_noise n = { .seed = 7 };
 *     kvr_noise_to(dev, &n, chunk, -1, frame0, n_frames, frame_elems, x);     the initial noise
 *
 * Noise generated on CUDA is bit-identical to noise generated on the CPU (rng.h, normal_pair.h). */
#ifndef KVR_ENGINE_NOISE_H
#define KVR_ENGINE_NOISE_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A noise function writes the noise of frames [frame0, frame0 + n_frames) to dst [n_frames,
 * frame_elems] in host memory. If step is negative, the function writes the initial noise.
 * Otherwise the function writes eps, the noise that re-noises x0 after denoising step `step` of the
 * chunk. */
typedef enum kvr_status kvr_noise_fn(void *ctx, int chunk, int step, int frame0, int n_frames,
                                     int64_t frame_elems, float *dst);
/* Generates noise by the Philox generator. Initial noise depends only on (seed, frame). Noise for
 * re-noising depends only on (seed, chunk, step, index of the frame in dst). The argument ctx
 * points to the seed, a uint64_t. */
kvr_noise_fn kvr_noise_philox;

/* kvr_noise_moved generates noise with a small perturbation, to measure how strongly a rollout
 * amplifies small differences. With the unperturbed noise eps, the perturbed noise is:
 *
 *     (eps + m eta) / sqrt(1 + m^2)
 *
 * Here m is `magnitude`, and eta is an N(0,1) variable independent of eps. Each value of `draw`
 * selects another random stream for eta. The perturbed noise has variance 1 for any m. If `draw` is
 * 0, the noise is unperturbed, that is, bit-identical to that of kvr_noise_philox. The argument ctx
 * is a const struct kvr_noise *. */
struct kvr_noise {
    uint64_t seed;
    int draw;         /* 0 .. KVR_MAX_DRAW */
    double magnitude; /* m >= 0 */
};
enum { KVR_MAX_DRAW = (1 << 24) - 1 };
kvr_noise_fn kvr_noise_moved;

/* Like kvr_noise_moved(), but writes to dst in memory of `dev`, asynchronously. */
enum kvr_status kvr_noise_to(struct kvr_dev *dev, const struct kvr_noise *n, int chunk, int step,
                             int frame0, int n_frames, int64_t frame_elems, float *dst);

#ifdef __cplusplus
}
#endif
#endif
