/* test_coverage.c - simulates how often the interval of a mean covers the mean, and that the BCa
 * bootstrap, which kvreel no longer uses, covers it too rarely. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "harness/report/stats/stats.h"
#include "tests/report/draws.h"
#include "tests/suite.h"

enum { TRIALS = 10000, RESAMPLES = 1000, BCA_TRIALS = 1000 };

typedef void interval_fn(const double *x, int n, uint32_t trial, struct kvr_interval *out);

static void ours(const double *x, int n, uint32_t trial, struct kvr_interval *out)
{
    (void)trial;
    ck_assert_int_eq(kvr_mean_interval(x, n, 0.95, out), KVR_OK);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* B. Efron, Better bootstrap confidence intervals, JASA 82 (1987). */
static void bca(const double *x, int n, uint32_t trial, struct kvr_interval *out)
{
    double mean = kvr_mean(x, n), cube = 0, square = 0, below = 0, means[RESAMPLES], end[2];

    for (int b = 0; b < RESAMPLES; b++) {
        float u[DRAWS_MAX];
        double sum = 0;

        kvr_uniform(u, (size_t)n, 1, KVR_RNG_BOOTSTRAP, trial, (uint32_t)b, 0);
        for (int i = 0; i < n; i++)
            sum += x[(int)((double)u[i] * n)];
        means[b] = sum / n;
        below += means[b] < mean ? 1 : means[b] == mean ? 0.5 : 0;
    }
    qsort(means, RESAMPLES, sizeof *means, by_value);
    for (int i = 0; i < n; i++) {
        double d = (x[i] - mean) / (n - 1);

        cube += d * d * d;
        square += d * d;
    }
    for (int i = 0; i < 2; i++) {
        double z0 = kvr_normal_quantile(below / RESAMPLES), a = cube / (6 * pow(square, 1.5));
        double z = z0 + kvr_normal_quantile(i ? 0.975 : 0.025);
        int at = (int)(kvr_normal_cdf(z0 + z / (1 - a * z)) * RESAMPLES);

        end[i] = means[at < RESAMPLES ? at : RESAMPLES - 1];
    }
    *out = (struct kvr_interval){ .lo = end[0], .hi = end[1], .level = 0.95 };
}

static double coverage(interval_fn *f, enum draws kind, int n, uint32_t trials)
{
    int covered = 0;

    for (uint32_t t = 0; t < trials; t++) {
        double x[DRAWS_MAX];
        struct kvr_interval ci;

        draw(x, n, kind, 14, t);
        f(x, n, t, &ci);
        covered += ci.lo <= 0 && 0 <= ci.hi;
    }
    return 100.0 * covered / trials;
}

/* Least accepted coverage of the 95 % interval, in percent: 93 for symmetric and 90 for skewed
 * distributions. The simulation's standard deviation is 0.2 to 0.3. Coverage above 98 fails, too:
 * the interval would be too long. */
static const struct {
    enum draws kind;
    double least;
} promise[] = {
    { NORMAL, 93 }, { LAPLACE, 93 }, { EXPONENTIAL, 90 }, { LOGNORMAL_HALF, 90 }, { LOGNORMAL, 90 },
};
static const int sizes[] = { 6, 8, 12, 20, 33 };
enum { N_PROMISES = sizeof promise / sizeof *promise, N_SIZES = sizeof sizes / sizeof *sizes };

START_TEST(interval_covers)
{
    const int n = sizes[_i % N_SIZES];
    const enum draws kind = promise[_i / N_SIZES].kind;
    double got = coverage(ours, kind, n, TRIALS);

    ck_assert_msg(got >= promise[_i / N_SIZES].least && got <= 98, "%s, n %d: covers %.2f %%",
                  draws_name[kind], n, got);
}
END_TEST

/* Shows that the test can fail: at n = 6 the BCa interval covers the mean of about 85 % of normal
 * samples and 80 % of lognormal samples. */
START_TEST(bca_interval_covers_too_rarely)
{
    double normal = coverage(bca, NORMAL, 6, BCA_TRIALS);
    double skewed = coverage(bca, LOGNORMAL, 6, BCA_TRIALS);

    ck_assert_msg(normal < 90 && normal > 75, "BCa, normal: %.1f %%", normal);
    ck_assert_msg(skewed < 86 && skewed > 65, "BCa, lognormal: %.1f %%", skewed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coverage");
    TCase *tc = tcase_create("simulation");

    tcase_add_loop_test(tc, interval_covers, 0, (int)N_PROMISES * (int)N_SIZES);
    tcase_add_test(tc, bca_interval_covers_too_rarely);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
