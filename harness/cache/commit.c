/* commit.c - as intended: a chunk is coded once; what is stored may only get coarser. */
#include "harness/cache/layer_impl.h"

#include <stdlib.h>

/* The finest unit a policy of this plan decides on. */
static enum kvr_unit unit_of(const struct kvr_plan *p)
{
    enum kvr_unit u = p->tiers.part ? p->tiers.part->unit : KVR_UNIT_CHUNK;

    if (p->retention.part && p->retention.part->unit > u)
        u = p->retention.part->unit;
    return u;
}

/* Bytes of a stretch of tokens in a tier: which of two is coarser. */
static size_t tier_cost(const struct kvr_layer *l, int tier)
{
    const struct kvr_block_shape s = { 4096, l->geo.n_heads, l->geo.head_dim };

    return kvr_codec_bytes(l->plan->k[tier], &s, 0) + kvr_codec_bytes(l->plan->v[tier], &s, 0);
}

/* Segments for the new tokens [tok0, tok0 + n); map [n] is theirs. */
static enum kvr_status add_new(struct kvr_layer *l, const uint8_t *map, const float *k,
                               const float *v, int64_t tok0, int64_t n,
                               struct kvr_segment_list *list)
{
    const enum kvr_unit unit = unit_of(l->plan);
    const int64_t step = unit == KVR_UNIT_FRAME ? l->geo.tokens_per_frame : n;
    const size_t width = kvr_layer_width(l);

    for (int64_t t = 0; t < n; t += step) {
        const int64_t m = n - t < step ? n - t : step;

        for (int tier = 0; tier < l->plan->n_tiers; tier++) {
            struct kvr_segment s, *slot;

            KVR_TRY(kvr_layer_code_where(l, map + t, tier, kvr_row(k, width, t),
                                         kvr_row(v, width, t), tok0 + t, m, &s));
            if (s.n_tok == 0)
                continue;
            enum kvr_status st = kvr_segment_list_add(list, &slot);

            if (st != KVR_OK) {
                kvr_segment_free(&s);
                return st;
            }
            *slot = s;
        }
    }
    return KVR_OK;
}

/* What a stored segment becomes; *same when it stays as it is. */
static enum kvr_status move(struct kvr_layer *l, const struct kvr_segment *old, uint8_t want,
                            bool *same, struct kvr_segment *out)
{
    const size_t width = kvr_layer_width(l);
    const float *k = NULL, *v = NULL;

    *same = true;
    *out = (struct kvr_segment){ 0 };
    if (old->kind != KVR_SEG_CODED)
        return KVR_OK; /* given up before: never restored */
    if (want < l->plan->n_tiers &&
        (want == old->tier || tier_cost(l, want) >= tier_cost(l, old->tier)))
        return KVR_OK;
    *same = false;
    if (want == KVR_TOKEN_DROPPED)
        return KVR_OK;
    if (want == KVR_TOKEN_ZERO) {
        *out = (struct kvr_segment){ .kind = KVR_SEG_ZERO, .tok0 = old->tok0, .n_tok = old->n_tok };
        return KVR_OK;
    }
    if (!l->dry) {
        const size_t n = (size_t)old->n_tok * width;

        KVR_TRY(kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH,
                                2 * n * sizeof(float)));
        float *dk = l->scratch->gather.p, *dv = dk + n;

        kvr_codec_decode(&old->k, 0, old->n_tok, 0, l->geo.n_heads, dk);
        kvr_codec_decode(&old->v, 0, old->n_tok, 0, l->geo.n_heads, dv);
        k = dk;
        v = dv;
    }
    if (want == KVR_TOKEN_POOLED)
        return kvr_layer_pool(l, k, v, old->tok0, old->n_tok, out);
    return kvr_layer_code(l, want, k, v, old->tok0, old->n_tok, out);
}

enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v,
                                 int64_t tok0, int64_t n)
{
    const bool moves = unit_of(l->plan) != KVR_UNIT_TOKEN &&
                       (l->plan->tiers.part || l->plan->retention.part);
    struct kvr_segment_list fresh = { 0 };
    struct kvr_segment *moved = NULL, *room;
    enum kvr_status st = KVR_OK;
    uint8_t *map;
    int n_past = 0, w = 0;

    KVR_TRY(kvr_layer_decide(l, tok0 + n, tok0 + n, tok0, k, v, &map));
    while (n_past < l->n && l->seg[n_past].tok0 < tok0)
        n_past++;
    bool same[n_past + 1]; /* segment i stays; else moved[i], possibly nothing, takes its place */

    moved = calloc((size_t)n_past + 1, sizeof *moved);
    if (!moved)
        return kvr_fail(KVR_ENOMEM, "cache: no memory for %d segments", n_past);
    for (int i = 0; i < n_past && st == KVR_OK; i++) {
        same[i] = true;
        if (moves)
            st = move(l, &l->seg[i], map[l->seg[i].tok0], &same[i], &moved[i]);
    }
    if (st == KVR_OK)
        st = add_new(l, map + tok0, k, v, tok0, n, &fresh);
    if (st == KVR_OK && n_past + fresh.n > l->cap) {
        const int cap = 2 * (n_past + fresh.n);

        room = realloc(l->seg, (size_t)cap * sizeof *room);
        if (room) {
            l->seg = room;
            l->cap = cap;
        } else {
            st = kvr_fail(KVR_ENOMEM, "cache: no memory for %d segments", cap);
        }
    }
    if (st != KVR_OK) {
        for (int i = 0; i < n_past; i++)
            kvr_segment_free(&moved[i]);
        free(moved);
        kvr_segment_list_free(&fresh);
        return st;
    }
    for (int i = 0; i < l->n; i++) {
        if (i < n_past && same[i]) {
            l->seg[w++] = l->seg[i];
            continue;
        }
        kvr_segment_free(&l->seg[i]);
        if (i < n_past && moved[i].n_tok)
            l->seg[w++] = moved[i];
    }
    for (int i = 0; i < fresh.n; i++)
        l->seg[w++] = fresh.seg[i];
    l->n = w;
    l->n_active = tok0 + n;
    free(moved);
    free(fresh.seg);
    return KVR_OK;
}
