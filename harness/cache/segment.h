/* segment.h - n tokens of one layer held by one codec, and the views attention gets. */
#ifndef KVR_CACHE_SEGMENT_H
#define KVR_CACHE_SEGMENT_H

#include "harness/cache/cache.h"

struct kvr_segment {
    int chunk;          /* which chunk's clean pass made it */
    int64_t tok0;       /* absolute index of the first token: frame * tokens_per_frame + s */
    int64_t n_tok;      /* tokens, contiguous from tok0 */
    struct kvr_packed k, v;
};

void kvr_segment_free(struct kvr_segment *s);

/* A run of tokens that one attention call sees: of a segment, or of the current chunk. */
struct kvr_span {
    const struct kvr_segment *seg; /* NULL: the current chunk */
    int64_t t0, n;                 /* tokens within the segment or chunk */
};

/* The current chunk, uncoded: [T,H,D] in the cache's exact type. */
struct kvr_current {
    const void *k, *v;
    enum kvr_dtype dtype;
};

#endif
