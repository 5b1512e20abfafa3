/* foretold.c - NOT CAUSAL: what a run that saw the whole video says of each token (PaFu-KV's
 * spatio-temporal salience, arXiv:2601.21896, harness/workload/salience.h). A mark for what a causal
 * score could reach, and no method: whoever knows it has made the video already. */
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->ctx->foretold ? job->ctx->foretold[job->token[i]] : 0;
}

const struct kvr_score kvr_score_foretold = {
    .name = "foretold",
    .title = "not causal: the most salient in the whole video",
    .foretold = true,
    .rate = rate,
};
