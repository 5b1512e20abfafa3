/* kernels_metrics.c - test and benchmark cases of the kernels of metrics (metrics/kernels.h) and of
 * the probe (harness/workload/probe_kernels.h).
 *
 * Stored metrics must not depend on the CPU, so all variants must be exactly equal. */
#include <string.h>

#include "harness/bench/kernel_case.h"
#include "harness/workload/probe_kernels.h"
#include "metrics/kernels.h"

static const void *table(void)
{
    return kvr_metric_kernels();
}

static void *at(const struct kvr_case_kit *k, int which)
{
    return k->arg[which].p;
}

/* ---- sums over bytes ---------------------------------------------------------------------- */

/* Shapes {n}: n bytes. The kernels sum blocks of 32768 bytes; the largest n spans three blocks. */
static const int byte_shapes[][KVR_CASE_DIMS] = { { 1 }, { 31 }, { 257 }, { 70001 } };

/* Arguments: byte arrays `a`, `b` and `c` [n]; the sum. Only sum_bend reads `c`. */
static enum kvr_status bytes_args(struct kvr_case_kit *k)
{
    for (int i = 0; i < 3; i++)
        KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_U64, 1, 1);
}

static void sum_squared(const struct kvr_case_kit *k)
{
    *(uint64_t *)at(k, 3) = kvr_metric_kernels()->sum_squared(at(k, 0), at(k, 1), k->arg[0].n);
}

static void sum_absolute(const struct kvr_case_kit *k)
{
    *(uint64_t *)at(k, 3) = kvr_metric_kernels()->sum_absolute(at(k, 0), at(k, 1), k->arg[0].n);
}

static void sum_bend(const struct kvr_case_kit *k)
{
    *(uint64_t *)at(k, 3) =
        kvr_metric_kernels()->sum_bend(at(k, 0), at(k, 1), at(k, 2), k->arg[0].n);
}

/* ---- images ------------------------------------------------------------------------------- */

/* Shapes {n}: n pixels. */
static const int pixel_shapes[][KVR_CASE_DIMS] = { { 1 }, { 21 }, { 64 }, { 20011 } };

/* Arguments: RGB pixels, sums. */
static enum kvr_status colours_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, 3 * (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_U64, 3, 1);
}

static void sum_colours(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->sum_colours(at(k, 0), (size_t)k->shape[0], at(k, 1));
}

/* Arguments: luma, RGB pixels. */
static enum kvr_status luma_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_U8, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_U8, 3 * (size_t)k->shape[0], 1);
}

static void luma(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->luma(at(k, 0), at(k, 1), (size_t)k->shape[0]);
}

/* Shapes {n}: n pixels in a row. */
static const int row_shapes[][KVR_CASE_DIMS] = { { 19 }, { 33 }, { 106 }, { 4117 } };

/* Arguments: three rows of an image; the sum of the Laplacian and the sum of its squares. The
 * kernel adds to both sums, so they have initial values. */
static enum kvr_status laplacian_args(struct kvr_case_kit *k)
{
    int64_t *sums;

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, 3 * (size_t)k->shape[0], 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_I64, 2, 1));
    sums = at(k, 1);
    sums[0] = -70000;
    sums[1] = 5000000000;
    return KVR_OK;
}

static void laplacian(const struct kvr_case_kit *k)
{
    const int w = k->shape[0];
    int64_t *sums = at(k, 1);

    kvr_metric_kernels()->laplacian((const uint8_t *)at(k, 0) + w + 1, w, w - 2, &sums[0],
                                    &sums[1]);
}

/* ---- SSIM --------------------------------------------------------------------------------- */

static struct kvr_ssim_columns columns_of(const struct kvr_case_kit *k)
{
    return (struct kvr_ssim_columns){ at(k, 0), at(k, 1), at(k, 2), at(k, 3), at(k, 4) };
}

/* Arguments: sums of x, y, x^2, y^2 and x y in each column over seven rows of two images, and then
 * the rows of both images [7, row]. */
static enum kvr_status columns_args(struct kvr_case_kit *k, enum kvr_case_role role)
{
    const size_t row = 3 * (size_t)k->shape[0];
    struct kvr_ssim_columns c;

    for (int i = 0; i < 5; i++) {
        KVR_TRY(kvr_case_arg(k, role, KVR_I32, row, 1));
        memset(at(k, i), 0, row * sizeof(int32_t));
    }
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, 7 * row, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, 7 * row, 1));
    c = columns_of(k);
    for (size_t y = 0; y < 7; y++)
        kvr_metric_kernels_portable.ssim_add(&c, (const uint8_t *)at(k, 5) + y * row,
                                             (const uint8_t *)at(k, 6) + y * row, (int)row, 1);
    return KVR_OK;
}

static enum kvr_status ssim_add_args(struct kvr_case_kit *k)
{
    return columns_args(k, KVR_CASE_INOUT);
}

/* Removes one row from the column sums and adds another row. */
static void ssim_add(const struct kvr_case_kit *k)
{
    const struct kvr_ssim_columns c = columns_of(k);
    const int row = 3 * k->shape[0];
    const uint8_t *a = at(k, 5), *b = at(k, 6);

    kvr_metric_kernels()->ssim_add(&c, a, b, row, -1);
    kvr_metric_kernels()->ssim_add(&c, b + row, a + row, row, 1);
}

/* Arguments: the arguments of columns_args(), and the SSIM map. */
static enum kvr_status ssim_map_args(struct kvr_case_kit *k)
{
    KVR_TRY(columns_args(k, KVR_CASE_IN));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, 3 * (size_t)(k->shape[0] - 6), 1);
}

static void ssim_map(const struct kvr_case_kit *k)
{
    const struct kvr_ssim_columns c = columns_of(k);

    kvr_metric_kernels()->ssim_map(&c, 3 * (k->shape[0] - 6), at(k, 7));
}

/* ---- SSIM over a Gaussian window ---------------------------------------------------------- */

enum { WIN = 11, MAPS = 5 };

/* Arguments: rows `a` and `b` [width] of two images; maps [5, width] of a, b, a^2, b^2 and
 * a * b. */
static enum kvr_status products_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, n));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, n));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, MAPS * n, 1);
}

static void gauss_products(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->gauss_products(at(k, 0), at(k, 1), k->shape[0], at(k, 2));
}

/* Arguments: output [n], input, and the weights of the Gaussian window g [11]. */
static enum kvr_status filter_args(struct kvr_case_kit *k, size_t n_in)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, (size_t)k->shape[0], 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F64, n_in, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F64, WIN, 1);
}

static enum kvr_status along_args(struct kvr_case_kit *k)
{
    return filter_args(k, (size_t)k->shape[0] + WIN - 1);
}

static void gauss_along(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->gauss_along(at(k, 2), at(k, 1), k->shape[0], at(k, 0));
}

static enum kvr_status across_args(struct kvr_case_kit *k)
{
    return filter_args(k, WIN * (size_t)k->shape[0]);
}

static void gauss_across(const struct kvr_case_kit *k)
{
    const double *rows[WIN];

    for (int i = 0; i < WIN; i++)
        rows[i] = (const double *)at(k, 1) + (size_t)i * (size_t)k->shape[0];
    kvr_metric_kernels()->gauss_across(at(k, 2), rows, k->shape[0], at(k, 0));
}

/* Arguments: SSIM [n] and its contrast term [n]; the five filtered maps [5, n] of
 * products_args(). */
static enum kvr_status map_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, n, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F64, MAPS * n, 1);
}

static void gauss_map(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->gauss_map(at(k, 2), k->shape[0], at(k, 0), at(k, 1));
}

/* ---- LPIPS -------------------------------------------------------------------------------- */

/* Arguments: sum [n]; features a and b [n]; reciprocal norms na and nb [n] of the feature
 * vectors. */
static enum kvr_status lpips_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F64, n, 1));
    for (int i = 1; i < 5; i++)
        KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, i < 3 ? KVR_F32 : KVR_F64, n, n));
    return KVR_OK;
}

/* Arguments: sum [n], to which the kernel adds the squares of the features [n]. */
static enum kvr_status squares_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F64, n, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, n);
}

static void add_squares(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->add_squares(at(k, 1), k->arg[0].n, at(k, 0));
}

static void add_distance(const struct kvr_case_kit *k)
{
    kvr_metric_kernels()->add_distance(at(k, 1), at(k, 3), at(k, 2), at(k, 4), 0.3, k->arg[0].n,
                                       at(k, 0));
}

/* ---- the probe ---------------------------------------------------------------------------- */

static const void *probe_table(void)
{
    return kvr_probe_kernels();
}

/* Shapes {m, k, n} of a matrix product. */
static const int mul_shapes[][KVR_CASE_DIMS] = {
    { 1, 1, 16 }, { 3, 7, 32 }, { 4, 64, 48 }, { 4, 129, 128 }
};

/* Arguments: matrices C [m, n], A [m, k] and B [k, n]. The kernel computes C += A B. */
static enum kvr_status mul_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], inner = (size_t)k->shape[1], n = (size_t)k->shape[2];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F64, m * n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F64, m * inner, inner));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F64, inner * n, n);
}

static void mul(const struct kvr_case_kit *k)
{
    const int inner = k->shape[1], n = k->shape[2];

    kvr_probe_kernels()->mul(at(k, 1), inner, k->shape[0], at(k, 2), n, inner, n, at(k, 0), n);
}

#define CASE(called, its, args, fn, list, ...)                                                     \
    {                                                                                              \
        .name = called, .table = its, .prepare = args, .run = fn, .shapes = list,                  \
        .n_shapes = (int)(sizeof list / sizeof *list), .timed = __VA_ARGS__                        \
    }
#define METRIC(fn, args, list, ...) CASE("metrics." #fn, table, args, fn, list, __VA_ARGS__)

const struct kvr_kernel_case kvr_kernels_metrics[] = {
    METRIC(sum_squared, bytes_args, byte_shapes, { 1 << 18 }),
    METRIC(sum_absolute, bytes_args, byte_shapes, { 1 << 18 }),
    METRIC(sum_bend, bytes_args, byte_shapes, { 1 << 18 }),
    METRIC(sum_colours, colours_args, pixel_shapes, { 1 << 16 }),
    METRIC(luma, luma_args, pixel_shapes, { 1 << 16 }),
    METRIC(laplacian, laplacian_args, row_shapes, { 1 << 16 }),
    METRIC(ssim_add, ssim_add_args, row_shapes, { 832 }),
    METRIC(ssim_map, ssim_map_args, row_shapes, { 832 }),
    METRIC(gauss_products, products_args, row_shapes, { 832 }),
    METRIC(gauss_along, along_args, row_shapes, { 832 }),
    METRIC(gauss_across, across_args, row_shapes, { 832 }),
    METRIC(gauss_map, map_args, row_shapes, { 832 }),
    METRIC(add_squares, squares_args, row_shapes, { 1 << 14 }),
    METRIC(add_distance, lpips_args, row_shapes, { 1 << 14 }),
    CASE("probe.mul", probe_table, mul_args, mul, mul_shapes, { 4, 128, 1536 }),
    { 0 },
};
