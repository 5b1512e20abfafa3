/* layer_impl.h - functions that create segments and call policies, shared by kvr_layer_commit
 * (commit.c) and kvr_layer_recode (recode.c). */
#ifndef KVR_CACHE_LAYER_IMPL_H
#define KVR_CACHE_LAYER_IMPL_H

#include "harness/cache/layer.h"

/* Returns the bytes of a segment, separately for codes and for side information. For a dry layer,
 * which allocates nothing, it returns the bytes that the segment would have. */
struct kvr_layer_bytes kvr_layer_segment_held(const struct kvr_layer *l,
                                              const struct kvr_segment *s);
void kvr_layer_count_produced(struct kvr_layer *l, const struct kvr_segment *s);

/* Growing array of new segments. If creating a segment fails, the array's segments are freed. */
struct kvr_segment_list {
    struct kvr_segment *seg;
    int n, cap;
};
/* Appends segment `s` to `list` and takes ownership of `s`, also on failure. A segment without
 * tokens is not appended. */
enum kvr_status kvr_segment_list_add(struct kvr_segment_list *list, struct kvr_segment *s);
void kvr_segment_list_free(struct kvr_segment_list *list); /* including its segments */

static inline size_t kvr_layer_width(const struct kvr_layer *l)
{
    return (size_t)l->geo.n_heads * (size_t)l->geo.head_dim;
}

static inline const float *kvr_row(const float *x, size_t width, int64_t t)
{
    return x ? x + (size_t)t * width : NULL;
}

/* Returns a pointer to row t of x (F32 or BF16). */
static inline struct kvr_values kvr_values_from(struct kvr_values x, size_t width, int64_t t)
{
    const size_t each = x.bf16 ? sizeof(kvr_bf16) : sizeof(float);

    return (struct kvr_values){ x.p ? (const char *)x.p + (size_t)t * width * each : NULL, x.bf16 };
}

/* Sets *map [n_tok] to each token's tier (the index of its codec), or to KVR_TOKEN_DROPPED or
 * another KVR_TOKEN_ value. The method's tier policy runs first; without a tier policy, every token
 * gets tier 0. Then the retention policy, if any, changes *map or selects the tokens to keep
 * (kvr_layer_keep_mask). */
enum kvr_status kvr_layer_decide(struct kvr_layer *l, int64_t n_tok, int64_t n_active, int64_t new0,
                                 const float *k, const float *v, uint8_t **map);

/* Returns the array keep [n_active][G] that kvr_layer_decide computes, with G =
 * kvr_layer_n_selections. keep[t][g] is 1 if the retention policy keeps token t for head g, or for
 * all heads if G is 1. Returns NULL if the policy does not evict single tokens. */
const uint8_t *kvr_layer_keep_mask(const struct kvr_layer *l);
/* Number of heads if the retention policy keeps different tokens for each head, otherwise 1. */
int kvr_layer_n_selections(const struct kvr_layer *l);

/* Makes the retention policy's new state current if the chunk was stored, otherwise discards it. */
void kvr_layer_finish_policies(struct kvr_layer *l, bool stored);

/* Tokens that the retention policy keeps for heads [head0, head0 + n_heads). */
struct kvr_row_list {
    int head0, n_heads;
    int64_t n;
    const int32_t *row, *token; /* [n]; row: the token's row in k and v, ascending; token: its index
                                 * in the rollout */
};

/* Encodes the tokens and heads that `rows` lists as a new segment. The inputs k and v
 * [tokens,width_heads,D] contain only the heads [first_head, first_head + width_heads). */
enum kvr_status kvr_layer_code_rows(struct kvr_layer *l, int tier, const float *k, const float *v,
                                    int first_head, int width_heads,
                                    const struct kvr_row_list *rows, struct kvr_segment *out);

/* Encodes k, v [n,H,D] of tokens [tok0, tok0 + n) by the codec of `tier` as a new segment. */
enum kvr_status kvr_layer_code(struct kvr_layer *l, int tier, const float *k, const float *v,
                               int64_t tok0, int64_t n, struct kvr_segment *out);
/* Like kvr_layer_code, for F32 or BF16 k and v. BF16 is allowed only if kvr_layer_only_codes
 * returns true. */
enum kvr_status kvr_layer_code_values(struct kvr_layer *l, int tier, struct kvr_values k,
                                      struct kvr_values v, int64_t tok0, int64_t n,
                                      struct kvr_segment *out);

/* Encodes the rows t of k, v [n,H,D] with map[t] == tier as a new segment. Row t is token tok0 + t.
 * If no row has this tier, the segment is empty (n_tok 0). */
enum kvr_status kvr_layer_code_tier(struct kvr_layer *l, const uint8_t *map, int tier,
                                    const float *k, const float *v, int64_t tok0, int64_t n,
                                    struct kvr_segment *out);

/* Encodes the summary tokens by which the retention policy replaced evicted tokens in
 * kvr_layer_decide, and appends their segments to `list`. A segment has the summary tokens of one
 * head and chunk. */
enum kvr_status kvr_layer_add_summaries(struct kvr_layer *l, struct kvr_segment_list *list);

/* Creates a segment with one token, the mean of tokens [tok0, tok0 + n). */
enum kvr_status kvr_layer_pool(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                               int64_t n, struct kvr_segment *out);

#endif
