/* segment.h - a set of tokens of one layer that is stored by one codec, and the token runs visible
 * to a pass. */
#ifndef KVR_CACHE_SEGMENT_H
#define KVR_CACHE_SEGMENT_H

#include "harness/device/mem.h"
#include "methods/codec.h"

enum kvr_segment_kind {
    KVR_SEG_CODED,  /* every token, by a codec */
    KVR_SEG_POOLED, /* one mean token for all n tokens: log m = log n */
    KVR_SEG_ZERO,   /* one zero key and value for all tokens; nothing is stored */
};

struct kvr_segment {
    enum kvr_segment_kind kind;
    int tier;
    int64_t serial;         /* number of the layer's coding that created the segment, from 1; ZERO:
                           * 0 */
    int64_t tok0;           /* absolute index of the first token: frame * tokens_per_frame + s */
    int64_t n_tok;          /* tokens represented */
    int head0;              /* heads [head0, head0 + k.shape.n_heads); ZERO: all */
    bool listed;            /* not contiguous: see `list` */
    bool summary;           /* CODED: summaries by which a retention replaced these tokens */
    int32_t weight;         /* CODED: multiplicity of each token; 0: one */
    struct kvr_buf list;    /* int32 [n_tok]: token indices, ascending (KVR_MEM_META) */
    struct kvr_buf shown;   /* host copy of a device list */
    struct kvr_packed k, v; /* [n_tok,H,D]; POOLED: [1,H,D] */
    struct kvr_buf moments; /* FP16 [moments][H][D]: for the scheme's correction */
};

void kvr_segment_free(struct kvr_segment *s);
size_t kvr_segment_resident(const struct kvr_segment *s); /* allocated bytes: codes, meta, list */

/* Whether the segment holds tokens of head h. */
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

/* A run of tokens for attention: from a segment, or raw in memory (current chunk, dense copy). */
struct kvr_raw {
    const void *k, *v; /* [T,H,D] of `dtype` */
    enum kvr_dtype dtype;
};

struct kvr_span {
    const struct kvr_segment *seg; /* NULL: raw */
    struct kvr_raw raw;
    int64_t t0, n; /* range of stored tokens within the segment or the raw tensors */
    float log_m;   /* log of each token's multiplicity */
    bool causal;   /* the queries' own tokens: query t sees tokens 0 to t only */
};

#endif
