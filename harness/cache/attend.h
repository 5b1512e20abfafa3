/* attend.h - attention over spans, on the CPU.
 *
 * Path `staged`: a bounded piece of keys and values is decoded into scratch, attended to by
 * all queries, and merged into (running max, running sum, accumulated output); pieces come in
 * span order, so the result depends neither on threads nor on timing. */
#ifndef KVR_CACHE_ATTEND_H
#define KVR_CACHE_ATTEND_H

#include "harness/cache/segment.h"

/* Scratch that lives as long as the cache: grown when needed, never per call. */
struct kvr_attend_scratch {
    struct kvr_buf k, v;  /* one piece, decoded: [H][tile][D][64] and [H][tile][64][D] */
    struct kvr_buf state; /* per head and query: max, sum, output */
};

struct kvr_attend_job {
    int n_heads, head_dim; /* H, D */
    int64_t n_query;       /* T */
    const float *q;        /* [T,H,D] */
    float *out;            /* [T,H,D] */
    const struct kvr_span *spans;
    int n_spans;
    struct kvr_current current;
    int64_t *decode_ns, *attend_ns; /* added to */
};

/* Make scratch large enough; called when the cache opens. */
enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev, int n_heads,
                                   int head_dim, int64_t max_query);
void kvr_attend_release(struct kvr_attend_scratch *s);
void kvr_attend_staged(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);

#endif
