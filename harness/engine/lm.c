/* lm.c - see lm.h. */
#include "harness/engine/lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/phase.h"
#include "harness/engine/lm_weights.h"
#include "harness/engine/model_impl.h"
#include "harness/engine/ops.h"

enum { LINEAR, OTHER, LOGITS, PHASES };

struct kvr_lm {
    struct kvr_dev *dev;
    const struct kvr_model *model;
    const struct kvr_model_config *c;
    const struct kvr_lm_weights *w;
    const struct kvr_ops *ops;
    int max_tokens, head_dim, kv_width;
    struct kvr_buf acts;  /* memory of the arrays below */
    float *x, *n, *q, *o; /* [T,d] */
    float *k, *v;         /* [T,n_kv_heads,D] */
    float *gate, *up;     /* [T,f] */
    struct kvr_buf rope;  /* RoPE angles: F64 cosines and sines, [max_tokens, head_dim / 2] each */
    struct kvr_phases *phases;
    kvr_lm_keep_fn *keep;
    void *keep_ctx;
};

static enum kvr_status alloc(struct kvr_lm *lm)
{
    const size_t t = (size_t)lm->max_tokens, d = (size_t)lm->c->dim, f = (size_t)lm->c->ffn_dim;
    const size_t kv = (size_t)lm->kv_width, half = (size_t)lm->head_dim / 2;
    float *p;

    KVR_TRY(
        kvr_buf_alloc(&lm->acts, lm->dev, KVR_MEM_ACT, t * (4 * d + 2 * kv + 2 * f) * sizeof *p));
    KVR_TRY(kvr_buf_alloc(&lm->rope, lm->dev, KVR_MEM_ACT, 2 * t * half * sizeof(double)));
    p = lm->acts.p;
    lm->x = p;
    lm->n = p += t * d;
    lm->q = p += t * d;
    lm->o = p += t * d;
    lm->k = p += t * d;
    lm->v = p += t * kv;
    lm->gate = p += t * kv;
    lm->up = p + t * f;
    return kvr_phases_open(&lm->phases, lm->dev, PHASES);
}

enum kvr_status kvr_lm_open(struct kvr_lm **out, struct kvr_dev *dev, struct kvr_model *m,
                            int max_tokens)
{
    struct kvr_lm *lm;
    enum kvr_status st;

    if (!kvr_model_is_lm(m))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "lm: a video model was given; this workload needs a language model");
    if (!kvr_dev_in_host(dev))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "lm: language models run only on the CPU: other devices have no kernels "
                        "for grouped-query attention (GQA) and causal chunks");
    lm = calloc(1, sizeof *lm);
    if (!lm)
        return kvr_fail(KVR_ENOMEM, "lm: out of memory");
    lm->dev = dev;
    lm->model = m;
    lm->c = &m->config;
    lm->w = m->lm;
    lm->ops = kvr_ops_of(dev);
    lm->max_tokens = max_tokens;
    lm->head_dim = lm->c->dim / lm->c->n_heads;
    lm->kv_width = lm->c->n_kv_heads * lm->head_dim;
    st = alloc(lm);
    if (st != KVR_OK) {
        kvr_lm_close(&lm);
        return st;
    }
    *out = lm;
    return KVR_OK;
}

void kvr_lm_close(struct kvr_lm **plm)
{
    struct kvr_lm *lm = plm ? *plm : NULL;

    if (!lm)
        return;
    kvr_buf_free(&lm->acts);
    kvr_buf_free(&lm->rope);
    kvr_phases_close(&lm->phases);
    free(lm);
    *plm = NULL;
}

struct kvr_cache_shape kvr_lm_cache_shape(const struct kvr_model *m, int chunk)
{
    const struct kvr_model_config *c = kvr_model_config(m);

    return (struct kvr_cache_shape){
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->dim / c->n_heads,
        .tokens_per_frame = 1,
        .frames_per_chunk = chunk,
        .causal = true,
    };
}

void kvr_lm_keep(struct kvr_lm *lm, kvr_lm_keep_fn *fn, void *ctx)
{
    lm->keep = fn;
    lm->keep_ctx = ctx;
}

/* Computes the cosines and sines of the RoPE angles for positions [first, first + n). */
static void find_turns(struct kvr_lm *lm, int first, int n)
{
    const int half = lm->head_dim / 2;
    double *cosines = lm->rope.p, *sines = cosines + (size_t)lm->max_tokens * (size_t)half;

#pragma omp parallel for schedule(static)
    for (int t = 0; t < n; t++)
        for (int i = 0; i < half; i++) {
            const int64_t to = (int64_t)t * half + i;
            const double angle = (first + t) * pow(lm->c->rope_base, -2.0 * i / lm->head_dim);

            cosines[to] = cos(angle);
            sines[to] = sin(angle);
        }
}

static void rotate(const struct kvr_lm *lm, int n, int width, float *x)
{
    const struct kvr_rows rows = { n, width, 1 };
    const double *cosines = lm->rope.p;

    lm->ops->rope(lm->dev, &rows, lm->head_dim, cosines,
                  cosines + (size_t)lm->max_tokens * (size_t)(lm->head_dim / 2), x);
}

/* to = RMSNorm of each row of `from` [n,dim], multiplied by the weights w [dim] */
static void norm(const struct kvr_lm *lm, int n, const float *from, const float *w, float *to)
{
    const struct kvr_rows rows = { n, lm->c->dim, 1 };

    kvr_dev_copy(lm->dev, to, from, (size_t)n * (size_t)lm->c->dim * sizeof *to);
    lm->ops->rms_norm(lm->dev, &rows, w, lm->c->eps, to);
}

static void add(const struct kvr_lm *lm, int n, const float *y)
{
    const struct kvr_rows rows = { n, lm->c->dim, 1 };

    lm->ops->add(lm->dev, &rows, y, NULL, 0, lm->x);
}

static enum kvr_status linear(struct kvr_lm *lm, int n, const float *x, int n_layers,
                              const struct kvr_linear *const *l, float *const *y)
{
    enum kvr_status st;

    kvr_phase_begin(lm->phases, LINEAR);
    st = kvr_linear_run(lm->model->gemm, n, x, n_layers, l, y);
    kvr_phase_end(lm->phases, LINEAR);
    return st;
}

static enum kvr_status attention(struct kvr_lm *lm, struct kvr_cache *cache,
                                 const struct kvr_lm_block *b, int layer, int n)
{
    const struct kvr_linear *const qkv[] = { b->q, b->k, b->v }, *const out[] = { b->o };
    float *const parts[] = { lm->q, lm->k, lm->v };

    kvr_phase_begin(lm->phases, OTHER);
    norm(lm, n, lm->x, b->attn_norm, lm->n);
    kvr_phase_end(lm->phases, OTHER);
    KVR_TRY(linear(lm, n, lm->n, 3, qkv, parts));
    kvr_phase_begin(lm->phases, OTHER);
    rotate(lm, n, lm->c->dim, lm->q);
    rotate(lm, n, lm->kv_width, lm->k);
    if (lm->keep)
        lm->keep(lm->keep_ctx, layer, lm->k, lm->v);
    kvr_phase_end(lm->phases, OTHER);
    KVR_TRY(kvr_cache_append(cache, layer, lm->k, lm->v));
    KVR_TRY(kvr_cache_attend(cache, layer, lm->q, lm->o));
    return linear(lm, n, lm->o, 1, out, &lm->n);
}

static enum kvr_status feed_forward(struct kvr_lm *lm, const struct kvr_lm_block *b, int n)
{
    const struct kvr_linear *const two[] = { b->gate, b->up }, *const out[] = { b->down };
    float *const parts[] = { lm->gate, lm->up };
    const int64_t elems = (int64_t)n * lm->c->ffn_dim;

    kvr_phase_begin(lm->phases, OTHER);
    add(lm, n, lm->n);
    norm(lm, n, lm->x, b->ffn_norm, lm->n);
    kvr_phase_end(lm->phases, OTHER);
    KVR_TRY(linear(lm, n, lm->n, 2, two, parts));
    kvr_phase_begin(lm->phases, OTHER);
    lm->ops->silu(lm->dev, elems, lm->gate, lm->gate);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < elems; i++)
        lm->gate[i] *= lm->up[i];
    kvr_phase_end(lm->phases, OTHER);
    KVR_TRY(linear(lm, n, lm->gate, 1, out, &lm->n));
    kvr_phase_begin(lm->phases, OTHER);
    add(lm, n, lm->n);
    kvr_phase_end(lm->phases, OTHER);
    return KVR_OK;
}

static enum kvr_status check(const struct kvr_lm *lm, const int32_t *ids,
                             const struct kvr_pass *pass)
{
    if (pass->n_frames < 1 || pass->n_frames > lm->max_tokens)
        return kvr_fail(KVR_EINVAL, "lm: a chunk of %d tokens was passed, need 1 to %d",
                        pass->n_frames, lm->max_tokens);
    if (pass->frame0 < 0 || pass->frame0 > lm->c->context_length - pass->n_frames)
        return kvr_fail(KVR_EINVAL,
                        "lm: token positions %d to %lld were passed, need 0 to %d (the model's "
                        "context)",
                        pass->frame0, (long long)pass->frame0 + pass->n_frames - 1,
                        lm->c->context_length - 1);
    for (int t = 0; t < pass->n_frames; t++)
        if (ids[t] < 0 || ids[t] >= lm->c->vocabulary_size)
            return kvr_fail(KVR_EINVAL,
                            "lm: token %d has id %d, which is not in the vocabulary: need 0..%d",
                            pass->frame0 + t, ids[t], lm->c->vocabulary_size - 1);
    return KVR_OK;
}

enum kvr_status kvr_lm_forward(struct kvr_lm *lm, struct kvr_cache *cache, const int32_t *ids,
                               const struct kvr_pass *pass, float *hidden)
{
    const int n = pass->n_frames, d = lm->c->dim;

    KVR_TRY(check(lm, ids, pass));
    kvr_phase_begin(lm->phases, OTHER);
    for (int t = 0; t < n; t++)
        KVR_TRY(kvr_weight_f32(lm->w->embedding, (int64_t)ids[t] * d, d, lm->x + (int64_t)t * d));
    find_turns(lm, pass->frame0, n);
    kvr_phase_end(lm->phases, OTHER);
    for (int i = 0; i < lm->c->n_layers; i++) {
        KVR_TRY(attention(lm, cache, &lm->w->block[i], i, n));
        KVR_TRY(feed_forward(lm, &lm->w->block[i], n));
    }
    norm(lm, n, lm->x, lm->w->output_norm, hidden);
    return KVR_OK;
}

enum kvr_status kvr_lm_logits(struct kvr_lm *lm, int64_t n, const float *hidden, float *logits)
{
    const struct kvr_linear *const l[] = { lm->w->output };
    enum kvr_status st;

    kvr_phase_begin(lm->phases, LOGITS);
    st = kvr_linear_run(lm->model->gemm, n, hidden, 1, l, &logits);
    kvr_phase_end(lm->phases, LOGITS);
    return st;
}

enum kvr_status kvr_lm_times(struct kvr_lm *lm, struct kvr_lm_times *out)
{
    int64_t ns[PHASES];

    KVR_TRY(kvr_phases_read(lm->phases, ns));
    *out = (struct kvr_lm_times){ ns[LINEAR], ns[OTHER], ns[LOGITS] };
    return KVR_OK;
}
