/* attend.h - attention over spans, on the CPU.
 *
 * Spans come in a fixed order and every query keeps its own (running max, running sum,
 * accumulated output), so the result depends neither on threads nor on timing. Rotated keys
 * are met by rotated queries; rotated values are turned back once, in the output. */
#ifndef KVR_CACHE_ATTEND_H
#define KVR_CACHE_ATTEND_H

#include "harness/cache/segment.h"
#include "methods/corrections/correction.h"

/* Scratch that lives as long as the cache. */
struct kvr_attend_scratch {
    struct kvr_buf tiles; /* staged: one piece, decoded */
    struct kvr_buf state; /* per head and query: max, sum, output, query */
};

struct kvr_attend_job {
    int n_heads, head_dim; /* H, D */
    int64_t n_query;       /* T */
    const float *q;        /* [T,H,D] */
    float *out;            /* [T,H,D] */
    const struct kvr_span *spans;
    int n_spans;
    const struct kvr_correction *correction; /* NULL: none */
    bool fused; /* decode inside the attention loop; else stage bounded pieces in scratch */
    int64_t *decode_ns, *attend_ns; /* added to */
};

/* What kvr_attend_reserve allocates. */
struct kvr_attend_bytes {
    size_t tiles, state;
};
struct kvr_attend_bytes kvr_attend_scratch_bytes(int n_heads, int head_dim, int64_t max_query,
                                                 bool staged, bool rotated_too);
/* Make scratch large enough; called when the cache opens. */
enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev, int n_heads,
                                   int head_dim, int64_t max_query, bool staged, bool rotated_too);
void kvr_attend_release(struct kvr_attend_scratch *s);
void kvr_attend(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);

#endif
