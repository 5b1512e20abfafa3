/* draw.h - weights and prompts drawn from a seed, for models that are there for their cost.
 *
 *     kvr_draw_tensor(1, "blocks.0.ffn.0.weight", 2, (int64_t[]){ 8960, 1536 }, w);
 *
 * Element i of a tensor is a counter-based function of (seed, the tensor's name, i) (rng.h). Parts can
 * be computed on any thread or device in any order, and a tensor does not change when other layers
 * are omitted. The uniform words are used and not normals:
 * they need no logarithm, and so are the same bytes everywhere.
 *
 *     value = bound * (2 u - 1)    u of stream (seed, KVR_RNG_WEIGHTS, a, b), element i
 *
 * 2 u - 1 is exact in float, so there is one rounding. a and b are the halves of the FNV-1a hash
 * (64 bits) of the name. By kind of tensor:
 *
 *     linear, convolution   variance 1 / fan-in: rows of unit variance stay such
 *     bias                  standard deviation 0.02
 *     modulation            variance 1 / dim, as the reference initialises it
 *     gain of a norm        1
 *
 * Activations stay near unit variance through the layers: what enters a layer was normalised, and
 * the time embedding makes gates of about 0.2, so the residual stream grows slowly. Queries and
 * keys are RMS-normalised with gain 1, values are sums of many products: all three are nearly
 * normal with unit variance, with no outlier channels and little likeness of neighbours. */
#ifndef KVR_ENGINE_DRAW_H
#define KVR_ENGINE_DRAW_H

#include "harness/device/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Part of the model's hash: another draw is another model. */
extern const char *const kvr_draw_version;

/* The stream of a name, and what its uniform numbers become: bound * (2 u - 1); bound 0: `fill`
 * everywhere. Enough for a device to make the tensor itself. */
struct kvr_draw {
    uint32_t a, b;
    float bound, fill;
};
struct kvr_draw kvr_draw_of(const char *name, int n_dims, const int64_t *shape);

/* n elements of it to `to`, memory of `dev`. What goes wrong shows at kvr_dev_sync(). */
void kvr_draw_to(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n,
                 float *to);

/* to [product of shape] floats. */
void kvr_draw_tensor(uint64_t seed, const char *name, int n_dims, const int64_t *shape, float *to);

/* P [text_len, text_dim]: a row of unit variance for each word of `text` (parted by blanks) and
 * one for its end, the rest zero as behind a real prompt. */
void kvr_draw_prompt(uint64_t seed, const char *text, int text_len, int text_dim, float *P);

#ifdef __cplusplus
}
#endif
#endif
