/* age.c - the score `age`: the newest tokens have the highest score, so the budget is a sliding
 * window. */
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = (float)job->token[i]; /* exact for token indices below 2^24 */
}

const struct kvr_score kvr_score_age = {
    .name = "age",
    .title = "the newest",
    .rate = rate,
};
