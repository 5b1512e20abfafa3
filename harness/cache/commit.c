/* commit.c - stores chunks as the papers of the methods describe: a new chunk is encoded once.
 * Later, a stored token may be dropped, or encoded again from its decoded values. */
#include "harness/cache/layer_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/rows.h"
#include "methods/block.h"

/* Returns the unit (chunk, frame or token) by which the tiers and the retention of the scheme
 * select tokens. If their units differ, the finer unit is returned. */
static enum kvr_unit unit_of(const struct kvr_scheme *p)
{
    enum kvr_unit u = p->tiers.part ? p->tiers.part->unit : KVR_UNIT_CHUNK;

    if (p->retention.part && !p->retention.part->thin && p->retention.part->unit > u)
        u = p->retention.part->unit;
    return u;
}

/* Returns the bytes of 4096 tokens in the codecs of `tier`. These bytes rank the tiers by cost. */
static size_t tier_cost(const struct kvr_layer *l, int tier)
{
    const struct kvr_block_shape s = { 4096, l->geo.n_heads, l->geo.head_dim };

    return kvr_codec_bytes(l->scheme->k[tier], &s) + kvr_codec_bytes(l->scheme->v[tier], &s);
}

/* ---- thinning ------------------------------------------------------------------------------ */

/* For each selected token, its row in the source tensor and its token index in the cache. */
struct rows_lists {
    int32_t *row, *token; /* both arrays are in one allocation, which begins at `row` */
};

static enum kvr_status rows_lists(struct rows_lists *r, int64_t n)
{
    r->row = malloc(2 * (size_t)n * sizeof *r->row);
    r->token = r->row ? r->row + n : NULL;
    return r->row ? KVR_OK
                  : kvr_fail(KVR_ENOMEM,
                             "cache: out of memory while allocating the row indices of %lld tokens",
                             (long long)n);
}

/* Returns the heads that retain the tokens of selection `set`: head `set` if every head has its own
 * selection of tokens, otherwise all heads. */
static void heads_of(const struct kvr_layer *l, int set, int sets, int *head0, int *n_heads)
{
    *head0 = sets > 1 ? set : 0;
    *n_heads = sets > 1 ? 1 : l->geo.n_heads;
}

/* Encodes the retained tokens of one tier among the new tokens [tok0, tok0 + n), and adds their
 * segments to `list`. map [n] has the tokens' tiers. kept [n][sets] is nonzero for retained tokens.
 * `sets` is the number of heads if every head retains different tokens, otherwise 1. Element 0 of
 * both arrays belongs to token tok0. */
static enum kvr_status add_kept(struct kvr_layer *l, const uint8_t *map, const uint8_t *kept,
                                int tier, const float *k, const float *v, int64_t tok0, int64_t n,
                                struct kvr_segment_list *list)
{
    const int sets = kvr_layer_n_selections(l);
    struct rows_lists lists;
    enum kvr_status st = KVR_OK;

    KVR_TRY(rows_lists(&lists, n));
    for (int set = 0; set < sets && st == KVR_OK; set++) {
        struct kvr_row_list rows = { .row = lists.row, .token = lists.token };
        struct kvr_segment s;

        heads_of(l, set, sets, &rows.head0, &rows.n_heads);
        for (int64_t t = 0; t < n; t++)
            if (map[t] == tier && kept[t * sets + set]) {
                lists.row[rows.n] = (int32_t)t;
                lists.token[rows.n++] = (int32_t)(tok0 + t);
            }
        st = kvr_layer_code_rows(l, tier, k, v, 0, l->geo.n_heads, &rows, &s);
        if (st == KVR_OK)
            st = kvr_segment_list_add(list, &s);
    }
    free(lists.row);
    return st;
}

/* Whether retention drops a token of a stored segment. */
static bool loses(const struct kvr_layer *l, const struct kvr_segment *s)
{
    const uint8_t *kept = kvr_layer_keep_mask(l);
    const int sets = kvr_layer_n_selections(l), set = sets > 1 ? s->head0 : 0;

    for (int64_t i = 0; kept && i < s->n_tok; i++)
        if (!kept[kvr_segment_token(s, i) * sets + set])
            return true;
    return false;
}

/* Encodes the retained tokens of a stored segment again, with the codecs of `tier`. *out is empty
 * if no token is retained. */
static enum kvr_status thin_segment(struct kvr_layer *l, const struct kvr_segment *old, int tier,
                                    struct kvr_segment *out)
{
    const uint8_t *kept = kvr_layer_keep_mask(l);
    const int sets = kvr_layer_n_selections(l), set = sets > 1 ? old->head0 : 0;
    const int heads = old->k.shape.n_heads;
    const size_t n = (size_t)(old->n_tok * heads * l->geo.head_dim);
    struct kvr_row_list rows = { .head0 = old->head0, .n_heads = heads };
    struct rows_lists lists;
    float *k = NULL, *v = NULL;
    enum kvr_status st = KVR_OK;

    KVR_TRY(rows_lists(&lists, old->n_tok));
    rows.row = lists.row;
    rows.token = lists.token;
    for (int64_t i = 0; i < old->n_tok; i++) {
        const int64_t t = kvr_segment_token(old, i);

        if (!kept[t * sets + set])
            continue;
        lists.row[rows.n] = (int32_t)i;
        lists.token[rows.n++] = (int32_t)t;
    }
    if (rows.n && !l->dry)
        st = kvr_buf_reserve(&l->scratch->rows, l->dev, KVR_MEM_SCRATCH, 2 * n * sizeof *k);
    if (rows.n && !l->dry && st == KVR_OK) {
        k = l->scratch->rows.p;
        v = k + n;
        kvr_codec_decode(&old->k, 0, old->n_tok, 0, heads, k);
        kvr_codec_decode(&old->v, 0, old->n_tok, 0, heads, v);
    }
    if (st == KVR_OK)
        st = kvr_layer_code_rows(l, tier, k, v, old->head0, heads, &rows, out);
    if (st == KVR_OK) {
        out->summary = old->summary;
        out->weight = old->weight;
    }
    free(lists.row);
    return st;
}

/* Returns the values if they are F32, or NULL if they are BF16. They are BF16 only if no component
 * of the method needs F32. */
static const float *floats(struct kvr_values x)
{
    return x.bf16 ? NULL : x.p;
}

/* ---- new tokens, and moves of stored tokens to other tiers ---------------------------------- */

/* Encodes the new tokens [tok0, tok0 + n), and adds their segments to `list`. map [n] has the
 * tokens' tiers. */
static enum kvr_status add_new(struct kvr_layer *l, const uint8_t *map, struct kvr_values kv,
                               struct kvr_values vv, int64_t tok0, int64_t n,
                               struct kvr_segment_list *list)
{
    const float *k = floats(kv), *v = floats(vv);
    const enum kvr_unit unit = unit_of(l->scheme);
    const int64_t step = unit == KVR_UNIT_FRAME ? l->geo.tokens_per_frame : n;
    const uint8_t *kept = kvr_layer_keep_mask(l);
    const size_t width = kvr_layer_width(l);

    for (int64_t t = 0, m; t < n; t += m) {
        m = step - (unit == KVR_UNIT_FRAME ? (tok0 + t) % step : 0); /* segments end at frame
                                                                      * boundaries */
        m = n - t < m ? n - t : m;

        for (int tier = 0; tier < l->scheme->n_tiers; tier++) {
            struct kvr_segment s;

            if (kv.bf16) { /* only if the method has no tiers and no retention */
                KVR_TRY(kvr_layer_code_values(l, tier, kvr_values_from(kv, width, t),
                                              kvr_values_from(vv, width, t), tok0 + t, m, &s));
                KVR_TRY(kvr_segment_list_add(list, &s));
                continue;
            }
            if (kept) {
                KVR_TRY(add_kept(l, map + t, kept + (tok0 + t) * kvr_layer_n_selections(l), tier,
                                 kvr_row(k, width, t), kvr_row(v, width, t), tok0 + t, m, list));
                continue;
            }
            KVR_TRY(kvr_layer_code_tier(l, map + t, tier, kvr_row(k, width, t),
                                        kvr_row(v, width, t), tok0 + t, m, &s));
            KVR_TRY(kvr_segment_list_add(list, &s));
        }
    }
    return KVR_OK;
}

/* Whether tokens may move from tier `from` to tier `to`. Tokens may move to the base tier (tier 0)
 * from every tier, but never leave it. Between other tiers, tokens may only move to a tier that
 * stores them in fewer bytes. */
static bool may_move(const struct kvr_layer *l, int from, int to)
{
    if (from == to || from == 0)
        return false;
    if (!strcmp(l->scheme->k[from]->text, l->scheme->k[to]->text) &&
        !strcmp(l->scheme->v[from]->text, l->scheme->v[to]->text))
        return false; /* no move is needed, since both tiers have the same codecs */
    return to == 0 || tier_cost(l, to) < tier_cost(l, from);
}

/* Decodes segments [first, first + n) into the layer's scratch, and sets *k and *v to the decoded
 * values. They are NULL in a dry layer, which has only sizes and no values. */
static enum kvr_status decode_run(struct kvr_layer *l, int first, int n, const float **k,
                                  const float **v)
{
    const size_t width = kvr_layer_width(l);
    float *dk, *dv;
    size_t all = 0;

    *k = *v = NULL;
    for (int i = first; i < first + n; i++)
        all += (size_t)l->seg[i].n_tok * width;
    if (l->dry)
        return KVR_OK;
    KVR_TRY(kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH, 2 * all * sizeof *dk));
    *k = dk = l->scratch->gather.p;
    *v = dv = dk + all;
    for (int i = first; i < first + n; i++) {
        const struct kvr_segment *s = &l->seg[i];

        kvr_codec_decode(&s->k, 0, s->n_tok, 0, l->geo.n_heads, dk);
        kvr_codec_decode(&s->v, 0, s->n_tok, 0, l->geo.n_heads, dv);
        dk += (size_t)s->n_tok * width;
        dv += (size_t)s->n_tok * width;
    }
    return KVR_OK;
}

/* Computes in *out the segment that replaces stored segment `at` after a move to tier `want` or
 * after dropping tokens. *same becomes true if the segment stays unchanged. */
static enum kvr_status move(struct kvr_layer *l, int at, uint8_t want, bool *same,
                            struct kvr_segment *out)
{
    const struct kvr_segment *old = &l->seg[at];
    const float *k, *v;

    *same = true;
    *out = (struct kvr_segment){ 0 };
    if (old->kind != KVR_SEG_CODED)
        return KVR_OK; /* segments of zeroed or pooled tokens never change */
    if (kvr_layer_keep_mask(l)) {
        const bool moves = may_move(l, old->tier, want);

        *same = !moves && !loses(l, old);
        return *same ? KVR_OK : thin_segment(l, old, moves ? want : old->tier, out);
    }
    if (want < l->scheme->n_tiers && !may_move(l, old->tier, want))
        return KVR_OK;
    *same = false;
    if (want == KVR_TOKEN_DROPPED)
        return KVR_OK;
    if (want == KVR_TOKEN_ZERO) {
        *out = (struct kvr_segment){ .kind = KVR_SEG_ZERO, .tok0 = old->tok0, .n_tok = old->n_tok };
        return KVR_OK;
    }
    KVR_TRY(decode_run(l, at, 1, &k, &v));
    if (want == KVR_TOKEN_POOLED)
        return kvr_layer_pool(l, k, v, old->tok0, old->n_tok, out);
    return kvr_layer_code(l, want, k, v, old->tok0, old->n_tok, out);
}

/* Returns the number of consecutive segments, from `at` on and before `end`, that move to the same
 * tier and are encoded as one segment. */
static int n_moving_together(const struct kvr_layer *l, int at, int end, const uint8_t *map)
{
    const uint8_t want = map[l->seg[at].tok0];
    int n = 0;

    if (kvr_tiers_max_chunks(&l->scheme->tiers) == 1 || kvr_layer_keep_mask(l) ||
        want >= l->scheme->n_tiers)
        return 1;
    while (at + n < end) {
        const struct kvr_segment *s = &l->seg[at + n];
        const bool follows = n == 0 || s->tok0 == s[-1].tok0 + s[-1].n_tok;

        if (s->kind != KVR_SEG_CODED || s->listed || !follows || map[s->tok0] != want ||
            !may_move(l, s->tier, want))
            break;
        n++;
    }
    return n ? n : 1;
}

/* Change of a stored segment. If `same` is false, `now` replaces the segment; an empty `now`
 * removes it. */
struct change {
    bool same; /* the segment stays unchanged */
    struct kvr_segment now;
};

static enum kvr_status make_room(struct kvr_layer *l, int n)
{
    struct kvr_segment *lists;

    if (n <= l->cap)
        return KVR_OK;
    lists = realloc(l->seg, 2 * (size_t)n * sizeof *lists);
    if (!lists)
        return kvr_fail(KVR_ENOMEM, "cache: out of memory while allocating %d token segments",
                        2 * n);
    l->seg = lists;
    l->cap = 2 * n;
    return KVR_OK;
}

/* Sorts the segments by chunk. The new segments at the end may be summaries of earlier chunks.
 * Segments of the same chunk keep their order. */
static void sort_by_chunk(struct kvr_layer *l)
{
    const int64_t chunk = (int64_t)l->geo.frames_per_chunk * l->geo.tokens_per_frame;

    for (int i = 1; i < l->n; i++) {
        const struct kvr_segment s = l->seg[i];
        int to = i;

        for (; to > 0 && l->seg[to - 1].tok0 / chunk > s.tok0 / chunk; to--)
            l->seg[to] = l->seg[to - 1];
        l->seg[to] = s;
    }
}

/* Replaces the layer's segments by the changed and new segments. This step cannot fail. */
static void replace(struct kvr_layer *l, const struct change *past, int n_past,
                    const struct kvr_segment_list *fresh)
{
    int w = 0;

    l->new_bytes = (struct kvr_layer_bytes){ 0 };
    for (int i = 0; i < l->n; i++) {
        if (i < n_past && past[i].same) {
            l->seg[w++] = l->seg[i];
            continue;
        }
        kvr_segment_free(&l->seg[i]);
        if (i < n_past && past[i].now.n_tok) {
            kvr_layer_count_produced(l, &past[i].now);
            l->seg[w++] = past[i].now;
        }
    }
    for (int i = 0; i < fresh->n; i++) {
        kvr_layer_count_produced(l, &fresh->seg[i]);
        l->seg[w++] = fresh->seg[i];
    }
    l->n = w;
    sort_by_chunk(l);
}

/* Computes for each of the first n_past stored segments how it changes, and writes the result to
 * `past`. `map` has every token's new tier, or is NULL if no tier changes. */
static enum kvr_status move_past(struct kvr_layer *l, const uint8_t *map, int n_past,
                                 struct change *past)
{
    for (int i = 0, n; i < n_past; i += n) {
        n = map ? n_moving_together(l, i, n_past, map) : 1;
        if (n > 1) { /* one segment replaces the n segments */
            const struct kvr_segment *last = &l->seg[i + n - 1];
            const int64_t tok0 = l->seg[i].tok0, n_tok = last->tok0 + last->n_tok - tok0;
            const float *k, *v;

            for (int j = i; j < i + n; j++)
                past[j].same = false;
            KVR_TRY(decode_run(l, i, n, &k, &v));
            KVR_TRY(kvr_layer_code(l, map[tok0], k, v, tok0, n_tok, &past[i].now));
            continue;
        }
        past[i].same = true;
        KVR_TRY(move(l, i, map ? map[l->seg[i].tok0] : (uint8_t)l->seg[i].tier, &past[i].same,
                     &past[i].now));
    }
    return KVR_OK;
}

/* ---- quantization groups that span chunks -------------------------------------------------- */

/* Returns the number of stored tokens before tok0 that are in the same quantization group as tok0.
 * These tokens are coded again with the new tokens. */
static int64_t shared_tokens(const struct kvr_layer *l, int64_t tok0)
{
    const int origin = kvr_scheme_origin_tokens(l->scheme);
    const int64_t n = origin ? tok0 % origin : 0;

    /* New tokens can extend the group only if one stored segment begins at the group's first token
     * and has all n older tokens of the group. */
    for (int i = 0; n && i < l->n; i++)
        if (l->seg[i].tok0 == tok0 - n && l->seg[i].n_tok >= n)
            return n;
    return 0;
}

/* Writes to `to` the decoded values of the first `shared` tokens of block p, followed by the n
 * values of `more`. */
static struct kvr_values join_values(struct kvr_layer *l, const struct kvr_packed *p,
                                     int64_t shared, float *to, const float *more, size_t n)
{
    const size_t before = (size_t)shared * kvr_layer_width(l);

    kvr_codec_decode(p, 0, shared, 0, l->geo.n_heads, to);
    kvr_block_round(l->dev, to, (int64_t)before); /* rounds to BF16 values */
    kvr_dev_copy(l->dev, to + before, more, n * sizeof *more);
    return (struct kvr_values){ .p = to };
}

static struct kvr_values join_bf16(struct kvr_layer *l, const struct kvr_packed *p, int64_t shared,
                                   kvr_bf16 *to, float *scratch, const kvr_bf16 *more, size_t n)
{
    const size_t before = (size_t)shared * kvr_layer_width(l);

    kvr_codec_decode(p, 0, shared, 0, l->geo.n_heads, scratch);
    kvr_values_from_f32(l->dev, to, KVR_BF16, scratch, before);
    kvr_dev_copy(l->dev, to + before, more, n * sizeof *more);
    return (struct kvr_values){ to, true };
}

/* Adds segments for tokens [tok0 - shared, tok0 + n): one for the complete quantization groups, and
 * one for the tokens of an incomplete last group. The first `shared` tokens are decoded from
 * segment `from`. */
static enum kvr_status add_grouped(struct kvr_layer *l, int from, int64_t shared,
                                   struct kvr_values k, struct kvr_values v, int64_t tok0,
                                   int64_t n, struct kvr_segment_list *list)
{
    const int origin = kvr_scheme_origin_tokens(l->scheme);
    const size_t width = kvr_layer_width(l), before = (size_t)shared * width;
    const int64_t begin = tok0 - shared, end = tok0 + n, cut = end - end % origin;
    struct kvr_segment s;

    if (shared && !l->dry) {
        const size_t all = before + (size_t)n * width;

        KVR_TRY(
            kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH, 2 * all * sizeof(float)));
        float *to = l->scratch->gather.p;

        if (k.bf16) { /* BF16 K and V fit into the first half of the scratch */
            kvr_bf16 *narrow = l->scratch->gather.p;

            k = join_bf16(l, &l->seg[from].k, shared, narrow, to + all, k.p, (size_t)n * width);
            v = join_bf16(l, &l->seg[from].v, shared, narrow + all, to + all, v.p,
                          (size_t)n * width);
        } else {
            k = join_values(l, &l->seg[from].k, shared, to, k.p, (size_t)n * width);
            v = join_values(l, &l->seg[from].v, shared, to + all, v.p, (size_t)n * width);
        }
    }
    for (int64_t t = begin, stop; t < end; t = stop) {
        stop = t < cut ? cut : end;
        KVR_TRY(kvr_layer_code_values(l, 0, kvr_values_from(k, width, t - begin),
                                      kvr_values_from(v, width, t - begin), t, stop - t, &s));
        KVR_TRY(kvr_segment_list_add(list, &s));
    }
    return KVR_OK;
}

static enum kvr_status commit(struct kvr_layer *l, struct kvr_values k, struct kvr_values v,
                              int64_t tok0, int64_t n)
{
    const int64_t shared = shared_tokens(l, tok0);
    const bool thins = l->scheme->retention.part && l->scheme->retention.part->thin;
    const bool moves = unit_of(l->scheme) != KVR_UNIT_TOKEN &&
                       (l->scheme->tiers.part || (l->scheme->retention.part && !thins));
    struct kvr_segment_list fresh = { 0 };
    enum kvr_status st;
    struct change *past;
    uint8_t *map = NULL;
    int n_past = 0;

    while (n_past < l->n && l->seg[n_past].tok0 < tok0 - shared)
        n_past++;
    past = calloc((size_t)n_past + 1, sizeof *past);
    if (!past)
        return kvr_fail(KVR_ENOMEM, "cache: out of memory while allocating %d token segments",
                        n_past);
    st = kvr_layer_decide(l, tok0 + n, tok0 + n, tok0, floats(k), floats(v), &map);
    if (st == KVR_OK && (moves || thins))
        st = move_past(l, moves ? map : NULL, n_past, past);
    else
        for (int i = 0; i < n_past; i++)
            past[i].same = true;
    if (st == KVR_OK && kvr_scheme_origin_tokens(l->scheme))
        st = add_grouped(l, n_past, shared, k, v, tok0, n, &fresh);
    else if (st == KVR_OK)
        st = add_new(l, map + tok0, k, v, tok0, n, &fresh);
    if (st == KVR_OK && thins)
        st = kvr_layer_add_summaries(l, &fresh);
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
    kvr_layer_finish_policies(l, st == KVR_OK); /* also if kvr_layer_decide failed */
    free(past);
    return st;
}

enum kvr_status kvr_layer_commit(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                                 int64_t n)
{
    const struct kvr_values keys = { .p = k }, values = { .p = v };

    return commit(l, keys, values, tok0, n);
}

enum kvr_status kvr_layer_commit_bf16(struct kvr_layer *l, const kvr_bf16 *k, const kvr_bf16 *v,
                                      int64_t tok0, int64_t n)
{
    const struct kvr_values keys = { k, true }, values = { v, true };

    assert(kvr_layer_only_codes(l));
    return commit(l, keys, values, tok0, n);
}

enum kvr_status kvr_layer_evict_as_last(struct kvr_layer *l)
{
    const struct kvr_segment_list none = { 0 };
    struct change *past = calloc((size_t)l->n + 1, sizeof *past);
    enum kvr_status st;

    if (!past)
        return kvr_fail(KVR_ENOMEM, "cache: out of memory while allocating %d token segments",
                        l->n);
    st = move_past(l, NULL, l->n, past);
    if (st == KVR_OK)
        replace(l, past, l->n, &none);
    else
        for (int i = 0; i < l->n; i++)
            kvr_segment_free(&past[i].now);
    free(past);
    return st;
}
