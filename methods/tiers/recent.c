/* recent.c - the tiers `recent`: the newest chunks are a separate tier, `recent`.
 *
 * In the study's variant (RECENT2) the tier has the last chunks * frames_per_chunk * S written
 * tokens, or all if there are fewer. S is the number of tokens per frame. The tier may begin inside
 * a chunk. The part of the cache that is not yet written is not encoded. In the intended variant
 * the tier has the last `chunks` chunks; the newest of these may be partial. A chunk therefore
 * changes its tier only once, with all its tokens. */
#include "methods/policy.h"

#include <string.h>

struct recent_opts {
    int chunks;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct recent_opts, chunks, 2, 1, 4096,
                "number of newest chunks in the tier `recent`"),
    { 0 },
};

static int64_t first_recent(const struct recent_opts *o, const struct kvr_policy_ctx *ctx)
{
    const int64_t chunk = (int64_t)ctx->frames_per_chunk * ctx->tokens_per_frame;
    int64_t first = ctx->n_active - o->chunks * chunk;

    if (!ctx->study)
        first = ((ctx->n_active + chunk - 1) / chunk - o->chunks) * chunk;
    return first > 0 ? first : 0;
}

static enum kvr_status recent_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                     struct kvr_dev *dev, struct kvr_policy_state *state,
                                     uint8_t *map)
{
    const int64_t first = first_recent(opts, ctx);

    (void)dev;
    (void)state;
    memset(map, KVR_TOKEN_ZERO, (size_t)ctx->n_tok);
    memset(map, 0, (size_t)first);
    memset(map + first, 1, (size_t)(ctx->n_active - first));
    return KVR_OK;
}

const struct kvr_tiers kvr_tiers_recent = {
    .name = "recent",
    .title = "newest chunks in their own tier",
    .options = options,
    .opts_size = sizeof(struct recent_opts),
    .n_tiers = 2,
    .tier_names = { "old", "recent" },
    .unit = KVR_UNIT_CHUNK,
    .active_only = true,
    .assign = recent_assign,
    .cuda = true,
};
