/* layer_impl.c - creates the segments of a layer, and calls its policies (tiers and retention). */
#include "harness/cache/layer_impl.h"

#include <stdlib.h>
#include <string.h>

#include "harness/cache/moments.h"
#include "harness/cache/rows.h"

enum kvr_status kvr_segment_list_add(struct kvr_segment_list *list, struct kvr_segment *s)
{
    if (s->n_tok == 0)
        return KVR_OK;
    if (list->n == list->cap) {
        const int cap = list->cap ? list->cap * 2 : 16;
        struct kvr_segment *p = realloc(list->seg, (size_t)cap * sizeof *p);

        if (!p) {
            kvr_segment_free(s);
            return kvr_fail(KVR_ENOMEM, "cache: out of memory while allocating %d token segments",
                            cap);
        }
        list->seg = p;
        list->cap = cap;
    }
    list->seg[list->n++] = *s;
    return KVR_OK;
}

void kvr_segment_list_free(struct kvr_segment_list *list)
{
    for (int i = 0; i < list->n; i++)
        kvr_segment_free(&list->seg[i]);
    free(list->seg);
    *list = (struct kvr_segment_list){ 0 };
}

int kvr_layer_n_selections(const struct kvr_layer *l)
{
    struct kvr_thin_needs needs;

    kvr_retention_thins(&l->scheme->retention, &needs);
    return needs.by_head ? l->geo.n_heads : 1;
}

const uint8_t *kvr_layer_keep_mask(const struct kvr_layer *l)
{
    return l->scheme->retention.part && l->scheme->retention.part->thin ? l->scratch->keep.p : NULL;
}

/* Initializes keep [n_active][sets] for the n_active tokens written so far: 1 for tokens that the
 * layer still stores and for the new chunk, which starts at token new0; 0 for dropped tokens.
 * `sets` is the number of heads if each head retains its own tokens, otherwise 1. */
static void mark_held(const struct kvr_layer *l, int64_t new0, int64_t n_active, int sets,
                      uint8_t *keep)
{
    memset(keep, 0, (size_t)(new0 * sets));
    memset(keep + new0 * sets, 1, (size_t)((n_active - new0) * sets));
    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];
        const bool all = sets == 1 || !s->k.codec;
        const int first = all ? 0 : s->head0, heads = all ? sets : s->k.shape.n_heads;
        const int64_t before = kvr_segment_lower(s, new0);

        for (int64_t j = 0; j < before; j++)
            memset(keep + kvr_segment_token(s, j) * sets + first, 1, (size_t)heads);
    }
}

/* Writes to weights [n_active][sets] the multiplicity of each token: the number of original tokens
 * that it replaces. */
static void mark_weights(const struct kvr_layer *l, int64_t new0, int64_t n_active, int sets,
                         int32_t *weights)
{
    for (int64_t i = 0; i < n_active * sets; i++)
        weights[i] = 1;
    for (int i = 0; i < l->n; i++) {
        const struct kvr_segment *s = &l->seg[i];

        for (int64_t j = 0; j < s->n_tok && s->weight > 1; j++) {
            const int64_t t = kvr_segment_token(s, j);

            if (t < new0)
                weights[t * sets + (sets > 1 ? s->head0 : 0)] = s->weight;
        }
    }
}

/* Calls the retention, which selects the tokens to keep. */
static enum kvr_status thin(struct kvr_layer *l, struct kvr_policy_ctx *ctx)
{
    struct kvr_thin_needs needs;
    const int sets = kvr_layer_n_selections(l);

    kvr_retention_thins(&l->scheme->retention, &needs);
    KVR_TRY(kvr_buf_reserve(&l->scratch->keep, kvr_dev_host(l->dev), KVR_MEM_SCRATCH,
                            (size_t)ctx->n_active * (size_t)sets));
    mark_held(l, ctx->new0, ctx->n_active, sets, l->scratch->keep.p);
    if (needs.of_last && !l->geo.alone && l->geo.layer != l->geo.n_layers - 1)
        return KVR_OK; /* The last layer selects the tokens; kvr_layer_evict_as_last() then evicts
                        * them here. */
    ctx->counts_only = l->dry;
    l->scratch->summaries.n = 0;
    ctx->summaries = needs.summaries ? &l->scratch->summaries : NULL;
    ctx->columns = needs.columns ? l->columns : NULL;
    ctx->q = needs.chunk_queries ? l->q : NULL;
    ctx->n_query_heads = l->q ? l->n_query_heads : l->geo.n_heads;
    ctx->oracle_scores = needs.oracle_scores ? l->oracle_scores : NULL;
    if (needs.weights) {
        KVR_TRY(kvr_buf_reserve(&l->scratch->weights, kvr_dev_host(l->dev), KVR_MEM_SCRATCH,
                                (size_t)(ctx->n_active * sets) * sizeof *ctx->weights));
        mark_weights(l, ctx->new0, ctx->n_active, sets, l->scratch->weights.p);
        ctx->weights = l->scratch->weights.p;
    }
    if (needs.all_keys && !l->dry) {
        const int64_t key0 = kvr_thin_key0(&needs, ctx->new0, ctx->tokens_per_frame);
        const size_t width = kvr_layer_width(l), before = (size_t)(ctx->new0 - key0) * width;
        const size_t all = (size_t)(ctx->n_active - key0) * width * sizeof(float);
        const size_t fresh = all - before * sizeof(float);
        float *keys, *values = NULL;

        KVR_TRY(kvr_buf_reserve(&l->scratch->all_keys, l->dev, KVR_MEM_SCRATCH, all));
        if (needs.all_values) {
            KVR_TRY(kvr_buf_reserve(&l->scratch->all_values, l->dev, KVR_MEM_SCRATCH, all));
            values = l->scratch->all_values.p;
        }
        keys = l->scratch->all_keys.p;
        kvr_layer_dense(l, key0, ctx->new0, keys, values, NULL);
        kvr_dev_copy(l->dev, keys + before, ctx->k, fresh);
        if (values)
            kvr_dev_copy(l->dev, values + before, ctx->v, fresh);
        ctx->all_keys = keys;
        ctx->key0 = key0;
        ctx->all_values = values;
    }
    return kvr_retention_thin(&l->scheme->retention, ctx, l->dev, &l->state[1], l->scratch->keep.p);
}

void kvr_layer_finish_policies(struct kvr_layer *l, bool stored)
{
    struct kvr_policy_state *s = &l->state[1];

    if (!s->next.p)
        return;
    if (stored) {
        kvr_buf_free(&s->buf);
        s->buf = s->next;
        s->n = s->n_next;
        s->next = (struct kvr_buf){ 0 };
    } else {
        kvr_buf_free(&s->next);
    }
}

enum kvr_status kvr_layer_decide(struct kvr_layer *l, int64_t n_tok, int64_t n_active, int64_t new0,
                                 const float *k, const float *v, uint8_t **map)
{
    const struct kvr_tiers_use *tiers = &l->scheme->tiers;
    const struct kvr_retention_use *retention = &l->scheme->retention;
    struct kvr_policy_ctx ctx = {
        .study = kvr_scheme_is_study(l->scheme),
        .layer = l->geo.layer,
        .n_layers = l->geo.n_layers,
        .tokens_per_frame = l->geo.tokens_per_frame,
        .frames_per_chunk = l->geo.frames_per_chunk,
        .n_heads = l->geo.n_heads,
        .head_dim = l->geo.head_dim,
        .beta = l->beta,
        .n_tok = n_tok,
        .n_active = n_active,
        .new0 = new0,
        .n_stored = l->n_active,
        .cut = l->cut,
        .k = k,
        .v = v,
    };
    /* If one component provides both tiers and retention, they share one state. */
    const bool shared =
        tiers->part && retention->part && !strcmp(tiers->part->name, retention->part->name);

    KVR_TRY(
        kvr_buf_reserve(&l->scratch->map, kvr_dev_host(l->dev), KVR_MEM_SCRATCH, (size_t)n_tok));
    *map = l->scratch->map.p;
    memset(*map, 0, (size_t)n_tok);
    if (tiers->part)
        KVR_TRY(kvr_tiers_assign(tiers, &ctx, l->dev, &l->state[0], *map));
    if (retention->part && retention->part->thin)
        KVR_TRY(thin(l, &ctx));
    else if (retention->part)
        KVR_TRY(kvr_retention_assign(retention, &ctx, l->dev, &l->state[shared ? 0 : 1], *map));
    return KVR_OK;
}

/* Computes the statistics of keys (moments) that the scheme's score correction needs. k [n,heads,D]
 * has the original keys of the segment, which s->k has in encoded form. */
static enum kvr_status add_moments(struct kvr_layer *l, const float *k, struct kvr_segment *s)
{
    const struct kvr_correction *c = kvr_correction_at(l->scheme->opts.correction);
    const struct kvr_codec *codec = s->k.codec;
    const int heads = s->k.shape.n_heads;
    const size_t n = (size_t)(s->n_tok * heads * l->geo.head_dim);

    if (!c || !c->moments || kvr_codec_is_raw(codec))
        return KVR_OK;
    KVR_TRY(
        kvr_buf_alloc(&s->moments, l->dev, KVR_MEM_META, kvr_layer_moments_bytes(l, codec, heads)));
    if (kvr_codec_rotated(codec)) {
        float *work = l->scratch->work.p;

        kvr_dev_copy(l->dev, work, k, n * sizeof *k);
        kvr_codec_transform(codec, l->dev, KVR_TO_SPACE, work, s->n_tok, 0, heads, l->geo.head_dim);
        k = work;
    }
    return kvr_moments_make(c, &s->k, k, &l->scratch->back, s->moments.p);
}

static void count_varying(struct kvr_layer *l, const struct kvr_packed *p)
{
    struct kvr_varying block = {
        .elements = p->shape.n_tok * p->shape.n_heads * p->shape.head_dim,
        .bytes = kvr_packed_bytes(p),
    };

    if (!block.elements || !kvr_codec_varies(p->codec, &p->shape))
        return;
    block.most_bits = 8.0 * (double)block.bytes / (double)block.elements;
    kvr_varying_add(&l->varying, &block);
}

static enum kvr_status code_joint(struct kvr_layer *l, const float *k, const float *v,
                                  struct kvr_segment *out, const struct kvr_codec *ck,
                                  const struct kvr_codec *cv, const struct kvr_block_shape *shape,
                                  const struct kvr_place *place)
{
    KVR_TRY(kvr_codec_encode_joint(ck, cv, l->dev, k, v, shape, place, &out->k, &out->v));
    count_varying(l, &out->k);
    count_varying(l, &out->v);
    return KVR_OK;
}

static struct kvr_values floats(const float *x)
{
    return (struct kvr_values){ .p = x };
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Encodes the keys k and values v [n,heads,D] of heads [head0, head0 + heads) as one segment. If
 * `listed`, list [n] has the token indices. Otherwise the tokens are [tok0, tok0 + n). The list
 * must live as long as the segment. */
static enum kvr_status code_heads(struct kvr_layer *l, int tier, struct kvr_values k,
                                  struct kvr_values v, int head0, int heads, int64_t tok0,
                                  int64_t n, bool listed, const int32_t *list,
                                  struct kvr_segment *out)
{
    const struct kvr_block_shape shape = { n, heads, l->geo.head_dim };
    const struct kvr_place place = { .frame_tokens = l->geo.tokens_per_frame,
                                     .tok0 = tok0,
                                     .whole = !listed && !l->scheme->retention.part,
                                     .list = list,
                                     .layer = l->geo.layer,
                                     .n_layers = l->geo.n_layers,
                                     .head0 = head0,
                                     .frames_per_chunk = l->geo.frames_per_chunk };
    const struct kvr_codec *ck = l->scheme->k[tier], *cv = l->scheme->v[tier];

    *out = (struct kvr_segment){ .kind = KVR_SEG_CODED,
                                 .tier = tier,
                                 .serial = ++l->n_coded,
                                 .head0 = head0,
                                 .tok0 = tok0,
                                 .n_tok = n };
    if (l->dry) {
        out->k = (struct kvr_packed){ .codec = ck, .shape = shape, .place = place };
        out->v = (struct kvr_packed){ .codec = cv, .shape = shape, .place = place };
        return KVR_OK;
    }
    if (kvr_codec_joint(ck))
        return code_joint(l, k.p, v.p, out, ck, cv, &shape, &place);
    KVR_TRY(kvr_buf_reserve(
        &l->scratch->work, l->dev, KVR_MEM_SCRATCH,
        (size_t)most(kvr_codec_work_floats(ck, &shape), kvr_codec_work_floats(cv, &shape)) *
            sizeof(float)));
    KVR_TRY(kvr_codec_encode_values(ck, l->dev, &k, &shape, &place, l->scratch->work.p, &out->k));
    enum kvr_status st = k.bf16 ? KVR_OK : add_moments(l, k.p, out);

    if (st == KVR_OK)
        st = kvr_codec_encode_values(cv, l->dev, &v, &shape, &place, l->scratch->work.p, &out->v);
    if (st != KVR_OK) {
        kvr_segment_free(out);
        return st;
    }
    count_varying(l, &out->k);
    count_varying(l, &out->v);
    return KVR_OK;
}

enum kvr_status kvr_layer_code(struct kvr_layer *l, int tier, const float *k, const float *v,
                               int64_t tok0, int64_t n, struct kvr_segment *out)
{
    return kvr_layer_code_values(l, tier, floats(k), floats(v), tok0, n, out);
}

enum kvr_status kvr_layer_code_values(struct kvr_layer *l, int tier, struct kvr_values k,
                                      struct kvr_values v, int64_t tok0, int64_t n,
                                      struct kvr_segment *out)
{
    return code_heads(l, tier, k, v, 0, l->geo.n_heads, tok0, n, false, NULL, out);
}

bool kvr_layer_only_codes(const struct kvr_layer *l)
{
    const struct kvr_scheme *p = l->scheme;
    const struct kvr_correction *c = kvr_correction_at(p->opts.correction);

    return !p->tiers.part && !p->retention.part && !kvr_codec_joint(p->k[0]) && !(c && c->moments);
}

/* Allocates the token list of segment `out`: the rollout's token indices tok0 + t of the `count`
 * rows t in [0, n) with map[t] == tier. */
static enum kvr_status make_list(struct kvr_layer *l, const uint8_t *map, int tier, int64_t tok0,
                                 int64_t n, int64_t count, struct kvr_segment *out)
{
    const size_t bytes = (size_t)count * sizeof(int32_t);
    const bool mirrored = !kvr_dev_in_host(l->dev);

    KVR_TRY(kvr_buf_alloc(&out->list, l->dev, KVR_MEM_META, bytes));
    if (mirrored)
        KVR_TRY(kvr_buf_alloc(&out->shown, kvr_dev_host(l->dev), KVR_MEM_META, bytes));
    int32_t *p = mirrored ? out->shown.p : out->list.p;

    for (int64_t t = 0; t < n; t++)
        if (map[t] == tier)
            *p++ = (int32_t)(tok0 + t);
    return mirrored ? kvr_dev_put(l->dev, out->list.p, out->shown.p, bytes) : KVR_OK;
}

/* Returns the number of elements of map [n] that are equal to `tier`. The inner loop counts at most
 * 255 elements in a byte, so that the compiler can use vectors of byte counters. The loop must be
 * fast, because predictions of memory scan 10^5 tokens per pass and tier. */
static int64_t count_of(const uint8_t *map, int64_t n, uint8_t tier)
{
    int64_t count = 0;

    for (int64_t t = 0; t < n;) {
        const int64_t end = n - t < UINT8_MAX ? n : t + UINT8_MAX;
        uint8_t some = 0;

        for (; t < end; t++)
            some = (uint8_t)(some + (map[t] == tier));
        count += some;
    }
    return count;
}

enum kvr_status kvr_layer_code_tier(struct kvr_layer *l, const uint8_t *map, int tier,
                                    const float *k, const float *v, int64_t tok0, int64_t n,
                                    struct kvr_segment *out)
{
    const size_t width = kvr_layer_width(l);
    const uint8_t *begin = memchr(map, tier, (size_t)n);
    struct kvr_segment listed = { 0 };
    int64_t first, last, count;
    enum kvr_status st;

    *out = (struct kvr_segment){ 0 };
    if (!begin)
        return KVR_OK;
    first = begin - map;
    last = (const uint8_t *)memrchr(map, tier, (size_t)n) - map;
    count = count_of(begin, last - first + 1, (uint8_t)tier);
    if (last - first + 1 == count)
        return kvr_layer_code(l, tier, kvr_row(k, width, first), kvr_row(v, width, first),
                              tok0 + first, count, out);
    if (l->dry) {
        KVR_TRY(code_heads(l, tier, floats(NULL), floats(NULL), 0, l->geo.n_heads, tok0 + first,
                           count, true, NULL, out));
        out->listed = true;
        return KVR_OK;
    }
    st = make_list(l, map, tier, tok0, n, count, &listed);
    if (st == KVR_OK)
        st = kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH,
                             2 * (size_t)count * width * sizeof(float));
    if (st == KVR_OK) {
        float *gk = l->scratch->gather.p, *gv = gk + (size_t)count * width;

        kvr_rows_gather(l->dev, k, width, listed.list.p, count, tok0, gk);
        kvr_rows_gather(l->dev, v, width, listed.list.p, count, tok0, gv);
        st = code_heads(l, tier, floats(gk), floats(gv), 0, l->geo.n_heads, tok0 + first, count,
                        true, listed.list.p, out);
    }
    if (st != KVR_OK) {
        kvr_segment_free(&listed);
        return st;
    }
    out->listed = true;
    out->list = listed.list;
    out->shown = listed.shown;
    return KVR_OK;
}

/* Gathers the tokens and heads that `rows` selects from k and v [tokens,width_heads,D] into the
 * buffer scratch.gather: first keys [n,n_heads,D], then values [n,n_heads,D]. Head 0 of k and v is
 * head first_head of the layer. */
static enum kvr_status pick_rows(struct kvr_layer *l, const float *k, const float *v,
                                 int first_head, int width_heads, const struct kvr_row_list *rows)
{
    const int64_t n = rows->n * rows->n_heads;
    const size_t bytes = (size_t)n * sizeof(int32_t), d = (size_t)l->geo.head_dim;
    struct kvr_buf *pick_host =
        kvr_dev_in_host(l->dev) ? &l->scratch->pick : &l->scratch->pick_host;
    int32_t *p;

    KVR_TRY(kvr_buf_reserve(&l->scratch->pick, l->dev, KVR_MEM_SCRATCH, bytes));
    KVR_TRY(kvr_buf_reserve(pick_host, kvr_dev_host(l->dev), KVR_MEM_SCRATCH, bytes));
    KVR_TRY(kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH,
                            2 * (size_t)n * d * sizeof *k));
    p = pick_host->p;
    for (int64_t i = 0; i < rows->n; i++)
        for (int h = 0; h < rows->n_heads; h++)
            *p++ = rows->row[i] * width_heads + rows->head0 - first_head + h;
    if (pick_host != &l->scratch->pick)
        KVR_TRY(kvr_dev_put(l->dev, l->scratch->pick.p, pick_host->p, bytes));
    kvr_rows_gather(l->dev, k, d, l->scratch->pick.p, n, 0, l->scratch->gather.p);
    kvr_rows_gather(l->dev, v, d, l->scratch->pick.p, n, 0,
                    (float *)l->scratch->gather.p + (size_t)n * d);
    return KVR_OK;
}

/* Stores the list of token indices in a segment, unless the tokens are consecutive. */
static enum kvr_status add_list(struct kvr_layer *l, const struct kvr_row_list *rows,
                                struct kvr_segment *out)
{
    const size_t bytes = (size_t)rows->n * sizeof(int32_t);

    if (rows->token[rows->n - 1] - rows->token[0] == rows->n - 1)
        return KVR_OK;
    out->listed = true;
    KVR_TRY(kvr_buf_alloc(&out->list, l->dev, KVR_MEM_META, bytes));
    if (!kvr_dev_in_host(l->dev))
        KVR_TRY(kvr_buf_alloc(&out->shown, kvr_dev_host(l->dev), KVR_MEM_META, bytes));
    memcpy(out->shown.p ? out->shown.p : out->list.p, rows->token, bytes);
    return out->shown.p ? kvr_dev_put(l->dev, out->list.p, rows->token, bytes) : KVR_OK;
}

/* Encodes k and v [rows->n,rows->n_heads,D], the keys and values of the tokens and heads in `rows`,
 * as segment `out`. */
static enum kvr_status code_listed(struct kvr_layer *l, int tier, const float *k, const float *v,
                                   const struct kvr_row_list *rows, struct kvr_segment *out)
{
    struct kvr_segment listed = { 0 };
    enum kvr_status st = add_list(l, rows, &listed);

    if (st == KVR_OK)
        st = code_heads(l, tier, floats(k), floats(v), rows->head0, rows->n_heads, rows->token[0],
                        rows->n, listed.listed, listed.list.p, out);
    if (st != KVR_OK) {
        kvr_segment_free(&listed);
        return st;
    }
    out->listed = listed.listed;
    out->list = listed.list;
    out->shown = listed.shown;
    return KVR_OK;
}

enum kvr_status kvr_layer_code_rows(struct kvr_layer *l, int tier, const float *k, const float *v,
                                    int first_head, int width_heads,
                                    const struct kvr_row_list *rows, struct kvr_segment *out)
{
    const size_t n = (size_t)(rows->n * rows->n_heads * l->geo.head_dim);
    enum kvr_status st = KVR_OK;

    *out = (struct kvr_segment){ 0 };
    if (!rows->n)
        return KVR_OK;
    if (!l->dry)
        st = pick_rows(l, k, v, first_head, width_heads, rows);
    if (st == KVR_OK)
        st = code_listed(l, tier, l->scratch->gather.p,
                         l->dry ? NULL : (float *)l->scratch->gather.p + n, rows, out);
    return st;
}

/* Encodes elements [first, first + n) of scratch.summaries, which are summary tokens of one head
 * and chunk. A summary token replaces several dropped tokens. */
static enum kvr_status code_summaries(struct kvr_layer *l, int64_t first, int64_t n,
                                      struct kvr_segment *out)
{
    const struct kvr_summaries *s = &l->scratch->summaries;
    const size_t each = (size_t)l->geo.head_dim, bytes = (size_t)n * each * sizeof *s->k;
    const struct kvr_row_list rows = {
        .head0 = s->head[first], .n_heads = 1, .n = n, .token = s->token + first
    };
    const float *k = NULL, *v = NULL;

    if (!l->dry) {
        KVR_TRY(kvr_buf_reserve(&l->scratch->gather, l->dev, KVR_MEM_SCRATCH, 2 * bytes));
        k = l->scratch->gather.p;
        v = k + (size_t)n * each;
        KVR_TRY(kvr_dev_put(l->dev, (float *)k, s->k + (size_t)first * each, bytes));
        KVR_TRY(kvr_dev_put(l->dev, (float *)v, s->v + (size_t)first * each, bytes));
    }
    KVR_TRY(code_listed(l, 0, k, v, &rows, out));
    out->summary = true;
    out->weight = s->weight[first];
    return KVR_OK;
}

enum kvr_status kvr_layer_add_summaries(struct kvr_layer *l, struct kvr_segment_list *list)
{
    const struct kvr_summaries *s = &l->scratch->summaries;
    const int64_t chunk = (int64_t)l->geo.frames_per_chunk * l->geo.tokens_per_frame;

    for (int64_t i = 0, n; i < s->n; i += n) {
        struct kvr_segment summary;

        for (n = 1; i + n < s->n && s->head[i + n] == s->head[i] &&
                    s->weight[i + n] == s->weight[i] &&
                    s->token[i + n] / chunk == s->token[i] / chunk;)
            n++;
        KVR_TRY(code_summaries(l, i, n, &summary));
        KVR_TRY(kvr_segment_list_add(list, &summary));
    }
    return KVR_OK;
}

enum kvr_status kvr_layer_pool(struct kvr_layer *l, const float *k, const float *v, int64_t tok0,
                               int64_t n, struct kvr_segment *out)
{
    const struct kvr_block_shape one = { 1, l->geo.n_heads, l->geo.head_dim };
    const size_t width = kvr_layer_width(l);
    enum kvr_status st;

    *out = (struct kvr_segment){
        .kind = KVR_SEG_POOLED, .serial = ++l->n_coded, .tok0 = tok0, .n_tok = n
    };
    if (l->dry) {
        out->k = out->v = (struct kvr_packed){ .codec = l->scheme->pooled, .shape = one };
        return KVR_OK;
    }
    /* The mean is written to scratch.work, so k and v must not point into this buffer; they may
     * point into scratch.gather. */
    KVR_TRY(kvr_buf_reserve(&l->scratch->work, l->dev, KVR_MEM_SCRATCH, width * sizeof(float)));
    float *mean = l->scratch->work.p;

    kvr_rows_mean(l->dev, k, width, n, mean);
    KVR_TRY(kvr_codec_encode(l->scheme->pooled, l->dev, mean, &one, NULL, &out->k));
    kvr_rows_mean(l->dev, v, width, n, mean);
    st = kvr_codec_encode(l->scheme->pooled, l->dev, mean, &one, NULL, &out->v);
    if (st != KVR_OK)
        kvr_segment_free(out);
    return st;
}
