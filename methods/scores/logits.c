/* logits.c - sum_r q_r . k_j over the newest chunk's queries, before softmax (Deep Forcing,
 * arXiv:2512.05081). Queries are summed first, so each token costs one dot product per head. With
 * several heads the score is their sum.
 *
 * Queries and keys are taken after RoPE, as in attention. */
#include "methods/scores/score.h"

/* sum[D] <- sum of the new chunk's queries of KV head h, over its query heads. */
static void sum_queries(const struct kvr_policy_ctx *ctx, int h, float *sum)
{
    const int d = ctx->head_dim, per = ctx->n_query_heads / ctx->n_heads;
    const int64_t n = ctx->n_active - ctx->new0;

    for (int c = 0; c < d; c++)
        sum[c] = 0;
    for (int64_t r = 0; r < n; r++) {
        const float *q = ctx->q + (r * ctx->n_query_heads + (int64_t)h * per) * d;

        for (int c = 0; c < per * d; c++)
            sum[c % d] += q[c];
    }
}

static void rate(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;
    const int64_t d = ctx->head_dim;
    float *sum = job->work + job->n;

    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = 0;
    if (!ctx->q || !ctx->all_keys)
        return; /* without queries all scores are 0, and the oldest tokens remain */
    for (int h = job->h0; h < job->h0 + job->n_heads; h++) {
        sum_queries(ctx, h, sum);
        for (int64_t i = 0; i < job->n; i++) {
            const float *k = ctx->all_keys + (job->token[i] * (int64_t)ctx->n_heads + h) * d;
            float s = 0;

            for (int64_t c = 0; c < d; c++)
                s += sum[c] * k[c];
            job->score[i] += s;
        }
    }
}

const struct kvr_score kvr_score_logits = {
    .name = "logits",
    .title = "largest sum of the newest chunk's logits",
    .all_keys = true,
    .queries = true,
    .rate = rate,
};
