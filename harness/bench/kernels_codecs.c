/* kernels_codecs.c - test and benchmark cases of the kernels that codecs share (methods/kernels).
 *
 * The results determine the stored bytes, so all variants must be exactly equal. The only
 * exceptions are the approximate sums of outliers.rough. */
#include <math.h>
#include <stdint.h>

#include "harness/bench/kernel_case.h"
#include "methods/kernels/abs_sum.h"
#include "methods/codecs/hadamard/fwht_kernels.h"
#include "methods/codecs/grid/grid_kernels.h"
#include "methods/codecs/outliers/outlier_kernels.h"
#include "methods/kernels/pack_kernels.h"

static void *at(const struct kvr_case_kit *k, int which)
{
    return k->arg[which].p;
}

/* ---- grids -------------------------------------------------------------------------------- */

static const void *encoders(void)
{
    return kvr_grid_encoders();
}

static const void *decoders(void)
{
    return kvr_grid_decoders();
}

/* Shapes {tokens, channels, bits, asym}. They include incomplete last groups, numbers of channels
 * that are not a multiple of the SIMD width or that exceed one strip (KVR_GRID_STRIP), and codes of
 * 3 bits, which are stored in two bit planes. */
static const int tokens_shapes[][KVR_CASE_DIMS] = {
    { 16, 64, 4, 0 }, { 16, 64, 2, 1 }, { 21, 77, 4, 1 }, { 33, 300, 2, 0 }, { 40, 130, 3, 1 }
};

/* Shapes {tokens, channels, bits, asym}. The group size is 64 channels if the number of channels is
 * a multiple of 64, otherwise 16. */
static const int channels_shapes[][KVR_CASE_DIMS] = {
    { 16, 64, 4, 0 }, { 7, 128, 2, 1 }, { 21, 80, 4, 1 }, { 17, 320, 2, 0 }, { 9, 48, 3, 1 }
};

static struct kvr_grid_block block_of(const struct kvr_case_kit *k, enum kvr_group_axis axis)
{
    const int64_t n = k->shape[0], channels = k->shape[1];
    struct kvr_grid_block b = {
        .grid = { .bits = k->shape[2], .axis = axis, .group = 16, .asym = k->shape[3] },
        .n_tok = n,
        .stored = n,
        .channels = channels,
    };

    if (axis == KVR_AXIS_CHANNELS && channels % 64 == 0)
        b.grid.group = 64;
    b.n_groups = axis == KVR_AXIS_TOKENS ? (n + 15) / 16 * channels : n * channels / b.grid.group;
    if (k->n_args == 3) {
        b.codes = at(k, 1);
        b.scales = at(k, 2);
    }
    return b;
}

/* Arguments: values [tokens, channels]; codes; scales and, for asymmetric quantization, zero
 * points. */
static enum kvr_status grid_args(struct kvr_case_kit *k, enum kvr_group_axis axis,
                                 enum kvr_case_role values, enum kvr_case_role stored)
{
    const struct kvr_grid_block b = block_of(k, axis);

    KVR_TRY(kvr_case_arg(k, values, KVR_F32, (size_t)(b.n_tok * b.channels), (size_t)b.channels));
    KVR_TRY(kvr_case_arg(k, stored, KVR_U8, kvr_pack_bytes(b.stored, b.channels, b.grid.bits), 1));
    return kvr_case_arg(k, stored, KVR_F16, (size_t)b.n_groups * (b.grid.asym ? 2 : 1), 1);
}

static enum kvr_status encode_tokens_args(struct kvr_case_kit *k)
{
    return grid_args(k, KVR_AXIS_TOKENS, KVR_CASE_IN, KVR_CASE_OUT);
}

static void encode_tokens(const struct kvr_case_kit *k)
{
    const struct kvr_grid_block b = block_of(k, KVR_AXIS_TOKENS);
    const float *x = at(k, 0);

    for (int64_t t = 0; t < b.stored; t += b.grid.group)
        for (int64_t c = 0; c < b.channels; c += KVR_GRID_STRIP) {
            const int64_t left = b.channels - c;
            const float *from = x + t * b.channels + c;
            const struct kvr_grid_prefetch prefetch = kvr_grid_no_prefetch(from, b.channels);

            kvr_grid_encoders()->tokens(&b, t, c,
                                        left < KVR_GRID_STRIP ? (int)left : KVR_GRID_STRIP, from,
                                        b.channels, NULL, 0, &prefetch);
        }
}

static enum kvr_status encode_channels_args(struct kvr_case_kit *k)
{
    return grid_args(k, KVR_AXIS_CHANNELS, KVR_CASE_IN, KVR_CASE_OUT);
}

static void encode_channels(const struct kvr_case_kit *k)
{
    const struct kvr_grid_block b = block_of(k, KVR_AXIS_CHANNELS);
    const float *x = at(k, 0);

    for (int64_t t = 0; t < b.stored; t += KVR_GRID_ROWS)
        kvr_grid_encoders()->rows(&b, t, KVR_GRID_ROWS, x + t * b.channels);
}

static void decode(const struct kvr_case_kit *k, enum kvr_group_axis axis,
                   enum kvr_decode_mode mode)
{
    const struct kvr_grid_block b = block_of(k, axis);

    kvr_grid_decoders()->part(&b, 0, b.n_tok, 0, b.channels, mode, at(k, 0), b.channels);
}

static enum kvr_status decode_tokens_args(struct kvr_case_kit *k)
{
    return grid_args(k, KVR_AXIS_TOKENS, KVR_CASE_OUT, KVR_CASE_IN);
}

static void decode_tokens(const struct kvr_case_kit *k)
{
    decode(k, KVR_AXIS_TOKENS, KVR_DECODE_SET);
}

static enum kvr_status subtract_tokens_args(struct kvr_case_kit *k)
{
    return grid_args(k, KVR_AXIS_TOKENS, KVR_CASE_INOUT, KVR_CASE_IN);
}

static void subtract_tokens(const struct kvr_case_kit *k)
{
    decode(k, KVR_AXIS_TOKENS, KVR_DECODE_SUB);
}

static enum kvr_status decode_channels_args(struct kvr_case_kit *k)
{
    return grid_args(k, KVR_AXIS_CHANNELS, KVR_CASE_OUT, KVR_CASE_IN);
}

static void decode_channels(const struct kvr_case_kit *k)
{
    decode(k, KVR_AXIS_CHANNELS, KVR_DECODE_SET);
}

/* ---- packed codes ------------------------------------------------------------------------- */

static const void *packers(void)
{
    return kvr_pack_kernels();
}

/* Shapes {tokens, channels, bits of a field, lowest bit of the field in a code}. */
static const int plane_shapes[][KVR_CASE_DIMS] = {
    { 1, 1, 1, 0 }, { 8, 64, 4, 0 }, { 13, 77, 2, 1 }, { 16, 130, 1, 2 }, { 5, 33, 8, 0 }
};

/* Arguments: codes [tokens, channels], packed rows. */
static enum kvr_status plane_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0], nc = (size_t)k->shape[1], per = 8 / (size_t)k->shape[2];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, n * nc, 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_U8, (n + per - 1) / per * nc, 1);
}

static void plane(const struct kvr_case_kit *k)
{
    kvr_pack_kernels()->plane(at(k, 1), k->shape[1], k->shape[2], k->shape[3], k->shape[0],
                              k->shape[1], at(k, 0));
}

/* Shapes {channels, bits of a field, position of the field in a byte, lowest bit of the field in a
 * code}. */
static const int field_shapes[][KVR_CASE_DIMS] = {
    { 1, 1, 7, 0 }, { 64, 4, 4, 0 }, { 77, 2, 2, 1 }, { 1030, 1, 3, 2 }, { 33, 8, 0, 0 }
};

/* Arguments: codes [channels], packed row. */
static enum kvr_status field_args(struct kvr_case_kit *k, enum kvr_case_role codes)
{
    KVR_TRY(kvr_case_arg(k, codes, KVR_U8, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_U8, (size_t)k->shape[0], 1);
}

static enum kvr_status fields_args(struct kvr_case_kit *k)
{
    return field_args(k, KVR_CASE_OUT);
}

static void fields(const struct kvr_case_kit *k)
{
    kvr_pack_kernels()->fields(at(k, 1), k->shape[1], k->shape[2], k->shape[3], k->shape[0],
                               at(k, 0));
}

static enum kvr_status more_fields_args(struct kvr_case_kit *k)
{
    return field_args(k, KVR_CASE_INOUT);
}

static void more_fields(const struct kvr_case_kit *k)
{
    kvr_pack_kernels()->more_fields(at(k, 1), k->shape[1], k->shape[2], k->shape[3], k->shape[0],
                                    at(k, 0));
}

/* ---- the Walsh-Hadamard transform --------------------------------------------------------- */

static const void *transforms(void)
{
    return kvr_fwht_kernels();
}

/* Shapes {rows, d, whether the result is rounded to BF16}. */
static const int fwht_shapes[][KVR_CASE_DIMS] = { { 5, 2 },      { 3, 8 },   { 7, 64 },
                                                  { 5, 64, 1 },  { 9, 128 }, { 6, 128, 1 },
                                                  { 2, 256, 1 }, { 1, 1024 } };

static enum kvr_status fwht_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    return kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, (size_t)k->shape[0] * d, d);
}

static void fwht(const struct kvr_case_kit *k)
{
    kvr_fwht_kernels()->rows(at(k, 0), at(k, 0), k->shape[0], k->shape[1], k->shape[2]);
}

/* ---- sums and outliers -------------------------------------------------------------------- */

static const void *sums(void)
{
    return kvr_sum_kernels();
}

static const void *outliers(void)
{
    return kvr_outlier_kernels();
}

/* Shapes {n}: n values. */
static const int flat_shapes[][KVR_CASE_DIMS] = { { 1 }, { 15 }, { 64 }, { 1029 }, { 4099 } };
static const int span_shapes[][KVR_CASE_DIMS] = {
    { 1 }, { 15 }, { 64 }, { 1009 }, { KVR_OUTLIER_SPAN }
};

/* Arguments: x [shape[0]], and the kernel's n results of type `result`. */
static enum kvr_status flat_args(struct kvr_case_kit *k, enum kvr_dtype result, size_t n)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], (size_t)k->shape[0]));
    return kvr_case_arg(k, KVR_CASE_OUT, result, n, 1);
}

static enum kvr_status sum_args(struct kvr_case_kit *k)
{
    return flat_args(k, KVR_F64, 1);
}

static void abs_sum(const struct kvr_case_kit *k)
{
    *(double *)at(k, 1) = kvr_sum_kernels()->abs(at(k, 0), k->shape[0]);
}

static enum kvr_status moments_args(struct kvr_case_kit *k)
{
    return flat_args(k, KVR_F64, 3);
}

static void moments(const struct kvr_case_kit *k)
{
    const struct kvr_moments m = kvr_outlier_kernels()->moments(at(k, 0), k->shape[0]);
    double *out = at(k, 1);

    out[0] = m.n;
    out[1] = m.mean;
    out[2] = m.m2;
}

static enum kvr_status index_args(struct kvr_case_kit *k)
{
    return flat_args(k, KVR_I64, 1);
}

static void count_over(const struct kvr_case_kit *k)
{
    *(int64_t *)at(k, 1) = kvr_outlier_kernels()->count_over(at(k, 0), k->shape[0], 1.5f);
}

/* Searches for the first |x| > 2.5. KVR_FILL_PLAIN has no such value, so the kernel searches to the
 * end. KVR_FILL_OUTLIER has one at index n / 3, KVR_FILL_INF has an infinity there. */
static void next_over(const struct kvr_case_kit *k)
{
    *(int64_t *)at(k, 1) = kvr_outlier_kernels()->next_over(at(k, 0), k->shape[0], 2.5f);
}

/* Arguments: BF16 x [n]; a bit mask of the values above a threshold; the sum of the values and the
 * sum of their squares. */
static enum kvr_status rough_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_BF16, n, n));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_I64, (n + 63) / 64, 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, 2, 1);
}

static void rough(const struct kvr_case_kit *k)
{
    const uint16_t one_and_a_half = 0x3fc0;
    const struct kvr_rough r =
        kvr_outlier_kernels()->rough(at(k, 0), k->shape[0], one_and_a_half, at(k, 1));
    double *out = at(k, 2);

    out[0] = r.sum;
    out[1] = r.square;
}

/* Returns the magnitude to which the tolerance of a result of outliers.rough is relative: sum |x|
 * for the sum (row 0), and sum x^2 for the sum of squares (row 1). */
static double rough_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row)
{
    const kvr_bf16 *x = at(k, 0);
    double size = 0;

    (void)a;
    for (int i = 0; i < k->shape[0]; i++) {
        const double v = fabs((double)kvr_bf16_to_f32(x[i]));

        size += row ? v * v : v;
    }
    return size;
}

#define FIELDS(called, its, fn, args, list, ...)                                                   \
    .name = called, .table = its, .prepare = args, .run = fn, .shapes = list,                      \
    .n_shapes = (int)(sizeof list / sizeof *list), .timed = __VA_ARGS__
#define CASE(...)                                                                                  \
    {                                                                                              \
        FIELDS(__VA_ARGS__)                                                                        \
    }
#define GRID(verb, axis, bits, asym)                                                               \
    CASE("grid." #verb "_" #axis "_int" #bits, KVR_GRID_TABLE_##verb, verb##_##axis,               \
         verb##_##axis##_args, axis##_shapes, { 64, 1536, bits, asym })
#define KVR_GRID_TABLE_encode encoders
#define KVR_GRID_TABLE_decode decoders
#define KVR_GRID_TABLE_subtract decoders

const struct kvr_kernel_case kvr_kernels_codecs[] = {
    GRID(encode, tokens, 4, 0),
    GRID(encode, tokens, 2, 1),
    GRID(encode, channels, 4, 0),
    GRID(encode, channels, 2, 1),
    GRID(decode, tokens, 4, 0),
    GRID(decode, tokens, 2, 1),
    GRID(decode, channels, 4, 0),
    GRID(decode, channels, 2, 1),
    GRID(subtract, tokens, 4, 0),
    CASE("pack.plane", packers, plane, plane_args, plane_shapes, { 64, 1536, 4, 0 }),
    CASE("pack.fields", packers, fields, fields_args, field_shapes, { 1 << 16, 4, 4, 0 }),
    CASE("pack.more_fields", packers, more_fields, more_fields_args, field_shapes,
         { 1 << 16, 1, 3, 2 }),
    CASE("fwht.rows", transforms, fwht, fwht_args, fwht_shapes, { 768, 128 }),
    CASE("fwht.rows_bf16", transforms, fwht, fwht_args, fwht_shapes, { 768, 128, 1 }),
    CASE("sum.abs", sums, abs_sum, sum_args, flat_shapes, { 1 << 17 }),
    CASE("outliers.moments", outliers, moments, moments_args, span_shapes, { KVR_OUTLIER_SPAN }),
    CASE("outliers.count_over", outliers, count_over, index_args, flat_shapes, { 1 << 17 }),
    CASE("outliers.next_over", outliers, next_over, index_args, flat_shapes, { 1 << 17 }),
    { FIELDS("outliers.rough", outliers, rough, rough_args, span_shapes, { KVR_OUTLIER_SPAN }),
      .tol = 0x1p-18, .size = rough_size }, /* the error bound of outlier_kernels.h */
    { 0 },
};
