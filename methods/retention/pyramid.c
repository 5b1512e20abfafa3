/* pyramid.c - the retention `pyramid`: the class of a head (oscillating, anchor or veil) decides
 * which past frames it retains (Pyramid Forcing, arXiv:2605.13111, configs/pyramid-forcing.yaml and
 * headkv/ of IF-LAB-PKU/Pyramid-Forcing at 62e95d3).
 *
 *     w oscillating   the first frame; of the middle frames, for each remainder of the frame index
 *                     modulo `period`, the newest `each`
 *     a anchor        the first `sink` frames; of the middle frames whose index is a multiple of
 *                     `period`, the newest `each`
 *     v veil          the first `sink` frames; the newest `blocks` blocks. A block is `span` middle
 *                     frames, pooled into one token (mean key and mean value) per 2 x 2 positions.
 *
 * All heads also retain the newest frames, so that attention reads `recent` frames including the
 * current chunk. Frames between the sink and the newest frames are middle frames. As in the
 * authors' Python code, the rules above apply to middle frames only. A pooled token has
 * multiplicity 1, as in the original, although it replaces 4 span tokens. Blocks start at multiples
 * of `span` frames, so veil heads evict the frames between the sink and the first complete block.
 *
 * Two rules differ from the authors' code. The authors store keys before RoPE and rotate keys older
 * than the window to the time of the window's first frame; here all keys stay rotated to their own
 * times. In the authors' code, a query of an oscillating head reads only those retained frames
 * whose index has the query frame's remainder modulo `period`; here it reads all retained frames.
 *
 * The built-in classes of heads are the authors' classes for Self-Forcing, which has 30 layers of
 * 12 heads. In a model of another shape, a head gets the class of the Self-Forcing head at the same
 * relative depth and relative head index. Nothing shows that this class fits the head. `kvreel
 * profile heads --rule pyramid` computes the classes of another model, for the option `map`.
 *
 * The policy state contains a struct header, the class letter of each head, and for veil heads the
 * sums of keys and values in blocks that are not pooled yet. It has two sets of these sums, before
 * and after the newest chunk, because the chunk may be stored again. */
#include <stdlib.h>
#include <string.h>

#include "methods/kernels/head_map.h"
#include "methods/kernels/rope.h"

enum { OSCILLATING = 'w', ANCHOR = 'a', VEIL = 'v' };

struct pyramid_opts {
    char map[KVR_OPT_STRING_MAX];
    int sink, recent, period, each, blocks, span, row;
};

static const struct kvr_opt options[] = {
    KVR_OPT_STRING(struct pyramid_opts, map, KVR_HEAD_MAP_PUBLISHED,
                   "class of each head (oscillating, anchor or veil): `labels` for the classes "
                   "that Pyramid Forcing published, or a file with one line per layer and one "
                   "letter per head (w: oscillating, a: anchor, v: veil)"),
    KVR_OPT_INT(struct pyramid_opts, sink, 3, 1, 4096,
                "number of first frames (sink) that anchor and veil heads keep; oscillating heads "
                "keep one"),
    KVR_OPT_INT(struct pyramid_opts, recent, 4, 1, 4096,
                "number of newest latent frames that every head sees, including the current chunk"),
    KVR_OPT_INT(struct pyramid_opts, period, 6, 1, 4096,
                "divisor of frame indices: anchor heads store past frames whose index is a "
                "multiple of it, oscillating heads store past frames of each remainder"),
    KVR_OPT_INT(struct pyramid_opts, each, 4, 1, 4096,
                "number of past frames that an anchor head stores; an oscillating head stores this "
                "number of frames for each remainder of the frame index divided by `period`"),
    KVR_OPT_INT(struct pyramid_opts, blocks, 4, 1, 4096,
                "for veil heads: number of stored blocks, each pooled from `span` latent frames"),
    KVR_OPT_INT(struct pyramid_opts, span, 4, 1, 64,
                "for veil heads: number of latent frames that are pooled into one stored block"),
    KVR_OPT_INT(struct pyramid_opts, row, 0, 0, 1 << 20,
                "for veil heads: number of tokens per row of a latent frame, which must divide the "
                "frame's number of tokens; 0 chooses 52 for frames of 1560 tokens (Wan), otherwise "
                "the divisor that makes the frame most nearly square"),
    { 0 },
};

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    (void)opts;
    *out = (struct kvr_thin_needs){
        .by_head = true, .keys = true, .values = true, .summaries = true, .beyond_window = true
    };
}

/* ---- labels -------------------------------------------------------------------------------- */

enum { LABEL_LAYERS = 30, LABEL_HEADS = 12 };

/* The classes that Pyramid Forcing published for Self-Forcing: one row per layer, one letter per
 * head (configs/head_configs/best_labels.csv). */
static const char labels[LABEL_LAYERS][LABEL_HEADS + 1] = {
    "waaawwwwawww", "wwwwwwwawwwa", "awwwwwvwwaww", "wwwawaawwaaw", "waavwwawawwa", "wwwwwwwwawww",
    "wwwaaaawawav", "wawvwaawvaaw", "wwwwvwawaavw", "wawvwavawwwa", "waaaaaaawwav", "avwwwaaaavaa",
    "wavwaawwvaww", "vaaaaaaaawav", "vaawvwaawaaa", "aaaavaaawaaa", "wawawavaawaa", "wwwwwwwvwaaa",
    "aaawaaawaaaa", "aavavwawaaww", "awwwawawwwaw", "waawaaaavwww", "aaavaaaavaaw", "avaaaaawawvw",
    "aawaawawwaav", "awaaaawwawwv", "awaawwawaava", "awawaawwavwa", "wwaaawwaaawa", "wawwawawaaww",
};

static enum kvr_status classes(const struct pyramid_opts *o, const struct kvr_policy_ctx *ctx,
                               char *class)
{
    const int last = ctx->n_layers - 1;
    const int row = last > 0 ? (ctx->layer * (LABEL_LAYERS - 1) + last / 2) / last : 0;

    if (strcmp(o->map, KVR_HEAD_MAP_PUBLISHED) != 0)
        return kvr_head_map_read(o->map, "wav", ctx, class);
    for (int h = 0; h < ctx->n_heads; h++)
        class[h] = labels[row][h * LABEL_HEADS / ctx->n_heads];
    return KVR_OK;
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* Division of a latent frame into 2 x 2 squares. The frame has `rows` rows of `row` positions. Each
 * pair of rows has `across` squares, and the frame has `squares`. */
struct grid {
    int row, rows, squares, across;
    int slots;  /* maximum number of blocks per head whose sums are not pooled yet */
    int n_veil; /* number of veil heads */
};

static int past_recent(const struct pyramid_opts *o, const struct kvr_policy_ctx *ctx)
{
    return o->recent > ctx->frames_per_chunk ? o->recent - ctx->frames_per_chunk : 0;
}

static enum kvr_status make_grid(struct grid *g, const struct pyramid_opts *o,
                                 const struct kvr_policy_ctx *ctx, const char *class)
{
    *g = (struct grid){ .slots = past_recent(o, ctx) / o->span + 2 };
    KVR_TRY(kvr_frame_row("pyramid", ctx->tokens_per_frame, o->row, &g->row));
    g->rows = ctx->tokens_per_frame / g->row;
    g->across = (g->row + 1) / 2;
    g->squares = (g->rows + 1) / 2 * g->across;
    for (int h = 0; h < ctx->n_heads; h++)
        g->n_veil += class[h] == VEIL;
    return KVR_OK;
}

/* Returns the sums [2][D] of keys and of values over the tokens in one square of a block. The head
 * has index `veil` among the veil heads. */
static float *sum_at(const struct grid *g, float *sums, int veil, int64_t block, int square, int d)
{
    const int64_t slot = (int64_t)veil * g->slots + block % g->slots;

    return sums + (slot * g->squares + square) * 2 * d;
}

static void add_frame(const struct grid *g, const struct kvr_policy_ctx *ctx, int64_t frame,
                      int64_t block, int h, int veil, float *sums)
{
    const int S = ctx->tokens_per_frame, H = ctx->n_heads, d = ctx->head_dim;

    for (int s = 0; s < S; s++) {
        const int square = s / g->row / 2 * g->across + s % g->row / 2;
        const int64_t at = ((frame * S - ctx->new0 + s) * H + h) * d;
        float *sum = sum_at(g, sums, veil, block, square, d);

        for (int c = 0; c < d; c++) {
            sum[c] += ctx->k[at + c];
            sum[d + c] += ctx->v[at + c];
        }
    }
}

/* Returns the number of positions in a square, which is less than 4 at an odd edge. */
static int positions(const struct grid *g, int square)
{
    const int r = square / g->across * 2, c = square % g->across * 2;

    return (r + 1 < g->rows ? 2 : 1) * (c + 1 < g->row ? 2 : 1);
}

/* Appends the mean keys and values of a block of head h to ctx->summaries, one token per square,
 * and sets the block's sums to 0. All frames of the block must have been added. The token's
 * position is the square's first position in the block's first frame. */
static enum kvr_status hold_block(const struct pyramid_opts *o, const struct grid *g,
                                  const struct kvr_policy_ctx *ctx, int64_t block, int h, int veil,
                                  float *sums)
{
    const int d = ctx->head_dim;

    for (int i = 0; i < g->squares; i++) {
        const int64_t token = block * o->span * ctx->tokens_per_frame + i / g->across * 2 * g->row +
                              i % g->across * 2;
        float *sum = sum_at(g, sums, veil, block, i, d);

        for (int c = 0; c < 2 * d; c++)
            sum[c] /= (float)(o->span * positions(g, i));
        KVR_TRY(kvr_summaries_add(ctx->summaries, h, token, 1, d, ctx->counts_only ? NULL : sum,
                                  sum + d));
        memset(sum, 0, 2 * (size_t)d * sizeof *sum);
    }
    return KVR_OK;
}

/* ---- state --------------------------------------------------------------------------------- */

struct header {
    int64_t frames[2]; /* number of frames written when each of the two sets of sums was computed;
                        * -1: the set is unused */
};

static size_t sums_of(const struct grid *g, const struct kvr_policy_ctx *ctx)
{
    return (size_t)g->n_veil * (size_t)g->slots * (size_t)g->squares * 2 * (size_t)ctx->head_dim;
}

/* Returns the bytes of the heads' class letters, rounded up to a multiple of 8 to align the floats
 * that follow. */
static size_t letters_bytes(const struct kvr_policy_ctx *ctx)
{
    return ((size_t)ctx->n_heads + 7) / 8 * 8;
}

static float *sums_in(const struct kvr_buf *b, const struct kvr_policy_ctx *ctx)
{
    return (float *)((char *)b->p + sizeof(struct header) + letters_bytes(ctx));
}

/* Allocates the policy state at the first chunk, with the class letters of the heads and with sums
 * of 0. */
static enum kvr_status open_state(const struct pyramid_opts *o, const struct kvr_policy_ctx *ctx,
                                  struct kvr_dev *dev, struct kvr_policy_state *state, char *class)
{
    struct header *h;
    struct grid g;
    size_t n;

    KVR_TRY(classes(o, ctx, class));
    KVR_TRY(make_grid(&g, o, ctx, class));
    n = sizeof *h + letters_bytes(ctx) + 2 * sums_of(&g, ctx) * sizeof(float);
    KVR_TRY(kvr_buf_alloc(&state->buf, dev, KVR_MEM_META, n));
    h = state->buf.p;
    memset(h, 0, n);
    h->frames[1] = -1;
    memcpy(h + 1, class, (size_t)ctx->n_heads);
    state->n = 1;
    return KVR_OK;
}

/* Sets *sums to a copy of the sums before this chunk, which the caller updates. The sums before
 * this chunk stay in the state, because storing the chunk may fail or be repeated. */
static enum kvr_status begin(const struct pyramid_opts *o, const struct kvr_policy_ctx *ctx,
                             struct kvr_dev *dev, struct kvr_policy_state *state, char *class,
                             struct grid *g, float **sums)
{
    const int64_t frame0 = ctx->new0 / ctx->tokens_per_frame;
    struct header *h;
    float *first;
    size_t n;
    int from;

    if (!state->n)
        KVR_TRY(open_state(o, ctx, dev, state, class));
    h = state->buf.p;
    memcpy(class, h + 1, (size_t)ctx->n_heads);
    KVR_TRY(make_grid(g, o, ctx, class));
    n = sums_of(g, ctx);
    first = sums_in(&state->buf, ctx);
    from = h->frames[0] == frame0 ? 0 : 1;
    *sums = first + (size_t)(1 - from) * n;
    if (h->frames[from] == frame0)
        memcpy(*sums, first + (size_t)from * n, n * sizeof **sums);
    else
        memset(*sums, 0, n * sizeof **sums);
    h->frames[1 - from] = ctx->n_active / ctx->tokens_per_frame;
    return KVR_OK;
}

/* ---- retained frames ----------------------------------------------------------------------- */

/* Returns whether f is one of the newest `each` frames of those before `end` whose index has the
 * remainder of f modulo `period`. */
static bool in_store(const struct pyramid_opts *o, int64_t f, int64_t end)
{
    return (end - 1 - f) / o->period < o->each;
}

/* Returns whether an oscillating or anchor head retains frame f. `end` is 1 + the index of the last
 * middle frame. */
static bool is_kept(const struct pyramid_opts *o, int class, int64_t f, int64_t end)
{
    if (f >= end || f < (class == OSCILLATING ? 1 : o->sink))
        return true;
    return class == OSCILLATING ? in_store(o, f, end)
           : class == ANCHOR    ? f % o->period == 0 && in_store(o, f, end)
                                : false;
}

/* For a veil head: adds the new chunk's frames to the sums of their blocks, pools blocks whose
 * frames are all middle frames, and evicts all but the newest `blocks` pooled blocks. */
static enum kvr_status thin_veil(const struct pyramid_opts *o, const struct grid *g,
                                 const struct kvr_policy_ctx *ctx, int h, int veil, int64_t end,
                                 float *sums, uint8_t *keep)
{
    const int S = ctx->tokens_per_frame, H = ctx->n_heads;
    const int64_t frame0 = ctx->new0 / S, n = ctx->n_active / S;
    const int64_t first = (o->sink + o->span - 1) / o->span, whole = end / o->span;
    const int64_t before = frame0 - past_recent(o, ctx) > 0
                               ? (frame0 - past_recent(o, ctx)) / o->span
                               : 0; /* number of blocks that ended before the newest frames when the
                                     * previous chunk was stored */

    for (int64_t f = o->sink; f < end; f++) {
        const int64_t b = f / o->span;

        if (b >= before || b < first || b + o->blocks < whole)
            for (int s = 0; s < S; s++)
                keep[(f * S + s) * H + h] = 0;
    }
    for (int64_t b = before > first ? before : first; (b * o->span < n); b++) {
        for (int64_t f = b * o->span; f < (b + 1) * o->span && f < n && !ctx->counts_only; f++)
            if (f >= frame0)
                add_frame(g, ctx, f, b, h, veil, sums);
        if (b < whole && b + o->blocks >= whole)
            KVR_TRY(hold_block(o, g, ctx, b, h, veil, sums));
        else if (b < whole) /* not among the newest `blocks` blocks */
            memset(sum_at(g, sums, veil, b, 0, ctx->head_dim), 0,
                   (size_t)g->squares * 2 * (size_t)ctx->head_dim * sizeof *sums);
    }
    return KVR_OK;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    const struct pyramid_opts *o = opts;
    const int S = ctx->tokens_per_frame, H = ctx->n_heads;
    const int64_t end = ctx->n_active / S - past_recent(o, ctx);
    char *class = calloc((size_t)H, 1);
    struct grid g = { 0 };
    float *sums = NULL;
    enum kvr_status st =
        class ? begin(o, ctx, dev, state, class, &g, &sums)
              : kvr_fail(KVR_ENOMEM, "pyramid: out of memory while allocating %d heads", H);
    int veil = 0;

    for (int h = 0; h < H && st == KVR_OK; h++) {
        if (class[h] == VEIL) {
            st = thin_veil(o, &g, ctx, h, veil++, end, sums, keep);
            continue;
        }
        for (int64_t t = 0; t < ctx->n_active; t++)
            if (!is_kept(o, class[h], t / S, end))
                keep[t * H + h] = 0;
    }
    free(class);
    return st;
}

const struct kvr_retention kvr_retention_pyramid = {
    .name = "pyramid",
    .title = "the class of each attention head decides which past frames it retains",
    .options = options,
    .opts_size = sizeof(struct pyramid_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .cuda = true,
};
