/* levels.h - fits quantization levels to a model's own rollouts, per layer, for keys and for
 * values.
 *
 *     KVR_TRY(kvr_levels_open(&p, n_layers, n_heads, head_dim, 3, 0.01));
 *     ... rollouts with .observer = kvr_levels_observe, .observer_ctx = p ...
 *     KVR_TRY(kvr_levels_fit(p, layer, KVR_K, level));
 *     kvr_levels_close(&p);
 *
 * The input is the keys and values of the clean passes, per chunk, as the stage `kvquant` gets them
 * after `unrope` (methods/codecs/nuq, methods/codecs/unrope). Keys are before RoPE, one vector per
 * channel; values have one vector per token. The share `exact` of every vector, its outliers, is
 * excluded. The 2^bits levels minimize the squared error over all chunks; an element is weighted by
 * the square of its vector's half range. */
#ifndef KVR_WORKLOAD_LEVELS_H
#define KVR_WORKLOAD_LEVELS_H

#include "harness/cache/cache.h"

struct kvr_levels;

/* KVR_ENOMEM. */
enum kvr_status kvr_levels_open(struct kvr_levels **out, int n_layers, int n_heads, int head_dim,
                                int bits, double exact);
void kvr_levels_close(struct kvr_levels **p);

/* A kvr_cache_observer_fn of a cache on the CPU; ctx is the struct kvr_levels. */
enum kvr_status kvr_levels_observe(void *ctx, const struct kvr_cache_view *view);

/* level [2^bits], ascending. KVR_EINVAL: no data, or only constants. */
enum kvr_status kvr_levels_fit(const struct kvr_levels *p, int layer, enum kvr_side side,
                               double *level);

#endif
