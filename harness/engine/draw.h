/* draw.h - random weights and prompts from a seed, for models that measure cost only.
 *
 *     kvr_draw_tensor(1, "blocks.0.ffn.0.weight", 2, (int64_t[]){ 8960, 1536 }, w);
 *
 * Element i of a tensor is a counter-based function of (seed, the tensor's name, i) (rng.h). Parts can be
 * computed on any thread or device in any order, and a tensor does not change when other layers are omitted.
 * Values are uniform, not normal: without a logarithm they are the same bytes on every platform.
 *
 *     value = bound * (2 u - 1)    u of stream (seed, KVR_RNG_WEIGHTS, a, b), element i
 *
 * 2 u - 1 is exact in float, so there is one rounding. a and b are the halves of the FNV-1a hash
 * (64 bits) of the name. By kind of tensor:
 *
 *     linear, convolution   variance 1 / fan-in: keeps unit variance
 *     bias                  standard deviation 0.02
 *     modulation            variance 1 / dim, as the reference initialises it
 *     gain of a norm        1
 *
 * Activations stay near unit variance through the layers: each layer's input is normalised, and the time
 * embedding makes gates of about 0.2, so the residual stream grows slowly. Queries and keys are RMS-normalised
 * with gain 1, values are sums of many products: all three are nearly normal with unit variance, without
 * outlier channels, and neighbouring tokens are nearly uncorrelated. */
#ifndef KVR_ENGINE_DRAW_H
#define KVR_ENGINE_DRAW_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Part of the model's hash: a changed generator makes a different model. */
extern const char *const kvr_draw_version;

/* Random stream and distribution of a tensor: bound * (2 u - 1), or `fill` everywhere if bound is
 * 0. Sufficient for a device to generate the tensor. */
struct kvr_draw {
    uint32_t a, b;
    float bound, fill;
};
struct kvr_draw kvr_draw_of(const char *name, int n_dims, const int64_t *shape);

/* Writes n elements to `to`, in memory of `dev`. Errors are returned by kvr_dev_sync(). */
void kvr_draw_to(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n,
                 float *to);

/* Writes product(shape) floats to `to`. */
void kvr_draw_tensor(uint64_t seed, const char *name, int n_dims, const int64_t *shape, float *to);

/* P [text_len, text_dim]: a row of unit variance per word of `text`, separated by blanks, and one
 * for the end token; the other rows are zero, like a real prompt's padding. */
void kvr_draw_prompt(uint64_t seed, const char *text, int text_len, int text_dim, float *P);

#ifdef __cplusplus
}
#endif
#endif
