/* attention.c - the scores `attention_*`: the softmax weights that a token receives from the
 * queries of cache-update (clean) passes. The five scores differ in how they accumulate weights.
 *
 *     sum      sum of the weights from all queries since the token was written (H2O,
 *              arXiv:2306.14048)
 *     mean     that sum divided by the number of these queries, which makes tokens of different
 *              age comparable
 *     max      largest weight from any query since the token was written
 *     window   sum of the weights from the newest chunk's queries, max-pooled over neighbouring
 *              tokens (SnapKV, arXiv:2404.14469, with the newest chunk as observation window)
 *     causal   (diag + low) / 2, where diag is the largest weight from queries of the token's own
 *              chunk, and low the largest weight from later chunks (PaFu-KV, arXiv:2601.21896,
 *              which also uses queries of earlier chunks; a causal rollout has none)
 *
 * The weights of a query sum to 1, so scores of different chunks are comparable. */
#include "methods/scores/score.h"

static float largest(float a, float b)
{
    return b > a ? b : a;
}

static void rate_sum(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++) {
        job->memory[i] += kvr_column_of(job, job->token[i], false);
        job->score[i] = job->memory[i];
    }
}

/* Returns the number of queries whose weights were summed for the token: n_query queries are
 * sampled in each chunk, from the token's own chunk to the newest one. */
static float queries_met(const struct kvr_score_job *job, int64_t token)
{
    const struct kvr_policy_ctx *ctx = job->ctx;
    const int64_t chunk = (int64_t)ctx->frames_per_chunk * ctx->tokens_per_frame;
    const int64_t chunks = (ctx->n_active - 1) / chunk - token / chunk + 1;

    return (float)(chunks * (ctx->columns && ctx->columns->n_query ? ctx->columns->n_query : 1));
}

static void rate_mean(const struct kvr_score_job *job)
{
    rate_sum(job);
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = job->memory[i] / queries_met(job, job->token[i]);
}

static void rate_max(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++) {
        job->memory[i] = largest(job->memory[i], kvr_column_of(job, job->token[i], true));
        job->score[i] = job->memory[i];
    }
}

static void rate_window(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++)
        job->score[i] = kvr_column_of(job, job->token[i], false);
    kvr_pool_max(job->score, job->n, job->opts->pool, job->work);
}

static void rate_causal(const struct kvr_score_job *job)
{
    for (int64_t i = 0; i < job->n; i++) {
        const float now = kvr_column_of(job, job->token[i], true);
        float *diag = &job->memory[2 * i], *low = &job->memory[2 * i + 1];

        if (i >= job->first_new)
            *diag = now;
        else
            *low = largest(*low, now);
        job->score[i] = (*diag + *low) / 2;
    }
}

const struct kvr_score kvr_score_attention_sum = {
    .name = "attention_sum",
    .title =
        "tokens with the largest sum of attention from all queries since the token was written",
    .memory = 1,
    .columns = true,
    .rate = rate_sum,
};
const struct kvr_score kvr_score_attention_mean = {
    .name = "attention_mean",
    .title = "tokens with the largest mean attention from all queries since the token was written",
    .memory = 1,
    .columns = true,
    .rate = rate_mean,
};
const struct kvr_score kvr_score_attention_max = {
    .name = "attention_max",
    .title = "tokens with the largest attention weight from any single query",
    .memory = 1,
    .columns = true,
    .rate = rate_max,
};
const struct kvr_score kvr_score_attention_window = {
    .name = "attention_window",
    .title = "tokens with the largest attention from the newest chunk's queries",
    .columns = true,
    .rate = rate_window,
};
const struct kvr_score kvr_score_attention_causal = {
    .name = "attention_causal",
    .title = "tokens that receive the largest attention weights from queries of their own chunk "
             "and of later chunks",
    .memory = 2,
    .columns = true,
    .rate = rate_causal,
};
