/* kernels_ops.c - test and benchmark cases of the elementwise, normalization and cross-attention
 * kernels of the forward pass (harness/engine/ops.h).
 *
 * e is float's unit roundoff, 2^-24. The variants add the elements of a row in different orders:
 * portable C in four partial sums, the others in more. The error of a sum of d terms is at most
 * (d / 4 + 2) e, relative to the sum of magnitudes. Two variants differ by at most twice that. FMA
 * only omits roundings, so the bound also holds for variants with FMA. */
#include <math.h>

#include "harness/bench/kernel_case.h"
#include "harness/engine/ops.h"
#include "methods/kernels/rope.h"

#define E 0x1p-24

static const void *table(void)
{
    return kvr_ops_cpu();
}

static size_t product(const struct kvr_case_kit *k)
{
    return (size_t)k->shape[0] * (size_t)k->shape[1];
}

/* Shapes {n, d, tokens_per_frame}: n rows of d elements. They include d that are not a multiple of
 * the SIMD width, and enough rows for several threads. */
static const int row_shapes[][KVR_CASE_DIMS] = { { 1, 1, 1 },      { 3, 7, 1 },
                                                 { 5, 16, 2 },     { 7, 33, 3 },
                                                 { 45, 257, 15 },  { 108, 192, 36 },
                                                 { 61, 1100, 20 }, { 53, 1800, 20 } };

static struct kvr_rows rows_of(const struct kvr_case_kit *k)
{
    return (struct kvr_rows){ k->shape[0], k->shape[1], k->shape[2] };
}

static size_t frames_of(const struct kvr_case_kit *k)
{
    return (size_t)((k->shape[0] + k->shape[2] - 1) / k->shape[2]);
}

static double sum_error(int d)
{
    return 2 * (d / 4.0 + 2) * E;
}

/* ---- norms ------------------------------------------------------------------------------ */

static double largest(const float *x, int d)
{
    double most = 0;

    for (int i = 0; i < d; i++)
        /* The loop compares instead of calling fmax(), because gcc 12 for ARM cannot compile a loop
         * of fmax() calls. */
        if (fabs((double)x[i]) > most)
            most = fabs((double)x[i]);
    return most;
}

/* Computes the largest |x| and 1 / sqrt(variance + eps) of a row in double precision. */
static void moments(const float *x, int d, double *most, double *inv)
{
    double mean = 0, square = 0;

    *most = largest(x, d);
    for (int i = 0; i < d; i++)
        mean += (double)x[i] / d;
    for (int i = 0; i < d; i++)
        square += (x[i] - mean) * (x[i] - mean) / d;
    *inv = 1 / sqrt(square + 1e-6);
}

/* Tolerance of a layer norm: the errors of the mean and of x - mean are proportional to the largest
 * |x|. They are multiplied by 1 / sqrt(variance + eps) and by the scale. The last term, the largest
 * |shift|, covers the rounding when the shift is added. */
static double norm_size(const float *x, int d, const float *scale, float one, const float *shift)
{
    double most, inv;

    moments(x, d, &most, &inv);
    return (2 * sum_error(d) + 8 * E) *
           (most * inv * (one + largest(scale, d)) + largest(shift, d));
}

/* Arguments: input x, output y, modulation [frames, 6, d] with shift and scale. */
static enum kvr_status modulate_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, product(k), d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, product(k), d));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, frames_of(k) * 6 * d, d);
}

static void modulate(const struct kvr_case_kit *k)
{
    const struct kvr_rows r = rows_of(k);
    const float *v = k->arg[2].p;

    kvr_ops_cpu()->norm_modulate(NULL, &r, k->arg[0].p, v, v + r.d, 6 * r.d, 1e-6, k->arg[1].p);
}

static double modulate_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row)
{
    const size_t d = (size_t)k->shape[1];
    const float *v = (const float *)k->arg[2].p + row / (size_t)k->shape[2] * 6 * d;

    (void)a;
    return norm_size((const float *)k->arg[0].p + row * d, (int)d, v + d, 1, v);
}

/* Arguments: input x, output y, weight w, bias b. */
static enum kvr_status affine_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, product(k), d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, product(k), d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, d, d));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, d, d);
}

static void affine(const struct kvr_case_kit *k)
{
    const struct kvr_rows r = rows_of(k);

    kvr_ops_cpu()->norm_affine(NULL, &r, k->arg[0].p, k->arg[2].p, k->arg[3].p, 1e-6, k->arg[1].p);
}

static double affine_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row)
{
    const size_t d = (size_t)k->shape[1];

    (void)a;
    return norm_size((const float *)k->arg[0].p + row * d, (int)d, k->arg[2].p, 0, k->arg[3].p);
}

/* Arguments: input and output x, weight w. */
static enum kvr_status rms_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, product(k), 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, d, d);
}

static void rms(const struct kvr_case_kit *k)
{
    const struct kvr_rows r = rows_of(k);

    kvr_ops_cpu()->rms_norm(NULL, &r, k->arg[1].p, 1e-6, k->arg[0].p);
}

/* Tolerance: the squares are positive, so the error of their sum is relative to the sum. The square
 * root halves the relative error. */
static double rms_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row)
{
    return (sum_error(k->shape[1]) / 2 + 8 * E) * fabs((double)((const float *)a->want)[row]);
}

/* ---- positions ---------------------------------------------------------------------------- */

/* Shapes {n, d, head_dim}. Arguments: x, cosines, sines. */
static const int rope_shapes[][KVR_CASE_DIMS] = { { 1, 2, 2 },      { 3, 18, 6 },
                                                  { 5, 48, 16 },    { 37, 174, 58 },
                                                  { 108, 192, 64 }, { 41, 1664, 128 } };

static enum kvr_status rope_args(struct kvr_case_kit *k)
{
    const size_t c = (size_t)k->shape[2] / 2, n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, product(k), 2));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F64, n * c, c));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F64, n * c, c));
    for (size_t i = 0; i < n; i++)
        kvr_rope_angles(2 * (int)c, (int)i, (int)i % 30, (int)i % 52, (double *)k->arg[1].p + i * c,
                        (double *)k->arg[2].p + i * c);
    return KVR_OK;
}

static void rope(const struct kvr_case_kit *k)
{
    const struct kvr_rows r = { k->shape[0], k->shape[1], 1 };

    kvr_ops_cpu()->rope(NULL, &r, k->shape[2], k->arg[1].p, k->arg[2].p, k->arg[0].p);
}

/* ---- elementwise -------------------------------------------------------------------------- */

/* Arguments: input and output x, addend y, and gate [frames, 3, d], by which add_gated multiplies
 * y. */
static enum kvr_status gated_args(struct kvr_case_kit *k)
{
    const size_t d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, product(k), 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, product(k), d));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, frames_of(k) * 3 * d, d);
}

static void gated(const struct kvr_case_kit *k)
{
    const struct kvr_rows r = rows_of(k);

    kvr_ops_cpu()->add(NULL, &r, k->arg[1].p, k->arg[2].p, 3 * r.d, k->arg[0].p);
}

/* Tolerance: the rounding of the product y * gate, because variants with FMA omit it, plus the
 * rounding of the sum in each of the two compared variants. */
static double gated_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const size_t d = (size_t)k->shape[1], frame = at / d / (size_t)k->shape[2];
    const double y = ((const float *)k->arg[1].p)[at];
    const double g = ((const float *)k->arg[2].p)[frame * 3 * d + at % d];

    return E * fabs(y * g) + 2 * E * fabs((double)((const float *)a->want)[at]);
}

static void run_add(const struct kvr_case_kit *k)
{
    const struct kvr_rows r = rows_of(k);

    kvr_ops_cpu()->add(NULL, &r, k->arg[1].p, NULL, 0, k->arg[0].p);
}

static const int flat_shapes[][KVR_CASE_DIMS] = { { 1 }, { 15 }, { 16 }, { 4099 }, { 70001 } };

static enum kvr_status in_place_args(struct kvr_case_kit *k)
{
    return kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, (size_t)k->shape[0], 1);
}

static void gelu(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->gelu(NULL, k->shape[0], k->arg[0].p);
}

/* Tolerance of GELU, u / (1 + e^(-2z)) with z = sqrt(2/pi) (u + .044715 u^3). The six roundings in
 * z cause a relative error of the exponential of 6 |2z| e, where e is the unit roundoff. The
 * exponential itself, the sum and the quotient add up to 10 e. The kernels clamp the exponent to
 * 87, so the tolerance limits |z| to 44. */
static double gelu_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t at)
{
    const double u = ((const float *)a->before)[at];
    const double z = fmin(fabs(sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)), 44);

    (void)k;
    return 2 * (12 * z + 10) * E * fabs((double)((const float *)a->want)[at]);
}

/* Arguments: input x, output y. */
static enum kvr_status one_to_one_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, (size_t)k->shape[0], 1);
}

static void silu(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->silu(NULL, k->shape[0], k->arg[0].p, k->arg[1].p);
}

/* Arguments: inputs x and y, output. */
static enum kvr_status two_to_one_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, (size_t)k->shape[0], 1);
}

static void subtract(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->subtract(NULL, k->shape[0], k->arg[0].p, k->arg[1].p, k->arg[2].p);
}

static void clamp(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->clamp(NULL, k->shape[0], -1.0f, 0.75f, k->arg[0].p);
}

/* Arguments: x, flag. */
static enum kvr_status not_finite_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_I32, 1, 1);
}

static void not_finite(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->not_finite(NULL, k->shape[0], k->arg[0].p, k->arg[1].p);
}

/* Arguments: inputs x and y; partial sums [2, KVR_OPS_L1_PARTS] of |x - y| and of |y|. */
static enum kvr_status l1_args(struct kvr_case_kit *k)
{
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[0], 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F64, 2 * (size_t)KVR_OPS_L1_PARTS, 1);
}

static void l1(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->l1(NULL, k->shape[0], k->arg[0].p, k->arg[1].p, k->arg[2].p);
}

/* ---- patches ------------------------------------------------------------------------------ */

/* Shapes {frames, channels, height, width}, with patches of 2 x 2. */
static const int patch_shapes[][KVR_CASE_DIMS] = { { 1, 1, 2, 2 },
                                                   { 2, 3, 6, 10 },
                                                   { 3, 16, 12, 18 } };

static enum kvr_status patch_args(struct kvr_case_kit *k)
{
    const size_t n = product(k) * (size_t)k->shape[2] * (size_t)k->shape[3];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, n, 1);
}

static struct kvr_patching patching(const struct kvr_case_kit *k)
{
    return (struct kvr_patching){ k->shape[0], k->shape[1], k->shape[2], k->shape[3], 2, 2 };
}

static void patchify(const struct kvr_case_kit *k)
{
    const struct kvr_patching p = patching(k);

    kvr_ops_cpu()->patchify(NULL, &p, k->arg[0].p, k->arg[1].p);
}

static void unpatchify(const struct kvr_case_kit *k)
{
    const struct kvr_patching p = patching(k);

    kvr_ops_cpu()->unpatchify(NULL, &p, k->arg[0].p, k->arg[1].p);
}

/* ---- cross-attention ---------------------------------------------------------------------- */

/* Shapes {tokens, heads, head_dim, keys}. */
static const int cross_shapes[][KVR_CASE_DIMS] = { { 1, 1, 2, 1 },     { 9, 2, 10, 5 },
                                                   { 31, 3, 64, 16 },  { 45, 2, 128, 17 },
                                                   { 13, 1, 48, 512 }, { 60, 3, 66, 600 } };

static struct kvr_cross cross_of(const struct kvr_case_kit *k, int at)
{
    return (struct kvr_cross){ k->shape[3],  k->shape[1],      k->shape[2],
                               k->arg[at].p, k->arg[at + 1].p, KVR_F32 };
}

/* Arguments: keys and values of the prompt [keys, heads * head_dim], and then both in packed
 * form. */
static enum kvr_status packed_args(struct kvr_case_kit *k, enum kvr_case_role packed)
{
    const size_t n = (size_t)k->shape[3] * (size_t)k->shape[1] * (size_t)k->shape[2];
    const size_t d = (size_t)k->shape[2];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, d));
    KVR_TRY(kvr_case_arg(k, packed, KVR_F32,
                         (size_t)kvr_cross_k_floats(k->shape[3], k->shape[1], k->shape[2]), d));
    return kvr_case_arg(k, packed, KVR_F32,
                        (size_t)kvr_cross_v_floats(k->shape[3], k->shape[1], k->shape[2]), d);
}

static enum kvr_status pack_args(struct kvr_case_kit *k)
{
    return packed_args(k, KVR_CASE_OUT);
}

static void cross_pack(const struct kvr_case_kit *k)
{
    struct kvr_cross c = cross_of(k, 2);

    kvr_ops_cpu()->cross_pack(NULL, &c, k->arg[0].p, k->arg[1].p);
}

/* Arguments: queries and output [tokens, heads * head_dim], then the arguments of packed_args(). */
static enum kvr_status cross_args(struct kvr_case_kit *k)
{
    const size_t n = product(k) * (size_t)k->shape[2], d = (size_t)k->shape[2];
    struct kvr_cross c;

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, n, d));
    KVR_TRY(packed_args(k, KVR_CASE_IN));
    c = cross_of(k, 4);
    kvr_ops_cpu()->cross_pack(NULL, &c, k->arg[2].p, k->arg[3].p);
    return KVR_OK;
}

static void cross_attend(const struct kvr_case_kit *k)
{
    const struct kvr_cross c = cross_of(k, 4);
    const struct kvr_rows r = { k->shape[0], k->shape[1] * k->shape[2], 1 };

    kvr_ops_cpu()->cross_attend(NULL, &r, &c, NULL, k->arg[0].p, k->arg[1].p);
}

/* Tolerance, with the unit roundoff e = 2^-24: a score is a sum of head_dim products in a fixed
 * order. Its error is at most s = (head_dim + 2) e times the sum of the products' magnitudes. The
 * maximum score has the same error. A softmax weight then has a relative error of exp(2s) - 1, plus
 * 8 e from the exponential. The sum of weights and the weighted sum of values add (keys + 2) e
 * each. Two variants differ by at most twice the sum of these errors, relative to the largest
 * |v|. */
static double cross_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t row)
{
    const int heads = k->shape[1], d = k->shape[2], keys = k->shape[3];
    const size_t width = (size_t)heads * (size_t)d, h = row % (size_t)heads * (size_t)d;
    const float *q = (const float *)k->arg[0].p + row * (size_t)d;
    const float *key = (const float *)k->arg[2].p + h, *v = (const float *)k->arg[3].p + h;
    double score = 0, most = 0, s, weight;

    (void)a;
    for (int j = 0; j < keys; j++) {
        double size = 0;

        for (int i = 0; i < d; i++) {
            size += fabs((double)q[i] * key[(size_t)j * width + (size_t)i]);
            most = fmax(most, fabs((double)v[(size_t)j * width + (size_t)i]));
        }
        score = fmax(score, size / sqrt(d));
    }
    s = (d + 2) * E * score;
    weight = expm1(fmin(2 * s, 1)) + 8 * E + 2 * (keys + 2) * E;
    return 2 * most * fmin(weight, 1);
}

/* ---- modulation --------------------------------------------------------------------------- */

/* Shapes {frames, rows, d}. Arguments: output [frames, rows, d], input per frame [frames, rows, d],
 * and base [rows, d], which is added to each frame's input. */
static const int modulation_shapes[][KVR_CASE_DIMS] = { { 1, 1, 1 }, { 3, 6, 19 }, { 4, 2, 192 } };

static enum kvr_status modulation_args(struct kvr_case_kit *k)
{
    const size_t n = product(k) * (size_t)k->shape[2];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, (size_t)k->shape[1] * (size_t)k->shape[2], 1);
}

static void modulation(const struct kvr_case_kit *k)
{
    kvr_ops_cpu()->add_modulation(NULL, k->shape[0], k->shape[1], k->shape[2], k->arg[2].p,
                                  k->arg[1].p, false, k->arg[0].p);
}

#define CASE(called, args, fn, list, ...)                                                          \
    .name = "ops." called, .table = table, .prepare = args, .run = fn, .shapes = list,             \
    .n_shapes = (int)(sizeof list / sizeof *list), .timed = __VA_ARGS__

const struct kvr_kernel_case kvr_kernels_ops[] = {
    { CASE("norm_modulate", modulate_args, modulate, row_shapes, { 192, 1536, 64 }), .tol = 1,
      .size = modulate_size },
    { CASE("norm_affine", affine_args, affine, row_shapes, { 192, 1536, 64 }), .tol = 1,
      .size = affine_size },
    { CASE("rms_norm", rms_args, rms, row_shapes, { 192, 1536, 64 }), .tol = 1, .size = rms_size },
    /* Tolerance: each variant rotates in double precision and rounds once, so two variants differ
     * by at most one ulp of the larger element of the rotated pair. */
    { CASE("rope", rope_args, rope, rope_shapes, { 192, 1536, 128 }), .tol = 2 * E },
    { CASE("add", gated_args, run_add, row_shapes, { 192, 1536, 64 }) },
    { CASE("add_gated", gated_args, gated, row_shapes, { 192, 1536, 64 }), .tol = 1,
      .size = gated_size },
    { CASE("gelu", in_place_args, gelu, flat_shapes, { 1 << 18 }), .tol = 1, .size = gelu_size },
    /* Tolerance: each of the two compared variants has a relative error of up to 10 e, which
     * includes 2 ulp of the exponential and the roundings of the sum and the quotient. */
    { CASE("silu", one_to_one_args, silu, flat_shapes, { 1 << 18 }), .tol = 2 * 10 * E },
    { CASE("patchify", patch_args, patchify, patch_shapes, { 3, 16, 60, 104 }) },
    { CASE("unpatchify", patch_args, unpatchify, patch_shapes, { 3, 16, 60, 104 }) },
    { CASE("cross_pack", pack_args, cross_pack, cross_shapes, { 1, 12, 128, 512 }) },
    { CASE("cross_attend", cross_args, cross_attend, cross_shapes, { 16, 12, 128, 512 }), .tol = 1,
      .size = cross_size },
    { CASE("add_modulation", modulation_args, modulation, modulation_shapes, { 21, 6, 1536 }) },
    { CASE("subtract", two_to_one_args, subtract, flat_shapes, { 1 << 18 }) },
    { CASE("l1", l1_args, l1, flat_shapes, { 1 << 18 }) },
    { CASE("clamp", in_place_args, clamp, flat_shapes, { 1 << 18 }) },
    { CASE("not_finite", not_finite_args, not_finite, flat_shapes, { 1 << 18 }) },
    { 0 },
};
