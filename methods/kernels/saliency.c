/* saliency.c - computes summaries of latent frames, the change from frame to frame (delta), and the
 * saliency score (saliency.h). */
#include "methods/kernels/saliency.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "methods/kernels/abs_sum.h"
#include "methods/kernels/policy_cuda.h"

/* The policy state's buffer, which has space for `cap` frames. Its field `data` contains, for H
 * heads:
 *     summary [cap,H] float | delta [cap] float | score [cap] float
 *     | rank [cap] kvr_ranked | level [cap] byte */
struct memory {
    int32_t n_heads, cap;
    int32_t left; /* 1 if the tiers computed scores in this call that the retention has not read
                   * yet, else 0 */
    float data[];
};
static_assert(sizeof(struct kvr_ranked) == 8 && _Alignof(struct kvr_ranked) == 4,
              "rank follows floats");

static size_t memory_bytes(int64_t n_heads, int64_t cap)
{
    return sizeof(struct memory) +
           (size_t)cap * ((size_t)(n_heads + 2) * sizeof(float) + sizeof(struct kvr_ranked) + 1);
}

static float *summary_of(struct memory *m, int64_t f)
{
    return m->data + f * m->n_heads;
}

static float *delta_of(struct memory *m)
{
    return m->data + (int64_t)m->cap * m->n_heads;
}

static float *score_of(struct memory *m)
{
    return delta_of(m) + m->cap;
}

static struct kvr_ranked *rank_of(struct memory *m)
{
    return (struct kvr_ranked *)(score_of(m) + m->cap);
}

static uint8_t *level_of(struct memory *m)
{
    return (uint8_t *)(rank_of(m) + m->cap);
}

int64_t kvr_frames(const struct kvr_policy_ctx *ctx)
{
    return (ctx->n_active + ctx->tokens_per_frame - 1) / ctx->tokens_per_frame;
}

int64_t kvr_frame_tokens(const struct kvr_policy_ctx *ctx, int64_t f)
{
    const int64_t left = ctx->n_active - f * ctx->tokens_per_frame;

    return left < ctx->tokens_per_frame ? left : ctx->tokens_per_frame;
}

void kvr_frame_fill(const struct kvr_policy_ctx *ctx, int64_t f, uint8_t byte, uint8_t *map)
{
    memset(map + f * ctx->tokens_per_frame, byte, (size_t)kvr_frame_tokens(ctx, f));
}

/* Enlarges the state's buffer to at least n frames and copies its contents. After a failure the
 * state is unchanged. */
static enum kvr_status grow(struct kvr_policy_state *state, struct kvr_dev *dev,
                            const struct kvr_policy_ctx *ctx, int64_t n)
{
    struct memory *old = state->buf.p, *m;
    struct kvr_buf buf = { 0 };
    int64_t cap = (n + 15) / 16 * 16; /* grow in steps of 16 frames, so that few chunks copy the
                                       * buffer */

    if (old && old->n_heads != ctx->n_heads)
        return kvr_fail(KVR_EINTERNAL,
                        "saliency: layer %d: the stored scores of the previous chunk are for %d "
                        "heads, but the layer has %d heads",
                        ctx->layer, old->n_heads, ctx->n_heads);
    if (old && old->cap >= n)
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&buf, kvr_dev_host(dev), KVR_MEM_META, memory_bytes(ctx->n_heads, cap)));
    m = buf.p;
    m->n_heads = ctx->n_heads;
    m->cap = (int32_t)cap;
    if (old) {
        const size_t frames = (size_t)old->cap * sizeof(float);

        memcpy(m->data, old->data, frames * (size_t)old->n_heads);
        memcpy(delta_of(m), delta_of(old), frames);
        memcpy(score_of(m), score_of(old), frames);
        memcpy(level_of(m), level_of(old), (size_t)old->cap);
    }
    kvr_buf_free(&state->buf);
    state->buf = buf;
    return KVR_OK;
}

/* Returns the mean of |x| over tokens [t0, t0 + n) and the channels of head h. */
static float mean_abs(const float *x, int64_t t0, int64_t n, int n_heads, int h, int head_dim)
{
    double sum = 0;

    for (int64_t t = t0; t < t0 + n; t++)
        sum += kvr_abs_sum(x + (t * n_heads + h) * head_dim, head_dim);
    return (float)(sum / ((double)n * head_dim));
}

void kvr_frame_summary(const float *k, const float *v, int64_t t0, int64_t n, int n_heads,
                       int head_dim, float *summary)
{
    for (int h = 0; h < n_heads; h++)
        summary[h] =
            mean_abs(k, t0, n, n_heads, h, head_dim) + mean_abs(v, t0, n, n_heads, h, head_dim);
}

float kvr_summary_delta(const float *now, const float *before, int n_heads)
{
    double change = 0, size = 0;
    float mean;

    for (int h = 0; h < n_heads; h++) {
        change += fabsf(now[h] - before[h]);
        size += fabsf(before[h]);
    }
    mean = (float)(size / n_heads);
    return (float)(change / n_heads) / (mean > 1e-6f ? mean : 1e-6f);
}

/* Computes the summaries of frames [f0, n) on CUDA and copies them to the host, which
 * synchronises. */
static enum kvr_status summarise_on_cuda(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                         int64_t f0, int64_t n, float *summary)
{
    const struct kvr_frames_of f = {
        .n_tok = ctx->n_active - ctx->new0,
        .skip = ctx->new0 - f0 * ctx->tokens_per_frame,
        .tokens_per_frame = ctx->tokens_per_frame,
        .n_heads = ctx->n_heads,
        .head_dim = ctx->head_dim,
    };
    const size_t bytes = (size_t)((n - f0) * ctx->n_heads) * sizeof *summary;
    struct kvr_buf found = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_buf_alloc(&found, dev, KVR_MEM_SCRATCH, bytes));
    kvr_frame_summary_cuda(kvr_dev_stream(dev), &f, ctx->k, ctx->v, found.p);
    st = kvr_dev_sync(dev);
    if (st == KVR_OK)
        st = kvr_dev_get(dev, summary, found.p, bytes);
    kvr_buf_free(&found);
    return st;
}

/* Computes the summaries of frames [f0, n) on the CPU. One thread computes each frame, so results
 * do not depend on the number of threads. */
static enum kvr_status summarise_on_cpu(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                        int64_t f0, int64_t n, float *summary)
{
    (void)dev;
#pragma omp parallel for schedule(static)
    for (int64_t f = f0; f < n; f++) {
        const int64_t begin = f * ctx->tokens_per_frame, end = begin + kvr_frame_tokens(ctx, f);
        const int64_t from = begin > ctx->new0 ? begin : ctx->new0;

        kvr_frame_summary(ctx->k, ctx->v, from - ctx->new0, end - from, ctx->n_heads, ctx->head_dim,
                          summary + (f - f0) * ctx->n_heads);
    }
    return KVR_OK;
}

typedef enum kvr_status summarise_fn(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                     int64_t f0, int64_t n, float *summary);

/* Computes the summaries of frames [f0, n): summary [n - f0, H]. The first token of ctx->k and
 * ctx->v is token new0. After a failure `summary` is unchanged. */
static enum kvr_status summarise(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev, int64_t f0,
                                 int64_t n, float *summary)
{
    static summarise_fn *const on[KVR_N_BACKENDS] = {
        [KVR_CPU] = summarise_on_cpu,
        [KVR_CUDA] = summarise_on_cuda,
    };

    return on[kvr_dev_backend(dev)](ctx, dev, f0, n, summary);
}

static void set_ones(float *x, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++)
        x[i] = 1;
}

/* Computes the deltas of the study reading: summarises all n frames again, and compares the last o
 * = min(state->n, n) summaries with the last o of the previous call, which had state->n frames.
 * Other frames have delta 1. */
static enum kvr_status deltas_study(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                    struct kvr_policy_state *state, int64_t n)
{
    struct memory *m = state->buf.p;
    const int64_t overlap = state->n < n ? state->n : n;
    struct kvr_buf now = { 0 };
    enum kvr_status st;

    if (ctx->k && ctx->v) {
        KVR_TRY(kvr_buf_alloc(&now, kvr_dev_host(dev), KVR_MEM_SCRATCH,
                              (size_t)(n * ctx->n_heads) * sizeof(float)));
        st = summarise(ctx, dev, 0, n, now.p);
        if (st != KVR_OK) {
            kvr_buf_free(&now);
            return st;
        }
    }
    set_ones(delta_of(m), 0, n);
    if (!now.p)
        return KVR_OK;
    for (int64_t j = 0; j < overlap; j++)
        delta_of(m)[n - overlap + j] =
            kvr_summary_delta((const float *)now.p + (n - overlap + j) * ctx->n_heads,
                              summary_of(m, state->n - overlap + j), ctx->n_heads);
    memcpy(m->data, now.p, (size_t)(n * ctx->n_heads) * sizeof(float));
    state->n = n;
    kvr_buf_free(&now);
    return KVR_OK;
}

/* Computes the deltas of the intended reading, the paper's variant: compares each frame of the new
 * chunk with the frame before it. If a chunk is stored again, its deltas are computed again. */
static enum kvr_status deltas_intended(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                       struct kvr_policy_state *state, int64_t n)
{
    struct memory *m = state->buf.p;
    const int64_t f0 = ctx->new0 / ctx->tokens_per_frame;
    const int64_t known = state->n < f0 ? state->n : f0;

    if (ctx->k && ctx->v)
        KVR_TRY(summarise(ctx, dev, f0, n, summary_of(m, f0)));
    set_ones(delta_of(m), known, n);
    memset(level_of(m) + known, KVR_FRAME_FINE, (size_t)(n - known));
    for (int64_t f = known < f0 ? f0 + 1 : f0; f < n && ctx->k && ctx->v; f++)
        if (f > 0)
            delta_of(m)[f] =
                kvr_summary_delta(summary_of(m, f), summary_of(m, f - 1), ctx->n_heads);
    state->n = n;
    return KVR_OK;
}

/* Returns torch.linspace(0, 1, n)[i] in float. As in torch, elements of the first half are i *
 * step, and elements of the second half are 1 - (n - 1 - i) * step. */
static float linspace(int64_t i, int64_t n)
{
    const float step = n > 1 ? 1.0f / (float)(n - 1) : 0;

    return i < n / 2 || n == 1 ? step * (float)i : 1 - step * (float)(n - 1 - i);
}

static struct kvr_saliency view(struct kvr_policy_state *state, int64_t n)
{
    struct memory *m = state->buf.p;

    return (struct kvr_saliency){
        .n = n,
        .delta = delta_of(m),
        .score = score_of(m),
        .level = level_of(m),
        .rank = rank_of(m),
    };
}

enum kvr_status kvr_saliency_score(const struct kvr_saliency_rule *rule,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, struct kvr_saliency *out)
{
    const int64_t n = kvr_frames(ctx);
    struct memory *m;

    KVR_TRY(grow(state, dev, ctx, n));
    m = state->buf.p;
    m->left = 0;
    if (!ctx->study)
        KVR_TRY(deltas_intended(ctx, dev, state, n));
    else if (rule->every_call || state->n_planned != n)
        KVR_TRY(deltas_study(ctx, dev, state, n));
    /* If the deltas are not computed again (every_call is false and n is unchanged), the scores do
     * not change either. */
    for (int64_t f = 0; f < n; f++)
        score_of(m)[f] = (float)rule->delta_weight * delta_of(m)[f] +
                         (float)rule->recency_weight * linspace(f, n);
    state->n_planned = n;
    *out = view(state, n);
    return KVR_OK;
}

void kvr_saliency_publish(struct kvr_policy_state *state)
{
    struct memory *m = state->buf.p;

    m->left = 1;
}

bool kvr_saliency_take(const struct kvr_policy_ctx *ctx, struct kvr_policy_state *state,
                       struct kvr_saliency *out)
{
    struct memory *m = state->buf.p;

    if (!m || !m->left || state->n_planned != kvr_frames(ctx))
        return false;
    m->left = 0;
    *out = view(state, state->n_planned);
    return true;
}
