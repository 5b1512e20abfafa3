/* expected.c - the score `expected`: expected attention from future queries, times the norm of the
 * value (kvpress's ExpectedAttention, arXiv:2510.00636).
 *
 * For Gaussian queries q with mean m and covariance C, the expectation of e^(q . k / sqrt(D)) is
 * e^l, and the score is computed from l:
 *
 *     l     = m . k / sqrt(D) + k^T C k / (2 D)
 *     score = softmax of l over the tokens, times ||v||
 *
 * The mean and covariance are computed from the newest chunk's queries after RoPE. The library
 * kvpress computes them before RoPE, and rotates them by the mean RoPE rotation of the next 512
 * positions. If several heads are scored together, the score is the mean over these heads. */
#include <math.h>

#include "methods/scores/score.h"

/* Computes the mean [D] and the covariance matrix [D,D] (`spread`) of the new chunk's queries, over
 * all tokens and all query heads that share KV head h. */
static void take_moments(const struct kvr_policy_ctx *ctx, int h, float *mean, float *spread)
{
    const int d = ctx->head_dim, per = ctx->n_query_heads / ctx->n_heads;
    const int64_t n = ctx->n_active - ctx->new0;
    const float each = 1 / (float)(n * per);

    for (int c = 0; c < d; c++)
        mean[c] = 0;
    for (int c = 0; c < d * d; c++)
        spread[c] = 0;
    for (int64_t r = 0; r < n * per; r++) {
        const float *q = ctx->q + (r / per * ctx->n_query_heads + (int64_t)h * per + r % per) * d;

        for (int c = 0; c < d; c++)
            mean[c] += q[c] * each;
    }
    for (int64_t r = 0; r < n * per; r++) {
        const float *q = ctx->q + (r / per * ctx->n_query_heads + (int64_t)h * per + r % per) * d;

        for (int a = 0; a < d; a++) {
            const float x = (q[a] - mean[a]) * each;

            for (int b = 0; b < d; b++)
                spread[a * d + b] += x * (q[b] - mean[b]);
        }
    }
}

static double expected(const float *k, int d, const float *mean, const float *spread)
{
    double l = 0, square = 0;

    for (int a = 0; a < d; a++) {
        float row = 0;

        for (int b = 0; b < d; b++)
            row += spread[a * d + b] * k[b];
        square += (double)row * k[a];
        l += (double)mean[a] * k[a];
    }
    return l / sqrt(d) + square / (2.0 * d);
}

static double length(const float *v, int d)
{
    double sum = 0;

    for (int c = 0; c < d; c++)
        sum += (double)v[c] * v[c];
    return sqrt(sum);
}

static void rate(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;
    const int d = ctx->head_dim;
    float *l = job->work, *mean = l + job->n, *spread = mean + d;

    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = 0;
    if (!ctx->q || !ctx->all_keys || !ctx->all_values)
        return; /* without queries all scores are 0, so the oldest tokens are retained */
    for (int h = job->h0; h < job->h0 + job->n_heads; h++) {
        double top = -INFINITY, total = 0;

        take_moments(ctx, h, mean, spread);
        for (int64_t i = 0; i < job->n; i++) {
            const int64_t at = (job->token[i] * (int64_t)ctx->n_heads + h) * d;

            l[i] = (float)expected(ctx->all_keys + at, d, mean, spread);
            top = l[i] > top ? l[i] : top;
        }
        for (int64_t i = 0; i < job->n; i++)
            total += exp(l[i] - top);
        for (int64_t i = 0; i < job->n; i++) {
            const int64_t at = (job->token[i] * (int64_t)ctx->n_heads + h) * d;

            job->score[i] +=
                (float)(exp(l[i] - top) / total * length(ctx->all_values + at, d) / job->n_heads);
        }
    }
}

const struct kvr_score kvr_score_expected = {
    .name = "expected",
    .title = "tokens with the largest expected attention from queries distributed like the newest "
             "chunk's",
    .all_keys = true,
    .all_values = true,
    .queries = true,
    .rate = rate,
};
