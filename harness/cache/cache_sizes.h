/* cache_sizes.h - the working memory of a cache, computed without opening the cache.
 *
 *     const struct kvr_cache_sizes b = kvr_cache_sizes_of(scheme, &shape, path, backend);
 *
 * kvr_cache_open allocates buffers of these sizes, and kvr_cache_scratch_bytes (cache.h) returns
 * their sum. */
#ifndef KVR_CACHE_CACHE_SIZES_H
#define KVR_CACHE_CACHE_SIZES_H

#include "harness/cache/attend.h"
#include "harness/cache/cache.h"

/* Bytes of the buffers that kvr_cache_open allocates. */
struct kvr_cache_sizes {
    size_t demeaned; /* keys of the current chunk, with the mean key of each head subtracted */
    size_t current, values, dense,
        held;                       /* `current`, `values` and `dense` are allocated twice: for K
                                     * and for V */
    size_t map, work, gather, back; /* scratch of the codecs, allocated in advance so that passes
                                     * need not allocate */
    /* buffers for a retention that evicts single tokens (struct kvr_layer_scratch); 0 bytes
     * otherwise */
    size_t keep, rows, pick, pick_host, all_keys, all_values;
    size_t weights; /* multiplicities of tokens, for a retention that assigns them
                     * (kvr_thin_needs.weights); 0 bytes otherwise */
    size_t columns; /* attention received by each token (struct kvr_columns): sums, then maxima */
    struct kvr_attend_bytes attend;
};

/* Number of KV heads, which are the heads of stored keys and values. */
static inline int kvr_cache_kv_heads(const struct kvr_cache_shape *s)
{
    return s->n_kv_heads ? s->n_kv_heads : s->n_heads;
}

/* Returns the sizes and features that attention to the scheme's segments needs. */
struct kvr_attend_needs kvr_cache_attend_needs(const struct kvr_scheme *scheme,
                                               const struct kvr_cache_shape *s, enum kvr_path path);
/* Bytes of every scratch buffer of a cache. */
struct kvr_cache_sizes kvr_cache_sizes_of(const struct kvr_scheme *scheme,
                                          const struct kvr_cache_shape *s, enum kvr_path path,
                                          enum kvr_backend backend);

#endif
