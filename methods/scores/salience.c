/* salience.c - a trained head predicts the salience of each new token (PaFu-KV, arXiv:2601.21896,
 * section 5.2, Salience Estimation Head). The head predicts the salience of a token only once, when
 * the token is new. */
#include "methods/kernels/salience_head.h"
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;

    /* The new chunk's tokens come last and are complete. Without queries there is no prediction. */
    if (job->head && ctx->q && job->n > job->first_new)
        kvr_salience_head_score(job->head, ctx->q, ctx->k, ctx->v, job->n - job->first_new,
                                job->memory + job->first_new);
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->memory[i];
}

const struct kvr_score kvr_score_salience = {
    .name = "salience",
    .title = "most salient by a trained head",
    .memory = 1,
    .keys = true,
    .head = true,
    .rate = rate,
};
