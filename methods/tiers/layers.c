/* layers.c - the tiers `layers`: the first and the last layers of the model are a separate tier,
 * `ends`. */
#include "methods/policy.h"

#include <string.h>

struct layers_opts {
    int first, last;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct layers_opts, first, 2, 0, 1024, "number of first layers in the tier `ends`"),
    KVR_OPT_INT(struct layers_opts, last, 2, 0, 1024, "number of last layers in the tier `ends`"),
    { 0 },
};

static enum kvr_status layers_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                     struct kvr_dev *dev, struct kvr_policy_state *state,
                                     uint8_t *map)
{
    const struct layers_opts *o = opts;
    const bool end = ctx->layer < o->first || ctx->layer >= ctx->n_layers - o->last;

    (void)dev, (void)state;
    memset(map, end, (size_t)ctx->n_tok);
    return KVR_OK;
}

const struct kvr_tiers kvr_tiers_layers = {
    .name = "layers",
    .title = "the first and the last layers in one tier, the layers between them in another",
    .options = options,
    .opts_size = sizeof(struct layers_opts),
    .n_tiers = 2,
    .tier_names = { "middle", "ends" },
    .unit = KVR_UNIT_CHUNK,
    .assign = layers_assign,
    .cuda = true,
};
