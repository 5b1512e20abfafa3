/* sinks.c - the tiers `sinks`: the first latent frames (attention sinks) are a separate tier. A
 * token never changes its tier. */
#include "methods/policy.h"

#include <string.h>

struct sinks_opts {
    int frames;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct sinks_opts, frames, 1, 1, 4096,
                "number of first latent frames in the tier `sink`"),
    { 0 },
};

static enum kvr_status sinks_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                    struct kvr_dev *dev, struct kvr_policy_state *state,
                                    uint8_t *map)
{
    int64_t n = (int64_t)((const struct sinks_opts *)opts)->frames * ctx->tokens_per_frame;

    (void)dev, (void)state;
    n = n < ctx->n_tok ? n : ctx->n_tok;
    memset(map, 1, (size_t)n);
    memset(map + n, 0, (size_t)(ctx->n_tok - n));
    return KVR_OK;
}

const struct kvr_tiers kvr_tiers_sinks = {
    .name = "sinks",
    .title = "first frames in their own tier",
    .options = options,
    .opts_size = sizeof(struct sinks_opts),
    .n_tiers = 2,
    .tier_names = { "rest", "sink" },
    .unit = KVR_UNIT_FRAME,
    .assign = sinks_assign,
    .cuda = true,
};
