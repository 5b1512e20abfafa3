/* redundancy.c - the score `redundancy`: attention received minus similarity to the other keys
 * (FlowCache, arXiv:2602.10825, section 4.2, after R-KV). For token i of T stored tokens:
 *
 *     I_i   = mean over queries of their weight on i, max-pooled over neighbours
 *     R     = softmax over tokens of (k^_i . sum_j k^_j - 1) / T,     k^ = k / ||k||
 *     score = lambda I - (1 - lambda) R
 *
 * The sum over j is the same for all i and is computed once, so the cost per head is O(T D) instead
 * of O(T^2 D), where D is the head size. The option `weight` selects a weight by the token's
 * position (enum kvr_place_weight). The minimum of the scores is then subtracted from every score,
 * and the difference is multiplied by the token's weight, as in FlowCache's code. */
#include <math.h>
#include <string.h>

#include "methods/scores/score.h"

static const float *key(const struct kvr_score_job *job, int64_t i, int h)
{
    const struct kvr_policy_ctx *ctx = job->ctx;

    return ctx->all_keys + ((int64_t)job->token[i] * ctx->n_heads + h) * ctx->head_dim;
}

static double norm(const float *k, int d)
{
    double sum = 0;

    for (int c = 0; c < d; c++)
        sum += (double)k[c] * k[c];
    return sqrt(sum);
}

/* Sets r [n] to R (see above) of the n stored tokens in head h. The array sum [D] is scratch. */
static void redundancy(const struct kvr_score_job *job, int h, float *r, float *sum)
{
    const int d = job->ctx->head_dim;
    double top = -INFINITY, total = 0;

    memset(sum, 0, (size_t)d * sizeof *sum);
    for (int64_t i = 0; i < job->n; i++) {
        const float *k = key(job, i, h);
        const double length = norm(k, d);

        for (int c = 0; c < d && length > 0; c++)
            sum[c] += (float)(k[c] / length);
    }
    for (int64_t i = 0; i < job->n; i++) {
        const float *k = key(job, i, h);
        const double length = norm(k, d);
        double dot = 0;

        for (int c = 0; c < d && length > 0; c++)
            dot += (double)k[c] * sum[c] / length;
        r[i] = (float)((dot - 1) / (double)job->n);
        top = r[i] > top ? r[i] : top;
    }
    for (int64_t i = 0; i < job->n; i++)
        total += exp(r[i] - top);
    for (int64_t i = 0; i < job->n; i++)
        r[i] = (float)(exp(r[i] - top) / total);
}

/* Returns the factor by which the option `weight` multiplies the score of stored token i of n. */
static double place_weight(const struct kvr_score_opts *o, int64_t i, int64_t n)
{
    const double x = n > 1 ? (double)i / (double)(n - 1) : 0;
    const double sigma = (double)n / 4, end = n > 1 ? (double)(n - 1) / sigma : 1;
    const double least = exp(-0.5 * end * end);

    switch (o->weight) {
    case KVR_PLACE_EXPONENTIAL:
        return 0.1 + 0.9 * (1 - exp(-2 * x)) / (1 - exp(-2.0));
    case KVR_PLACE_POLYNOMIAL:
        return 0.1 + 0.9 * pow(x, o->power);
    case KVR_PLACE_CONVEX:
        return 2 * (1 - pow(1 - x, o->power));
    case KVR_PLACE_GAUSSIAN:
        return 0.1 + 0.9 * (exp(-0.5 * pow((double)i / sigma, 2)) - least) / (1 - least);
    default:
        return 1;
    }
}

static void weigh_places(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;
    const int64_t chunk = (int64_t)ctx->tokens_per_frame * ctx->frames_per_chunk;
    float least = INFINITY;

    if (job->opts->weight == KVR_PLACE_NONE)
        return;
    for (int64_t i = 0; i < job->n; i++)
        least = job->score[i] < least ? job->score[i] : least;
    for (int64_t i = 0; i < job->n; i++) {
        job->score[i] =
            (float)((double)(job->score[i] - least) * place_weight(job->opts, i, job->n));
        if (job->opts->weight == KVR_PLACE_FIRST && i < chunk)
            job->score[i] -= 1e6F;
    }
}

static void rate(const struct kvr_score_job *job)
{
    const double lambda = job->opts->lambda;
    const struct kvr_columns *columns = job->ctx->columns;
    const double queries = columns && columns->n_query ? (double)columns->n_query : 1;
    float *r = job->work, *sum = job->work + job->n;

    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = (float)(kvr_column_of(job, job->token[i], false) / queries);
    kvr_pool_max(job->score, job->n, job->opts->pool, job->work);
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = (float)(lambda * job->score[i]);
    for (int h = job->h0; h < job->h0 + job->n_heads; h++) {
        redundancy(job, h, r, sum);
        for (int64_t i = 0; i < job->n; i++)
            job->score[i] -= (float)((1 - lambda) * r[i] / job->n_heads);
    }
    weigh_places(job);
}

const struct kvr_score kvr_score_redundancy = {
    .name = "redundancy",
    .title = "tokens with the largest received attention minus similarity of the key to other keys",
    .columns = true,
    .all_keys = true,
    .rate = rate,
};
