/* segment.h - some tokens of one layer held in one way, and the runs of them a pass sees. */
#ifndef KVR_CACHE_SEGMENT_H
#define KVR_CACHE_SEGMENT_H

#include "harness/device/mem.h"
#include "methods/codec.h"

enum kvr_segment_kind {
    KVR_SEG_CODED,  /* every token, by a codec */
    KVR_SEG_POOLED, /* one mean token that stands for all of them: log m = log n */
    KVR_SEG_ZERO,   /* one zero key and value that stand for all of them; nothing stored */
};

struct kvr_segment {
    enum kvr_segment_kind kind;
    int tier;
    int64_t serial;         /* which coding of its layer made it, from 1; ZERO: 0 */
    int64_t tok0;           /* absolute index of the first token: frame * tokens_per_frame + s */
    int64_t n_tok;          /* tokens stood for */
    int head0;              /* heads [head0, head0 + k.shape.n_heads); ZERO: all */
    bool listed;            /* not contiguous: `list` says which */
    bool summary;           /* CODED: what the retention put in the place of these tokens */
    int32_t weight;         /* CODED: how many tokens each stands for; 0: one */
    struct kvr_buf list;    /* int32 [n_tok]: token indices, ascending (KVR_MEM_META) */
    struct kvr_buf shown;   /* a list in device memory once more, for the host */
    struct kvr_packed k, v; /* [n_tok,H,D]; POOLED: [1,H,D] */
    struct kvr_buf moments; /* FP16 [moments][H][D]: what the plan's correction keeps */
};

void kvr_segment_free(struct kvr_segment *s);
size_t kvr_segment_resident(const struct kvr_segment *s); /* bytes held: codes, meta, list */

/* Does the segment hold tokens of head h? */
static inline bool kvr_segment_has_head(const struct kvr_segment *s, int h)
{
    return !s->k.codec || (h >= s->head0 && h < s->head0 + s->k.shape.n_heads);
}

/* Absolute token index of the i-th token. */
int64_t kvr_segment_token(const struct kvr_segment *s, int64_t i);
/* First i whose token index is >= tok. */
int64_t kvr_segment_lower(const struct kvr_segment *s, int64_t tok);

/* Tokens visible to a pass: at most two runs [begin, end), ascending. */
struct kvr_visible {
    int n;
    int64_t run[2][2];
};

/* A run of tokens for attention: of a segment, or raw in memory (current chunk, dense copy). */
struct kvr_raw {
    const void *k, *v; /* [T,H,D] of `dtype` */
    enum kvr_dtype dtype;
};

struct kvr_span {
    const struct kvr_segment *seg; /* NULL: raw */
    struct kvr_raw raw;
    int64_t t0, n; /* stored tokens within the segment or the raw tensors */
    float log_m;   /* log of the multiplicity each stands for */
    bool causal;   /* the queries' own tokens: query t sees the first t + 1 alone */
};

#endif
