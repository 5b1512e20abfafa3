/* foretold.c - NOT CAUSAL: an oracle score per token from a complete earlier run (PaFu-KV's
 * spatio-temporal salience, arXiv:2601.21896, harness/workload/salience.h). It is an upper bound
 * for causal scores, and not a usable method, because it needs the attention of the finished
 * video. */
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->ctx->oracle_scores ? job->ctx->oracle_scores[job->token[i]] : 0;
}

const struct kvr_score kvr_score_foretold = {
    .name = "foretold",
    .title =
        "tokens that are most salient in the whole video, including its future frames (not causal)",
    .oracle_scores = true,
    .rate = rate,
};
