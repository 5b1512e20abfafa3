/* levels.c - the stages with a fixed codebook of levels. Code q decodes to x^ = level[q] s, where s
 * is the scale of the element's group.
 *
 * A group is `group` consecutive channels of one head and token. Its scale s = max |x| / max
 * |level| is rounded to FP16 and at most 65504. Code q is the index of the level nearest to x / s;
 * of two equally near levels, it is the lower. With compute=bf16, x / s and level[q] s are rounded
 * to BF16. If a group has a NaN or an infinity, its scale is NaN and the whole group decodes to
 * NaN.
 *
 * The stage stores the codes, packed as in pack.h, and FP16 scales [T * H * D / group]. The study's
 * variant and the intended variant are the same. */
#include <math.h>

#include "methods/codec.h"
#include "methods/kernels/pack.h"

enum { MAX_GROUP = 256, MAX_LEVELS = 256, ROWS = 8 };

/* A codebook; levels ascend. */
struct book {
    int bits;
    const float *level; /* [2^bits] */
};

struct levels_opts {
    int group;
};

static const struct kvr_opt options[] = { KVR_OPT_INT(
                                              struct levels_opts, group, 64, 8, MAX_GROUP,
                                              "number of channels of a head that share a scale"),
                                          { 0 } };

static const struct book *book_of(const struct kvr_stage_job *job)
{
    return job->stage->variant;
}

static int group_of(const struct kvr_stage_job *job)
{
    return ((const struct levels_opts *)job->opts)->group;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    if (job->shape.head_dim % group_of(job))
        return kvr_fail(KVR_EINVAL, "group is %d channels, but must divide head_dim %d",
                        group_of(job), job->shape.head_dim);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok, groups = n * channels / group_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = kvr_pack_bytes(n, channels, book_of(job)->bits),
                   .meta = (size_t)groups * sizeof(kvr_f16) },
        .form = KVR_FORM_LEVELS,
        .bits = book_of(job)->bits,
        .n_tok = n,
        .axis = KVR_AXIS_CHANNELS,
        .group = group_of(job),
        .n_groups = groups,
        .level = book_of(job)->level,
    };
}

/* Corrections of attention scores must measure the quantization error. It does not follow from the
 * scale, because the distances between levels differ. */
static void noise(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                  struct kvr_coding_noise *out)
{
    (void)job, (void)in;
    out->kind = KVR_NOISE_MEASURED;
}

static float rounded(float x, bool bf16)
{
    return bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x)) : x;
}

static kvr_f16 scale_of(const float *x, int n, float top)
{
    uint32_t most = 0;
    kvr_f16 h;

    for (int i = 0; i < n; i++) {
        const uint32_t u = kvr_f32_bits(x[i]) & 0x7fffffffu;

        most = u > most ? u : most;
    }
    if (most >= 0x7f800000u)
        return 0x7e00;
    h = kvr_f32_to_f16(kvr_bits_f32(most) / top);
    return h < 0x7c00 ? h : 0x7bff;
}

/* Computes the codes of n values x with scale s. A code is the number of decision bounds, the
 * midpoints between levels, that are less than x / s. */
static void code(const float *x, int n, float s, const float *bound, int n_levels, bool bf16,
                 uint8_t *codes)
{
    float v[MAX_GROUP];

    for (int i = 0; i < n; i++)
        v[i] = rounded(x[i] / s, bf16);
    for (int i = 0; i < n; i++)
        codes[i] = 0;
    for (int half = n_levels / 2; half; half /= 2)
        for (int i = 0; i < n; i++)
            codes[i] = (uint8_t)(codes[i] + (v[i] > bound[codes[i] + half - 1] ? half : 0));
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct book *book = book_of(job);
    const int n_levels = 1 << book->bits, group = group_of(job);
    const int64_t channels = (int64_t)job->shape.n_heads * job->shape.head_dim;
    const int64_t n = job->shape.n_tok;
    const float lowest = fabsf(book->level[0]), highest = fabsf(book->level[n_levels - 1]);
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;
    float bound[MAX_LEVELS] = { 0 };
    kvr_f16 *scale = out->meta.p;

    for (int i = 0; i + 1 < n_levels; i++)
        bound[i] = 0.5f * (book->level[i] + book->level[i + 1]);
#pragma omp parallel for schedule(static)
    for (int64_t t0 = 0; t0 < n; t0 += ROWS) {
        const int rows = n - t0 < ROWS ? (int)(n - t0) : ROWS;
        uint8_t codes[ROWS * MAX_GROUP];

        for (int64_t c = 0; c < channels; c += group) {
            for (int r = 0; r < rows; r++) {
                const int64_t at = (t0 + r) * channels + c;
                float s;

                scale[at / group] = scale_of(x + at, group, lowest > highest ? lowest : highest);
                s = kvr_f16_to_f32(scale[at / group]);
                code(x + at, group, s == 0 ? 1 : s, bound, n_levels, bf16, codes + r * group);
            }
            kvr_pack(out->codes.p, n, channels, book->bits, t0, rows, c, group, codes);
        }
    }
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct book *book = book_of(job);
    const int group = group_of(job);
    const int64_t d = job->shape.head_dim, channels = job->shape.n_heads * d;
    const bool bf16 = job->compute == KVR_COMPUTE_BF16;
    const kvr_f16 *scale = in->meta.p;
    uint8_t codes[MAX_GROUP];

    for (int64_t t = t0; t < t0 + n; t++)
        for (int64_t c = h0 * d; c < (h0 + nh) * d; c += group, out += group) {
            const float s = kvr_f16_to_f32(scale[(t * channels + c) / group]);

            kvr_unpack_token(in->codes.p, job->shape.n_tok, channels, book->bits, t, c, group,
                             codes);
            for (int i = 0; i < group; i++) {
                const float v = rounded(book->level[codes[i]] * s, bf16);

                out[i] = mode == KVR_DECODE_SET   ? v
                         : mode == KVR_DECODE_ADD ? out[i] + v
                                                  : out[i] - v;
            }
        }
}

extern const struct kvr_stage_ops kvr_levels_cuda; /* levels_cuda.cu */

#define LEVELS(stage, what, book)                                                                  \
    const struct kvr_stage kvr_stage_##stage = {                                                   \
        .name = #stage,                                                                            \
        .title = what,                                                                             \
        .kind = KVR_STAGE_GRID,                                                                    \
        .options = options,                                                                        \
        .opts_size = sizeof(struct levels_opts),                                                   \
        .variant = book,                                                                           \
        .deterministic = true,                                                                     \
        .idempotent = true,                                                                        \
        .check = check,                                                                            \
        .layout = layout,                                                                          \
        .noise = noise,                                                                            \
        .cpu = { .encode = encode, .decode = decode },                                             \
        .cuda = &kvr_levels_cuda,                                                                  \
    }

/* Quantiles of the normal distribution, scaled to [-1, 1], with a 0 (QLoRA, arXiv:2305.14314). */
static const float nf4_levels[] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};
static const struct book nf4 = { 4, nf4_levels };
LEVELS(nf4,
       "16 levels, which are quantiles of the normal distribution, with one FP16 scale per group",
       &nf4);
