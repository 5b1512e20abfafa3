/* segment.h - declares the segment (tokens of one layer, encoded by one codec) and the runs of
 * tokens that are visible to a pass. */
#ifndef KVR_CACHE_SEGMENT_H
#define KVR_CACHE_SEGMENT_H

#include "harness/device/mem.h"
#include "methods/codec.h"

enum kvr_segment_kind {
    KVR_SEG_CODED,  /* stores every token, encoded by a codec */
    KVR_SEG_POOLED, /* stores one mean token for all n tokens, with log m = log n added to its
                     * score */
    KVR_SEG_ZERO,   /* stands for n tokens whose keys and values are zero; stores nothing */
};

struct kvr_segment {
    enum kvr_segment_kind kind;
    int tier;
    int64_t serial;         /* serial number of the segment in its layer, from 1; a ZERO segment has
                             * 0 */
    int64_t tok0;           /* absolute index of the first token: frame * tokens_per_frame + s */
    int64_t n_tok;          /* tokens represented */
    int head0;              /* first head: the segment has heads [head0, head0 + k.shape.n_heads); a
                             * ZERO segment has all heads */
    bool listed;            /* not contiguous: see `list` */
    bool summary;           /* in a CODED segment: whether the tokens are summaries by which a
                             * retention replaces evicted tokens */
    int32_t weight;         /* in a CODED segment: multiplicity of each token; 0 means 1 */
    struct kvr_buf list;    /* token indices, ascending, int32 [n_tok], with tag KVR_MEM_META */
    struct kvr_buf shown;   /* host copy of `list`, if `list` is in device memory */
    struct kvr_packed k, v; /* [n_tok,H,D]; POOLED: [1,H,D] */
    struct kvr_buf moments; /* moments of the quantized keys, FP16 [moments][H][D], which the
                             * scheme's correction reads */
};

/* Frees the buffers of a segment. */
void kvr_segment_free(struct kvr_segment *s);
size_t kvr_segment_resident(const struct kvr_segment *s); /* allocated bytes of codes, side
                                                           * information and token list */

/* Whether the segment contains tokens of head h. */
static inline bool kvr_segment_has_head(const struct kvr_segment *s, int h)
{
    return !s->k.codec || (h >= s->head0 && h < s->head0 + s->k.shape.n_heads);
}

/* Token index, counted from the rollout's start, of the segment's i-th token. */
int64_t kvr_segment_token(const struct kvr_segment *s, int64_t i);
/* Position, within the segment, of the first token whose token index is at least `tok`. */
int64_t kvr_segment_lower(const struct kvr_segment *s, int64_t tok);

/* Tokens visible to a pass: at most two runs [begin, end), ascending. */
struct kvr_visible {
    int n;
    int64_t run[2][2];
};

/* Uncompressed keys and values in memory: the current chunk, or a dense copy of the cache. */
struct kvr_raw {
    const void *k, *v; /* [T,H,D] of `dtype` */
    enum kvr_dtype dtype;
};

struct kvr_span {
    const struct kvr_segment *seg; /* NULL: raw */
    struct kvr_raw raw;
    int64_t t0, n; /* the span is stored tokens [t0, t0 + n) of the segment or of the raw tensors */
    float log_m;   /* logarithm of the multiplicity of the span's tokens, added to every score */
    bool causal;   /* the current chunk under a causal mask: query t attends to tokens 0 to t
                    * only */
};

#endif
