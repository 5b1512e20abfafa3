/* stats.c - order statistics, outliers, the bootstrap. */
#include "harness/stats/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double *sorted(const double *x, int n)
{
    double *copy = malloc(((size_t)n + 1) * sizeof *copy);

    if (copy) {
        memcpy(copy, x, (size_t)n * sizeof *copy);
        qsort(copy, (size_t)n, sizeof *copy, by_value);
    }
    return copy;
}

double kvr_mean(const double *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i];
    return n > 0 ? sum / n : NAN;
}

double kvr_standard_error(const double *x, int n)
{
    double mean = kvr_mean(x, n), sum = 0;

    if (n < 2)
        return NAN;
    for (int i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (n - 1) / n);
}

static double middle(const double *sorted_x, int n)
{
    return n % 2 ? sorted_x[n / 2] : 0.5 * (sorted_x[n / 2 - 1] + sorted_x[n / 2]);
}

double kvr_median(const double *x, int n)
{
    double *s = n > 0 ? sorted(x, n) : NULL, m;

    m = s ? middle(s, n) : NAN;
    free(s);
    return m;
}

/* P(B <= k) for B of n fair coins. */
static double coins(int n, int k)
{
    double sum = 0;

    for (int i = 0; i <= k; i++)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) - n * log(2.0));
    return sum;
}

enum kvr_status kvr_median_interval(const double *x, int n, double level, struct kvr_interval *out)
{
    double *s;
    int k = 0;

    if (n < 1)
        return kvr_fail(KVR_EINVAL, "interval: no samples");
    s = sorted(x, n);
    if (!s)
        return kvr_fail(KVR_ENOMEM, "interval: no memory");
    /* [x_(k), x_(n-1-k)], counted from 0, covers the median unless k or fewer samples, of n,
     * fall on one side of it. */
    while (2 * (k + 1) < n - 1 && 1 - 2 * coins(n, k + 1) >= level)
        k++;
    *out = (struct kvr_interval){ .lo = s[k], .hi = s[n - 1 - k], .level = 1 - 2 * coins(n, k) };
    out->level = n == 1 ? 0 : out->level;
    out->min_max = out->level < level;
    free(s);
    return KVR_OK;
}

int kvr_outliers(const double *x, int n, bool *flag)
{
    const double limit = 14.826; /* MAD is 1 / 1.4826 standard deviations of a normal */
    double median = kvr_median(x, n), mad, *d = malloc(((size_t)n + 1) * sizeof *d);
    int count = 0;

    for (int i = 0; d && i < n; i++)
        d[i] = fabs(x[i] - median);
    mad = d ? kvr_median(d, n) : NAN;
    for (int i = 0; i < n; i++) {
        flag[i] = fabs(x[i] - median) > limit * mad;
        count += flag[i];
    }
    free(d);
    return count;
}

double kvr_normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

/* By halving: exact to the last bits, and this is not called in a loop. */
double kvr_normal_quantile(double p)
{
    double lo = -40, hi = 40;

    if (!(p > 0))
        return -INFINITY;
    if (!(p < 1))
        return INFINITY;
    for (int i = 0; i < 200; i++) {
        double mid = 0.5 * (lo + hi);

        if (kvr_normal_cdf(mid) < p)
            lo = mid;
        else
            hi = mid;
    }
    return 0.5 * (lo + hi);
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void resample(const double *x, int n, uint64_t seed, double *means)
{
    for (int b = 0; b < KVR_BOOTSTRAP_RESAMPLES; b++) {
        double sum = 0;

        for (int i = 0; i < n; i++)
            sum += x[(int)((next(&seed) >> 32) * (uint64_t)n >> 32)];
        means[b] = sum / n;
    }
    qsort(means, KVR_BOOTSTRAP_RESAMPLES, sizeof *means, by_value);
}

/* Skewness of the means that leave one out, over six: Efron's acceleration. */
static double acceleration(const double *x, int n)
{
    double mean = kvr_mean(x, n), cube = 0, square = 0;

    for (int i = 0; i < n; i++) {
        double d = (x[i] - mean) / (n - 1); /* mean - (mean without i), turned round */

        cube += d * d * d;
        square += d * d;
    }
    return square > 0 ? cube / (6 * pow(square, 1.5)) : 0;
}

static double quantile(const double *means, double p)
{
    int i = (int)floor(p * KVR_BOOTSTRAP_RESAMPLES);

    if (i < 0)
        i = 0;
    return means[i < KVR_BOOTSTRAP_RESAMPLES ? i : KVR_BOOTSTRAP_RESAMPLES - 1];
}

/* B. Efron, Better bootstrap confidence intervals, JASA 82 (1987). */
enum kvr_status kvr_bootstrap_mean(const double *x, int n, double level, uint64_t seed,
                                   struct kvr_interval *out)
{
    double mean = kvr_mean(x, n), a = acceleration(x, n), z0, below = 0, *means, end[2];

    if (n < 2)
        return kvr_fail(KVR_EINVAL, "bootstrap: %d values, need 2", n);
    means = malloc(KVR_BOOTSTRAP_RESAMPLES * sizeof *means);
    if (!means)
        return kvr_fail(KVR_ENOMEM, "bootstrap: no memory");
    resample(x, n, seed, means);
    for (int b = 0; b < KVR_BOOTSTRAP_RESAMPLES; b++)
        below += means[b] < mean ? 1 : means[b] == mean ? 0.5 : 0; /* ties count half */
    z0 = kvr_normal_quantile(below / KVR_BOOTSTRAP_RESAMPLES);
    for (int i = 0; i < 2; i++) {
        double z = kvr_normal_quantile(i ? 0.5 + level / 2 : 0.5 - level / 2) + z0;

        end[i] = quantile(means, kvr_normal_cdf(z0 + z / (1 - a * z)));
    }
    *out = (struct kvr_interval){ .lo = end[0], .hi = end[1], .level = level };
    free(means);
    return KVR_OK;
}
