/* kernels_attend.c - test and benchmark cases of the CPU kernels of attention
 * (harness/cache/attend_kernels.h).
 *
 * Tolerance: all variants add the terms of a result in the same order, with or without FMA. The
 * rounding error is at most 2^-24 per term, relative to the sum of the terms' magnitudes. Two
 * variants differ by at most twice that. */
#include <math.h>

#include "harness/bench/kernel_case.h"
#include "harness/cache/attend_kernels.h"

#define E 0x1p-24

enum { PAD = KVR_ATTEND_PAD };

static const void *table(void)
{
    return kvr_attend_kernels();
}

static float *f32(const struct kvr_case_kit *k, int which)
{
    return k->arg[which].p;
}

/* Returns element [row][col] of a matrix that is stored as panels of PAD columns, each
 * [rows][PAD]. */
static double in_panel(const float *panels, int rows, int row, int col)
{
    return (double)
        panels[((size_t)(col / PAD) * (size_t)rows + (size_t)row) * PAD + (size_t)(col % PAD)];
}

static double sum_of_sizes(const float *a, const float *panels, int rows, int col)
{
    double size = 0;

    for (int i = 0; i < rows; i++)
        size += fabs(a[i] * in_panel(panels, rows, i, col));
    return size;
}

/* ---- products ----------------------------------------------------------------------------- */

/* Shapes {m, n, d}: m queries, n tokens, d channels. */
static const int product_shapes[][KVR_CASE_DIMS] = {
    { 1, 16, 1 }, { 3, 16, 7 }, { 7, 48, 64 }, { 13, 64, 128 }, { 64, 64, 33 }, { 64, 80, 96 }
};

/* Arguments: scores [m, n], queries [m, d], keys in panels. */
static enum kvr_status scores_args(struct kvr_case_kit *k)
{
    return kvr_case_product_args(k, KVR_CASE_OUT, KVR_F32, k->shape[0], k->shape[2], k->shape[1]);
}

static void scores(const struct kvr_case_kit *k)
{
    const int m = k->shape[0], n = k->shape[1], d = k->shape[2];

    kvr_attend_kernels()->scores(f32(k, 1), d, f32(k, 2), f32(k, 0), n, m, n);
}

static double scores_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const int n = k->shape[1], d = k->shape[2];

    (void)a;
    return 2 * (d + 1) * E *
           sum_of_sizes(f32(k, 1) + at / (size_t)n * (size_t)d, f32(k, 2), d,
                        (int)(at % (size_t)n));
}

/* Shapes {m, n, d}: m queries, n tokens, d channels; d is a multiple of the panel width. */
static const int values_shapes[][KVR_CASE_DIMS] = {
    { 1, 1, 16 }, { 3, 7, 16 }, { 7, 64, 48 }, { 13, 33, 128 }, { 64, 64, 64 }, { 64, 5, 96 }
};

/* Arguments: output [m, d], weights [m, n], values in panels. */
static enum kvr_status values_args(struct kvr_case_kit *k)
{
    return kvr_case_product_args(k, KVR_CASE_INOUT, KVR_F32, k->shape[0], k->shape[1], k->shape[2]);
}

static void add_values(const struct kvr_case_kit *k)
{
    const int m = k->shape[0], n = k->shape[1], d = k->shape[2];

    kvr_attend_kernels()->add_values(f32(k, 1), n, f32(k, 2), f32(k, 0), d, n, m, d);
}

static double values_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const int n = k->shape[1], d = k->shape[2];
    const double before = fabs((double)((const float *)a->before)[at]);

    return 2 * (n + 2) * E *
           (before + sum_of_sizes(f32(k, 1) + at / (size_t)d * (size_t)n, f32(k, 2), n,
                                  (int)(at % (size_t)d)));
}

/* ---- softmax ------------------------------------------------------------------------------ */

/* Shapes {m, n}: m rows of n scores, m at most KVR_ATTEND_ROWS. */
static const int softmax_shapes[][KVR_CASE_DIMS] = { { 1, 16 }, { 3, 64 }, { 5, 48 }, { 48, 64 } };

/* Arguments: scores [m, n]; running maximum, running sum and rescaling factor [m]; bias [n]. */
static enum kvr_status softmax_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], n = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m * n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, m, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, 1);
}

static void softmax_with(const struct kvr_case_kit *k, const float *bias)
{
    const int m = k->shape[0], n = k->shape[1];

    kvr_attend_kernels()->online_softmax(f32(k, 0), n, bias, m, n, f32(k, 1), f32(k, 2), f32(k, 3));
}

static void online_softmax(const struct kvr_case_kit *k)
{
    softmax_with(k, NULL);
}

static void softmax_biased(const struct kvr_case_kit *k)
{
    softmax_with(k, f32(k, 4));
}

/* Tolerance: e^x has a relative error of at most 2e-7 + 6e-8 |x|, for |x| <= 87. The kernel adds n
 * weights of at most 1 to the running sum. The rounding error of this sum is at most (n + 2) 2^-24
 * times the previous sum plus n. The running maximum is exact. */
static double softmax_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const double weight = 2 * (2e-7 + 6e-8 * 87);
    const int n = k->shape[1];

    if (a == &k->arg[0] || a == &k->arg[3])
        return weight * fabs((double)((const float *)a->want)[at]);
    if (a == &k->arg[2])
        return (weight + 2 * (n + 2) * E) * (n + fabs((double)((const float *)a->before)[at]));
    return 0;
}

/* ---- scaling and packing ------------------------------------------------------------------ */

static const int scale_shapes[][KVR_CASE_DIMS] = { { 16 }, { 48 }, { 4096 } };

static enum kvr_status scale_args(struct kvr_case_kit *k)
{
    return kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, (size_t)k->shape[0], 1);
}

static void scale(const struct kvr_case_kit *k)
{
    kvr_attend_kernels()->scale(f32(k, 0), k->shape[0], 0.3f);
}

/* Shapes {n, d}: n tokens, d channels. */
static const int pack_shapes[][KVR_CASE_DIMS] = { { 1, 1 },    { 16, 16 }, { 17, 33 },
                                                  { 64, 128 }, { 50, 40 }, { 5, 96 } };

static size_t padded(int n)
{
    return (size_t)(n + PAD - 1) / PAD * PAD;
}

static enum kvr_status pack_keys_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0] * d, d));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, padded(k->shape[0]) * d, PAD);
}

static void pack_keys(const struct kvr_case_kit *k)
{
    kvr_attend_kernels()->pack_keys(f32(k, 0), k->shape[0], k->shape[1], f32(k, 1));
}

static enum kvr_status pack_values_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0], d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n * d, d));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, n * padded(k->shape[1]), PAD);
}

static void pack_values(const struct kvr_case_kit *k)
{
    kvr_attend_kernels()->pack_values(f32(k, 0), k->shape[0], k->shape[1], f32(k, 1));
}

#define CASE(called, args, fn, list, ...)                                                          \
    .name = "attend." called, .table = table, .prepare = args, .run = fn, .shapes = list,          \
    .n_shapes = (int)(sizeof list / sizeof *list), .timed = __VA_ARGS__

const struct kvr_kernel_case kvr_kernels_attend[] = {
    { CASE("scores", scores_args, scores, product_shapes, { 64, 64, 128 }), .tol = 1,
      .size = scores_size },
    { CASE("add_values", values_args, add_values, values_shapes, { 64, 64, 128 }), .tol = 1,
      .size = values_size },
    { CASE("online_softmax", softmax_args, online_softmax, softmax_shapes, { 48, 64 }), .tol = 1,
      .size = softmax_size },
    { CASE("softmax_biased", softmax_args, softmax_biased, softmax_shapes, { 48, 64 }), .tol = 1,
      .size = softmax_size },
    { CASE("scale", scale_args, scale, scale_shapes, { 8192 }) },
    { CASE("pack_keys", pack_keys_args, pack_keys, pack_shapes, { 64, 128 }) },
    { CASE("pack_values", pack_values_args, pack_values, pack_shapes, { 64, 128 }) },
    { 0 },
};
