/* age.c - the tiers `age`: the newest share `ratio` of the cache is a separate tier, `recent`.
 *
 * In the study's variant the share is of the cache's capacity. With ratio=0.3, the tier `recent`
 * has the last 30 % of the capacity, so it has no written token until 70 % of the cache is full.
 * The study's format stores a mask of 1 byte and an index of 8 bytes per token. In the intended
 * variant the share is of the written chunks, and no side information is needed. */
#include "methods/kernels/share.h"
#include "methods/policy.h"

#include <string.h>

struct age_opts {
    double ratio;
};

static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct age_opts, ratio, 0.3, 0, 1,
                  "fraction of the cached tokens, counted from the newest token, that is in the "
                  "tier `recent`"),
    { 0 },
};

static int64_t first_recent(const struct age_opts *o, const struct kvr_policy_ctx *ctx)
{
    const int64_t chunk = (int64_t)ctx->frames_per_chunk * ctx->tokens_per_frame;
    const int64_t n_chunks = (ctx->n_active + chunk - 1) / chunk;

    if (ctx->study)
        return ctx->n_tok - kvr_share(o->ratio * (double)ctx->n_tok, 1, ctx->n_tok);
    return (n_chunks - kvr_share(o->ratio * (double)n_chunks, 1, n_chunks)) * chunk;
}

static enum kvr_status age_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                  struct kvr_dev *dev, struct kvr_policy_state *state, uint8_t *map)
{
    const int64_t first = first_recent(opts, ctx);

    (void)dev;
    (void)state;
    memset(map, 0, (size_t)first);
    memset(map + first, 1, (size_t)(ctx->n_tok - first));
    return KVR_OK;
}

static size_t age_side_bytes(const void *opts, const struct kvr_study_counts *n)
{
    (void)opts;
    return 9 * (size_t)n->capacity;
}

const struct kvr_tiers kvr_tiers_age = {
    .name = "age",
    .title = "the newest tokens, a fixed fraction of the cache, in their own tier",
    .options = options,
    .opts_size = sizeof(struct age_opts),
    .n_tiers = 2,
    .tier_names = { "old", "recent" },
    .unit = KVR_UNIT_CHUNK,
    .assign = age_assign,
    .cuda = true,
    .study_side_bytes = age_side_bytes,
};
