/* record.c - writes the queries, keys and values of every attention call to a trace. */
#include "harness/workload/record.h"

#include <stdlib.h>

#include "harness/engine/lm.h"

struct kvr_record {
    struct kvr_trace_writer *w;
    struct kvr_trace_layout layout;
    int grid_w;
    bool outputs;
    int32_t *position; /* [T,3] */
    int64_t capacity;  /* capacity in tokens */
};

enum kvr_status kvr_record_open(struct kvr_record **out, const char *dir,
                                const struct kvr_trace_info *info, int grid_w, bool outputs)
{
    struct kvr_record *r = calloc(1, sizeof *r);
    enum kvr_status st;

    if (!r)
        return kvr_fail(KVR_ENOMEM, "record: out of memory");
    *r = (struct kvr_record){ .layout = info->layout, .grid_w = grid_w, .outputs = outputs };
    r->capacity = (int64_t)info->layout.frames_per_chunk * info->layout.tokens_per_frame;
    r->position = malloc((size_t)r->capacity * 3 * sizeof *r->position);
    st = r->position ? kvr_trace_create(&r->w, dir, info)
                     : kvr_fail(KVR_ENOMEM, "record: out of memory while allocating %lld tokens",
                                (long long)r->capacity);
    if (st != KVR_OK)
        kvr_record_close(&r);
    *out = r;
    return st;
}

void kvr_record_close(struct kvr_record **pr)
{
    struct kvr_record *r = *pr;

    if (!r)
        return;
    kvr_trace_drop(&r->w);
    free(r->position);
    free(r);
    *pr = NULL;
}

enum kvr_status kvr_record_finish(struct kvr_record **r, int64_t *bytes)
{
    enum kvr_status st = kvr_trace_finish(&(*r)->w, bytes);

    kvr_record_close(r);
    return st;
}

static enum kvr_status check_view(const struct kvr_record *r, const struct kvr_cache_view *view)
{
    const struct kvr_cache_shape *s = view->shape;
    const struct kvr_trace_layout *l = &r->layout;

    if (s->n_layers == l->n_layers && s->n_heads == l->n_heads && s->head_dim == l->head_dim &&
        (s->n_kv_heads ? s->n_kv_heads : s->n_heads) == l->n_kv_heads &&
        s->tokens_per_frame == l->tokens_per_frame && s->frames_per_chunk == l->frames_per_chunk &&
        s->causal == l->causal)
        return KVR_OK;
    return kvr_fail(
        KVR_EINTERNAL,
        "record: the cache has %d layers, %d heads of %d channels and %d tokens per frame, but the "
        "trace has %d layers, %d heads of %d channels and %d tokens per frame",
        s->n_layers, s->n_heads, s->head_dim, s->tokens_per_frame, l->n_layers, l->n_heads,
        l->head_dim, l->tokens_per_frame);
}

static void fill_positions(struct kvr_record *r, int frame0, int64_t n_tok)
{
    const int s = r->layout.tokens_per_frame;

    for (int64_t t = 0; t < n_tok; t++) {
        int32_t *p = r->position + 3 * t;

        p[0] = frame0 + (int32_t)(t / s);
        p[1] = (int32_t)(t % s) / r->grid_w;
        p[2] = (int32_t)(t % s) % r->grid_w;
    }
}

enum kvr_status kvr_record_observe(void *ctx, const struct kvr_cache_view *view)
{
    struct kvr_record *r = ctx;
    const struct kvr_trace_layout *l = &r->layout;
    const struct kvr_pass *p = view->pass;
    const struct kvr_trace_pass pass = { .chunk = p->chunk,
                                         .index = p->index,
                                         .n_frames = p->n_frames,
                                         .clean = p->clean,
                                         .queries = view->q };
    const struct kvr_tensor kv = { .dtype = view->shape->exact,
                                   .n_dims = 3,
                                   .shape = { view->n_tok, l->n_kv_heads, l->head_dim } };
    const struct kvr_tensor q = { .dtype = KVR_F32,
                                  .n_dims = 3,
                                  .shape = { view->n_tok, l->n_heads, l->head_dim } };
    struct kvr_trace_call call = { .n_tok = view->n_tok, .k = kv, .v = kv, .q = q };

    KVR_TRY(check_view(r, view));
    fill_positions(r, p->frame0, view->n_tok);
    call.k.data = (void *)view->k;
    call.v.data = (void *)view->v;
    call.q.data = (void *)view->q;
    call.position = (struct kvr_tensor){
        .data = r->position, .dtype = KVR_I32, .n_dims = 2, .shape = { view->n_tok, 3 }
    };
    if (r->outputs) {
        call.out = q;
        call.out.data = (void *)view->out;
    }
    return kvr_trace_put(r->w, &pass, view->layer, &call);
}

int kvr_record_describe(const struct kvr_model *m, int chunk, struct kvr_trace_info *info)
{
    const struct kvr_model_config *c = kvr_model_config(m);
    /* `third` RoPE channel pairs encode the row, `third` the column, and the others the frame. */
    const int d = kvr_model_head_dim(m), third = d / 2 / 3;

    info->layout = (struct kvr_trace_layout){
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .n_kv_heads = c->is_lm ? c->n_kv_heads : c->n_heads,
        .head_dim = d,
        .tokens_per_frame = c->is_lm ? 1 : kvr_model_tokens_per_frame(m),
        .frames_per_chunk = c->is_lm ? chunk : c->frames_per_chunk,
        .causal = c->is_lm,
    };
    info->rope = (struct kvr_trace_rope){ .rotary = true,
                                          .channels = { d - 4 * third, 2 * third, 2 * third },
                                          .base = 10000 };
    if (!c->is_lm)
        return c->latent_w / c->patch_w;
    info->rope.base = c->rope_base;
    info->rope.channels[0] = d;
    info->rope.channels[1] = info->rope.channels[2] = 0;
    return 1;
}

/* --- a language model ------------------------------------------------------------------- */

static enum kvr_status read_through(struct kvr_lm *lm, struct kvr_cache *cache, const int32_t *ids,
                                    int n, int chunk, float *hidden)
{
    for (int at = 0; at < n; at += chunk) {
        const struct kvr_pass pass = { .chunk = at / chunk,
                                       .frame0 = at,
                                       .n_frames = n - at < chunk ? n - at : chunk,
                                       .index = 0,
                                       .clean = true };

        KVR_TRY(kvr_cache_begin_pass(cache, &pass));
        KVR_TRY(kvr_lm_forward(lm, cache, ids + at, &pass, hidden));
        KVR_TRY(kvr_cache_end_pass(cache));
    }
    return KVR_OK;
}

enum kvr_status kvr_record_text(struct kvr_record *r, struct kvr_dev *dev, struct kvr_model *m,
                                const int32_t *ids, int n, int chunk)
{
    struct kvr_cache_shape shape = kvr_lm_cache_shape(m, chunk);
    float *hidden = malloc((size_t)chunk * (size_t)kvr_model_config(m)->dim * sizeof *hidden);
    struct kvr_scheme *scheme = NULL;
    struct kvr_cache *cache = NULL;
    struct kvr_lm *lm = NULL;
    enum kvr_status st;

    shape.capacity_frames = n;
    shape.exact = KVR_BF16;
    st = hidden ? kvr_scheme_open(&scheme, kvr_reference_method, NULL, 0)
                : kvr_fail(KVR_ENOMEM, "record: out of memory while allocating %d tokens", chunk);
    if (st == KVR_OK)
        st = kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED);
    if (st == KVR_OK)
        st = kvr_lm_open(&lm, dev, m, chunk);
    if (st == KVR_OK) {
        kvr_cache_observe(cache, kvr_record_observe, r);
        st = read_through(lm, cache, ids, n, chunk, hidden);
    }
    kvr_lm_close(&lm);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    free(hidden);
    return st;
}
