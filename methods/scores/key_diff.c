/* key_diff.c - the score `key_diff`: -cos(k, mean key), averaged over heads, so keys that differ
 * from the mean are retained (KeyDiff, arXiv:2504.15364). The mean is over the keys of the token's
 * own chunk. The score is computed once, when the chunk is new, because older keys are already
 * quantized. */
#include <math.h>
#include <string.h>

#include "methods/scores/score.h"

/* Computes the mean [D] of the new chunk's keys in head h. */
static void mean_key(const struct kvr_score_job *job, int h, float *mean)
{
    const int d = job->ctx->head_dim;
    const int64_t n = job->n - job->first_new;

    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t i = job->first_new; i < job->n; i++) {
        const float *k = kvr_new_key(job, job->token[i], h);

        for (int c = 0; c < d; c++)
            mean[c] += k[c] / (float)n;
    }
}

static float cosine(const float *a, const float *b, int d)
{
    double ab = 0, aa = 0, bb = 0;

    for (int c = 0; c < d; c++) {
        ab += (double)a[c] * b[c];
        aa += (double)a[c] * a[c];
        bb += (double)b[c] * b[c];
    }
    return aa > 0 && bb > 0 ? (float)(ab / sqrt(aa * bb)) : 0.0f;
}

static void rate(const struct kvr_score_job *job)
{
    for (int64_t i = job->first_new; i < job->n; i++)
        job->memory[i] = 0;
    for (int h = job->h0; h < job->h0 + job->n_heads; h++) {
        mean_key(job, h, job->work);
        for (int64_t i = job->first_new; i < job->n; i++)
            job->memory[i] -=
                cosine(kvr_new_key(job, job->token[i], h), job->work, job->ctx->head_dim) /
                (float)job->n_heads;
    }
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->memory[i];
}

const struct kvr_score kvr_score_key_diff = {
    .name = "key_diff",
    .title = "tokens whose keys are least similar to the mean key of their chunk",
    .memory = 1,
    .keys = true,
    .rate = rate,
};
