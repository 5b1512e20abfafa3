/* depth.c - the tiers `depth`: the first layers of the model, the layers after them, and all other
 * layers are three tiers (CacheGen). */
#include "methods/policy.h"

#include <string.h>

struct depth_opts {
    int first, next;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct depth_opts, first, 2, 0, 1024, "number of first layers in the tier `first`"),
    KVR_OPT_INT(struct depth_opts, next, 10, 0, 1024,
                "number of first layers in the tiers `first` and `next` together"),
    { 0 },
};

static enum kvr_status depth_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                    struct kvr_dev *dev, struct kvr_policy_state *state,
                                    uint8_t *map)
{
    const struct depth_opts *o = opts;

    (void)dev, (void)state;
    memset(map, ctx->layer < o->first ? 2 : ctx->layer < o->next, (size_t)ctx->n_tok);
    return KVR_OK;
}

const struct kvr_tiers kvr_tiers_depth = {
    .name = "depth",
    .title = "first layers, next layers and the rest in separate tiers",
    .options = options,
    .opts_size = sizeof(struct depth_opts),
    .n_tiers = 3,
    .tier_names = { "rest", "next", "first" },
    .unit = KVR_UNIT_CHUNK,
    .assign = depth_assign,
    .cuda = true,
};
