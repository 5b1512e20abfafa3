/* cube.c - the shift `cube`: subtracts, per channel, the mean over a small cube of frames x rows x
 * columns. The means are stored in E4M3. The indexing is in cube.h, the kernels in cube_cuda.cu.
 *
 * DeltaQuant (CVPR 2026) quantizes activations in this way, with 8-bit means and 4-bit differences
 * in cubes of 4 x 1 x 4 and 4 x 2 x 8 tokens. For chunks of 3 frames of 30 x 52 tokens, the default
 * cubes are 3 x 2 x 4 tokens. One 8-bit mean per 24 elements costs 1/3 bit per element. The mean is
 * rounded to E4M3 before it is subtracted, so that decoding adds exactly the same value. */
#include "methods/codecs/cube/cube.h"

#include "methods/kernels/rope.h"

struct cube_opts {
    int frames, rows, cols, row;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(
        struct cube_opts, frames, 3, 1, 64,
        "latent frames per cube, rounded down to a divisor of the block's number of frames"),
    KVR_OPT_INT(struct cube_opts, rows, 2, 1, 64,
                "rows of tokens per cube, rounded down to a divisor of the frame's number of rows"),
    KVR_OPT_INT(
        struct cube_opts, cols, 4, 1, 64,
        "columns of tokens per cube, rounded down to a divisor of the frame's number of columns"),
    KVR_OPT_INT(struct cube_opts, row, 0, 0, 1 << 20,
                "number of tokens per row of a latent frame, a divisor of the frame's tokens; 0 "
                "means 52 for Wan's frames of 1560 tokens, else the divisor that makes the frame "
                "most nearly square"),
    { 0 }
};

/* Returns the largest divisor of n that is at most `most`. */
static int64_t divisor(int64_t n, int64_t most)
{
    while (n % most)
        most--;
    return most;
}

static struct cube cube_of_job(const struct kvr_stage_job *job)
{
    const struct cube_opts *o = job->opts;
    const int64_t n = job->shape.n_tok, frame = job->place.frame_tokens;
    const int64_t size = (int64_t)o->frames * o->rows * o->cols;
    struct cube g = {
        .n_tok = n,
        .channels = (int64_t)job->shape.n_heads * job->shape.head_dim,
        .frame = n ? n : 1,
        .row = n ? n : 1,
        .frames = 1,
        .rows = 1,
        .cols = size,
        .across = (n + size - 1) / size,
        .down = 1,
        .deep = 1,
    };
    int row;

    if (!job->place.whole || !frame || n % frame ||
        kvr_frame_row("cube", (int)frame, o->row, &row) != KVR_OK)
        return g;
    g.frame = frame;
    g.row = row;
    g.frames = divisor(n / frame, o->frames);
    g.rows = divisor(frame / g.row, o->rows);
    g.cols = divisor(g.row, o->cols);
    g.across = g.row / g.cols;
    g.down = frame / g.row / g.rows;
    g.deep = n / frame / g.frames;
    return g;
}

/* Returns KVR_EUNSUPPORTED if a frame is not divisible into rows of `row` tokens. */
static enum kvr_status check_row(const struct kvr_stage_job *job)
{
    const struct cube_opts *o = job->opts;
    const int64_t frame = job->place.frame_tokens;
    int row;

    return frame ? kvr_frame_row("cube", (int)frame, o->row, &row) : KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct cube g = cube_of_job(job);

    *out = (struct kvr_layout){ .bytes.meta = (size_t)(g.deep * g.down * g.across * g.channels) };
}

/* Stores the means of channels [first, first + n) of cube i and subtracts them from x; n is at most
 * PIECE. */
enum { PIECE = 64 };
static void take_off(const struct cube *g, int64_t i, int64_t first, int64_t n, float *x,
                     uint8_t *mean)
{
    const int64_t size = g->frames * g->rows * g->cols;
    double sum[PIECE] = { 0 };
    float off[PIECE];
    int64_t count = 0;

    for (int64_t j = 0; j < size; j++) {
        const int64_t t = cube_token(g, i, j);

        for (int64_t c = 0; c < n && t >= 0; c++)
            sum[c] += (double)x[t * g->channels + first + c];
        count += t >= 0;
    }
    for (int64_t c = 0; c < n; c++) {
        mean[i * g->channels + first + c] = (uint8_t)cube_mean(sum[c], count);
        off[c] = cube_value(mean[i * g->channels + first + c]);
    }
    for (int64_t j = 0; j < size; j++) {
        const int64_t t = cube_token(g, i, j);

        for (int64_t c = 0; c < n && t >= 0; c++)
            x[t * g->channels + first + c] -= off[c];
    }
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct cube g = cube_of_job(job);

    KVR_TRY(check_row(job));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < g.deep * g.down * g.across; i++)
        for (int64_t c = 0; c < g.channels; c += PIECE)
            take_off(&g, i, c, g.channels - c < PIECE ? g.channels - c : PIECE, x, out->meta.p);
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct cube g = cube_of_job(job);
    const int64_t d = job->shape.head_dim, width = nh * d;
    const uint8_t *mean = in->meta.p;

    (void)mode;
    for (int64_t t = 0; t < n; t++, out += width) {
        const uint8_t *own = mean + cube_of(&g, t0 + t) * g.channels + h0 * d;

        for (int64_t c = 0; c < width; c++)
            out[c] += cube_value(own[c]);
    }
}

static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,
                                   struct kvr_stage_data *out)
{
    const struct cube g = cube_of_job(job);

    KVR_TRY(check_row(job));
    kvr_cube_encode_cuda(kvr_dev_stream(job->dev), &g, x, out->meta.p);
    return KVR_OK;
}

static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                        float *out)
{
    const struct cube g = cube_of_job(job);
    const int64_t d = job->shape.head_dim;
    const struct kvr_part part = { t0, n, h0 * d, nh * d, mode };

    kvr_cube_decode_cuda(kvr_dev_stream(job->dev), &g, NULL, in->meta.p, &part, out);
}

static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

const struct kvr_stage kvr_stage_cube = {
    .name = "cube",
    .title = "subtracts every channel's E4M3 mean over cubes (blocks of frames, rows and columns)",
    .kind = KVR_STAGE_SHIFT,
    .options = options,
    .opts_size = sizeof(struct cube_opts),
    .deterministic = true,
    .layout = layout,
    .cpu = { .encode = encode, .decode = decode },
    .cuda = &cuda,
};
