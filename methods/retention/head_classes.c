/* head_classes.c - the retention `head_classes`: assigns each attention head a class, which decides
 * the tokens that the head retains.
 *
 * Forcing-KV (arXiv:2605.09681), `rule=forcing`. The anchor is the last frame before the current
 * chunk. A head is static if it puts at least the fraction alpha of its attention mass outside the
 * sink on the anchor and the current chunk:
 *
 *     (A_current + A_anchor) / (A_total - A_sink) >= alpha
 *
 * Static heads retain the first `sink` and the newest `last` frames. Dynamic heads also retain
 * parts of the frames from the anchor on, except the newest frame. Each of these frames is divided
 * into `segments` runs of positions. A run's score is the mean cosine between the keys of its
 * tokens and the keys at the same positions in the next frame. For this cosine, the keys of all
 * dynamic heads are concatenated. The share `ratio` of the runs with the lowest score is retained.
 * As in the authors' code, tokens before the anchor are evicted, except the sink. The original
 * computes scores in one layer for all layers and evicts nothing in layer 0. Here each layer has
 * its own scores.
 *
 * Dummy Forcing (arXiv:2601.20499), `rule=dummy`. Two attention masses (sums of attention weights)
 * of each head are computed: on the first frame, and on the rest of the past. Each mass is divided
 * by the largest such mass of the layer's heads. Heads are ranked by the larger of their two
 * divided masses. The lowest-ranked heads, a fraction `dummy` of the layer's heads, retain only the
 * newest `last` frames. Every other head retains only the first `sink` frames if its divided mass
 * on the first frame exceeds the other divided mass. Otherwise it retains only the newest chunk.
 * The original ranks the heads of all layers together.
 *
 * Classes are read from a file (`map`, kernels/head_map.h), or computed from the attention in the
 * clean pass of the second chunk, the first chunk with past frames. Until the classes are known,
 * nothing is evicted. Known classes never change. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "methods/kernels/head_map.h"
#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"
#include "methods/policy.h"

enum { FORCING, DUMMY };
/* Classes of heads, as letters in a map file. STATIC and DYNAMIC belong to Forcing-KV, the other
 * three to Dummy Forcing. */
enum { STATIC = 's', DYNAMIC = 'd', SINK = 'f', NEIGHBOUR = 'n', LEFT_OUT = 'x' };

struct classes_opts {
    int rule;
    char map[KVR_OPT_STRING_MAX];
    double alpha, ratio, dummy;
    int sink, last, segments, queries;
};

static const char *const rule_names[] = { "forcing", "dummy", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(
        struct classes_opts, rule, FORCING, rule_names,
        "rule that classifies heads: as in Forcing-KV (forcing) or as in Dummy Forcing (dummy)"),
    KVR_OPT_STRING(
        struct classes_opts, map, KVR_HEAD_MAP_ONLINE,
        "`online` to classify heads by the attention of the second chunk, or a file with one line "
        "per layer and one letter per head. Letters for rule=forcing: s static, d dynamic. Letters "
        "for rule=dummy, by what the head keeps: f first frames, n newest chunk, x newest frames"),
    KVR_OPT_FLOAT(
        struct classes_opts, alpha, 0.8, 0, 1,
        "for rule=forcing: a head is static if the current chunk and the frame before it receive "
        "at least this fraction of the head's attention, not counting attention to the sink"),
    KVR_OPT_FLOAT(struct classes_opts, ratio, 0.33, 0, 1,
                  "for rule=forcing: fraction of a frame's segments that dynamic heads keep; the "
                  "option segments sets the number of segments per frame"),
    KVR_OPT_FLOAT(struct classes_opts, dummy, 0.5, 0, 1,
                  "for rule=dummy: fraction of a layer's heads that keep only the newest frames "
                  "(their number is the option last)"),
    KVR_OPT_INT(struct classes_opts, sink, 1, 0, 4096,
                "number of first latent frames that stay in the cache (sink)"),
    KVR_OPT_INT(struct classes_opts, last, 1, 1, 4096,
                "number of newest latent frames that stay in the cache"),
    KVR_OPT_INT(struct classes_opts, segments, 6, 1, 4096,
                "for rule=forcing: number of segments (runs of consecutive token positions) into "
                "which a latent frame is divided"),
    KVR_OPT_INT(struct classes_opts, queries, 50, 0, 1 << 20,
                "number of queries per chunk whose attention is used to classify heads; 0 means "
                "all queries"),
    { 0 },
};

static bool online(const struct classes_opts *o)
{
    return strcmp(o->map, KVR_HEAD_MAP_ONLINE) == 0;
}

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    const struct classes_opts *o = opts;

    *out = (struct kvr_thin_needs){
        .by_head = true,
        .by_data = true,
        .counts_by_data = true,
        .columns = online(o),
        .queries = o->queries,
        .all_keys = o->rule == FORCING && o->ratio > 0,
        .key_frames = 1, /* the anchor */
        .beyond_window = true,
    };
}

/* Returns whether an earlier chunk than the one at token new0 determined the classes. If the chunk
 * itself determined them and is stored again, they are computed again, with the same result. */
static bool is_settled(const struct kvr_policy_state *state, int64_t new0)
{
    return state->n > 0 && state->n_planned < new0;
}

static bool observes(const void *opts, const struct kvr_policy_state *state, int64_t new0)
{
    (void)opts;
    return new0 > 0 && !is_settled(state, new0);
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Returns the letters that a map file may contain: those of the classes of o->rule. */
static const char *letters_of(const struct classes_opts *o)
{
    return o->rule == FORCING ? "sd" : "fnx";
}

/* Returns the sum of the attention weights of head h on tokens [begin, end). */
static double mass(const struct kvr_policy_ctx *ctx, int h, int64_t begin, int64_t end)
{
    double sum = 0;

    for (int64_t t = begin < 0 ? 0 : begin; t < end; t++)
        sum += ctx->columns->sum[t * ctx->n_heads + h];
    return sum;
}

static void classify_forcing(const struct classes_opts *o, const struct kvr_policy_ctx *ctx,
                             char *class)
{
    const int64_t S = ctx->tokens_per_frame;

    for (int h = 0; h < ctx->n_heads; h++) {
        const double near = mass(ctx, h, ctx->new0 - S, ctx->n_active);
        const double all = mass(ctx, h, o->sink * S, ctx->n_active);

        class[h] = near >= o->alpha * all ? STATIC : DYNAMIC;
    }
}

static void classify_dummy(const struct classes_opts *o, const struct kvr_policy_ctx *ctx,
                           struct kvr_ranked *rank, char *class)
{
    const int64_t S = ctx->tokens_per_frame;
    const int64_t left_out = kvr_share(o->dummy * ctx->n_heads, 0, ctx->n_heads);
    double most[2] = { 1e-30, 1e-30 };

    for (int h = 0; h < ctx->n_heads; h++) {
        most[0] = fmax(most[0], mass(ctx, h, 0, S));
        most[1] = fmax(most[1], mass(ctx, h, S, ctx->new0));
    }
    for (int h = 0; h < ctx->n_heads; h++) {
        const double first = mass(ctx, h, 0, S) / most[0];
        const double rest = mass(ctx, h, S, ctx->new0) / most[1];

        class[h] = first > rest ? SINK : NEIGHBOUR;
        rank[h] = (struct kvr_ranked){ (float)-fmax(first, rest), h };
    }
    kvr_topk(rank, ctx->n_heads);
    for (int64_t i = 0; i < left_out; i++)
        class[rank[i].index] = LEFT_OUT;
}

/* Chooses random classes, for calls that have no attention masses (counts_only). */
static void draw(const struct classes_opts *o, const struct kvr_policy_ctx *ctx, char *class)
{
    for (int h = 0; h < ctx->n_heads; h++) {
        float x;

        kvr_uniform(&x, 1, 1, KVR_RNG_KEEP, (uint32_t)ctx->layer, (uint32_t)h, 0);
        class[h] = o->rule == FORCING ? x < 0.4f ? STATIC : DYNAMIC
                   : x < 0.5f         ? LEFT_OUT
                   : x < 0.75f        ? SINK
                                      : NEIGHBOUR;
    }
}

/* ---- retained tokens ----------------------------------------------------------------------- */

/* Returns the mean over tokens [begin, end) of the cosine between a token's key and the key at the
 * same position one frame later. Here a key is the concatenation of the keys of all dynamic
 * heads. */
static float likeness(const struct kvr_policy_ctx *ctx, const char *class, int64_t begin,
                      int64_t end)
{
    const int64_t S = ctx->tokens_per_frame;
    const int d = ctx->head_dim;
    double sum = 0;

    for (int64_t t = begin; t < end; t++) {
        double ab = 0, aa = 0, bb = 0;

        for (int h = 0; h < ctx->n_heads; h++) {
            if (class[h] != DYNAMIC)
                continue;

            const float *a = ctx->all_keys + ((t - ctx->key0) * ctx->n_heads + h) * d;
            const float *b = a + S * ctx->n_heads * d;

            for (int c = 0; c < d; c++) {
                ab += (double)a[c] * b[c];
                aa += (double)a[c] * a[c];
                bb += (double)b[c] * b[c];
            }
        }
        sum += aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
    }
    return end > begin ? (float)(sum / (double)(end - begin)) : 0;
}

/* Sets stays[t] to 1 for tokens t in the segments that dynamic heads retain; stays is [n_active].
 * Candidates are the segments of all frames from the anchor to the last frame but one. */
static enum kvr_status choose_segments(const struct classes_opts *o,
                                       const struct kvr_policy_ctx *ctx, const char *class,
                                       uint8_t *stays)
{
    enum {
        WORTH_A_TEAM = 1 << 16
    }; /* number of key elements from which scoring uses several threads */
    const int64_t S = ctx->tokens_per_frame, n_frames = ctx->n_active / S;
    const int64_t first = ctx->new0 / S > 0 ? ctx->new0 / S - 1 : 0;
    const int64_t n = n_frames - 1 > first ? (n_frames - 1 - first) * o->segments : 0;
    const int64_t k = kvr_share(o->ratio * (double)n, 0, n);
    const int64_t elements = n / o->segments * S * ctx->n_heads * ctx->head_dim;
    struct kvr_ranked *rank = malloc(((size_t)n + 1) * sizeof *rank);

    memset(stays, 0, (size_t)ctx->n_active);
    if (!rank)
        return kvr_fail(KVR_ENOMEM, "head_classes: out of memory while allocating %lld segments",
                        (long long)n);
#pragma omp parallel for schedule(static) if (elements >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++) {
        const int64_t frame = (first + i / o->segments) * S, s = i % o->segments;
        float score;

        if (ctx->all_keys)
            score = -likeness(ctx, class, frame + s * S / o->segments,
                              frame + (s + 1) * S / o->segments);
        else
            kvr_uniform(&score, 1, 2, KVR_RNG_KEEP, (uint32_t)ctx->layer, 0, (uint64_t)(i + frame));
        rank[i] = (struct kvr_ranked){ score, (int32_t)i };
    }
    kvr_topk(rank, n);
    for (int64_t i = 0; i < k; i++) {
        const int64_t frame = (first + rank[i].index / o->segments) * S;
        const int64_t s = rank[i].index % o->segments, begin = s * S / o->segments;

        memset(stays + frame + begin, 1, (size_t)((s + 1) * S / o->segments - begin));
    }
    free(rank);
    return KVR_OK;
}

static bool stays_in(const struct classes_opts *o, const struct kvr_policy_ctx *ctx, int class,
                     int64_t t, const uint8_t *segments)
{
    const int64_t S = ctx->tokens_per_frame;
    const bool first = t < o->sink * S, newest = t >= ctx->n_active - o->last * S;

    switch (class) {
    case STATIC:
        return first || newest;
    case DYNAMIC:
        return first || newest || segments[t];
    case SINK:
        return first;
    case NEIGHBOUR:
        return t >= ctx->new0;
    default:
        return newest;
    }
}

/* Sets class [H]: copies the classes from the policy state if an earlier chunk determined them,
 * else reads them from the map file or computes them from the current attention. *known receives
 * false if no class is known yet. */
static enum kvr_status settle(const struct classes_opts *o, const struct kvr_policy_ctx *ctx,
                              struct kvr_dev *dev, struct kvr_policy_state *state, char *class,
                              bool *known)
{
    struct kvr_ranked *rank;

    *known = true;
    if (is_settled(state, ctx->new0)) {
        memcpy(class, state->buf.p, (size_t)ctx->n_heads);
        return KVR_OK;
    }
    *known = ctx->new0 > 0 && (!online(o) || ctx->columns || ctx->counts_only);
    if (!*known)
        return KVR_OK;
    if (!online(o)) {
        KVR_TRY(kvr_head_map_read(o->map, letters_of(o), ctx, class));
    } else if (ctx->counts_only) {
        draw(o, ctx, class);
    } else if (o->rule == FORCING) {
        classify_forcing(o, ctx, class);
    } else {
        rank = malloc((size_t)ctx->n_heads * sizeof *rank);
        if (!rank)
            return kvr_fail(KVR_ENOMEM, "head_classes: out of memory while allocating %d heads",
                            ctx->n_heads);
        classify_dummy(o, ctx, rank, class);
        free(rank);
    }
    /* The classes become part of the state only when the chunk is stored. If storing fails, the
     * chunk is stored again and the same classes are computed again. */
    KVR_TRY(kvr_buf_alloc(&state->next, dev, KVR_MEM_META, (size_t)ctx->n_heads));
    memcpy(state->next.p, class, (size_t)ctx->n_heads);
    state->n_next = ctx->n_heads;
    state->n_planned = ctx->new0;
    return KVR_OK;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct classes_opts *o = opts;
    const int H = ctx->n_heads;
    char *class = calloc((size_t)H, 1);
    uint8_t *segments = calloc((size_t)ctx->n_active + 1, 1);
    enum kvr_status st =
        class && segments ? KVR_OK : kvr_fail(KVR_ENOMEM, "head_classes: out of memory");
    bool known = false;

    if (st == KVR_OK)
        st = settle(o, ctx, dev, state, class, &known);
    if (st == KVR_OK && known && o->rule == FORCING && o->ratio > 0)
        st = choose_segments(o, ctx, class, segments);
    for (int64_t t = 0; t < ctx->n_active && st == KVR_OK && known; t++)
        for (int h = 0; h < H; h++)
            if (!stays_in(o, ctx, class[h], t, segments))
                keep[t * H + h] = 0;
    free(class);
    free(segments);
    return st;
}

const struct kvr_retention kvr_retention_head_classes = {
    .name = "head_classes",
    .title = "the class of each attention head decides which tokens it retains",
    .options = options,
    .opts_size = sizeof(struct classes_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .observes = observes,
    .cuda = true,
};
