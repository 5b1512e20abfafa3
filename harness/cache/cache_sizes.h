/* cache_sizes.h - the working memory of a cache, known without opening one.
 *
 *     const struct kvr_cache_sizes b = kvr_cache_sizes_of(scheme, &shape, path, backend);
 *
 * kvr_cache_open allocates these sizes, and kvr_cache_scratch_bytes (cache.h) sums them. */
#ifndef KVR_CACHE_CACHE_SIZES_H
#define KVR_CACHE_CACHE_SIZES_H

#include "harness/cache/attend.h"
#include "harness/cache/cache.h"

/* Sizes of the working memory allocated by open. */
struct kvr_cache_sizes {
    size_t demeaned; /* keys of the current chunk without their means */
    size_t current, values, dense,
        held;                       /* `current`, `values`, `dense`: once for K and once for V */
    size_t map, work, gather, back; /* for coding, so that passes do not allocate */
    size_t keep, rows, pick, pick_host, all_keys, all_values; /* used if the method's retention
                                                               * evicts single tokens (layer.h) */
    size_t weights; /* multiplicities of tokens, used if the retention evicts single tokens */
    size_t columns; /* struct kvr_columns: sums, then maxima */
    struct kvr_attend_bytes attend;
};

/* Number of stored (KV) heads. */
static inline int kvr_cache_kv_heads(const struct kvr_cache_shape *s)
{
    return s->n_kv_heads ? s->n_kv_heads : s->n_heads;
}

/* Sizes and features that attention over the scheme's segments needs. */
struct kvr_attend_needs kvr_cache_attend_needs(const struct kvr_scheme *scheme,
                                               const struct kvr_cache_shape *s, enum kvr_path path);
/* Bytes of every scratch buffer of a cache. */
struct kvr_cache_sizes kvr_cache_sizes_of(const struct kvr_scheme *scheme,
                                          const struct kvr_cache_shape *s, enum kvr_path path,
                                          enum kvr_backend backend);

#endif
