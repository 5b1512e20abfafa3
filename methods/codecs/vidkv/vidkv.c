/* vidkv.c - the stage `vidkv`: stores channels with a wide range in 2 bits. Of the other channels
 * it stores the signs of their Fourier transform, which is over the channels of a token. The
 * arithmetic is in vidkv.h, the CUDA decoder in vidkv_cuda.cu.
 *
 * VidKV stores keys in this way (arXiv:2503.16257, vidkv_quant.py at 0e55c39) and states 1.5 bits
 * per element. The format needs more: the transform of n channels has 2 n real and imaginary terms,
 * and a minimum is stored with every scale. VidKV's code decodes a sign as 0 or s, which is
 * balanced=false here. Blocks in CUDA memory are encoded on the host. */
#include "methods/codecs/vidkv/vidkv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "methods/kernels/pack.h"
#include "methods/kernels/share.h"

enum { MAX_GROUP = 256, ROWS = 8 };

struct vidkv_opts {
    int group;
    double share;
    bool balanced;
};
static const struct kvr_opt options[] = {
    KVR_OPT_INT(struct vidkv_opts, group, 32, 8, MAX_GROUP,
                "number of tokens that share a scale and a minimum, a multiple of 8"),
    KVR_OPT_FLOAT(struct vidkv_opts, share, 0.5, 0, 1,
                  "fraction of a head's channels that are coded in 2 bits (the channels with the "
                  "widest value range); the others are coded in 1 bit"),
    KVR_OPT_BOOL(
        struct vidkv_opts, balanced, true,
        "whether 1-bit codes decode to -s or s (true), or to 0 or s (false); s is the scale"),
    { 0 }
};

static struct vidkv vidkv_of(const struct kvr_stage_job *job)
{
    const struct vidkv_opts *o = job->opts;
    const int d = job->shape.head_dim;
    const int64_t hard = kvr_share(o->share * d, d > VIDKV_MAX_EASY ? d - VIDKV_MAX_EASY : 0, d);
    struct vidkv g = {
        .group = o->group,
        .easy = d - (int)hard,
        .n_heads = job->shape.n_heads,
        .head_dim = d,
        .balanced = o->balanced,
        .n_tok = job->shape.n_tok,
    };

    for (int i = 0; i < g.easy; i++) {
        g.cosine[i] = (float)cos(2 * M_PI * i / g.easy);
        g.sine[i] = (float)sin(2 * M_PI * i / g.easy);
    }
    return g;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const struct vidkv_opts *o = job->opts;
    const int d = job->shape.head_dim;

    if (o->group % 8)
        return kvr_fail(KVR_EINVAL, "group is %d tokens: must be a multiple of 8", o->group);
    if (d > VIDKV_MAX_DIM)
        return kvr_fail(KVR_EINVAL, "head_dim is %d, at most %d is supported", d, VIDKV_MAX_DIM);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct vidkv g = vidkv_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes =
                       (size_t)vidkv_signs_at(&g) + kvr_pack_bytes(g.n_tok, vidkv_signs(&g), 1),
                   .meta =
                       (size_t)vidkv_bits_at(&g) * sizeof(kvr_f16) + (size_t)(g.head_dim + 7) / 8 },
        .form = KVR_FORM_OWN,
        .n_tok = g.n_tok,
        .unit_tokens = g.group,
    };
}

/* ---- channel selection -------------------------------------------------------------------- */

struct range {
    float size;
    int channel;
};

/* Compares two channels for qsort(): ascending by the field `size`, the width of the channel's
 * range. On ties the lower channel is first. NaN is last. */
static int by_size(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->size != y->size && !(x->size != x->size && y->size != y->size))
        return x->size < y->size || y->size != y->size ? -1 : 1;
    return x->channel - y->channel;
}

static void choose(const struct vidkv *g, const float *x, uint8_t *bits)
{
    struct range r[VIDKV_MAX_DIM];
    float hi[VIDKV_MAX_DIM];

    for (int c = 0; c < g->head_dim; c++) {
        r[c] = (struct range){ INFINITY, c };
        hi[c] = -INFINITY;
    }
    for (int64_t i = 0; i < g->n_tok * g->n_heads; i++)
        for (int c = 0; c < g->head_dim; c++) {
            const float v = x[i * g->head_dim + c];

            r[c].size = v < r[c].size ? v : r[c].size;
            hi[c] = v > hi[c] ? v : hi[c];
        }
    for (int c = 0; c < g->head_dim; c++)
        r[c].size = hi[c] - r[c].size;
    qsort(r, (size_t)g->head_dim, sizeof *r, by_size);
    memset(bits, 0, (size_t)(g->head_dim + 7) / 8);
    for (int i = 0; i < g->easy; i++)
        bits[r[i].channel / 8] = (uint8_t)(bits[r[i].channel / 8] | 1u << r[i].channel % 8);
}

static bool is_easy(const uint8_t *bits, int c)
{
    return bits[c / 8] >> c % 8 & 1;
}

/* Writes two ascending lists of a head's channels: easy ones, which are stored as signs, and hard
 * ones, which are stored in 2 bits. */
static void sort_channels(const struct vidkv *g, const uint8_t *bits, int *easy, int *hard)
{
    for (int c = 0; c < g->head_dim; c++)
        *(is_easy(bits, c) ? easy++ : hard++) = c;
}

/* ---- encoding ------------------------------------------------------------------------------ */

static bool is_finite(float x)
{
    return (kvr_f32_bits(x) & 0x7fffffffu) < 0x7f800000u;
}

/* Encodes token group i of channel c of head h in 2 bits. The channel is a hard one (of wide
 * range), and `at` is its index among the hard channels of all heads. */
static void code_hard(const struct vidkv *g, const float *x, int64_t i, int h, int c, int64_t at,
                      kvr_f16 *params, uint8_t *codes)
{
    const int64_t width = (int64_t)g->n_heads * g->head_dim, left = g->n_tok - i * g->group;
    const int64_t n = left < g->group ? left : g->group, all = vidkv_hard(g);
    const float *from = x + i * g->group * width + (int64_t)h * g->head_dim + c;
    float lo = INFINITY, hi = -INFINITY, s;
    uint8_t q[MAX_GROUP];
    bool bad = false;

    for (int64_t r = 0; r < n; r++) {
        const float v = vidkv_half(from[r * width]);

        bad = bad || !is_finite(from[r * width]);
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    s = bad ? NAN : vidkv_half(vidkv_half(hi - lo) / 3);
    for (int64_t r = 0; r < n; r++)
        q[r] = s > 0
                   ? (uint8_t)cells_clamp(
                         rintf(vidkv_half(vidkv_half(vidkv_half(from[r * width]) - lo) / s)), 0, 3)
                   : 0;
    params[i * all + at] = (kvr_f16)cells_store(CELLS_F16, s);
    params[vidkv_groups(g) * all + i * all + at] = (kvr_f16)cells_store(CELLS_F16, bad ? 0 : lo);
    kvr_pack(codes, g->n_tok, all, 2, i * g->group, n, at, 1, q);
}

/* Computes the Fourier transform X [easy][re, im] of the easy channels (those stored as signs) of
 * one head of one token. */
static void transform(const struct vidkv *g, const float *x, const int *easy, float *X)
{
    for (int f = 0; f < g->easy; f++) {
        float re = 0, im = 0;

        for (int j = 0; j < g->easy; j++) {
            const int a = f * j % g->easy;

            re += x[easy[j]] * g->cosine[a];
            im -= x[easy[j]] * g->sine[a];
        }
        X[2 * f] = vidkv_half(re);
        X[2 * f + 1] = vidkv_half(im);
    }
}

/* Encodes the signs of the Fourier terms of head h in group i. The array `scratch` has [group][2
 * easy] floats. */
static void code_signs(const struct vidkv *g, const float *x, int64_t i, int h, const int *easy,
                       float *scratch, kvr_f16 *params, uint8_t *codes)
{
    const int64_t width = (int64_t)g->n_heads * g->head_dim, left = g->n_tok - i * g->group;
    const int64_t n = left < g->group ? left : g->group, all = vidkv_signs(g);
    const int each = 2 * g->easy;
    uint8_t q[MAX_GROUP];

    assert(g->easy > 0 && n > 0);
    for (int64_t r = 0; r < n; r++)
        transform(g, x + (i * g->group + r) * width + (int64_t)h * g->head_dim, easy,
                  scratch + r * each);
    for (int e = 0; e < each; e++) {
        const int64_t at = (int64_t)h * each + e;
        double sum = 0;
        float s;

        for (int64_t r = 0; r < n; r++) {
            sum += (double)fabsf(scratch[r * each + e]);
            q[r] = scratch[r * each + e] >= 0;
        }
        s = (float)(sum / (double)n);
        s = vidkv_half(is_finite(s) ? s : NAN);
        params[i * all + at] = (kvr_f16)cells_store(CELLS_F16, g->balanced ? vidkv_half(2 * s) : s);
        params[vidkv_groups(g) * all + i * all + at] =
            (kvr_f16)cells_store(CELLS_F16, g->balanced ? -s : 0);
        kvr_pack(codes, g->n_tok, all, 1, i * g->group, n, at, 1, q);
    }
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct vidkv g = vidkv_of(job);
    kvr_f16 *params = out->meta.p, *sign_params = params + vidkv_sign_params_at(&g);
    uint8_t *bits = (uint8_t *)(params + vidkv_bits_at(&g)), *codes = out->codes.p;
    const size_t each = (size_t)g.group * 2 * VIDKV_MAX_EASY;
    const int64_t n = vidkv_groups(&g);
    int easy[VIDKV_MAX_DIM] = { 0 }, hard[VIDKV_MAX_DIM] = { 0 };
    float *scratch = malloc(((size_t)n + 1) * each * sizeof *scratch);

    if (!scratch)
        return kvr_fail(KVR_ENOMEM, "vidkv: out of memory while allocating %lld groups",
                        (long long)n);
    choose(&g, x, bits);
    sort_channels(&g, bits, easy, hard);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        for (int h = 0; h < g.n_heads; h++) {
            const int n_hard = g.head_dim - g.easy;

            for (int c = 0; c < n_hard; c++)
                code_hard(&g, x, i, h, hard[c], (int64_t)h * n_hard + c, params, codes);
            if (g.easy)
                code_signs(&g, x, i, h, easy, scratch + (size_t)i * each, sign_params,
                           codes + vidkv_signs_at(&g));
        }
    free(scratch);
    return KVR_OK;
}

/* ---- decoding ------------------------------------------------------------------------------ */

static float number(const kvr_f16 *params, int64_t at)
{
    return kvr_f16_to_f32(params[at]);
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct vidkv g = vidkv_of(job);
    const int n_hard = g.head_dim - g.easy, each = 2 * g.easy;
    const int64_t all_hard = vidkv_hard(&g), all_signs = vidkv_signs(&g), groups = vidkv_groups(&g);
    const kvr_f16 *params = in->meta.p, *sign_params = params + vidkv_sign_params_at(&g);
    const uint8_t *bits = (const uint8_t *)(params + vidkv_bits_at(&g)), *codes = in->codes.p;
    int easy[VIDKV_MAX_DIM] = { 0 }, hard[VIDKV_MAX_DIM] = { 0 };
    uint8_t q[2 * VIDKV_MAX_DIM];
    float X[2 * VIDKV_MAX_EASY] = { 0 };

    sort_channels(&g, bits, easy, hard);
    for (int64_t t = t0; t < t0 + n; t++)
        for (int h = h0; h < h0 + nh; h++, out += g.head_dim) {
            const int64_t i = t / g.group, at_hard = i * all_hard + (int64_t)h * n_hard;
            const int64_t at_sign = i * all_signs + (int64_t)h * each;

            kvr_unpack_token(codes, g.n_tok, all_hard, 2, t, (int64_t)h * n_hard, n_hard, q);
            for (int c = 0; c < n_hard; c++)
                kvr_part_put(mode, out, hard[c],
                             (float)q[c] * number(params, at_hard + c) +
                                 number(params, groups * all_hard + at_hard + c));
            kvr_unpack_token(codes + vidkv_signs_at(&g), g.n_tok, all_signs, 1, t,
                             (int64_t)h * each, each, q);
            for (int e = 0; e < each; e++)
                X[e] = (float)q[e] * number(sign_params, at_sign + e) +
                       number(sign_params, groups * all_signs + at_sign + e);
            for (int j = 0; j < g.easy; j++)
                kvr_part_put(mode, out, easy[j], vidkv_inverse(&g, j, X));
        }
}

KVR_READ_CUDA(vidkv)

const struct kvr_stage kvr_stage_vidkv = {
    KVR_CODED_STAGE(vidkv),
    .title =
        "codes channels of wide range in 2 bits, the others as signs of their Fourier transform",
    .check = check,
    .noise = kvr_noise_measured,
};
