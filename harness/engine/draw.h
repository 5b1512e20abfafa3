/* draw.h - generates random weights and prompt embeddings from a seed, for models that serve to
 * measure time and memory only.
 *
 *     kvr_draw_tensor(1, "blocks.0.ffn.0.weight", 2, (int64_t[]){ 8960, 1536 }, w);
 *
 * Element i of a tensor is a counter-based function of (seed, the tensor's name, i) (rng.h).
 * Elements can be computed on any thread or device and in any order, and a tensor's values do not
 * depend on other layers. Values are uniformly distributed, because normal values need a logarithm,
 * whose last bits differ between platforms.
 *
 *     value = bound * (2 u - 1)    u of stream (seed, KVR_RNG_WEIGHTS, a, b), element i
 *
 * 2 u - 1 is exact in float, so only the product is rounded. The stream numbers a and b are the two
 * halves of the 64-bit FNV-1a hash of the tensor's name. The variance of the values depends on the
 * kind of tensor:
 *
 *     linear, convolution   variance 1 / fan-in: keeps unit variance
 *     bias                  standard deviation 0.02
 *     modulation            variance 1 / dim, as the reference initialises it
 *     gain of a norm        1
 *
 * Activations keep nearly unit variance through all layers, because each layer's input is
 * normalised, and gates of about 0.2 let the residual stream grow slowly. Queries, keys and values
 * are nearly normal with unit variance and have no outlier channels. Queries, keys and values of
 * neighbouring tokens are nearly uncorrelated. */
#ifndef KVR_ENGINE_DRAW_H
#define KVR_ENGINE_DRAW_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this generator. The version is part of the model's hash, so that a changed generator
 * gives a different model. */
extern const char *const kvr_draw_version;

/* The random stream (a, b) and the distribution of a tensor: values are bound * (2 u - 1), or all
 * equal to `fill` if bound is 0. A device needs only a struct kvr_draw and the seed to generate the
 * tensor. */
struct kvr_draw {
    uint32_t a, b;
    float bound, fill;
};
struct kvr_draw kvr_draw_of(const char *name, int n_dims, const int64_t *shape);

/* Writes n elements of the tensor to `to`, in memory of `dev`. Errors are returned by
 * kvr_dev_sync(). */
void kvr_draw_to(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n,
                 float *to);

/* Writes a whole tensor, product(shape) floats, to `to` in host memory. */
void kvr_draw_tensor(uint64_t seed, const char *name, int n_dims, const int64_t *shape, float *to);

/* Writes a random prompt embedding to P [text_len, text_dim]: one row of unit variance for each
 * blank-separated word of `text`, and one for the end token. The remaining rows of P are zero, like
 * the padding of a real prompt. */
void kvr_draw_prompt(uint64_t seed, const char *text, int text_len, int text_dim, float *P);

#ifdef __cplusplus
}
#endif
#endif
