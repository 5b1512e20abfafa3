/* test_stats.c - intervals against tables, closed forms, and their own promise of coverage. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "harness/stats/stats.h"
#include "tests/suite.h"

START_TEST(normal)
{
    /* NIST/SEMATECH e-Handbook, table of the standard normal: five digits are given. */
    ck_assert_double_le(fabs(kvr_normal_cdf(1.0) - 0.84134), 5e-6);
    ck_assert_double_le(fabs(kvr_normal_cdf(-2.0) - 0.02275), 5e-6);
    ck_assert_double_le(fabs(kvr_normal_quantile(0.975) - 1.95996), 5e-6);
    for (double p = 0.01; p < 1; p += 0.07) /* halving ends at neighbouring numbers */
        ck_assert_double_le(fabs(kvr_normal_cdf(kvr_normal_quantile(p)) - p), 1e-14);
    ck_assert(isinf(kvr_normal_quantile(0)));
}
END_TEST

START_TEST(median_of_few)
{
    const double odd[] = { 5, 1, 9 }, even[] = { 4, 1, 3, 2 };

    ck_assert_double_eq(kvr_median(odd, 3), 5);
    ck_assert_double_eq(kvr_median(even, 4), 2.5);
    ck_assert_double_eq(odd[0], 5); /* the caller's order stays */
    ck_assert(isnan(kvr_median(odd, 0)));
    ck_assert_double_eq(kvr_standard_error(odd, 3), sqrt(16.0 / 3)); /* variance 16 */
    ck_assert(isnan(kvr_standard_error(odd, 1)));
}
END_TEST

/* Ranks, from 1, of the 95 % interval: W. J. Conover, Practical Nonparametric Statistics, and
 * the binomial sums themselves: n = 6: 1..6 (96.875 %), 9: 2..8 (96.09 %), 20: 6..15 (95.86 %). */
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
    ck_assert_double_le(fabs(ci.level - ranks[_i].level), 5e-8); /* digits of the table */
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
    x[6] = 11.0; /* six times as far as the rest is not yet ten standard deviations */
    ck_assert_int_eq(kvr_outliers(x, 7, flag), 0);
}
END_TEST

START_TEST(bootstrap_basics)
{
    const double same[] = { 2, 2, 2, 2 }, x[] = { 1, 2, 4, 8, 16, 3, 5, 7, 2, 9 };
    const double fine[] = { 1.41, 2.718, 4.669, 8.31, 16.02, 3.14159, 5.67, 7.29, 2.5, 9.81 };
    struct kvr_interval a, b, c;

    ck_assert_int_eq(kvr_bootstrap_mean(same, 4, 0.95, 1, &a), KVR_OK);
    ck_assert(a.lo == 2 && a.hi == 2);
    ck_assert_int_eq(kvr_bootstrap_mean(x, 1, 0.95, 1, &a), KVR_EINVAL);
    ck_assert_int_eq(kvr_bootstrap_mean(fine, 10, 0.95, 1, &a), KVR_OK);
    ck_assert_int_eq(kvr_bootstrap_mean(fine, 10, 0.95, 1, &b), KVR_OK);
    ck_assert_int_eq(kvr_bootstrap_mean(fine, 10, 0.95, 2, &c), KVR_OK);
    ck_assert(a.lo == b.lo && a.hi == b.hi); /* seeded */
    ck_assert(a.lo != c.lo || a.hi != c.hi);
    ck_assert_int_eq(kvr_bootstrap_mean(x, 10, 0.95, 1, &a), KVR_OK);
    ck_assert(a.lo < kvr_mean(x, 10) && kvr_mean(x, 10) < a.hi);
    /* scipy 1.17.1, stats.bootstrap(x, mean, method='BCa', n_resamples=200000): 3.6, 9.3. Ten
     * thousand resamples place a 2.5 % quantile within some 0.002 of its probability, which is
     * two or three steps of these means, 0.1 each. */
    ck_assert_double_le(fabs(a.lo - 3.6), 0.3);
    ck_assert_double_le(fabs(a.hi - 9.3), 0.3);
}
END_TEST

/* The interval must cover the true mean about as often as it says. For n = 10 of an exponential
 * distribution BCa is known to fall short of 95 % by some percent (DiCiccio and Efron 1996 find
 * about 5): it must be above 85 % and, with 300 trials of standard deviation 1.3 %, below 99 %. */
START_TEST(bootstrap_covers)
{
    int covered = 0, trials = 300;
    double x[10];
    struct kvr_interval ci;

    srand(7);
    for (int t = 0; t < trials; t++) {
        for (int i = 0; i < 10; i++)
            x[i] = -log((rand() + 1.0) / (RAND_MAX + 2.0));
        ck_assert_int_eq(kvr_bootstrap_mean(x, 10, 0.95, (uint64_t)t, &ci), KVR_OK);
        covered += ci.lo <= 1 && 1 <= ci.hi;
    }
    ck_assert_int_ge(covered, trials * 85 / 100);
    ck_assert_int_le(covered, trials * 99 / 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *tc = tcase_create("stats");

    tcase_add_test(tc, normal);
    tcase_add_test(tc, median_of_few);
    tcase_add_loop_test(tc, median_ranks, 0, sizeof ranks / sizeof *ranks);
    tcase_add_test(tc, outliers);
    tcase_add_test(tc, bootstrap_basics);
    tcase_add_test(tc, bootstrap_covers);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
