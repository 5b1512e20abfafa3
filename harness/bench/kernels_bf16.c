/* kernels_bf16.c - test and benchmark cases of the BF16 kernels of attention
 * (harness/cache/attend_bf16.h).
 *
 * Portable C adds terms in the order of the AMX tile instructions. Packed values and finite
 * products of both are therefore equal to the last bit (tests/cache/test_attend_bf16.c). A case
 * without tolerance compares bytes, but the payloads of NaNs may differ. The cases of products
 * therefore have a tolerance: 2^-24 per term, the error bound of a sum in any order.
 */
#include <math.h>

#include "harness/bench/kernel_case.h"
#include "harness/cache/attend_bf16.h"
#include "harness/cache/attend_kernels.h"

#define E 0x1p-24
#define U 0x1p-8 /* of BF16 */

enum { PAD = KVR_ATTEND_PAD };

static const void *table(void)
{
    return kvr_bf16_kernels();
}

static float *f32(const struct kvr_case_kit *k, int which)
{
    return k->arg[which].p;
}

static kvr_bf16 *bf16(const struct kvr_case_kit *k, int which)
{
    return k->arg[which].p;
}

static size_t deep(int n)
{
    return (size_t)kvr_bf16_padded(n);
}

/* ---- packing ------------------------------------------------------------------------------ */

/* Shapes {n, d}: n tokens, d channels. */
static const int pack_shapes[][KVR_CASE_DIMS] = { { 1, 1 },    { 16, 16 }, { 17, 33 },
                                                  { 64, 128 }, { 50, 40 }, { 5, 96 } };

static enum kvr_status pack_keys_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_BF16, (size_t)k->shape[0] * d, d));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_BF16, deep(k->shape[0]) * deep(k->shape[1]), PAD);
}

static void pack_keys(const struct kvr_case_kit *k)
{
    kvr_bf16_kernels()->pack_keys(bf16(k, 0), k->shape[1], k->shape[0], k->shape[1], bf16(k, 1));
}

static enum kvr_status pack_values_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1], wide = (d + PAD - 1) / PAD * PAD;

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_BF16, (size_t)k->shape[0] * d, d));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_BF16, deep(k->shape[0]) * wide, PAD);
}

static void pack_values(const struct kvr_case_kit *k)
{
    kvr_bf16_kernels()->pack_values(bf16(k, 0), k->shape[1], k->shape[0], k->shape[1], bf16(k, 1));
}

/* ---- products ----------------------------------------------------------------------------- */

/* Returns the sum of |a_k b_k| over k, for a row of matrix A and a column of matrix B, which is
 * stored in panels. */
static double sum_of_sizes(const kvr_bf16 *a, const kvr_bf16 *panels, int n, int col)
{
    const kvr_bf16 *b = panels + (size_t)(col / PAD) * PAD * (size_t)n + (size_t)(col % PAD) * 2;
    double size = 0;

    for (int i = 0; i < n; i++)
        size += fabs((double)kvr_bf16_to_f32(a[i]) *
                     (double)kvr_bf16_to_f32(b[i / 2 * PAD * 2 + i % 2]));
    return size;
}

/* Shapes {m, n, d}: m queries, n tokens, d channels; n and d are multiples of KVR_BF16_STEP. */
static const int product_shapes[][KVR_CASE_DIMS] = { { 1, 32, 32 },   { 16, 64, 64 },
                                                     { 17, 32, 96 },  { 33, 64, 32 },
                                                     { 48, 64, 128 }, { 63, 96, 64 } };

/* Arguments: scores [m, n], queries [m, d], keys in panels. */
static enum kvr_status scores_args(struct kvr_case_kit *k)
{
    return kvr_case_product_args(k, KVR_CASE_OUT, KVR_BF16, k->shape[0], k->shape[2], k->shape[1]);
}

static void scores(const struct kvr_case_kit *k)
{
    const int m = k->shape[0], n = k->shape[1], d = k->shape[2];

    kvr_bf16_kernels()->scores(bf16(k, 1), d, d, bf16(k, 2), f32(k, 0), n, m, n);
}

static double scores_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const size_t n = (size_t)k->shape[1];
    const int d = k->shape[2];

    (void)a;
    return 2 * (d + 1) * E *
           sum_of_sizes(bf16(k, 1) + at / n * (size_t)d, bf16(k, 2), d, (int)(at % n));
}

/* Shapes {m, n, d}: m queries, n tokens, d channels; n is a multiple of KVR_BF16_STEP, and d of the
 * panel width PAD. */
static const int values_shapes[][KVR_CASE_DIMS] = { { 1, 32, 16 },   { 16, 64, 48 },
                                                    { 17, 96, 16 },  { 33, 64, 80 },
                                                    { 48, 128, 64 }, { 64, 160, 128 } };

/* Arguments: output [m, d]; attention weights [m, n]; values in tiles of KVR_ATTEND_TILE tokens,
 * where each tile is stored as panels. */
static enum kvr_status values_args(struct kvr_case_kit *k)
{
    return kvr_case_product_args(k, KVR_CASE_INOUT, KVR_BF16, k->shape[0], k->shape[1],
                                 k->shape[2]);
}

static void add_values(const struct kvr_case_kit *k)
{
    const int m = k->shape[0], n = k->shape[1], d = k->shape[2];

    kvr_bf16_kernels()->add_values(bf16(k, 1), n, bf16(k, 2), (int64_t)KVR_ATTEND_TILE * d, n,
                                   f32(k, 0), d, m, d);
}

static double values_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const int n = k->shape[1], d = k->shape[2], tile = KVR_ATTEND_TILE;
    const kvr_bf16 *p = bf16(k, 1) + at / (size_t)d * (size_t)n;
    double size = fabs((double)((const float *)a->before)[at]);

    for (int t = 0; t < n; t += tile)
        size += sum_of_sizes(p + t, bf16(k, 2) + (size_t)t * (size_t)d, n - t < tile ? n - t : tile,
                             (int)(at % (size_t)d));
    return 2 * (n + 2) * E * size;
}

/* ---- softmax ------------------------------------------------------------------------------ */

static const int online_softmax_shapes[][KVR_CASE_DIMS] = {
    { 1, 32 }, { 3, 64 }, { 5, 96 }, { 64, 256 }
};

/* Arguments: weights [m, n], scores [m, n]; running maximum, running sum and rescaling factor
 * [m]. */
static enum kvr_status online_softmax_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], n = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_BF16, m * n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m * n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m, 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, m, 1);
}

static void online_softmax(const struct kvr_case_kit *k)
{
    const int m = k->shape[0], n = k->shape[1];

    kvr_bf16_kernels()->online_softmax(f32(k, 1), n, m, n, f32(k, 2), f32(k, 3), f32(k, 4),
                                       bf16(k, 0), n);
}

/* Tolerance: two variants of e^x differ by the rounding of x, which is 6e-8 |x| for |x| <= 88, and
 * by the rounding of four products. A weight near the midpoint of two BF16 numbers, or near the
 * smallest normal number, may be rounded to either neighbour. */
static double online_softmax_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a,
                                  size_t at)
{
    const double weight = 2 * (2e-7 + 6e-8 * 88);
    const int n = k->shape[1];

    if (a == &k->arg[0]) {
        const kvr_bf16 want = ((const kvr_bf16 *)a->want)[at];

        return (2 * U + weight) * fabs((double)kvr_bf16_to_f32(want)) + 0x1p-126;
    }
    if (a == &k->arg[3])
        return (weight + 2 * (n + 2) * E) * (n + fabs((double)((const float *)a->before)[at]));
    return a == &k->arg[4] ? weight * fabs((double)((const float *)a->want)[at]) : 0;
}

/* Shapes {m, n}: m rows of n scores. Arguments: scores [m, n], bias [n]. */
static enum kvr_status bias_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], n = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m * n, n));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, n);
}

static void add_bias(const struct kvr_case_kit *k)
{
    kvr_bf16_kernels()->add_bias(f32(k, 0), k->shape[1], f32(k, 1), k->shape[0], k->shape[1]);
}

#define SHAPES(s) .shapes = s, .n_shapes = sizeof s / sizeof *s

const struct kvr_kernel_case kvr_kernels_bf16[] = {
    { .name = "bf16.pack_keys",
      .table = table,
      .prepare = pack_keys_args,
      .run = pack_keys,
      SHAPES(pack_shapes),
      .timed = { 64, 128 } },
    { .name = "bf16.pack_values",
      .table = table,
      .prepare = pack_values_args,
      .run = pack_values,
      SHAPES(pack_shapes),
      .timed = { 64, 128 } },
    { .name = "bf16.scores",
      .table = table,
      .prepare = scores_args,
      .run = scores,
      SHAPES(product_shapes),
      .timed = { 64, 64, 128 },
      .tol = 1,
      .size = scores_size },
    { .name = "bf16.add_values",
      .table = table,
      .prepare = values_args,
      .run = add_values,
      SHAPES(values_shapes),
      .timed = { 64, 256, 128 },
      .tol = 1,
      .size = values_size },
    { .name = "bf16.online_softmax",
      .table = table,
      .prepare = online_softmax_args,
      .run = online_softmax,
      SHAPES(online_softmax_shapes),
      .timed = { 64, 256 },
      .tol = 1,
      .size = online_softmax_size },
    { .name = "bf16.add_bias",
      .table = table,
      .prepare = bias_args,
      .run = add_bias,
      SHAPES(online_softmax_shapes),
      .timed = { 64, 64 } },
    { 0 },
};
