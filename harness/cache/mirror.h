/* mirror.h - copies one layer of the KV cache from device to host memory, for observers
 * (kvr_cache_observe). */
#ifndef KVR_CACHE_MIRROR_H
#define KVR_CACHE_MIRROR_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* Copies the segments of layer `l` to `out` in host memory. The states of the layer's policies
 * (tiers and retention) are not copied. Synchronises. The caller must close `out` by
 * kvr_layer_close, also after a failure. */
enum kvr_status kvr_layer_mirror(const struct kvr_layer *l, struct kvr_layer *out);

/* Calls `fn` with `view`. If the tensors of `view` are in device memory, `fn` receives a copy of
 * them in host memory. */
enum kvr_status kvr_view_in_host(const struct kvr_cache_view *view, kvr_cache_observer_fn *fn,
                                 void *ctx);

#endif
