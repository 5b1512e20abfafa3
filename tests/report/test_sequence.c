/* test_sequence.c - verdicts on claims that are tested after every prompt: examples computed by
 * hand, rates of false verdicts, and prompts saved over a fixed number. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/report/stats/sequence.h"
#include "harness/report/stats/stats.h"
#include "tests/report/draws.h"
#include "tests/suite.h"

enum { MOST = 192, CLAIMS = 30 }; /* maximum prompts per claim; claims per ledger */
static const double alpha = 0.05;

/* Standard deviations of the distributions in draws.h, so that effects can be stated in units of
 * them. */
static double sd_of(enum draws kind)
{
    switch (kind) {
    case LAPLACE:
        return sqrt(2);
    case LOGNORMAL_HALF:
        return sqrt(exp(0.25) * (exp(0.25) - 1));
    case LOGNORMAL:
        return sqrt(exp(1) * (exp(1) - 1));
    default:
        return 1;
    }
}

/* Fills x [MOST] with samples of a distribution, scaled to standard deviation 1; the mean is 0. Odd
 * trials are mirrored, so that a skewed distribution is tested with its long tail on either
 * side. */
static void sample(double *x, enum draws kind, uint64_t seed, uint32_t trial)
{
    for (uint32_t b = 0; b < MOST / DRAWS_MAX; b++)
        draw(x + (size_t)b * DRAWS_MAX, DRAWS_MAX, kind, seed, trial * 4 + b);
    for (int i = 0; i < MOST; i++)
        x[i] *= (trial % 2 ? -1 : 1) / sd_of(kind);
}

static struct kvr_sequence of(const double *x, int n)
{
    struct kvr_sequence s = { 0 };

    for (int i = 0; i < n; i++)
        kvr_sequence_add(&s, x[i]);
    return s;
}

START_TEST(by_hand)
{
    double x[24], lo, hi, log_e, cube = 0;
    struct kvr_sequence s;
    enum kvr_region region;

    for (int i = 0; i < 24; i++)
        x[i] = 3 + (i % 2 ? 1 : -1); /* mean 3, standard deviation sqrt(24 / 23), no skewness */
    s = of(x, 24);
    ck_assert_double_eq_tol(s.mean, 3, 1e-14);
    ck_assert_double_eq_tol(kvr_sequence_sd(&s), sqrt(24.0 / 23), 1e-14);
    for (int i = 0; i < 24; i++)
        cube += pow(x[i] - 3, 3);
    ck_assert_double_eq_tol(s.m3, cube, 1e-10);
    ck_assert(kvr_sequence_log_e(&s, 3) == 0);
    ck_assert(kvr_sequence_log_e(&s, 1) > kvr_sequence_log_e(&s, 2));
    /* log E(2) by hand, in the notation of sequence.h: z = (3 - 2) / sd = 0.978945. The sample
     * skewness is 0, so g is minus its standard error, -0.472262. h = z + g z^2 / 3 + g^2 z^3 / 27
     * + g / 144 = 0.832553 and t^2 = 24 h^2 = 16.6355. log E = -log(25) / 2 + 12 (log(1 + t^2 / 23)
     * - log(1 + t^2 / 575)) = 4.5791. */
    ck_assert_double_eq_tol(kvr_sequence_log_e(&s, 2), 4.5791, 1e-4);
    kvr_sequence_region(&s, 0.5, &region, &log_e);
    ck_assert(region == KVR_ABOVE && log_e == kvr_sequence_log_e(&s, 0.5));
    kvr_sequence_region(&s, 20, &region, &log_e);
    ck_assert(region == KVR_WITHIN && log_e == kvr_sequence_log_e(&s, 20));
    kvr_sequence_interval(&s, log(20), &lo, &hi);
    ck_assert_double_eq_tol(kvr_sequence_log_e(&s, lo), log(20), 1e-9);
    ck_assert_double_eq_tol(kvr_sequence_log_e(&s, hi), log(20), 1e-9);
    ck_assert(lo < 3 && 3 < hi && fabs(lo + hi - 6) <= 1e-9);
    /* Fewer than KVR_SEQUENCE_MIN prompts give no evidence, whatever their values. If all values
     * are equal, the interval has width 0. */
    s = of(x, KVR_SEQUENCE_MIN - 1);
    ck_assert(kvr_sequence_log_e(&s, -100) == 0);
    kvr_sequence_interval(&s, log(20), &lo, &hi);
    ck_assert(isinf(lo) && isinf(hi) && isnan(kvr_sequence_needed(&s, 0, log(20))));
    for (int i = 0; i < 24; i++)
        x[i] = 2;
    s = of(x, 12);
    ck_assert_double_eq_tol(kvr_sequence_log_e(&s, 1), 5.5 * log(13), 1e-12);
    kvr_sequence_interval(&s, log(20), &lo, &hi);
    ck_assert(lo == 2 && hi == 2);
}
END_TEST

START_TEST(needed)
{
    double x[MOST], log_e, n;
    struct kvr_sequence s, more;
    enum kvr_region region;

    sample(x, NORMAL, 3, 7);
    for (int i = 0; i < 24; i++)
        x[i] = x[i] * 0.05 + 0.02;
    s = of(x, 24);
    kvr_sequence_region(&s, 0.005, &region, &log_e);
    n = kvr_sequence_needed(&s, 0.005, log(200));
    ck_assert(log_e < log(200) && n > 24 && isfinite(n));
    /* Repeating the 24 values up to the predicted n changes neither mean nor skewness, and the
     * standard deviation only slightly. The evidence must then be about the required log(200). */
    more = (struct kvr_sequence){ 0 };
    for (int i = 0; i < n; i++)
        kvr_sequence_add(&more, x[i % 24]);
    kvr_sequence_region(&more, 0.005, &region, &log_e);
    ck_assert_double_eq_tol(log_e, log(200), 1.0);
    /* If the mean equals the margin, no number of prompts gives a verdict. */
    ck_assert(isinf(kvr_sequence_needed(&s, fabs(s.mean), log(200))));
}
END_TEST

START_TEST(e_bh)
{
    const double log_e[] = { log(1000), 0, log(70), NAN, log(61), log(39), 1 };
    bool rejected[7];
    double threshold;

    /* The NaN is not tested, so there are six claims. For k rejections e-BH needs k claims with E
     * >= 6 / (.05 k). E = 39 is below the 40 of k = 3, but above the 30 of k = 4, so four claims
     * are rejected. */
    ck_assert_int_eq(kvr_e_bh(log_e, 7, alpha, rejected, &threshold), KVR_OK);
    ck_assert(rejected[0] && rejected[2] && rejected[4] && rejected[5] && !rejected[1] &&
              !rejected[3] && !rejected[6]);
    ck_assert_double_eq_tol(threshold, log(6 / (4 * alpha)), 1e-12);
    ck_assert_int_eq(kvr_e_bh(log_e + 5, 2, alpha, rejected, &threshold), KVR_OK);
    ck_assert(!rejected[0] && !rejected[1]);
    ck_assert_double_eq_tol(threshold, log(2 / alpha), 1e-12);
    ck_assert_int_eq(kvr_e_bh(log_e, 0, alpha, rejected, &threshold), KVR_OK);
}
END_TEST

/* Returns the percentage of trials in which E(true mean) reaches 1 / level after any of prompts 12
 * to 192. The percentage must not exceed the level. With 4000 trials, a rate of 5 % has a standard
 * deviation of .35 %. */
static double ever_false(enum draws kind, double level)
{
    enum { TRIALS = 4000 };
    int wrong = 0;

    for (uint32_t t = 0; t < TRIALS; t++) {
        struct kvr_sequence s = { 0 };
        double x[MOST];
        bool bad = false;

        sample(x, kind, 21, t);
        for (int i = 0; i < MOST && !bad; i++) {
            kvr_sequence_add(&s, x[i]);
            bad = kvr_sequence_log_e(&s, 0) >= -log(level);
        }
        wrong += bad;
    }
    return 100.0 * wrong / TRIALS;
}

START_TEST(one_claim)
{
    const double five = ever_false((enum draws)_i, 0.05), half = ever_false((enum draws)_i, 0.005);

    printf("sequence: %-22s false at 5 %%: %.2f %%, at 0.5 %%: %.2f %%\n", draws_name[_i], five,
           half);
    ck_assert_msg(five <= 5, "%s: %.2f %% false", draws_name[_i], five);
    /* A sample of a lognormal distribution does not show the skewness of its far tail. At level 0.5
     * %, the rate may therefore be more than twice the level. */
    ck_assert_msg(half <= (_i == LOGNORMAL ? 1.4 : 0.5), "%s: %.2f %% false", draws_name[_i], half);
}
END_TEST

/* Control: Student's 95 % interval is valid for one fixed n. Checked after every prompt, it
 * excludes the true mean at least once in far more than 5 % of the trials. */
START_TEST(fixed_interval_does_not)
{
    enum { TRIALS = 500 };
    int wrong = 0;

    for (uint32_t t = 0; t < TRIALS; t++) {
        struct kvr_sequence s = { 0 };
        double x[MOST];
        bool bad = false;

        sample(x, NORMAL, 22, t);
        for (int i = 0; i < MOST && !bad; i++) {
            kvr_sequence_add(&s, x[i]);
            bad = s.n >= KVR_SEQUENCE_MIN && fabs(s.mean) / kvr_sequence_sd(&s) * sqrt(s.n) >
                                                 kvr_student_quantile(0.975, s.n - 1);
        }
        wrong += bad;
    }
    ck_assert_msg(100.0 * wrong / TRIALS >= 15, "only %d of %d", wrong, TRIALS);
}
END_TEST

/* --- a ledger --------------------------------------------------------------------------- */

/* True means of the claims, in units of the standard deviation over prompts. The margin is 0.1.
 * Claims 0 to 9 have a mean of +-0.1, on the margin, where false verdicts are most likely. Claims
 * 10 to 19 hold (0.3 to 2.1), 20 to 24 are equal (0), and 25 to 29 do not hold (-1.1 to -2.1). */
enum { LEDGERS = 200 };
static const double margin = 0.1;

static double true_mean(int i)
{
    static const double effect[] = { 0.3, 0.4, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.8, 2.1 };

    return i < 10   ? (i % 2 ? margin : -margin)
           : i < 20 ? effect[i - 10]
           : i < 25 ? 0
                    : -effect[i - 20];
}

struct ledger_result {
    double false_share;     /* fraction of verdicts that are false, averaged over ledgers */
    int any_false;          /* number of ledgers with a false verdict */
    int n_verdicts[CLAIMS]; /* number of ledgers with a verdict on claim i */
    int n[CLAIMS][LEDGERS]; /* prompts until the verdict on claim i; MOST: no verdict */
};

/* Returns whether `verdict` is false for a true mean. A mean of exactly +-margin is within the
 * margin, so "above" and "below" are false for it. */
static bool is_false(enum kvr_region verdict, double mean)
{
    return verdict == KVR_ABOVE   ? mean <= margin
           : verdict == KVR_BELOW ? mean >= -margin
                                  : fabs(mean) > margin;
}

/* After each prompt, e-BH tests all claims, and claims without a verdict may get one. A verdict is
 * final. */
static void run_ledgers(struct ledger_result *r)
{
    static double x[CLAIMS][MOST];

    *r = (struct ledger_result){ 0 };
    for (uint32_t l = 0; l < LEDGERS; l++) {
        struct kvr_sequence s[CLAIMS] = { 0 };
        bool done[CLAIMS] = { 0 }, rejected[CLAIMS];
        double log_e[CLAIMS], threshold;
        enum kvr_region region[CLAIMS];
        int n_rejected = 0, n_false = 0;

        for (int i = 0; i < CLAIMS; i++) {
            sample(x[i], (enum draws)(i % N_DRAWS), 23, l * CLAIMS + (uint32_t)i);
            r->n[i][l] = MOST;
        }
        for (int n = 0; n < MOST; n++) {
            for (int i = 0; i < CLAIMS; i++) {
                if (done[i])
                    continue;
                kvr_sequence_add(&s[i], x[i][n] + true_mean(i));
                kvr_sequence_region(&s[i], margin, &region[i], &log_e[i]);
            }
            ck_assert_int_eq(kvr_e_bh(log_e, CLAIMS, alpha, rejected, &threshold), KVR_OK);
            for (int i = 0; i < CLAIMS; i++) {
                if (done[i] || !rejected[i])
                    continue;
                done[i] = true;
                n_rejected++;
                n_false += is_false(region[i], true_mean(i));
                r->n_verdicts[i]++;
                r->n[i][l] = n + 1;
            }
        }
        r->false_share += n_rejected ? (double)n_false / n_rejected / LEDGERS : 0;
        r->any_false += n_false > 0;
    }
}

/* Returns the number of prompts that a test with a fixed n needs for 90 % power. At this n,
 * Student's interval (level 1 - alpha / CLAIMS, a Bonferroni correction) lies beyond the margin in
 * nine of ten samples of mean `effect`. */
static int fixed_n(double effect)
{
    for (int n = KVR_SEQUENCE_MIN; n < 4000; n++) {
        const double t = kvr_student_quantile(1 - alpha / CLAIMS / 2, n - 1);

        if (kvr_normal_cdf((fabs(effect) - margin) * sqrt(n) - t) >= 0.9)
            return n;
    }
    return 4000;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

START_TEST(ledger)
{
    static struct ledger_result r;
    static double saved[CLAIMS], own[CLAIMS];
    int n = 0, planned = 0, all = 0;

    run_ledgers(&r);
    for (int i = 10; i < CLAIMS; i++)
        if (fabs(true_mean(i)) >= 0.5 && fixed_n(true_mean(i)) > planned)
            planned = fixed_n(true_mean(i));
    for (int i = 10; i < CLAIMS; i++) {
        if (!(fabs(true_mean(i)) >= 0.5))
            continue;
        qsort(r.n[i], LEDGERS, sizeof r.n[i][0], by_value);
        saved[n] = 1 - (double)r.n[i][LEDGERS / 2] / planned;
        own[n++] = 1 - (double)r.n[i][LEDGERS / 2] / fixed_n(true_mean(i));
    }
    for (int i = 0; i < CLAIMS; i++)
        all += r.n_verdicts[i];
    printf("sequence: a ledger of %d claims: %.2f %% of verdicts false, %.1f %% of ledgers with "
           "one; %.1f verdicts on %d; prompts saved against one n of %d for all: %.0f %% in the "
           "median claim, against the n that its own effect would need, were it known: %.0f "
           "%%\n",
           CLAIMS, 100 * r.false_share, 100.0 * r.any_false / LEDGERS, (double)all / LEDGERS,
           CLAIMS, planned, 100 * kvr_median(saved, n), 100 * kvr_median(own, n));
    ck_assert_msg(r.false_share <= alpha, "%.3f of the verdicts are false", r.false_share);
    for (int i = 14; i < 20; i++) /* effects of .9 to 2.1 */
        ck_assert_msg(r.n_verdicts[i] >= 0.95 * LEDGERS, "claim %d has a verdict in %d ledgers", i,
                      r.n_verdicts[i]);
    ck_assert_msg(kvr_median(saved, n) >= 0.5, "saves %.2f", kvr_median(saved, n));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sequence");
    TCase *tc = tcase_create("sequence");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, by_hand);
    tcase_add_test(tc, needed);
    tcase_add_test(tc, e_bh);
    tcase_add_loop_test(tc, one_claim, 0, N_DRAWS);
    tcase_add_test(tc, fixed_interval_does_not);
    tcase_add_test(tc, ledger);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
