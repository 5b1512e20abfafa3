/* test_pairs.c - the sign-flip test of paired differences: examples by hand, comparison with
 * enumeration, and the rate of false positives. */
#include <check.h>
#include <math.h>

#include "harness/report/stats/pairs.h"
#include "tests/report/draws.h"
#include "tests/suite.h"

START_TEST(by_hand)
{
    const double one[] = { 3 }, four[] = { 1, 2, 3, -1 }, zero[] = { 0, 0, 0 };
    const double same[] = { 1, 1, 1, 1, 1, 1 };
    struct kvr_comparison c;

    ck_assert_int_eq(kvr_compare(one, 0, 0.95, &c), KVR_OK);
    ck_assert(c.n == 0 && isnan(c.p) && isnan(c.p_above) && isnan(c.ci.lo));
    ck_assert_int_eq(kvr_compare(one, 1, 0.95, &c), KVR_OK);
    ck_assert(c.p == 1 && c.p_above == 0.75 &&
              isnan(c.ci.lo)); /* of 3 and -3, the two possible sums, 3 is the observed one */
    ck_assert_int_eq(kvr_compare(zero, 3, 0.95, &c), KVR_OK);
    ck_assert(c.p == 1 && c.p_above == 0.5 && c.ci.lo == 0 && c.ci.hi == 0);
    /* The 16 sums of +-1 +-2 +-3 +-1 are 7 once, 5 twice, 3 twice, 1 three times, and their
     * negatives. The observed sum is 5. Three sums are >= 5 and three are <= -5, so the two-sided p
     * is 6/16. p_above is the fraction of sums below 5, 13/16, plus half the fraction equal to 5,
     * 2/16. */
    ck_assert_int_eq(kvr_compare(four, 4, 0.95, &c), KVR_OK);
    ck_assert(c.p == 6.0 / 16 && c.p_above == (13 + 0.5 * 2) / 16 && c.mean == 1.25);
    ck_assert_int_eq(kvr_compare(same, 6, 0.95, &c), KVR_OK);
    ck_assert(c.p == 2.0 / 64 && c.p_above == 1 - 1.0 / 128 && kvr_separable(&c, c.p));
    ck_assert_int_eq(kvr_compare(same, 5, 0.95, &c), KVR_OK);
    ck_assert(!kvr_separable(&c, 0)); /* five pairs are too few for any p */
}
END_TEST

/* Compares with an enumeration of all signs; sums that differ only by rounding count as equal. */
START_TEST(by_counting)
{
    const int n = 2 + _i;
    double d[16], seen = 0;
    struct kvr_comparison c;
    int far = 0, below = 0, equal = 0;

    draw(d, n, _i % 2 ? NORMAL : EXPONENTIAL, 5, (uint32_t)_i);
    for (int i = 0; i < n; i++) {
        if (_i % 3 == 0) /* many equal sums of numbers that are not exact in binary */
            d[i] = 0.1 * round(3 * d[i]);
        seen += d[i];
    }
    for (int signs = 0; signs < 1 << n; signs++) {
        double sum = 0;

        for (int i = 0; i < n; i++)
            sum += signs >> i & 1 ? -d[i] : d[i];
        far += fabs(sum) >= fabs(seen) - 1e-9;
        below += sum < seen - 1e-9;
        equal += fabs(sum - seen) <= 1e-9;
    }
    ck_assert_int_eq(kvr_compare(d, n, 0.95, &c), KVR_OK);
    ck_assert_double_eq(c.p, ldexp(far, -n)); /* a count divided by a power of two is exact */
    ck_assert_double_eq(c.p_above, ldexp(below + 0.5 * equal, -n));
}
END_TEST

/* From 34 to 35 pairs the test changes from all 2^34 sums to Student's distribution. The 35th
 * difference equals the mean, so p may fall only a little: by about 10 % for the extra pair and the
 * smaller spread. A sum of 34 sign-flipped terms has an excess kurtosis of -2 sum d^4 / (sum
 * d^2)^2, about -0.1, which changes a p of a few percent by about 10 %. */
START_TEST(many_pairs)
{
    double d[KVR_FLIPS_EXACT + 1], mean;
    struct kvr_comparison exact, student;

    draw(d, KVR_FLIPS_EXACT, NORMAL, 6, 1);
    mean = kvr_mean(d, KVR_FLIPS_EXACT);
    for (int i = 0; i < KVR_FLIPS_EXACT; i++)
        d[i] += 0.4 - mean;
    d[KVR_FLIPS_EXACT] = 0.4;
    ck_assert_int_eq(kvr_compare(d, KVR_FLIPS_EXACT, 0.95, &exact), KVR_OK);
    ck_assert_int_eq(kvr_compare(d, KVR_FLIPS_EXACT + 1, 0.95, &student), KVR_OK);
    ck_assert_msg(exact.p > 0.005 && exact.p < 0.1, "p %g", exact.p);
    ck_assert_msg(student.p < exact.p && student.p > 0.7 * exact.p, "p %g of 34 pairs, %g of 35",
                  exact.p, student.p);
    ck_assert_double_le(fabs(student.p_above - (1 - student.p / 2)), 1e-12);
}
END_TEST

START_TEST(holm)
{
    /* Holm's procedure over the four p that are not NaN: 0.01 x 4 = 0.04, 0.02 x 3 = 0.06, 0.03 x 2
     * = 0.06, 0.5 x 1. An adjusted p is at least the previous one. */
    const double p[] = { 0.03, 0.5, NAN, 0.01, 0.02 }, one[] = { 0.04 };
    const double want[] = { 0.06, 0.5, NAN, 0.04, 0.06 };
    double got[5];

    ck_assert_int_eq(kvr_holm(p, 5, got), KVR_OK);
    for (int i = 0; i < 5; i++)
        ck_assert(isnan(want[i]) ? isnan(got[i]) : fabs(got[i] - want[i]) <= 1e-15);
    ck_assert_int_eq(kvr_holm(one, 1, got), KVR_OK);
    ck_assert_double_eq(got[0], 0.04);
    /* The smallest p of n pairs is 2^(1 - n). One test at 5 % needs 6 pairs: 2^-5 = 0.031. 25 tests
     * need 10 pairs: 2^-9 = 0.00195 <= 0.05 / 25 = 0.002. 33 tests need 11 pairs: 2^-10 <= 0.05 /
     * 33. */
    ck_assert_int_eq(kvr_pairs_needed(1, 0.95), 6);
    ck_assert_int_eq(kvr_pairs_needed(25, 0.95), 10);
    ck_assert_int_eq(kvr_pairs_needed(33, 0.95), 11);
}
END_TEST

/* If the means do not differ, at most 6 % of the tests may be significant at a nominal 5 %. This
 * holds for symmetric differences, and for skewed ones (skewness up to 2), which break an
 * assumption of the sign-flip test. The rate's standard deviation is 0.3 %. */
static const int sizes[] = { 6, 7, 10, 16, 33 };
static const enum draws kinds[] = { NORMAL, LAPLACE, EXPONENTIAL, LOGNORMAL_HALF };
enum {
    TRIALS = 4000,
    N_SIZES = sizeof sizes / sizeof *sizes,
    N_KINDS = sizeof kinds / sizeof *kinds
};

static double false_rate(enum draws kind, int n, bool sign_test_alone)
{
    int alarms = 0;

    for (uint32_t t = 0; t < TRIALS; t++) {
        double d[DRAWS_MAX];
        struct kvr_comparison c;
        struct kvr_interval ci;

        draw(d, n, kind, 15, t);
        ck_assert_int_eq(kvr_mean_interval(d, n, 0.95, &ci), KVR_OK);
        if (!sign_test_alone && ci.lo <= 0 && ci.hi >= 0)
            continue; /* not significant, so p is not needed */
        ck_assert_int_eq(kvr_compare(d, n, 0.95, &c), KVR_OK);
        alarms += sign_test_alone ? c.p <= 0.05 : kvr_separable(&c, c.p);
    }
    return 100.0 * alarms / TRIALS;
}

START_TEST(false_alarms)
{
    const enum draws kind = kinds[_i / N_SIZES];
    const int n = sizes[_i % N_SIZES];
    double got = false_rate(kind, n, false);

    ck_assert_msg(got <= 6, "%s, n %d: %.2f %% separable", draws_name[kind], n, got);
    ck_assert_msg(got >= 1, "%s, n %d: only %.2f %% separable", draws_name[kind], n, got);
}
END_TEST

/* Shows that false_alarms() can fail: the sign-flip test alone has more than 7 % false positives
 * for skewed differences. */
START_TEST(sign_flips_alone_are_too_liberal)
{
    ck_assert_double_ge(false_rate(EXPONENTIAL, 8, true), 7);
    ck_assert_double_le(false_rate(LAPLACE, 8, true), 6); /* exact for symmetric differences */
}
END_TEST

/* Power: a shift of 1.5 standard deviations in ten pairs is found. */
START_TEST(power)
{
    int found = 0, trials = 1000;

    for (int t = 0; t < trials; t++) {
        double d[10];
        struct kvr_comparison c;

        draw(d, 10, NORMAL, 16, (uint32_t)t);
        for (int i = 0; i < 10; i++)
            d[i] += 1.5;
        ck_assert_int_eq(kvr_compare(d, 10, 0.95, &c), KVR_OK);
        found += kvr_separable(&c, c.p);
    }
    /* Student's test, the best for normal data, finds 98.6 %; this test finds about 94 %. */
    ck_assert_int_ge(found, trials * 90 / 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pairs");
    TCase *tc = tcase_create("pairs");

    tcase_add_test(tc, by_hand);
    tcase_add_loop_test(tc, by_counting, 0, 13);
    tcase_add_test(tc, many_pairs);
    tcase_add_test(tc, holm);
    tcase_add_loop_test(tc, false_alarms, 0, (int)N_KINDS * (int)N_SIZES);
    tcase_add_test(tc, sign_flips_alone_are_too_liberal);
    tcase_add_test(tc, power);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
