/* logits.c - the score `logits` of token j: the sum over the newest chunk's queries of q . k_j,
 * before softmax (Deep Forcing, arXiv:2512.05081). The queries are summed first, so that a token
 * needs only one dot product per head. If several heads are scored together, the score is the sum
 * over these heads.
 *
 * Queries and keys are read after RoPE, as in attention. */
#include "methods/scores/score.h"

/* Computes sum [D]: the sum of the new chunk's queries in all query heads that share KV head h. */
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
        return; /* without queries all scores are 0, so the oldest tokens are retained */
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
    .title = "tokens with the largest sum of attention logits from the newest chunk's queries",
    .all_keys = true,
    .queries = true,
    .rate = rate,
};
