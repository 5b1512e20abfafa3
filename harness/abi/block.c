/* block.c - encodes and decodes one layer's keys and values, chunk by chunk as a rollout commits
 * them. */
#include "harness/abi/abi.h"

#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend.h"
#include "harness/cache/fingerprint.h"

struct kvreel_block {
    struct kvr_dev *dev;
    const struct kvr_scheme *scheme;
    int64_t n_tok;
    struct kvr_layer_scratch scratch;
    struct kvr_layer layer;
};

static enum kvr_status check_shape(const struct kvreel_block_shape *s)
{
    if (s->n_tok < 1 || s->n_tok > INT32_MAX || s->n_heads < 1 || s->head_dim < 1 ||
        s->head_dim > KVR_ATTEND_MAX_D)
        return kvr_fail(KVR_EINVAL,
                        "block: n_tok is %lld, n_heads is %d, head_dim is %d; need n_tok 1..%d, "
                        "n_heads at least 1 and head_dim 1..%d",
                        (long long)s->n_tok, s->n_heads, s->head_dim, INT32_MAX, KVR_ATTEND_MAX_D);
    if (s->tokens_per_frame < 0 || s->tokens_per_frame > s->n_tok || s->frames_per_chunk < 0 ||
        s->layer < 0 || s->n_layers < 0 || (s->n_layers && s->layer >= s->n_layers))
        return kvr_fail(KVR_EINVAL,
                        "block: tokens_per_frame is %lld, frames_per_chunk is %d, layer is %d, "
                        "n_layers is %d; need tokens_per_frame 0..%lld (n_tok), frames_per_chunk "
                        ">= 0, and 0 <= layer < n_layers or n_layers 0",
                        (long long)s->tokens_per_frame, s->frames_per_chunk, s->layer, s->n_layers,
                        (long long)s->n_tok);
    return KVR_OK;
}

static enum kvr_status commit(kvreel_block *b, const float *k, const float *v)
{
    const struct kvr_layer_geometry *g = &b->layer.geo;
    const int64_t chunk = (int64_t)g->tokens_per_frame * g->frames_per_chunk;
    const size_t width = (size_t)g->n_heads * (size_t)g->head_dim;

    if (kvr_scheme_is_study(b->scheme))
        return kvr_layer_recode(&b->layer, k, v, b->n_tok);
    for (int64_t t = 0, n; t < b->n_tok; t += n) {
        n = b->n_tok - t < chunk ? b->n_tok - t : chunk;
        KVR_TRY(kvr_layer_commit(&b->layer, k + (size_t)t * width, v + (size_t)t * width, t, n));
    }
    return KVR_OK;
}

static enum kvr_status encode(kvreel_block *b, const struct kvr_scheme *scheme, const float *k,
                              const float *v, const struct kvreel_block_shape *s)
{
    const struct kvr_layer_geometry geo = {
        .layer = s->layer,
        .n_layers = s->n_layers ? s->n_layers : 1,
        .n_heads = s->n_heads,
        .head_dim = s->head_dim,
        .tokens_per_frame = (int)(s->tokens_per_frame ? s->tokens_per_frame : s->n_tok),
        .frames_per_chunk = s->frames_per_chunk ? s->frames_per_chunk : 1,
        .capacity = s->n_tok,
        .alone = true,
    };

    b->scheme = scheme;
    b->n_tok = s->n_tok;
    KVR_TRY(kvr_scheme_check(scheme, geo.n_heads, geo.head_dim));
    KVR_TRY(kvr_dev_open(&b->dev, KVR_CPU));
    KVR_TRY(kvr_layer_open(&b->layer, b->dev, scheme, &geo, &b->scratch, false));
    return commit(b, k, v);
}

int kvreel_block_encode(kvreel_block **out, const kvreel_method *m, const float *k, const float *v,
                        const struct kvreel_block_shape *shape)
{
    struct kvreel_block_shape s;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(kvr_abi_take("kvreel_block_shape", &s, sizeof s, shape, shape->size));
    KVR_TRY(check_shape(&s));
    *out = calloc(1, sizeof **out);
    st = *out ? encode(*out, m->scheme, k, v, &s) : kvr_fail(KVR_ENOMEM, "block: out of memory");
    if (st != KVR_OK)
        kvreel_block_free(out);
    return st;
}

void kvreel_block_free(kvreel_block **b)
{
    if (!*b)
        return;
    if ((*b)->layer.dev)
        kvr_layer_close(&(*b)->layer);
    kvr_layer_scratch_free(&(*b)->scratch);
    kvr_dev_close(&(*b)->dev);
    free(*b);
    *b = NULL;
}

int kvreel_block_decode(const kvreel_block *b, float *k, float *v, uint8_t *held)
{
    if (k || v)
        KVR_TRY(kvr_layer_read_joint(&b->layer, NULL));
    kvr_layer_dense(&b->layer, 0, b->n_tok, k, v, held);
    kvr_layer_drop_joint(&b->layer);
    return KVR_OK;
}

/* Softmax needs at least one token of each head. */
static enum kvr_status check_heads(const struct kvr_span *spans, int n_spans, int n_heads)
{
    for (int h = 0; h < n_heads; h++) {
        int i = 0;

        while (i < n_spans && (spans[i].n == 0 || !kvr_segment_has_head(spans[i].seg, h)))
            i++;
        if (i == n_spans)
            return kvr_fail(KVR_EINVAL,
                            "attend: the method evicted every token of KV head %d, need at least 1 "
                            "stored token per head; raise the budget of the method's retention",
                            h);
    }
    return KVR_OK;
}

static enum kvr_status attend(const kvreel_block *b, const struct kvr_attend_needs *needs,
                              const float *q, int64_t n_query, float *out)
{
    const struct kvr_visible seen = { .n = 1, .run = { { 0, b->n_tok } } };
    const int n_spans = kvr_layer_spans(&b->layer, &seen, NULL);
    struct kvr_span *spans = malloc((size_t)(n_spans + 1) * sizeof *spans);
    struct kvr_attend_scratch scratch = { 0 };
    enum kvr_status st;

    if (!spans)
        return kvr_fail(KVR_ENOMEM, "block: out of memory while allocating %d token spans",
                        n_spans);
    kvr_layer_spans(&b->layer, &seen, spans);
    st = check_heads(spans, n_spans, needs->n_heads);
    if (st == KVR_OK)
        st = kvr_layer_read_joint(&b->layer, &seen);
    if (st == KVR_OK)
        st = kvr_attend_reserve(&scratch, b->dev, needs);
    if (st == KVR_OK)
        kvr_attend(&(struct kvr_attend_job){ .n_heads = needs->n_heads,
                                             .group = needs->group,
                                             .head_dim = needs->head_dim,
                                             .n_query = n_query,
                                             .q = q,
                                             .out = out,
                                             .spans = spans,
                                             .n_spans = n_spans,
                                             .correction = needs->correction,
                                             .by_head = needs->by_head },
                   &scratch);
    kvr_layer_drop_joint(&b->layer);
    kvr_attend_release(&scratch);
    free(spans);
    return st;
}

int kvreel_block_attend(const kvreel_block *b, const float *q, int64_t n_query,
                        int32_t n_query_heads, float *out)
{
    const struct kvr_scheme *p = b->scheme;
    const int heads = b->layer.geo.n_heads;
    struct kvr_thin_needs thin;
    struct kvr_attend_needs needs = {
        .n_heads = heads,
        .head_dim = b->layer.geo.head_dim,
        .exact = KVR_BF16,
        .staged = true,
        .rotated = true,
        .correction = kvr_correction_at(p->opts.correction),
    };

    if (n_query < 1 || n_query_heads < 1 || n_query_heads % heads != 0)
        return kvr_fail(KVR_EINVAL,
                        "attend: %lld queries, %d query heads, %d KV heads: need at least 1 query, "
                        "and query heads a multiple of KV heads",
                        (long long)n_query, n_query_heads, heads);
    kvr_retention_thins(&p->retention, &thin);
    needs.by_head = thin.by_head;
    needs.group = n_query_heads / heads;
    needs.max_query = n_query * needs.group;
    KVR_TRY(kvr_attend_check(&needs, KVR_CPU));
    return attend(b, &needs, q, n_query, out);
}

int kvreel_block_bytes(const kvreel_block *b, struct kvreel_bytes *out)
{
    const struct kvr_layer_geometry *g = &b->layer.geo;
    struct kvreel_bytes ours = { .tokens = b->n_tok };
    size_t codes;

    ours.bf16 =
        2 * (uint64_t)b->n_tok * (uint64_t)g->n_heads * (uint64_t)g->head_dim * sizeof(kvr_bf16);
    ours.nominal = kvr_layer_nominal(&b->layer);
    ours.resident = kvr_layer_resident(&b->layer, &codes);
    ours.codes = codes;
    return kvr_abi_give("kvreel_bytes", out, out->size, &ours, sizeof ours);
}

int kvreel_block_hash(const kvreel_block *b, char hex[65])
{
    return kvr_layer_fingerprint(&b->layer, hex);
}
