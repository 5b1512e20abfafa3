/* merge.c - the retention `merge`: merges tokens with nearly equal keys in consecutive frames into
 * one token with a multiplicity.
 *
 * The method follows TempCache (arXiv:2602.01801), which has no public code. For softmax, m equal
 * keys with values v_i are equivalent to one key with log m added to its score and the value
 * mean(v_i). Each head merges separately, frame by frame. Candidates for a new token are the tokens
 * of the previous frame at most `radius` rows and columns away. The new token is merged with the
 * candidate whose key has the largest cosine with its own, if this cosine is at least `near`:
 *
 *     k <- the newer key,   v <- (m v + v_new) / (m + 1),   m <- m + 1
 *
 * At most one token of a frame, the first in token order, is merged with a given token of the
 * previous frame. A merged token to which the next frame adds no token never changes again. The
 * paper does not give its threshold, its choice of the representative key, or its protected tokens.
 *
 * Before two keys are compared, the older key is rotated by RoPE to the newer key's position
 * (kernels/rope.h). The merged key stays at the position of the newer key.
 *
 * If a chunk is stored again, its tokens are not merged again with the older tokens that the first
 * storing evicted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "methods/kernels/rope.h"
#include "methods/policy.h"

struct merge_opts {
    double near;
    int radius, row;
};

static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct merge_opts, near, 0.99, -1, 2,
                  "minimum cosine similarity between the keys of two tokens that are merged; above "
                  "1 no tokens are merged"),
    KVR_OPT_INT(struct merge_opts, radius, 0, 0, 8,
                "search radius for similar tokens, in rows and columns of a frame"),
    KVR_OPT_INT(struct merge_opts, row, 0, 0, 1 << 20,
                "number of tokens per row of a latent frame, which must divide the frame's number "
                "of tokens; 0 chooses 52 for frames of 1560 tokens (Wan), otherwise the divisor "
                "that makes the frame most nearly square"),
    { 0 },
};

static void needs(const void *opts, struct kvr_thin_needs *out)
{
    (void)opts;
    *out = (struct kvr_thin_needs){ .by_head = true,
                                    .by_data = true,
                                    .counts_by_data = true,
                                    .all_keys = true,
                                    .all_values = true,
                                    .summaries = true,
                                    .weights = true,
                                    .undoes_rope = true };
}

struct work {
    const struct merge_opts *o;
    const struct kvr_policy_ctx *ctx;
    uint8_t *keep;
    int row, side;     /* positions per row; 2 radius + 1 */
    double *rotations; /* [side (dy)][side (dx)][2][D/2] cosines and sines of the RoPE rotation by 1
                        * frame, dy rows and dx columns */
    float *rotated;    /* [D] */
    uint8_t *gone;     /* [new tokens] 1 if the current head has merged the token into a newer
                        * one */
    int32_t *weight;   /* [new tokens] */
    float *value;      /* [new tokens][D] mean value, set only if the multiplicity exceeds 1 */
    uint8_t *taken;    /* [S] for each token of the previous frame: 1 if a new token was merged with
                        * it */
};

static void work_free(struct work *w)
{
    free(w->rotations);
    free(w->rotated);
    free(w->gone);
    free(w->weight);
    free(w->value);
    free(w->taken);
}

static enum kvr_status work_open(struct work *w)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const size_t n = (size_t)(ctx->n_active - ctx->new0), d = (size_t)ctx->head_dim, half = d / 2;
    const int side = w->side = 2 * w->o->radius + 1;

    KVR_TRY(kvr_frame_row("merge", ctx->tokens_per_frame, w->o->row, &w->row));
    w->rotations = malloc((size_t)(side * side) * 2 * (half + 1) * sizeof *w->rotations);
    w->rotated = malloc(d * sizeof *w->rotated);
    w->gone = malloc(n);
    w->weight = malloc(n * sizeof *w->weight);
    w->value = malloc(n * d * sizeof *w->value);
    w->taken = malloc((size_t)ctx->tokens_per_frame);
    if (!w->rotations || !w->rotated || !w->gone || !w->weight || !w->value || !w->taken)
        return kvr_fail(KVR_ENOMEM, "merge: out of memory while allocating %zu tokens", n);
    for (int i = 0; i < side * side; i++) {
        double *cosines = w->rotations + (size_t)i * 2 * half;

        kvr_rope_angles(ctx->head_dim, 1, i / side - w->o->radius, i % side - w->o->radius, cosines,
                        cosines + half);
    }
    return KVR_OK;
}

static int64_t at(const struct work *w, int64_t token, int h)
{
    return (token * w->ctx->n_heads + h) * w->ctx->head_dim;
}

/* Returns the cosine of the new token's key and the older token's key, after RoPE with angles
 * `rotation` moved the older key to the new token's position. */
static double similarity(const struct work *w, int64_t token, int64_t older, int h, int rotation)
{
    const int d = w->ctx->head_dim;
    const double *cosines = w->rotations + (size_t)rotation * 2 * (size_t)(d / 2);
    const float *k = w->ctx->all_keys + at(w, token, h);
    double ab = 0, aa = 0, bb = 0;

    kvr_rope_rotate(w->ctx->all_keys + at(w, older, h), d, cosines, cosines + d / 2, false,
                    w->rotated);
    for (int c = 0; c < d; c++) {
        ab += (double)k[c] * w->rotated[c];
        aa += (double)k[c] * k[c];
        bb += (double)w->rotated[c] * w->rotated[c];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static bool is_held(const struct work *w, int64_t token, int h)
{
    return token >= w->ctx->new0 ? !w->gone[token - w->ctx->new0]
                                 : w->keep[token * w->ctx->n_heads + h];
}

/* Returns the token of the previous frame with which a new token is merged, or -1 if there is
 * none. */
static int64_t find(const struct work *w, int64_t token, int h)
{
    const int S = w->ctx->tokens_per_frame, r = w->o->radius, s = (int)(token % S);
    const int64_t frame = token / S * S - S; /* the previous frame */
    int64_t best = -1;
    double most = w->o->near;

    for (int i = 0; i < w->side * w->side && frame >= 0; i++) {
        /* dy and dx: row and column of the new token minus row and column of the older token */
        const int dy = i / w->side - r, dx = i % w->side - r;
        const int y = s / w->row - dy, x = s % w->row - dx;
        const int64_t older = frame + (int64_t)y * w->row + x;
        double like;

        if (y < 0 || x < 0 || x >= w->row || older >= frame + S || w->taken[older - frame] ||
            !is_held(w, older, h))
            continue;
        if (w->ctx->counts_only) { /* without keys, a random half of the tokens is merged */
            float u;

            kvr_uniform(&u, 1, 3, KVR_RNG_KEEP, (uint32_t)w->ctx->layer, (uint32_t)h,
                        (uint64_t)token);
            return u < 0.5f ? older : -1;
        }
        like = similarity(w, token, older, h, i);
        if (like >= most && (best < 0 || like > most)) {
            most = like;
            best = older;
        }
    }
    return best;
}

static void merge_tokens(const struct work *w, int64_t token, int64_t older, int h)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const bool fresh = older >= ctx->new0;
    const int64_t i = token - ctx->new0, j = older - ctx->new0;
    const int32_t m = fresh ? w->weight[j] : ctx->weights[older * ctx->n_heads + h];
    float *v = w->value + i * ctx->head_dim;

    if (fresh)
        w->gone[j] = 1;
    else
        w->keep[older * ctx->n_heads + h] = 0;
    w->weight[i] = m + 1;
    for (int c = 0; c < ctx->head_dim && !ctx->counts_only; c++) {
        const double before =
            fresh && m > 1 ? w->value[j * ctx->head_dim + c] : ctx->all_values[at(w, older, h) + c];

        v[c] = (float)((m * before + ctx->all_values[at(w, token, h) + c]) / (m + 1));
    }
}

/* Returns the smallest multiplicity above `than` among new tokens that are not merged into newer
 * ones, or 0 if there is none. */
static int32_t next_weight(const struct work *w, int32_t than)
{
    int32_t least = 0;

    for (int64_t i = 0; i < w->ctx->n_active - w->ctx->new0; i++)
        if (!w->gone[i] && w->weight[i] > than && (!least || w->weight[i] < least))
            least = w->weight[i];
    return least;
}

static enum kvr_status thin_head(const struct work *w, int h)
{
    const struct kvr_policy_ctx *ctx = w->ctx;
    const int64_t n = ctx->n_active - ctx->new0;

    memset(w->gone, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        w->weight[i] = 1;
    for (int64_t t = ctx->new0; t < ctx->n_active; t++) {
        int64_t older;

        if (t == ctx->new0 || t % ctx->tokens_per_frame == 0)
            memset(w->taken, 0, (size_t)ctx->tokens_per_frame);
        older = find(w, t, h);
        if (older < 0)
            continue;
        w->taken[older % ctx->tokens_per_frame] = 1;
        merge_tokens(w, t, older, h);
    }
    for (int64_t i = 0; i < n; i++)
        if (w->gone[i] || w->weight[i] > 1)
            w->keep[(ctx->new0 + i) * ctx->n_heads + h] = 0;
    for (int32_t m = next_weight(w, 1); m; m = next_weight(w, m))
        for (int64_t i = 0; i < n; i++)
            if (!w->gone[i] && w->weight[i] == m)
                KVR_TRY(kvr_summaries_add(
                    ctx->summaries, h, ctx->new0 + i, m, ctx->head_dim,
                    ctx->counts_only ? NULL : ctx->all_keys + at(w, ctx->new0 + i, h),
                    w->value + i * ctx->head_dim));
    return KVR_OK;
}

static enum kvr_status thin(const void *opts, const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                            struct kvr_policy_state *state, uint8_t *keep)
{
    struct work w = { .o = opts, .ctx = ctx, .keep = keep };
    enum kvr_status st = work_open(&w);

    (void)dev, (void)state;
    for (int h = 0; h < ctx->n_heads && st == KVR_OK; h++)
        st = thin_head(&w, h);
    work_free(&w);
    return st;
}

const struct kvr_retention kvr_retention_merge = {
    .name = "merge",
    .title = "merges similar tokens of consecutive frames into one token with a multiplicity",
    .options = options,
    .opts_size = sizeof(struct merge_opts),
    .unit = KVR_UNIT_TOKEN,
    .thin = thin,
    .needs = needs,
    .cuda = true,
};
