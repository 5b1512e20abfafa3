/* kernels_bytes.c - test and benchmark cases of the kernels of int8 attention
 * (harness/cache/attend_dot.h). F32 kernels with the same shapes are timed for comparison.
 *
 * Packing quantizes rows to codes. The largest code of keys and values (`top`, 63 or 127) depends
 * on the variant. Each variant is therefore compared with a plain implementation that uses the
 * variant's `top`. A code results from two roundings, which a variant may fuse into one. If this
 * changes the code, both codes are accepted.
 *
 * Products: an int8 dot product is exact in int32 and, below 2^24, in float. It is therefore equal
 * in all variants. The kernel then scales the dot product and adds an F32 number. A variant may
 * fuse these two operations, so the error is up to 2^-24 of the product and of the result. The
 * codes in these cases are in the range that every variant accepts. */
#include <math.h>

#include "harness/bench/kernel_case.h"
#include "harness/cache/attend_dot.h"

#define E 0x1p-24

enum { PAD = KVR_ATTEND_PAD, TILE = KVR_ATTEND_TILE };

static const void *table(void)
{
    return kvr_dot_kernels();
}

static void *at(const struct kvr_case_kit *k, int which)
{
    return k->arg[which].p;
}

static size_t padded(int n)
{
    return (size_t)(n + PAD - 1) / PAD * PAD;
}

static size_t round4(int n)
{
    return (size_t)kvr_round4(n);
}

/* ---- packing ------------------------------------------------------------------------------ */

/* Position of a code in a matrix: its column, and its index along the dimension that the dot
 * product sums over (`inner`). */
struct element {
    size_t column, inner;
};

/* Returns the column and the inner index of byte i of a matrix that is stored as panels of PAD
 * columns. Each column has `inner` codes, rounded up to a multiple of four. */
static struct element element_of(size_t i, int inner)
{
    const size_t panel = round4(inner) * PAD, rest = i % panel;

    return (struct element){ i / panel * PAD + rest / 4 % PAD, rest / (4 * PAD) * 4 + rest % 4 };
}

/* Matrix of numbers to quantize, columns x inner, with one scale per column. */
struct coded {
    const float *x, *mu; /* mu [inner]: to subtract from each column of x; may be NULL */
    int columns, inner;
    size_t column_step, inner_step;
    int top;
};

static float number(const struct coded *m, size_t column, size_t inner)
{
    const float x = m->x[column * m->column_step + inner * m->inner_step];

    return m->mu ? x - m->mu[inner] : x;
}

/* Returns the largest magnitude in a column, or NaN if any element is not finite. */
static float largest(const struct coded *m, size_t column)
{
    float most = 0;

    if (column >= (size_t)m->columns)
        return 0;
    for (size_t i = 0; i < (size_t)m->inner; i++) {
        const float size = fabsf(number(m, column, i));

        if (!isfinite(size))
            return NAN;
        if (size > most)
            most = size;
    }
    return most;
}

/* Returns an element of the matrix divided by its column's scale, before rounding to a code.
 * Padding elements and columns whose largest magnitude is below 1e-30 have the code 0. */
static double in_steps(const struct coded *m, struct element at_, float most)
{
    if (at_.column >= (size_t)m->columns || at_.inner >= (size_t)m->inner || !(most >= 1e-30f))
        return 0;
    return (double)number(m, at_.column, at_.inner) * (double)((float)m->top / most);
}

static float scale_of(const struct coded *m, size_t column)
{
    return largest(m, column) / (float)m->top;
}

/* Returns the tolerance of a code. It is 1 if the unrounded code is near the midpoint of two codes,
 * otherwise 0. If the column's scale is NaN, it is 255, so any code is accepted. */
static double code_size(const struct coded *m, struct element at_)
{
    const float most = largest(m, at_.column);
    const double steps = fabs(in_steps(m, at_, most));

    if (isnan(most))
        return 255;
    return fabs(steps - floor(steps) - .5) <= 2 * E * (steps + 1) ? 1 : 0;
}

static void code_panels(const struct coded *m, int offset, uint8_t *code, float *scale)
{
    const size_t width = padded(m->columns);

    for (size_t i = 0; i < width * round4(m->inner); i++) {
        const struct element p = element_of(i, m->inner);

        code[i] = (uint8_t)(offset + (int)rint(in_steps(m, p, largest(m, p.column))));
    }
    for (size_t i = 0; i < width; i++)
        scale[i] = scale_of(m, i);
}

/* Returns the offset that the selected variant adds to key codes to make them unsigned. It is the
 * code of a key that is 0. */
static int key_offset(void)
{
    const float zero[4] = { 0 };
    uint8_t code[4 * PAD];
    float scale[PAD];

    kvr_dot_kernels()->pack_keys(zero, zero, 1, 4, code, scale);
    return code[0];
}

/* Shapes {n, d}: n tokens, d channels. */
static const int pack_shapes[][KVR_CASE_DIMS] = { { 1, 1 },    { 16, 16 }, { 17, 33 },
                                                  { 64, 128 }, { 50, 40 }, { 5, 96 } };

/* Arguments: rows [n, d], codes, scales, and the mean key mu [d], which is subtracted. */
static enum kvr_status keys_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0], d = (size_t)k->shape[1], wide = padded(k->shape[0]);

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n * d, d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_U8, wide * round4(k->shape[1]), 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, wide, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, d, d);
}

static struct coded keys_of(const struct kvr_case_kit *k)
{
    return (struct coded){
        at(k, 0), at(k, 3), k->shape[0], k->shape[1], (size_t)k->shape[1], 1, kvr_dot_kernels()->top
    };
}

static void pack_keys(const struct kvr_case_kit *k)
{
    kvr_dot_kernels()->pack_keys(at(k, 0), at(k, 3), k->shape[0], k->shape[1], at(k, 1), at(k, 2));
}

static void pack_keys_plainly(const struct kvr_case_kit *k)
{
    const struct coded m = keys_of(k);

    code_panels(&m, key_offset(), at(k, 1), at(k, 2));
}

static double keys_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t i)
{
    const struct coded m = keys_of(k);

    return a == &k->arg[1] ? code_size(&m, element_of(i, m.inner)) : 0;
}

/* Arguments: rows [n, d], codes, scales. */
static enum kvr_status values_args(struct kvr_case_kit *k)
{
    const size_t n = (size_t)k->shape[0], d = (size_t)k->shape[1], wide = padded(k->shape[1]);

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n * d, d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_I8, wide * round4(k->shape[0]), 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, wide, 1);
}

static struct coded values_of(const struct kvr_case_kit *k)
{
    return (struct coded){
        at(k, 0), NULL, k->shape[1], k->shape[0], 1, (size_t)k->shape[1], kvr_dot_kernels()->top
    };
}

static void pack_values(const struct kvr_case_kit *k)
{
    kvr_dot_kernels()->pack_values(at(k, 0), k->shape[0], k->shape[1], at(k, 1), at(k, 2));
}

static void pack_values_plainly(const struct kvr_case_kit *k)
{
    const struct coded m = values_of(k);

    code_panels(&m, 0, at(k, 1), at(k, 2));
}

static double values_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t i)
{
    const struct coded m = values_of(k);

    return a == &k->arg[1] ? code_size(&m, element_of(i, m.inner)) : 0;
}

/* Arguments: rows [m, d]; codes [m, d rounded up to a multiple of 4]; scale, shift and mean [m]
 * (struct kvr_dot_queries); mean key mu [d]. */
static enum kvr_status queries_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], d = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, m * d, d));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_I8, m * round4(k->shape[1]), 1));
    for (int i = 0; i < 3; i++)
        KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, m, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, d, d);
}

static struct coded queries_of(const struct kvr_case_kit *k)
{
    return (struct coded){ at(k, 0), NULL, k->shape[0], k->shape[1], (size_t)k->shape[1], 1, 127 };
}

static void pack_queries(const struct kvr_case_kit *k)
{
    const struct kvr_dot_queries out = { at(k, 1), at(k, 2), at(k, 3), at(k, 4) };

    kvr_dot_kernels()->pack_queries(at(k, 0), at(k, 5), k->shape[0], k->shape[1], &out);
}

static float code_sum(const int8_t *code, size_t width)
{
    int sum = 0;

    for (size_t c = 0; c < width; c++)
        sum += code[c];
    return (float)sum;
}

static void pack_queries_plainly(const struct kvr_case_kit *k)
{
    const struct coded m = queries_of(k);
    const size_t width = round4(m.inner);
    const float *mu = at(k, 5);
    int8_t *code = at(k, 1);
    float *scale = at(k, 2), *shift = at(k, 3), *mean = at(k, 4);

    for (size_t i = 0; i < (size_t)m.columns; i++) {
        double sum = 0;

        for (size_t c = 0; c < width; c++)
            code[i * width + c] =
                (int8_t)rint(in_steps(&m, (struct element){ i, c }, largest(&m, i)));
        for (size_t c = 0; c < (size_t)m.inner; c++)
            sum += (double)number(&m, i, c) * (double)mu[c];
        scale[i] = scale_of(&m, i);
        shift[i] = (float)key_offset() * code_sum(code + i * width, width);
        mean[i] = (float)sum;
    }
}

/* Tolerance: the shift is key_offset() times the sum of the query's codes, so it may differ only by
 * as much as the codes do. The `mean`, q . mu, is a sum of d terms in any order. */
static double queries_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t i)
{
    const struct coded m = queries_of(k);
    const size_t width = round4(m.inner);
    double size = 0;

    if (a == &k->arg[1])
        return code_size(&m, (struct element){ i / width, i % width });
    if (a == &k->arg[2])
        return 0;
    if (a == &k->arg[3])
        return isnan(largest(&m, i))
                   ? INFINITY
                   : key_offset() *
                         fabs((double)code_sum((int8_t *)at(k, 1) + i * width, width) -
                              (double)code_sum((int8_t *)k->arg[1].want + i * width, width));
    for (size_t c = 0; c < (size_t)m.inner; c++)
        size += fabs((double)number(&m, i, c) * (double)((float *)at(k, 5))[c]);
    return (m.inner + 2) * E * size;
}

/* ---- products ----------------------------------------------------------------------------- */

/* Shapes {m, n, d}: m queries, n tokens, d channels. */
static const int product_shapes[][KVR_CASE_DIMS] = {
    { 1, 16, 1 }, { 3, 16, 7 }, { 7, 48, 64 }, { 13, 64, 128 }, { 48, 64, 33 }, { 48, 64, 96 }
};

/* Maps the random bytes of an argument to integers from `least` to `most`, including both. */
static void limit(const struct kvr_case_arg *a, int least, int most)
{
    uint8_t *p = a->p;

    for (size_t i = 0; i < a->n; i++)
        p[i] = (uint8_t)(i % 5 == 0   ? most
                         : i % 7 == 0 ? least
                                      : least + p[i] % (most - least + 1));
}

/* Arguments: scores [m, n]; codes, scale, shift and mean of the queries; codes and scales of the
 * keys. */
static enum kvr_status scores_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], n = (size_t)k->shape[1], width = round4(k->shape[2]);

    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, m * n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_I8, m * width, 1));
    for (int i = 0; i < 3; i++)
        KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, m, m));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, n * width, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, n));
    limit(&k->arg[1], -127, 127);
    limit(&k->arg[5], 1, 127);
    return KVR_OK;
}

static void scores(const struct kvr_case_kit *k)
{
    const struct kvr_dot_queries q = { at(k, 1), at(k, 2), at(k, 3), at(k, 4) };
    const int m = k->shape[0], n = k->shape[1];

    kvr_dot_kernels()->scores(&q, 0, k->shape[2], at(k, 5), at(k, 6), at(k, 0), n, m, n);
}

/* Tolerance: the result is product + mean, so |product| <= |result| + |mean|. */
static double scores_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t i)
{
    const float *mean = at(k, 4);

    return 2 * E *
           (2 * fabs((double)((const float *)a->want)[i]) +
            fabs((double)mean[i / (size_t)k->shape[1]]));
}

/* Returns the code of attention weight 1. It is 255, or 127 if portable C multiplies signed
 * bytes. */
static int weight_top(void)
{
    return kvr_dot_kernels_portable.top == 127 ? 127 : 255;
}

/* Shapes {m, n, d}: m queries, n tokens, d channels; d is a multiple of the panel width. */
static const int sum_shapes[][KVR_CASE_DIMS] = { { 1, 1, 16 },    { 3, 7, 16 },   { 7, 64, 48 },
                                                 { 13, 33, 128 }, { 48, 64, 64 }, { 48, 5, 96 } };

/* Arguments: output [m, d]; codes of the attention weights p [m, TILE]; value of one code step [m];
 * codes and scales [d] of the values. */
static enum kvr_status sum_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], d = (size_t)k->shape[2];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m * d, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_U8, m * TILE, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, m, m));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_I8, d * round4(k->shape[1]), 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, KVR_F32, d, d));
    limit(&k->arg[1], 0, weight_top());
    limit(&k->arg[3], -63, 63);
    return KVR_OK;
}

static void add_values(const struct kvr_case_kit *k)
{
    const int d = k->shape[2];

    kvr_dot_kernels()->add_values(at(k, 1), at(k, 2), at(k, 3), at(k, 4), at(k, 0), d, k->shape[1],
                                  k->shape[0], d);
}

/* Tolerance: the result is product + previous value, so |product| <= |result| + |previous
 * value|. */
static double sum_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t i)
{
    (void)k;
    return 2 * E *
           (2 * fabs((double)((const float *)a->want)[i]) +
            fabs((double)((const float *)a->before)[i]));
}

/* ---- softmax ------------------------------------------------------------------------------ */

/* Shapes {m, n}: m rows of n scores. */
static const int softmax_shapes[][KVR_CASE_DIMS] = { { 1, 16 }, { 3, 64 }, { 5, 48 }, { 48, 64 } };

/* Arguments: scores [m, n]; running maximum, running sum, rescaling factor and value of one code
 * step [m]; codes of the weights p [m, TILE]; bias [n]. */
static enum kvr_status softmax_args(struct kvr_case_kit *k)
{
    const size_t m = (size_t)k->shape[0], n = (size_t)k->shape[1];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m * n, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_INOUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, m, 1));
    KVR_TRY(kvr_case_arg(k, KVR_CASE_OUT, KVR_U8, m * TILE, 1));
    return kvr_case_arg(k, KVR_CASE_IN, KVR_F32, n, 1);
}

static void online_softmax(const struct kvr_case_kit *k)
{
    const int m = k->shape[0], n = k->shape[1];

    kvr_dot_kernels()->online_softmax(at(k, 0), n, at(k, 6), m, n, at(k, 1), at(k, 2), at(k, 3),
                                      at(k, 5), at(k, 4));
}

/* Bound of the relative difference of e^x between two variants for |x| <= 87. Each variant has a
 * relative error of at most 2e-7 + 6e-8 |x|. */
#define EXP (2 * (2e-7 + 6e-8 * 87))

/* Returns the tolerance of the code of one attention weight. It is 1 if the scaled weight is near
 * the midpoint of two integers, otherwise 0. */
static double weight_size(const struct kvr_case_kit *k, size_t row, size_t column)
{
    const size_t n = (size_t)k->shape[1];
    const float *s = (const float *)k->arg[0].want + row * n;
    float top = -INFINITY;
    double p;

    if (isnan(((const float *)k->arg[2].want)[row]))
        return 255;
    if (column >= n)
        return 0;
    for (size_t j = 0; j < n; j++)
        if (s[j] > top)
            top = s[j];
    top -= logf((float)weight_top());
    p = exp((double)(s[column] - top));
    return fabs(p - floor(p) - .5) <= p * EXP ? 1 : 0;
}

static double byte_sum(const void *p, int n)
{
    const uint8_t *b = p;
    double sum = 0;

    for (int j = 0; j < n; j++)
        sum += b[j];
    return sum;
}

/* Tolerance: the running sum adds codes, so it may differ by as much as the codes do, plus rounding
 * errors. Scores and running maxima are exact. */
static double softmax_size(const struct kvr_case_kit *k, const struct kvr_case_arg *a, size_t i)
{
    const double want = a->type == KVR_F32 ? fabs((double)((const float *)a->want)[i]) : 0;
    double worth, had, have, should;

    if (a == &k->arg[5])
        return weight_size(k, i / TILE, i % TILE);
    if (a == &k->arg[3] || a == &k->arg[4])
        return EXP * want;
    if (a != &k->arg[2])
        return 0;
    worth = (double)((const float *)k->arg[4].want)[i];
    had = fabs((double)((const float *)a->before)[i]);
    have = byte_sum((const uint8_t *)k->arg[5].p + i * TILE, k->shape[1]);
    should = byte_sum((const uint8_t *)k->arg[5].want + i * TILE, k->shape[1]);
    return worth * fabs(have - should) + (EXP + 4 * E) * (had + worth * should);
}

#define CASE(called, args, fn, list, ...)                                                          \
    .name = "dot." called, .table = table, .prepare = args, .run = fn, .aligned = true,            \
    .shapes = list, .n_shapes = (int)(sizeof list / sizeof *list), .tol = 1, .timed = __VA_ARGS__

/* The kernels read codes as integer vectors, so these cases have aligned arguments. */
const struct kvr_kernel_case kvr_kernels_bytes[] = {
    { CASE("pack_queries", queries_args, pack_queries, pack_shapes, { 48, 128 }),
      .reference = pack_queries_plainly, .size = queries_size },
    { CASE("pack_keys", keys_args, pack_keys, pack_shapes, { 64, 128 }),
      .reference = pack_keys_plainly, .size = keys_size, .compared_to = "attend.pack_keys" },
    { CASE("pack_values", values_args, pack_values, pack_shapes, { 64, 128 }),
      .reference = pack_values_plainly, .size = values_size, .compared_to = "attend.pack_values" },
    { CASE("scores", scores_args, scores, product_shapes, { 48, 64, 128 }), .size = scores_size,
      .compared_to = "attend.scores" },
    { CASE("online_softmax", softmax_args, online_softmax, softmax_shapes, { 48, 64 }),
      .size = softmax_size, .compared_to = "attend.softmax_biased" },
    { CASE("add_values", sum_args, add_values, sum_shapes, { 48, 64, 128 }), .size = sum_size,
      .compared_to = "attend.add_values" },
    { 0 },
};
