/* head_classes.c - the retention `head_classes`: budgets by class of head.
 *
 * Forcing-KV (arXiv:2605.09681), `rule=forcing`. A head is static if nearly all attention beyond
 * the sink goes to the current chunk and the frame before it:
 *
 *     (A_current + A_anchor) / (A_total - A_sink) >= alpha
 *
 * Static heads keep the sink and the newest frame. Dynamic heads also keep, of the frames since the
 * anchor except the newest, `segments` runs of positions: the share `ratio` that is least similar
 * to the same positions one frame later, by mean cosine of keys over all dynamic heads. As in the
 * authors' code, the past is the newest chunk and the anchor before it; nothing older is kept
 * except the sink. The original scores one layer for all and leaves layer 0 complete; here each
 * layer is scored.
 *
 * Dummy Forcing (arXiv:2601.20499), `rule=dummy`. A head has two attention masses: on the first
 * frame and on the rest of the past, each relative to the layer's largest. The share `dummy` of a
 * layer's heads whose larger mass is smallest keeps the newest frame. The others keep the first
 * frame or the newest chunk, whichever mass is larger. The original ranks the heads of all layers
 * together.
 *
 * Classes come from a file (`map`, kernels/head_map.h), or from the attention of the first clean
 * pass with a past, and stay fixed. Until the classes are known, nothing is evicted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "methods/kernels/head_map.h"
#include "methods/kernels/share.h"
#include "methods/kernels/topk.h"
#include "methods/policy.h"

enum { FORCING, DUMMY };
/* Letters of a map. STATIC and DYNAMIC are classes of Forcing-KV; the other classes are those of
 * Dummy Forcing. */
enum { STATIC = 's', DYNAMIC = 'd', SINK = 'f', NEIGHBOUR = 'n', LEFT_OUT = 'x' };

struct classes_opts {
    int rule;
    char map[KVR_OPT_STRING_MAX];
    double alpha, ratio, dummy;
    int sink, last, segments, queries;
};

static const char *const rule_names[] = { "forcing", "dummy", NULL };

static const struct kvr_opt options[] = {
    KVR_OPT_ENUM(struct classes_opts, rule, FORCING, rule_names, "classification rule"),
    KVR_OPT_STRING(struct classes_opts, map, KVR_HEAD_MAP_ONLINE,
                   "file with one letter per head, or `online` to classify heads by the attention "
                   "of the first chunks"),
    KVR_OPT_FLOAT(struct classes_opts, alpha, 0.8, 0, 1,
                  "for rule=forcing: a head is static if at least this share of its attention is "
                  "on nearby frames"),
    KVR_OPT_FLOAT(struct classes_opts, ratio, 0.33, 0, 1,
                  "for rule=forcing: share of segments that dynamic heads keep"),
    KVR_OPT_FLOAT(struct classes_opts, dummy, 0.5, 0, 1,
                  "for rule=dummy: share of a layer's heads that keep only the newest frame"),
    KVR_OPT_INT(struct classes_opts, sink, 1, 0, 4096,
                "number of first latent frames that stay in the cache (sink)"),
    KVR_OPT_INT(struct classes_opts, last, 1, 1, 4096,
                "number of newest latent frames that stay in the cache"),
    KVR_OPT_INT(struct classes_opts, segments, 6, 1, 4096,
                "for rule=forcing: number of segments per latent frame"),
    KVR_OPT_INT(struct classes_opts, queries, 50, 0, 1 << 20,
                "number of queries per chunk that classify heads; 0 means all"),
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

/* Returns whether the classes are already known when the chunk that begins at token new0 is stored.
 * A chunk whose storing failed is stored again and must get the same classes from the same pass. */
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

/* Letters allowed in a map. */
static const char *letters_of(const struct classes_opts *o)
{
    return o->rule == FORCING ? "sd" : "fnx";
}

/* Returns the attention mass of a head on tokens [begin, end). */
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

/* Without data: random classes. */
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

/* Mean cosine, over dynamic heads, of keys at tokens [begin, end) with the keys one frame later. */
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

/* stays [n_active]: 1 for the segments of positions that dynamic heads keep. Candidates are the
 * frames from the anchor on except the newest. */
static enum kvr_status choose_segments(const struct classes_opts *o,
                                       const struct kvr_policy_ctx *ctx, const char *class,
                                       uint8_t *stays)
{
    enum {
        WORTH_A_TEAM = 1 << 16
    }; /* number of key elements; fewer elements take less time than waking a thread */
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

/* Determines the classes from the state, the map, or the current attention. */
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
    /* A commit that failed is repeated and gets the same classes from the same pass. */
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
    .title = "retention by class of head",
    .options = options,
    .opts_size = sizeof(struct classes_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .observes = observes,
    .cuda = true,
};
