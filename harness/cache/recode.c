/* recode.c - stores chunks as the study's code does: applies the policies to the decoded keys and
 * values of all tokens, and encodes all tokens again. */
#include "harness/cache/layer_impl.h"

#include <stdlib.h>
#include <string.h>

/* Adds one segment per pruned frame: either a segment that decodes to zeros, or the mean token of
 * the frame. */
static enum kvr_status add_pruned(struct kvr_layer *l, const uint8_t *map, const float *k,
                                  const float *v, int64_t n_active, struct kvr_segment_list *list,
                                  struct kvr_study_counts *counts)
{
    const int64_t frame = l->geo.tokens_per_frame;
    const size_t width = kvr_layer_width(l);

    for (int64_t t = 0; t < n_active; t += frame) {
        const int64_t n = n_active - t < frame ? n_active - t : frame;
        struct kvr_segment s = { 0 };

        if (map[t] == KVR_TOKEN_ZERO) {
            s = (struct kvr_segment){ .kind = KVR_SEG_ZERO, .tok0 = t, .n_tok = n };
        } else if (map[t] == KVR_TOKEN_POOLED) {
            KVR_TRY(kvr_layer_pool(l, kvr_row(k, width, t), kvr_row(v, width, t), t, n, &s));
            counts->pooled_frames++;
        }
        KVR_TRY(kvr_segment_list_add(list, &s));
    }
    return KVR_OK;
}

static enum kvr_status build(struct kvr_layer *l, const float *k, const float *v, int64_t n_active,
                             struct kvr_segment_list *list, size_t *side_bytes)
{
    const struct kvr_scheme *p = l->scheme;
    struct kvr_study_counts counts = { .capacity = l->geo.capacity, .active = n_active };
    uint8_t *map;

    KVR_TRY(kvr_layer_decide(l, l->geo.capacity, n_active, 0, k, v, &map));
    if (p->method->study_span == KVR_SPAN_ACTIVE || (p->tiers.part && p->tiers.part->active_only))
        memset(map + n_active, KVR_TOKEN_DROPPED, (size_t)(l->geo.capacity - n_active));
    for (int tier = 0; tier < p->n_tiers; tier++) {
        struct kvr_segment s;

        KVR_TRY(kvr_layer_code_tier(l, map, tier, k, v, 0, l->geo.capacity, &s));
        counts.stored += s.n_tok;
        KVR_TRY(kvr_segment_list_add(list, &s));
    }
    KVR_TRY(add_pruned(l, map, k, v, n_active, list, &counts));
    *side_bytes = 0;
    if (p->tiers.part && p->tiers.part->study_side_bytes)
        *side_bytes += p->tiers.part->study_side_bytes(p->tiers.opts, &counts);
    if (p->retention.part && p->retention.part->study_side_bytes)
        *side_bytes += p->retention.part->study_side_bytes(p->retention.opts, &counts);
    return KVR_OK;
}

enum kvr_status kvr_layer_recode(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t n_active)
{
    struct kvr_segment_list list = { 0 };
    size_t side_bytes;
    enum kvr_status st = build(l, k, v, n_active, &list, &side_bytes);

    if (st != KVR_OK) {
        kvr_segment_list_free(&list);
        return st;
    }
    for (int i = 0; i < l->n; i++)
        kvr_segment_free(&l->seg[i]);
    free(l->seg);
    l->new_bytes = (struct kvr_layer_bytes){ 0 };
    for (int i = 0; i < list.n; i++)
        kvr_layer_count_produced(l, &list.seg[i]);
    l->seg = list.seg;
    l->n = list.n;
    l->cap = list.cap;
    l->n_active = n_active;
    l->study_side_bytes = side_bytes;
    return KVR_OK;
}
