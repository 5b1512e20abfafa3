/* test_stats.c - compares quantiles and intervals with published tables and closed forms. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/report/stats/stats.h"
#include "tests/suite.h"

START_TEST(normal)
{
    /* NIST/SEMATECH e-Handbook, table of the standard normal distribution, with five digits. */
    ck_assert_double_le(fabs(kvr_normal_cdf(1.0) - 0.84134), 5e-6);
    ck_assert_double_le(fabs(kvr_normal_cdf(-2.0) - 0.02275), 5e-6);
    ck_assert_double_le(fabs(kvr_normal_quantile(0.975) - 1.95996), 5e-6);
    for (double p = 0.01; p < 1; p += 0.07) /* quantiles are exact to the last bits */
        ck_assert_double_le(fabs(kvr_normal_cdf(kvr_normal_quantile(p)) - p), 1e-14);
    ck_assert(isinf(kvr_normal_quantile(0)));
}
END_TEST

/* Student's interval of three SSIM values ends above 1, the maximum of SSIM. kvr_interval_within()
 * must cut it at 1. */
START_TEST(interval_ends_where_values_do)
{
    const double x[] = { 1, 1, 0.9 };
    struct kvr_interval ci;

    ck_assert_int_eq(kvr_mean_interval(x, 3, 0.95, &ci), KVR_OK);
    ck_assert_double_gt(ci.hi, 1);
    kvr_interval_within(&ci, -1, 1);
    ck_assert_double_eq(ci.hi, 1);
    ck_assert(ci.lo > -1 && ci.lo < 0.9 && ci.level == 0.95);
}
END_TEST

START_TEST(median_of_few)
{
    const double odd[] = { 5, 1, 9 }, even[] = { 4, 1, 3, 2 };

    ck_assert_double_eq(kvr_median(odd, 3), 5);
    ck_assert_double_eq(kvr_median(even, 4), 2.5);
    ck_assert_double_eq(odd[0], 5); /* the input is not sorted in place */
    ck_assert(isnan(kvr_median(odd, 0)));
    ck_assert_double_eq(kvr_standard_error(odd, 3), sqrt(16.0 / 3)); /* variance 16 */
    ck_assert(isnan(kvr_standard_error(odd, 1)));
}
END_TEST

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median equals that of a sorted copy, for ties, both signs, both zeros, infinities and
 * denormals. */
START_TEST(median_of_any_numbers)
{
    static const double odd_ones[] = { 0.0,     -0.0,     5e-324, -5e-324, INFINITY, -INFINITY,
                                       DBL_MAX, -DBL_MAX, 1.0,    -1.0,    1.0,      -1.0 };
    double x[64], s[64];
    float u[64];

    for (int n = 1; n <= 64; n++) {
        kvr_normal(u, (size_t)n, (uint64_t)n, KVR_RNG_TEST, 0, 0, 0);
        for (int i = 0; i < n; i++)
            x[i] = i % 5 == 4 ? odd_ones[(i + n) % 10] : ldexp((double)u[i], 30 * (i % 7) - 90);
        memcpy(s, x, sizeof s);
        qsort(s, (size_t)n, sizeof *s, by_value);
        ck_assert_double_eq(kvr_median(x, n), n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]));
    }
}
END_TEST

/* The 95 % interval of the median of n values runs from the value of rank `lo` to that of rank
 * `hi`; `level` is its exact coverage. Sources: W. J. Conover, Practical Nonparametric Statistics,
 * and binomial sums. */
static const struct {
    int n, lo, hi;
    double level;
} ranks[] = { { 1, 1, 1, 0 },          { 2, 1, 2, 0.5 },       { 5, 1, 5, 0.9375 },
              { 6, 1, 6, 0.96875 },    { 8, 1, 8, 0.9921875 }, { 9, 2, 8, 0.9609375 },
              { 20, 6, 15, 0.9586105 } };

START_TEST(median_ranks)
{
    double x[20];
    struct kvr_interval ci;

    for (int i = 0; i < ranks[_i].n; i++)
        x[i] = ranks[_i].n - i;
    ck_assert_int_eq(kvr_median_interval(x, ranks[_i].n, 0.95, &ci), KVR_OK);
    ck_assert_double_eq(ci.lo, ranks[_i].lo);
    ck_assert_double_eq(ci.hi, ranks[_i].hi);
    ck_assert_double_le(fabs(ci.level - ranks[_i].level), 5e-8); /* the table has 7 digits */
    ck_assert_int_eq(ci.min_max, ranks[_i].n < 6);
    ck_assert_int_eq(kvr_median_interval(x, 0, 0.95, &ci), KVR_EINVAL);
}
END_TEST

START_TEST(outliers)
{
    double x[] = { 10.0, 10.1, 9.9, 10.2, 9.8, 10.05, 20.0 };
    bool flag[7];

    ck_assert_int_eq(kvr_outliers(x, 7, flag), 1);
    ck_assert(flag[6] && !flag[0] && !flag[3]);
    x[6] = 11.0; /* 6.3 median absolute deviations; the limit is 14.8 */
    ck_assert_int_eq(kvr_outliers(x, 7, flag), 0);
}
END_TEST

START_TEST(student)
{
    /* NIST/SEMATECH e-Handbook, table of Student's t distribution, with three decimals. */
    static const struct {
        int df;
        double p, t;
    } table[] = { { 1, 0.975, 12.706 }, { 2, 0.95, 2.920 },   { 5, 0.975, 2.571 },
                  { 7, 0.999, 4.785 },  { 10, 0.975, 2.228 }, { 32, 0.975, 2.037 },
                  { 99, 0.9, 1.290 } };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_double_le(fabs(kvr_student_quantile(table[i].p, table[i].df) - table[i].t), 5e-4);
        ck_assert_double_le(fabs(kvr_student_quantile(1 - table[i].p, table[i].df) + table[i].t),
                            5e-4);
    }
    for (int df = 1; df < 40; df++)
        ck_assert_double_le(fabs(kvr_student_cdf(kvr_student_quantile(0.98, df), df) - 0.98),
                            1e-14);
    ck_assert_double_le(fabs(kvr_student_cdf(1.5, 100000) - kvr_normal_cdf(1.5)), 1e-5);
    ck_assert_double_eq(kvr_student_quantile(0.5, 3), 0);
    ck_assert(isinf(kvr_student_quantile(1, 3)));
}
END_TEST

START_TEST(mean_interval)
{
    const double same[] = { 2, 2, 2, 2 }, even[] = { -3, -1, 1, 3 }, right[] = { 1, 2, 3, 14 };
    const double left[] = { -2, -4, -6, -28 };
    struct kvr_interval a, b;

    ck_assert_int_eq(kvr_mean_interval(same, 1, 0.95, &a), KVR_EINVAL);
    ck_assert_int_eq(kvr_mean_interval(same, 4, 0.95, &a), KVR_OK);
    ck_assert(a.lo == 2 && a.hi == 2);
    /* Without skewness the interval is Student's: +-t s / sqrt(4). The sum of squares is 20, so s /
     * sqrt(4) = sqrt(20 / 3) / 2 = 1.29099. t is 3.18245 for 3 degrees of freedom (rounded to
     * 5e-6). */
    ck_assert_int_eq(kvr_mean_interval(even, 4, 0.95, &a), KVR_OK);
    ck_assert_double_le(fabs(a.hi - 1.29099 * 3.18245), 2e-5);
    ck_assert_double_eq(a.lo, -a.hi);
    /* Skewed values by hand, in the notation of stats.h: mean 5, s = sqrt(110 / 3) = 6.055301, y =
     * t / 2 = 3.182446 / 2 = 1.591223, m2 = 27.5, m3 = 157.5. G = sqrt(12) / 2 x 157.5 / 27.5^1.5 =
     * 1.891656. The cube root of 1 + G (-y - G / 24) = -2.159145 is -1.292490, so -h(-y) = 3 / G x
     * 2.292490 = 3.635688. It exceeds y, so hi = 5 + 3.635688 s. h(y) = 0.902050 is less than y, so
     * lo = 5 - y s, as in Student's interval. Rounding to seven digits causes errors of about
     * 1e-5. */
    ck_assert_int_eq(kvr_mean_interval(right, 4, 0.95, &a), KVR_OK);
    ck_assert_double_le(fabs(a.hi - 27.015184), 5e-5);
    ck_assert_double_le(fabs(a.lo - (5 - 6.055301 * 1.591223)), 5e-5);
    ck_assert_int_eq(kvr_mean_interval(left, 4, 0.95, &b), KVR_OK); /* -2 x right */
    ck_assert_double_le(fabs(b.lo + 2 * a.hi), 1e-12);
    ck_assert_double_le(fabs(b.hi + 2 * a.lo), 1e-12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *tc = tcase_create("stats");

    tcase_add_test(tc, normal);
    tcase_add_test(tc, interval_ends_where_values_do);
    tcase_add_test(tc, median_of_few);
    tcase_add_test(tc, median_of_any_numbers);
    tcase_add_loop_test(tc, median_ranks, 0, sizeof ranks / sizeof *ranks);
    tcase_add_test(tc, outliers);
    tcase_add_test(tc, student);
    tcase_add_test(tc, mean_interval);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
