/* key_norm.c - the score `key_norm`: -||k||, averaged over heads. It retains keys of small norm,
 * which receive the most attention (KNorm, arXiv:2406.11430). */
#include <math.h>

#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    const int d = job->ctx->head_dim;

    for (int64_t i = job->first_new; i < job->n; i++) {
        double sum = 0;

        for (int h = job->h0; h < job->h0 + job->n_heads; h++) {
            const float *k = kvr_new_key(job, job->token[i], h);
            double squares = 0;

            for (int c = 0; c < d; c++)
                squares += (double)k[c] * k[c];
            sum += sqrt(squares);
        }
        job->memory[i] = (float)(-sum / job->n_heads);
    }
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->memory[i];
}

const struct kvr_score kvr_score_key_norm = {
    .name = "key_norm",
    .title = "shortest keys",
    .memory = 1,
    .keys = true,
    .rate = rate,
};
