/* salience.c - a trained head says of each new token how salient it will be (PaFu-KV,
 * arXiv:2601.21896, section 5.2 of its Salience Estimation Head). What it said when the token was
 * new stands. */
#include "methods/kernels/salience_head.h"
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;

    /* The new chunk's tokens come last and are all there. Without queries nothing is said. */
    if (job->head && ctx->q && job->n > job->first_new)
        kvr_salience_head_ask(job->head, ctx->q, ctx->k, ctx->v, job->n - job->first_new,
                              job->memory + job->first_new);
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->memory[i];
}

const struct kvr_score kvr_score_salience = {
    .name = "salience",
    .title = "the most salient by a trained head",
    .memory = 1,
    .keys = true,
    .head = true,
    .rate = rate,
};
