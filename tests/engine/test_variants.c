/* test_variants.c - every variant of the forward's small operations, and of the probe's products,
 * against the portable one: hostile values, ragged sizes, one row.
 *
 * What is only moved, compared or rounded once is the same to the bit. Where sums are taken in
 * another order, or products and sums fuse, the tolerance is derived beside the case; a value that
 * is not finite here is the same kind of value there. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/engine/ops.h"
#include "harness/workload/probe_kernels.h"
#include "tests/suite.h"

enum { HEADS = 3, MOST = 1 << 17 };

static const struct size {
    int n, d, keys;
} sizes[] = { { 1, 6, 1 },     { 1, 1200, 77 },  { 2, 1800, 20 }, { 5, 30, 7 },   { 7, 48, 16 },
              { 13, 198, 17 }, { 60, 198, 600 }, { 53, 192, 33 }, { 109, 66, 77 } };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* What is put into a normal tensor. NAN_ROW: one NaN, in the middle of the first row. */
enum fill { NORMAL, TINY, HUGE_ONES, ONE_INF, NAN_ROW, ZERO, N_FILLS };
static const char *const fill_names[N_FILLS] = { "normal", "tiny", "huge", "inf", "nan", "zero" };

static float drawn[MOST], x[MOST], y[MOST], w[MOST], out[2][MOST];
static double angle[2][MOST];

static void draw(void)
{
    kvr_normal(drawn, MOST, 7, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(y, MOST, 7, KVR_RNG_TEST, 2, 0, 0);
    kvr_normal(w, MOST, 7, KVR_RNG_TEST, 3, 0, 0);
    for (int i = 0; i < MOST; i++) {
        angle[0][i] = cos(i);
        angle[1][i] = sin(i);
    }
}

static void fill(enum fill f, int d)
{
    for (int i = 0; i < MOST; i++)
        x[i] = drawn[i] * (f == TINY ? 1e-30f : f == HUGE_ONES ? 1e17f : f == ZERO ? 0 : 1);
    if (f == ONE_INF)
        x[d / 2] = -INFINITY;
    if (f == NAN_ROW)
        x[d / 2] = NAN;
}

struct job {
    struct kvr_rows r;
    int keys;
    float *out; /* zero at first */
};

static void modulate(const struct job *j)
{
    kvr_ops_cpu()->norm_modulate(NULL, &j->r, x, w, w + j->r.d, 2 * j->r.d, 1e-6, j->out);
}

static void affine(const struct job *j)
{
    kvr_ops_cpu()->norm_affine(NULL, &j->r, x, w, y, 1e-6, j->out);
}

static int64_t values(const struct job *j)
{
    return j->r.n * j->r.d;
}

static void rms(const struct job *j)
{
    memcpy(j->out, x, (size_t)values(j) * sizeof *x);
    kvr_ops_cpu()->rms_norm(NULL, &j->r, w, 1e-6, j->out);
}

static void rope(const struct job *j)
{
    memcpy(j->out, x, (size_t)values(j) * sizeof *x);
    kvr_ops_cpu()->rope(NULL, &j->r, j->r.d / HEADS, angle[0], angle[1], j->out);
}

static void gated(const struct job *j)
{
    memcpy(j->out, x, (size_t)values(j) * sizeof *x);
    kvr_ops_cpu()->add(NULL, &j->r, y, w, j->r.d, j->out);
}

static void plain_add(const struct job *j)
{
    memcpy(j->out, x, (size_t)values(j) * sizeof *x);
    kvr_ops_cpu()->add(NULL, &j->r, y, NULL, 0, j->out);
}

static void gelu(const struct job *j)
{
    memcpy(j->out, x, (size_t)values(j) * sizeof *x);
    kvr_ops_cpu()->gelu(NULL, values(j), j->out);
}

static void silu(const struct job *j)
{
    kvr_ops_cpu()->silu(NULL, values(j), x, j->out);
}

static void cross(const struct job *j)
{
    const int d = j->r.d / HEADS;
    struct kvr_cross c = { .n_keys = j->keys, .n_heads = HEADS, .head_dim = d };

    c.k = calloc((size_t)kvr_cross_k_floats(j->keys, HEADS, d), sizeof(float));
    c.v = calloc((size_t)kvr_cross_v_floats(j->keys, HEADS, d), sizeof(float));
    ck_assert(c.k && c.v);
    kvr_ops_cpu()->cross_pack(NULL, &c, y, w);
    kvr_ops_cpu()->cross_attend(NULL, &j->r, &c, NULL, x, j->out);
    free(c.k);
    free(c.v);
}

static void clamped(const struct job *j)
{
    memcpy(j->out, x, (size_t)values(j) * sizeof *x);
    kvr_ops_cpu()->clamp(NULL, values(j), -.5f, .75f, j->out);
}

static void difference(const struct job *j)
{
    kvr_ops_cpu()->subtract(NULL, values(j), x, y, j->out);
}

static void flag(const struct job *j)
{
    int32_t bad;

    kvr_ops_cpu()->not_finite(NULL, values(j), x, &bad);
    j->out[0] = (float)bad;
}

/* Compared as bytes: two floats to a double. */
static void change(const struct job *j)
{
    double sums[2 * KVR_OPS_L1_PARTS];

    kvr_ops_cpu()->l1(NULL, values(j), x, y, sums);
    memcpy(j->out, sums, sizeof sums);
}

/* How far apart two values may be: tol * (1 + |value|) for inputs of size 1. */
static const struct op {
    const char *name;
    void (*run)(const struct job *j);
    double tol;
    int fills; /* up to this one */
} ops[] = {
    /* A sum of d <= 1800 values in any order is off by sqrt(d) 2^-24 = 3e-6 of its size at most;
     * the mean, the variance and five roundings: 4e-6. Huge values' squares overflow in no order:
     * 1e34. */
    { "norm_modulate", modulate, 1e-5, N_FILLS },
    { "norm_affine", affine, 1e-5, N_FILLS },
    { "rms_norm", rms, 1e-5, N_FILLS },
    /* In double; one rounding to float, which may fall to either side. */
    { "rope", rope, 2.4e-7, N_FILLS },
    /* Fused or not: half an ulp of the product. */
    { "add gate", gated, 6e-7, N_FILLS },
    { "add", plain_add, 0, N_FILLS },
    /* u / (1 + e^z): z is off by 6 roundings, 4e-7 |z|, and e^z by 2 ulp; of the result that is
     * |u z| e^-|z| (4e-7 + 2e-7), below 5e-7, and two roundings. */
    { "gelu", gelu, 1e-6, N_FILLS },
    { "silu", silu, 1e-6, N_FILLS },
    /* Scores are sums of 600 products over sqrt(600): off by sqrt(600) 2^-24 = 1.5e-6, which
     * weights and what they weigh inherit; so is a sum of up to 600 of these. Huge queries leave
     * one key, or two that differ by nothing: no statement is made of them. */
    { "cross", cross, 1e-5, HUGE_ONES },
    { "clamp", clamped, 0, N_FILLS },
    { "subtract", difference, 0, N_FILLS },
    { "not_finite", flag, 0, N_FILLS },
    { "l1", change, 0, N_FILLS },
};
enum { N_OPS = sizeof ops / sizeof *ops };

static bool close_enough(float have, float want, double tol)
{
    if (isnan(want))
        return isnan(have);
    if (tol == 0 || isinf(want))
        return !memcmp(&have, &want, sizeof want) || have == want;
    return fabs((double)have - want) <= tol * (1 + fabs(want));
}

static void compare(const struct op *o, const struct size *s, enum fill f)
{
    const int64_t n = (int64_t)s->n * s->d + 2 * 2 * KVR_OPS_L1_PARTS;
    struct job j = { .r = { s->n, s->d, 2 }, .keys = s->keys, .out = out[0] };

    fill(f, s->d);
    memset(out[0], 0, sizeof out[0]);
    ck_assert_int_eq(kvr_isa_force("portable"), KVR_OK);
    o->run(&j);
    j.out = out[1];
    for (int i = 0; i < KVR_N_ISA; i++) {
        const enum kvr_isa isa = (enum kvr_isa)i;

        if (!kvr_isa_usable(isa))
            continue;
        ck_assert_int_eq(kvr_isa_force(kvr_isa_name(isa)), KVR_OK);
        memset(out[1], 0, sizeof out[1]);
        o->run(&j);
        for (int64_t k = 0; k < n; k++)
            if (!close_enough(out[1][k], out[0][k], o->tol))
                ck_abort_msg("%s, %s, %s, %d x %d: value %lld is %.9g, portable %.9g", o->name,
                             kvr_isa_name(isa), fill_names[f], s->n, s->d, (long long)k, out[1][k],
                             out[0][k]);
    }
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
}

START_TEST(operations)
{
    const struct op *o = &ops[_i];

    for (int f = 0; f < o->fills; f++)
        for (int s = 0; s < N_SIZES; s++)
            compare(o, &sizes[s], (enum fill)f);
}
END_TEST

/* The NaN of one token's query reaches that head of that token, and nothing else. */
START_TEST(cross_keeps_nan_apart)
{
    const struct size *s = &sizes[_i];
    struct job j = { .r = { s->n, s->d, 2 }, .keys = s->keys, .out = out[1] };

    for (int i = 0; i < KVR_N_ISA; i++) {
        const enum kvr_isa isa = (enum kvr_isa)i;
        const int head = s->d / HEADS;

        if (!kvr_isa_usable(isa))
            continue;
        fill(NAN_ROW, s->d); /* in the second head */
        ck_assert_int_eq(kvr_isa_force(kvr_isa_name(isa)), KVR_OK);
        cross(&j);
        for (int64_t k = 0; k < values(&j); k++)
            if (!!isnan(out[1][k]) != (k >= head && k < 2 * head))
                ck_abort_msg("%s: value %lld is %g", kvr_isa_name(isa), (long long)k, out[1][k]);
    }
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
}
END_TEST

/* To the bit: what the probe stores does not depend on the CPU. */
START_TEST(probe_products)
{
    enum { K = 37, N = 48, M = 4 };
    static double a[M * K], b[K * N], c[2][M * N];

    fill(NORMAL, 1);
    for (int i = 0; i < K * N; i++)
        b[i] = x[i] * (double)w[i];
    for (int i = 0; i < M * K; i++)
        a[i] = y[i] / 3.0;
    b[N + 5] = _i ? NAN : b[N + 5];
    b[7] = _i ? INFINITY : b[7];
    for (int m = 1; m <= M; m++)
        for (int i = 0; i < KVR_N_ISA; i++) {
            const enum kvr_isa isa = (enum kvr_isa)i;
            double *to = c[isa != KVR_ISA_OF_PORTABLE];

            if (!kvr_isa_usable(isa))
                continue;
            ck_assert_int_eq(kvr_isa_force(kvr_isa_name(isa)), KVR_OK);
            memset(to, 0, sizeof c[0]);
            kvr_probe_kernels()->mul(a, K, m, b, N, K, N, to, N);
            for (int k = 0; k < M * N; k++)
                ck_assert_msg(
                    !memcmp(&to[k], &c[0][k], sizeof *to) || (isnan(to[k]) && isnan(c[0][k])),
                    "%s, %d rows: %.17g, portable %.17g", kvr_isa_name(isa), m, to[k], c[0][k]);
        }
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine variants");
    TCase *tc = tcase_create("variants");

    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, draw, NULL);
    tcase_add_loop_test(tc, operations, 0, N_OPS);
    tcase_add_loop_test(tc, cross_keeps_nan_apart, 0, N_SIZES);
    tcase_add_loop_test(tc, probe_products, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
