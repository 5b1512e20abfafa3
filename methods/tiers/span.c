/* span.c - the tiers `span`: chunks stay in BF16 until `chunks` of them can be encoded as one block
 * (a span).
 *
 * The options `chunks` and `recent` are numbers of chunks. Let n be the number of written chunks,
 * including a partial last chunk. The first floor((n - recent) / chunks) * chunks chunks are in the
 * tier `coded`, the others in the tier `waiting`. Between `recent` and `recent + chunks - 1` chunks
 * are therefore in BF16 at any time (Quant VideoGen, arXiv:2602.02958; TRQ). All chunks of a block
 * share its centroids or its anchor frame, and every chunk is encoded only once. The newest chunk
 * is always waiting, because it may be stored again.
 *
 * The first `sink_keep` chunks always stay in BF16. They do not shift the borders between blocks:
 * the block that would contain them encodes only its other chunks, as in Quant VideoGen. */
#include "methods/policy.h"

#include <string.h>

struct span_opts {
    int chunks, recent, sink_keep;
};

static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct span_opts, chunks, 8, 1, 4096,
                "number of chunks that are encoded together as one block"),
    KVR_OPT_INT(struct span_opts, recent, 1, 1, 4096,
                "number of newest chunks that stay unquantized"),
    KVR_OPT_INT(struct span_opts, sink_keep, 0, 0, 4096,
                "number of first chunks that stay unquantized"),
    { 0 },
};

static enum kvr_status span_assign(const void *opts, const struct kvr_policy_ctx *ctx,
                                   struct kvr_dev *dev, struct kvr_policy_state *state,
                                   uint8_t *map)
{
    const struct span_opts *o = opts;
    const int64_t chunk = (int64_t)ctx->frames_per_chunk * ctx->tokens_per_frame;
    const int64_t done = (ctx->n_active + chunk - 1) / chunk - o->recent;
    int64_t coded = done > 0 ? done / o->chunks * o->chunks * chunk : 0;
    int64_t sink = o->sink_keep * chunk;

    (void)dev, (void)state;
    coded = coded < ctx->n_active ? coded : ctx->n_active;
    sink = sink < coded ? sink : coded;
    memset(map, KVR_TOKEN_ZERO, (size_t)ctx->n_tok);
    memset(map, 1, (size_t)ctx->n_active);
    memset(map + sink, 0, (size_t)(coded - sink));
    return KVR_OK;
}

static int span_together(const void *opts)
{
    return ((const struct span_opts *)opts)->chunks;
}

const struct kvr_tiers kvr_tiers_span = {
    .name = "span",
    .title = "encodes several chunks as one block; chunks of an incomplete block stay unquantized",
    .options = options,
    .opts_size = sizeof(struct span_opts),
    .n_tiers = 2,
    .tier_names = { "coded", "waiting" },
    .unit = KVR_UNIT_CHUNK,
    .active_only = true,
    .assign = span_assign,
    .cuda = true,
    .together = span_together,
};
