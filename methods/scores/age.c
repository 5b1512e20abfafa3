/* age.c - keeps the newest tokens: a sliding window. */
#include "methods/scores/score.h"

static void rate(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = (float)job->token[i]; /* exact below 2^24 tokens */
}

const struct kvr_score kvr_score_age = {
    .name = "age",
    .title = "the newest",
    .rate = rate,
};
