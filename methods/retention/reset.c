/* reset.c - the retention `reset`: empties a full cache at once instead of frame by frame.
 *
 * If the stored frames and the next chunk would exceed `frames` frames, all frames except the first
 * `sink` and the newest `recent` frames are evicted. This policy is a control: a sliding window,
 * which evicts frame by frame, should give better results. */
#include "methods/policy.h"

#include <string.h>

struct reset_opts {
    int frames, sink, recent;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct reset_opts, frames, 21, 1, 1 << 20,
                "size of the window in latent frames, including the newest chunk"),
    KVR_OPT_INT(struct reset_opts, sink, 0, 0, 4096,
                "number of first latent frames that always stay in the cache (sink)"),
    KVR_OPT_INT(struct reset_opts, recent, 3, 0, 4096,
                "number of newest latent frames that stay in the cache after a reset"),
    { 0 },
};

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    (void)opts;
    *out = (struct kvr_thin_needs){ .beyond_window = true };
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct reset_opts *o = opts;
    const int64_t S = ctx->tokens_per_frame, sink = o->sink * S;
    const int64_t newest = ctx->n_active - o->recent * S;
    int64_t held = ctx->frames_per_chunk * S;

    (void)dev, (void)state;
    for (int64_t t = 0; t < ctx->n_active; t++)
        held += keep[t];
    if (held > o->frames * S && newest > sink)
        memset(keep + sink, 0, (size_t)(newest - sink));
    return KVR_OK;
}

const struct kvr_retention kvr_retention_reset = {
    .name = "reset",
    .title = "when the window is full, drops all frames except sinks and the newest",
    .options = options,
    .opts_size = sizeof(struct reset_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .cuda = true,
};
