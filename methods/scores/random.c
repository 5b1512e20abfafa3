/* random.c - the score `random`, a control: each token has a fixed random score, so the retained
 * tokens are a uniform sample of all written tokens. */
#include "harness/core/rng.h"
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++)
        kvr_uniform(&job->score[i], 1, (uint64_t)job->opts->seed, KVR_RNG_KEEP,
                    (uint32_t)job->ctx->layer, (uint32_t)job->h0, (uint64_t)job->token[i]);
}

const struct kvr_score kvr_score_random = {
    .name = "random",
    .title = "a uniform sample, seeded",
    .rate = rate,
};
