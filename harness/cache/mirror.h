/* mirror.h - what a device holds of a layer, once more in the host's memory: for whoever looks at a
 * cache from outside. */
#ifndef KVR_CACHE_MIRROR_H
#define KVR_CACHE_MIRROR_H

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"

/* The segments of `l` on kvr_dev_host of its device; policies' states stay away. Waits. The caller
 * closes `out` (kvr_layer_close), also after a failure. */
enum kvr_status kvr_layer_mirror(const struct kvr_layer *l, struct kvr_layer *out);

/* Show `view`, whose past and pointers are a device's, to `fn` in the host's memory. */
enum kvr_status kvr_view_in_host(const struct kvr_cache_view *view, kvr_cache_watch_fn *fn,
                                 void *ctx);

#endif
