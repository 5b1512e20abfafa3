/* levels.h - fits nonuniform quantization levels to the keys and values of a model's own rollouts,
 * per layer.
 *
 *     KVR_TRY(kvr_levels_open(&p, n_layers, n_heads, head_dim, 3, 0.01));
 *     ... rollouts with .observer = kvr_levels_observe, .observer_ctx = p ...
 *     KVR_TRY(kvr_levels_fit(p, layer, KVR_K, level));
 *     kvr_levels_close(&p);
 *
 * The input is the keys before RoPE and the values of all chunks, taken from the cache-update
 * passes. The codec stage `kvquant` (methods/codecs/nuq) receives the same input after the stage
 * `unrope` (methods/codecs/unrope). A vector is one channel of a chunk's keys, or one token of a
 * chunk's values. A fraction `exact` of each vector's elements are outliers, chosen so that the
 * other elements have the narrowest range. The fit ignores outliers, since the codec stores them as
 * FP16. Before the fit, each vector's range without outliers is scaled to [-1, 1], so the 2^bits
 * levels are in [-1, 1]. They minimize the squared quantization error over all chunks. The fit
 * multiplies the squared error of each scaled element by the square of half the vector's range,
 * which gives the squared error of the original element. */
#ifndef KVR_WORKLOAD_LEVELS_H
#define KVR_WORKLOAD_LEVELS_H

#include "harness/cache/cache.h"

struct kvr_levels;

/* KVR_ENOMEM. */
enum kvr_status kvr_levels_open(struct kvr_levels **out, int n_layers, int n_heads, int head_dim,
                                int bits, double exact);
void kvr_levels_close(struct kvr_levels **p);

/* Observer of attention calls (kvr_cache_observer_fn) that adds a chunk's keys and values to the
 * calibration data. `ctx` is a struct kvr_levels *. The KV cache must be on the CPU. */
enum kvr_status kvr_levels_observe(void *ctx, const struct kvr_cache_view *view);

/* Computes the 2^bits levels of a layer's keys or values, and writes them to `level` in ascending
 * order. Returns KVR_EINVAL if no cache-update pass was observed, or if the elements of every
 * vector are equal, so that there is no range to divide into levels. */
enum kvr_status kvr_levels_fit(const struct kvr_levels *p, int layer, enum kvr_side side,
                               double *level);

#endif
