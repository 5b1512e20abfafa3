/* segment.h - declares the segment (tokens of one layer, encoded by one codec) and the runs of
 * tokens that are visible to a pass. */
#ifndef KVR_CACHE_SEGMENT_H
#define KVR_CACHE_SEGMENT_H

#include "harness/device/mem.h"
#include "methods/codec.h"

enum kvr_segment_kind {
    KVR_SEG_CODED,  /* stores every token, encoded by a codec */
    KVR_SEG_POOLED, /* stores the mean of n tokens as one token; attention adds log n to the score
                     * of this token */
    KVR_SEG_ZERO,   /* stands for n tokens whose keys and values are zero; stores nothing */
};

struct kvr_segment {
    enum kvr_segment_kind kind;
    int tier;
    int64_t serial;         /* serial number of the segment in its layer, counted from 1; 0 for a
                             * ZERO segment */
    int64_t tok0;           /* index, in the rollout, of the segment's first token: frame *
                             * tokens_per_frame + index in the frame */
    int64_t n_tok;          /* tokens represented */
    int head0;              /* first of the segment's heads [head0, head0 + k.shape.n_heads); unused
                             * in a ZERO segment, which has all heads */
    bool listed;            /* whether the token indices are not contiguous and are therefore stored
                             * in `list` */
    bool summary;           /* CODED segments: whether the tokens are summary tokens, by which the
                             * retention policy has replaced evicted tokens */
    int32_t weight;         /* CODED segments: number of original tokens that each token replaces;
                             * the initial value 0 is equivalent to 1 */
    struct kvr_buf list;    /* if `listed`: indices of the tokens in the rollout, int32 [n_tok],
                             * ascending, with memory tag KVR_MEM_META */
    struct kvr_buf shown;   /* host copy of `list`, if `list` is in device memory */
    struct kvr_packed k, v; /* [n_tok,H,D]; POOLED: [1,H,D] */
    struct kvr_buf moments; /* FP16 [n][H][D], where n is kvr_correction.moments: statistics of the
                             * quantized keys (moments), which the method's score correction
                             * reads */
};

/* Frees the buffers of a segment. */
void kvr_segment_free(struct kvr_segment *s);
size_t kvr_segment_resident(const struct kvr_segment *s); /* allocated bytes of the segment: its
                                                           * codes, its side information (such as
                                                           * scales), its token list and its
                                                           * moments */

/* Whether the segment contains tokens of head h. */
static inline bool kvr_segment_has_head(const struct kvr_segment *s, int h)
{
    return !s->k.codec || (h >= s->head0 && h < s->head0 + s->k.shape.n_heads);
}

/* Index, in the rollout, of the segment's i-th token. */
int64_t kvr_segment_token(const struct kvr_segment *s, int64_t i);
/* Position in the segment of the first token whose index in the rollout is at least `tok`; n_tok if
 * there is no such token. */
int64_t kvr_segment_lower(const struct kvr_segment *s, int64_t tok);

/* Tokens that a forward pass can see, as `n` runs of consecutive tokens in ascending order: run[i]
 * has the token indices [run[i][0], run[i][1]). There are at most two runs, the sink and the
 * window. */
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
    int64_t t0, n; /* the span consists of tokens [t0, t0 + n) of `seg`, or of `raw` if `seg` is
                    * NULL */
    float log_m;   /* log of the number of original tokens that each token of the span replaces,
                    * added to every score */
    bool causal;   /* whether the span is the current chunk under a causal mask, where query t
                    * attends to tokens 0 to t */
};

#endif
