/* salience.c - the score `salience`: a trained network, the salience head, predicts the salience of
 * each token from its query, key and value (PaFu-KV, arXiv:2601.21896, section 5.2). The prediction
 * is made once, when the token is new. */
#include "methods/kernels/salience_head.h"
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    const struct kvr_policy_ctx *ctx = job->ctx;

    /* The last n - first_new tokens of the job are the new chunk. Without queries they keep score
     * 0. */
    if (job->head && ctx->q && job->n > job->first_new)
        kvr_salience_head_score(job->head, ctx->q, ctx->k, ctx->v, job->n - job->first_new,
                                job->memory + job->first_new);
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->memory[i];
}

const struct kvr_score kvr_score_salience = {
    .name = "salience",
    .title = "tokens that a trained network (the salience head) rates most salient",
    .memory = 1,
    .keys = true,
    .head = true,
    .rate = rate,
};
