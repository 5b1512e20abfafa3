/* layer_impl.h - shared by commit and recode: creating segments, calling policies. */
#ifndef KVR_CACHE_LAYER_IMPL_H
#define KVR_CACHE_LAYER_IMPL_H

#include "harness/cache/layer.h"

/* Bytes of one segment by tag; for a dry one, the size it would have. */
struct kvr_layer_bytes kvr_layer_segment_held(const struct kvr_layer *l,
                                              const struct kvr_segment *s);
void kvr_layer_count_produced(struct kvr_layer *l, const struct kvr_segment *s);

/* A growing array of new segments, freed as a whole on failure. */
struct kvr_segment_list {
    struct kvr_segment *seg;
    int n, cap;
};
/* Takes ownership of `s`, also on failure; ignores an empty segment. */
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

/* The values x, F32 or BF16, from row t on. */
static inline struct kvr_values kvr_values_from(struct kvr_values x, size_t width, int64_t t)
{
    const size_t each = x.bf16 ? sizeof(kvr_bf16) : sizeof(float);

    return (struct kvr_values){ x.p ? (const char *)x.p + (size_t)t * width * each : NULL, x.bf16 };
}

/* Calls the method's tiers, then its retention, which write each token's tier to map [n_tok]; all 0
 * if the method has neither. */
enum kvr_status kvr_layer_decide(struct kvr_layer *l, int64_t n_tok, int64_t n_active, int64_t new0,
                                 const float *k, const float *v, uint8_t **map);

/* After kvr_layer_decide: for each written token, [n_active][G], whether it stays; NULL if the
 * scheme's retention does not thin. */
const uint8_t *kvr_layer_keep_mask(const struct kvr_layer *l);
int kvr_layer_n_selections(
    const struct kvr_layer *l); /* H if tokens are selected per head, else 1 */

/* Accepts (stored) or discards the policies' new state. */
void kvr_layer_finish_policies(struct kvr_layer *l, bool stored);

/* Tokens retained by some heads. */
struct kvr_row_list {
    int head0, n_heads;
    int64_t n;
    const int32_t *row, *token; /* [n]: rows of k and v, ascending; token indices */
};

/* A segment of these rows of k, v [.,width_heads,D], whose first head is `first_head`. */
enum kvr_status kvr_layer_code_rows(struct kvr_layer *l, int tier, const float *k, const float *v,
                                    int first_head, int width_heads,
                                    const struct kvr_row_list *rows, struct kvr_segment *out);

/* A segment of tokens [tok0, tok0 + n) coded by `tier`; k, v [n,H,D]. */
enum kvr_status kvr_layer_code(struct kvr_layer *l, int tier, const float *k, const float *v,
                               int64_t tok0, int64_t n, struct kvr_segment *out);
/* Like kvr_layer_code; the values may be BF16 if kvr_layer_only_codes returns true. */
enum kvr_status kvr_layer_code_values(struct kvr_layer *l, int tier, struct kvr_values k,
                                      struct kvr_values v, int64_t tok0, int64_t n,
                                      struct kvr_segment *out);

/* A segment of the tokens t in [0, n) with map[t] == tier, with index tok0 + t; k, v [n,H,D]. Empty
 * (n_tok 0) if there are none. */
enum kvr_status kvr_layer_code_tier(struct kvr_layer *l, const uint8_t *map, int tier,
                                    const float *k, const float *v, int64_t tok0, int64_t n,
                                    struct kvr_segment *out);

/* Adds the summaries that the retention made in kvr_layer_decide to `list`, in segments of one head
 * and one chunk each. */
enum kvr_status kvr_layer_add_summaries(struct kvr_layer *l, struct kvr_segment_list *list);

/* A segment with one mean token for tokens [tok0, tok0 + n). */
enum kvr_status kvr_layer_pool(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                               int64_t n, struct kvr_segment *out);

#endif
