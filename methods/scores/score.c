/* score.c - the table of scores, and functions that several scores use. */
#include "methods/scores/score.h"

#include <string.h>

#define SCORE(name) extern const struct kvr_score kvr_score_##name;
#include "methods/scores/scores.def"
#undef SCORE

#define SCORE(name) &kvr_score_##name,
const struct kvr_score *const kvr_scores[] = {
#include "methods/scores/scores.def"
    NULL,
};
#undef SCORE

float kvr_column_of(const struct kvr_score_job *job, int64_t token, bool largest)
{
    const struct kvr_columns *c = job->ctx->columns;
    float sum = 0;

    if (!c)
        return 0;
    for (int h = job->h0; h < job->h0 + job->n_heads; h++)
        sum += (largest ? c->max : c->sum)[token * job->ctx->n_heads + h];
    return sum / (float)job->n_heads;
}

const float *kvr_new_key(const struct kvr_score_job *job, int64_t token, int h)
{
    const struct kvr_policy_ctx *ctx = job->ctx;

    return ctx->k + ((token - ctx->new0) * ctx->n_heads + h) * ctx->head_dim;
}

void kvr_pool_max(float *x, int64_t n, int width, float *work)
{
    const int64_t half = width / 2;

    if (width <= 1)
        return;
    memcpy(work, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i > half ? i - half : 0; j < n && j <= i + half; j++)
            x[i] = work[j] > x[i] ? work[j] : x[i];
}
