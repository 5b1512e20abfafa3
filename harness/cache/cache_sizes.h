/* cache_sizes.h - the working memory of a cache, computed without opening the cache.
 *
 *     const struct kvr_cache_sizes b = kvr_cache_sizes_of(scheme, &shape, path, backend);
 *
 * kvr_cache_open allocates buffers of these sizes. kvr_cache_scratch_bytes (cache.h) returns the
 * total bytes of those buffers that are in memory of the cache's device. */
#ifndef KVR_CACHE_CACHE_SIZES_H
#define KVR_CACHE_CACHE_SIZES_H

#include "harness/cache/attend.h"
#include "harness/cache/cache.h"

/* Bytes of the buffers that kvr_cache_open allocates. */
struct kvr_cache_sizes {
    size_t demeaned; /* keys of the current chunk, each minus its mean over the D channels (option
                      * current=demean) */
    /* `current`, `values` and `dense` are sizes of pairs of buffers: one buffer of this size for K
     * and one for V. `held` is the size of a single buffer. */
    size_t current, values, dense, held;
    size_t map, work, gather, back; /* scratch of the codecs, allocated in advance so that passes
                                     * need not allocate */
    /* buffers for a retention policy that evicts single tokens (struct kvr_layer_scratch); 0 bytes
     * for other methods */
    size_t keep, rows, pick, pick_host, all_keys, all_values;
    size_t weights; /* buffer for the number of original tokens that each token replaces, used by a
                     * retention policy that merges tokens (kvr_thin_needs.weights); 0 bytes for
                     * other methods */
    size_t columns; /* buffer for each token's softmax weights, summed over the queries, and their
                     * maximum (struct kvr_columns); 0 bytes if the retention policy does not read
                     * them */
    struct kvr_attend_bytes attend;
};

/* Number of KV heads, which are the heads of stored keys and values. */
static inline int kvr_cache_kv_heads(const struct kvr_cache_shape *s)
{
    return s->n_kv_heads ? s->n_kv_heads : s->n_heads;
}

/* Returns what attention to a cache of this shape and method (`scheme`) needs: the maximum numbers
 * of query rows and of quantized tokens per call, and optional features such as rotated keys. */
struct kvr_attend_needs kvr_cache_attend_needs(const struct kvr_scheme *scheme,
                                               const struct kvr_cache_shape *s, enum kvr_path path);
/* Bytes of every scratch buffer that kvr_cache_open would allocate for this method, shape, path and
 * backend. */
struct kvr_cache_sizes kvr_cache_sizes_of(const struct kvr_scheme *scheme,
                                          const struct kvr_cache_shape *s, enum kvr_path path,
                                          enum kvr_backend backend);

#endif
