/* test_variance.c - compares the variance reduction by strata and by a control variate with its
 * exact value for simulated data. */
#include <check.h>
#include <math.h>

#include "harness/core/rng.h"
#include "harness/report/claims/variance.h"
#include "tests/suite.h"

enum { N = 600 };

static float z[2 * N];

static void draw(uint64_t seed)
{
    kvr_normal(z, 2 * N, seed, KVR_RNG_TEST, 0, 0, 0);
}

/* Strata with means 0 to 3 (variance 5 / 4) and variance 1 within: 5 / 9 of the variance is between
 * strata. */
START_TEST(strata)
{
    double x[N];
    int k[N], none[N], each[N];

    draw(1);
    for (int i = 0; i < N; i++) {
        k[i] = i % 4;
        none[i] = 7;
        each[i] = i;
        x[i] = k[i] + (double)z[i];
    }
    /* With 600 values the estimate has a standard deviation of about .03. */
    ck_assert_double_eq_tol(kvr_saved_by_strata(x, k, N), 5.0 / 9, 0.09);
    ck_assert_double_eq_tol(kvr_saved_by_strata(x, none, N), 0, 1e-12);
    ck_assert(isnan(kvr_saved_by_strata(x, each, N)));
    for (int i = 0; i < N; i++) /* strata that are independent of x save nothing on average */
        x[i] = (double)z[i];
    ck_assert_double_eq_tol(kvr_saved_by_strata(x, k, N), 0, 0.02);
}
END_TEST

/* y is x plus independent noise of the same variance, so r^2 = 1 / 2: half of the variance is
 * saved. */
START_TEST(control)
{
    double x[N], y[N];

    draw(2);
    for (int i = 0; i < N; i++) {
        x[i] = (double)z[i];
        y[i] = x[i] + (double)z[N + i];
    }
    ck_assert_double_eq_tol(kvr_saved_by_control(x, y, N), 0.5, 0.09);
    ck_assert_double_eq_tol(kvr_saved_by_control(x, x, N), 1, 1e-12);
    for (int i = 0; i < N; i++)
        y[i] = (double)z[N + i];
    ck_assert_double_eq_tol(kvr_saved_by_control(x, y, N), 0, 0.02);
    for (int i = 7; i < N; i++)
        y[i] = NAN;
    ck_assert(isnan(kvr_saved_by_control(x, y, N)));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("variance");
    TCase *tc = tcase_create("variance");

    tcase_add_test(tc, strata);
    tcase_add_test(tc, control);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
