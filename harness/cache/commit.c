/* commit.c - as intended: a chunk is coded once; what is stored may only get coarser. */
#include "harness/cache/layer_impl.h"

#include <stdlib.h>
#include <string.h>

/* The finest unit a policy of this scheme decides on. */
static enum kvr_unit unit_of(const struct kvr_scheme *p)
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

    return kvr_codec_bytes(l->scheme->k[tier], &s) + kvr_codec_bytes(l->scheme->v[tier], &s);
}

/* Segments for the new tokens [tok0, tok0 + n); map [n] is theirs. */
static enum kvr_status add_new(struct kvr_layer *l, const uint8_t *map, const float *k,
                               const float *v, int64_t tok0, int64_t n,
                               struct kvr_segment_list *list)
{
    const enum kvr_unit unit = unit_of(l->scheme);
    const int64_t step = unit == KVR_UNIT_FRAME ? l->geo.tokens_per_frame : n;
    const size_t width = kvr_layer_width(l);

    for (int64_t t = 0, m; t < n; t += m) {
        m = step - (unit == KVR_UNIT_FRAME ? (tok0 + t) % step : 0); /* segments end with frames */
        m = n - t < m ? n - t : m;

        for (int tier = 0; tier < l->scheme->n_tiers; tier++) {
            struct kvr_segment s;

            KVR_TRY(kvr_layer_code_where(l, map + t, tier, kvr_row(k, width, t),
                                         kvr_row(v, width, t), tok0 + t, m, &s));
            KVR_TRY(kvr_segment_list_add(list, &s));
        }
    }
    return KVR_OK;
}

/* May tokens of tier `from` be coded again by tier `to`? Tier 0 is where tokens end: what is
 * there stays, everything else may fall to it; between the others only downwards. */
static bool may_move(const struct kvr_layer *l, int from, int to)
{
    if (from == to || from == 0)
        return false;
    if (!strcmp(l->scheme->k[from]->text, l->scheme->k[to]->text) &&
        !strcmp(l->scheme->v[from]->text, l->scheme->v[to]->text))
        return false; /* the same bytes again */
    return to == 0 || tier_cost(l, to) < tier_cost(l, from);
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
    if (want < l->scheme->n_tiers && !may_move(l, old->tier, want))
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

        KVR_TRY(
            kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH, 2 * n * sizeof(float)));
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

/* What becomes of a stored segment. */
struct change {
    bool same; /* it stays; else `now`, possibly nothing, takes its place */
    struct kvr_segment now;
};

static enum kvr_status make_room(struct kvr_layer *l, int n)
{
    struct kvr_segment *room;

    if (n <= l->cap)
        return KVR_OK;
    room = realloc(l->seg, 2 * (size_t)n * sizeof *room);
    if (!room)
        return kvr_fail(KVR_ENOMEM, "cache: no memory for %d segments", 2 * n);
    l->seg = room;
    l->cap = 2 * n;
    return KVR_OK;
}

/* Nothing can fail any more: put the changes and the new segments into the layer. */
static void replace(struct kvr_layer *l, const struct change *past, int n_past,
                    const struct kvr_segment_list *fresh)
{
    int w = 0;

    l->made = (struct kvr_layer_bytes){ 0 };
    for (int i = 0; i < l->n; i++) {
        if (i < n_past && past[i].same) {
            l->seg[w++] = l->seg[i];
            continue;
        }
        kvr_segment_free(&l->seg[i]);
        if (i < n_past && past[i].now.n_tok) {
            kvr_layer_count_made(l, &past[i].now);
            l->seg[w++] = past[i].now;
        }
    }
    for (int i = 0; i < fresh->n; i++) {
        kvr_layer_count_made(l, &fresh->seg[i]);
        l->seg[w++] = fresh->seg[i];
    }
    l->n = w;
}

enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n)
{
    const bool moves = unit_of(l->scheme) != KVR_UNIT_TOKEN &&
                       (l->scheme->tiers.part || l->scheme->retention.part);
    struct kvr_segment_list fresh = { 0 };
    enum kvr_status st = KVR_OK;
    struct change *past;
    uint8_t *map;
    int n_past = 0;

    KVR_TRY(kvr_layer_decide(l, tok0 + n, tok0 + n, tok0, k, v, &map));
    while (n_past < l->n && l->seg[n_past].tok0 < tok0)
        n_past++;
    past = calloc((size_t)n_past + 1, sizeof *past);
    if (!past)
        return kvr_fail(KVR_ENOMEM, "cache: no memory for %d segments", n_past);
    for (int i = 0; i < n_past && st == KVR_OK; i++) {
        past[i].same = true;
        if (moves)
            st = move(l, &l->seg[i], map[l->seg[i].tok0], &past[i].same, &past[i].now);
    }
    if (st == KVR_OK)
        st = add_new(l, map + tok0, k, v, tok0, n, &fresh);
    if (st == KVR_OK)
        st = make_room(l, n_past + fresh.n);
    if (st == KVR_OK) {
        replace(l, past, n_past, &fresh);
        l->n_active = tok0 + n;
        free(fresh.seg);
    } else {
        for (int i = 0; i < n_past; i++)
            kvr_segment_free(&past[i].now);
        kvr_segment_list_free(&fresh);
    }
    free(past);
    return st;
}
