/* unrope.c - the stage `unrope`: applies the inverse RoPE before keys are quantized, and RoPE after
 * decoding (KVQuant, arXiv:2401.18079). The rotations are in unrope.h, the kernel in
 * unrope_cuda.cu.
 *
 * A channel that is nearly constant before RoPE oscillates with the position after RoPE, so
 * per-channel scales fit better before RoPE. Decoding also rotates the quantization error, by an
 * angle that depends on the position. Corrections of attention scores estimate a score's error
 * variance from the sum over channels of squared scale times squared query. If both channels of a
 * RoPE pair share a scale, the rotation does not change the pair's part of this sum, and
 * corrections remain valid. If the two scales differ, corrections are not valid. The stage rejects
 * values (V), which have no RoPE. Keys of unknown position are not rotated. A token that a
 * retention policy has merged from several tokens is rotated by the position that the cache stores
 * for it. */
#include "methods/codecs/unrope/unrope.h"

#include "methods/kernels/rope.h"

struct unrope_opts {
    int row;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct unrope_opts, row, 0, 0, 1 << 20,
                "number of tokens per row of a latent frame, which must divide the frame's number "
                "of tokens; 0 chooses 52 for frames of 1560 tokens (Wan), otherwise the divisor "
                "that makes the frame most nearly square"),
    { 0 }
};

/* Sets *row to the number of tokens per row of a frame. Returns KVR_EUNSUPPORTED if a frame is not
 * divisible into such rows. */
static enum kvr_status row_of(const struct kvr_stage_job *job, int *row)
{
    const int64_t frame = job->place.frame_tokens;

    *row = 1;
    return frame ? kvr_frame_row("unrope", (int)frame, ((const struct unrope_opts *)job->opts)->row,
                                 row)
                 : KVR_OK;
}

/* Returns the shape of a block, the positions of its tokens, and the RoPE frequencies. */
static struct unrope unrope_of(const struct kvr_stage_job *job, int row)
{
    const int d = job->shape.head_dim, pairs = d / 2, third = pairs / 3;
    const int64_t frame = job->place.frame_tokens;
    struct unrope g = {
        .n_heads = job->shape.n_heads,
        .d = d,
        .frame = frame,
        .row = row,
        .tok0 = job->place.tok0,
        .list = job->place.list,
        .by_row = pairs - 2 * third,
        .by_col = pairs - third,
    };
    const int first[3] = { 0, g.by_row, g.by_col }, end[3] = { g.by_row, g.by_col, pairs };

    for (int axis = 0; axis < 3; axis++)
        for (int p = first[axis]; p < end[axis]; p++)
            g.rate[p] =
                pow(10000.0, -(double)(p - first[axis]) / (double)(end[axis] - first[axis]));
    return g;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    if (job->side == KVR_V)
        return kvr_fail(KVR_EINVAL, "stage unrope applies to keys only: values have no rotary "
                                    "embedding; remove it from the codec of values");
    if (job->shape.head_dim / 2 > UNROPE_MAX_PAIRS)
        return kvr_fail(KVR_EUNSUPPORTED, "head_dim is %d, at most %d is supported",
                        job->shape.head_dim, 2 * UNROPE_MAX_PAIRS);
    return KVR_OK;
}

/* Cosines and sines of a token's RoPE angles. For the next token only the angles of axes (time,
 * row, column) whose position changes are computed. */
struct turner {
    int64_t position[3];
    double cosine[UNROPE_MAX_PAIRS], sine[UNROPE_MAX_PAIRS];
};

static void go_to(struct turner *w, const struct unrope *g, int64_t token)
{
    const int end[3] = { g->by_row, g->by_col, g->d / 2 };

    for (int axis = 0, p = 0; axis < 3; p = end[axis++]) {
        const int64_t at = p < end[axis] ? unrope_position(g, token, p) : -1;

        if (at == w->position[axis])
            continue;
        w->position[axis] = at;
        for (int i = p; i < end[axis]; i++)
            unrope_angle((double)at * g->rate[i], &w->cosine[i], &w->sine[i]);
    }
}

/* Applies RoPE, or its inverse if `back`, to x [n,nh,D], which are tokens [t0, t0 + n) of a
 * block. */
static void rotate_rows(const struct unrope *g, int64_t t0, int64_t n, int nh, bool back, float *x)
{
    struct turner w = { .position = { -1, -1, -1 } };

    for (int64_t t = t0; t < t0 + n; t++) {
        go_to(&w, g, g->list ? g->list[t] : g->tok0 + t);
        for (int h = 0; h < nh; h++, x += g->d)
            for (int p = 0; p < g->d / 2; p++)
                unrope_pair(w.cosine[p], back ? -w.sine[p] : w.sine[p], x + 2 * p, x + 2 * p + 1);
    }
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    enum { RUN = 64 };
    int row;

    (void)out;
    KVR_TRY(row_of(job, &row));

    const struct unrope g = unrope_of(job, row);
    const int64_t n = g.frame ? job->shape.n_tok : 0, width = (int64_t)g.n_heads * g.d;

#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n; t += RUN)
        rotate_rows(&g, t, n - t < RUN ? n - t : RUN, g.n_heads, true, x + t * width);
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    int row;

    (void)in, (void)h0, (void)mode;
    if (row_of(job, &row) != KVR_OK)
        return; /* no block was encoded */

    const struct unrope g = unrope_of(job, row);

    if (g.frame)
        rotate_rows(&g, t0, n, nh, false, out);
}

static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    int row;

    (void)out;
    KVR_TRY(row_of(job, &row));

    const struct unrope g = unrope_of(job, row);
    const struct kvr_part all = { .n = job->shape.n_tok, .width = (int64_t)g.n_heads * g.d };

    if (g.frame)
        kvr_unrope_rotate_cuda(kvr_dev_stream(job->dev), &g, &all, true, x);
    return KVR_OK;
}

static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    const int64_t d = job->shape.head_dim;
    const struct kvr_part part = { t0, n, h0 * d, nh * d, mode };
    int row;

    (void)in;
    if (row_of(job, &row) != KVR_OK)
        return;

    const struct unrope g = unrope_of(job, row);

    if (g.frame)
        kvr_unrope_rotate_cuda(kvr_dev_stream(job->dev), &g, &part, false, out);
}

static void noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    if ((out->kind == KVR_NOISE_UNIFORM || out->kind == KVR_NOISE_SCALES) &&
        out->axis == KVR_AXIS_CHANNELS && out->group % 2 == 0 && !out->rotated)
        out->rope_rotated = true;
    else
        out->kind = KVR_NOISE_MEASURED;
}

static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_unrope = {
    .name = "unrope",
    .title = "undoes the RoPE rotation of keys, so that they are quantized before RoPE",
    .kind = KVR_STAGE_SHIFT,
    .options = options,
    .opts_size = sizeof(struct unrope_opts),
    .deterministic = true,
    .undoes_rope = true,
    .check = check,
    .noise = noise,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
