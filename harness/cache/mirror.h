/* mirror.h - copies one layer of the KV cache from device to host memory, for observers
 * (kvr_cache_observe). */
#ifndef KVR_CACHE_MIRROR_H
#define KVR_CACHE_MIRROR_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* Copies the segments of `l`, without the states of its policies, to `out` in host memory
 * (kvr_dev_host of the layer's device). Synchronises. The caller must close `out` by
 * kvr_layer_close, also after a failure. */
enum kvr_status kvr_layer_mirror(const struct kvr_layer *l, struct kvr_layer *out);

/* Copies `view`, whose pointers are device memory, to host memory, and calls `fn` with the copy. */
enum kvr_status kvr_view_in_host(const struct kvr_cache_view *view, kvr_cache_observer_fn *fn,
                                 void *ctx);

#endif
