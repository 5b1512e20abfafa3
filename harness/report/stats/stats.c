/* stats.c - computes order statistics, outliers, and the interval of a mean. */
#include "harness/report/stats/stats.h"

#include <math.h>
#include <string.h>

/* Maps a double to an integer with the same order: -inf, ..., -0, +0, ..., +inf ascend. */
static uint64_t to_rank(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static double from_rank(uint64_t rank)
{
    const uint64_t bits = rank >> 63 ? rank & ~((uint64_t)1 << 63) : ~rank;
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the k-th smallest value, from 0, of x [n], or with a finite `centre` of |x[i] - centre|.
 * It is the largest double that has at most k smaller values; its bits are found one by one. Unlike
 * a sorted copy, this needs no memory, so no estimate can lack for lack of memory. */
static double kth(const double *x, int n, int k, double centre)
{
    uint64_t rank = 0;

    for (int bit = 63; bit >= 0; bit--) {
        const uint64_t next = rank | (uint64_t)1 << bit;
        int below = 0;

        for (int i = 0; i < n; i++)
            below += to_rank(isnan(centre) ? x[i] : fabs(x[i] - centre)) < next;
        rank = below <= k ? next : rank;
    }
    return from_rank(rank);
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

static double middle(const double *x, int n, double centre)
{
    const double upper = kth(x, n, n / 2, centre);

    return n % 2 ? upper : 0.5 * (kth(x, n, n / 2 - 1, centre) + upper);
}

double kvr_median(const double *x, int n)
{
    return n > 0 ? middle(x, n, NAN) : NAN;
}

/* P(B <= k) for B ~ Binomial(n, 1/2). */
static double fair_coin_cdf(int n, int k)
{
    double sum = 0;

    for (int i = 0; i <= k; i++)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) - n * log(2.0));
    return sum;
}

enum kvr_status kvr_median_interval(const double *x, int n, double level, struct kvr_interval *out)
{
    int k = 0;

    if (n < 1)
        return kvr_fail(KVR_EINVAL, "interval: %d values given, need at least 1", n);
    /* Let s be the sorted samples. The interval is [s[k], s[n - 1 - k]]. It misses the true median
     * only if at most k samples are below the median, or at most k above it. Each event has the
     * probability P(B <= k). */
    while (2 * (k + 1) < n - 1 && 1 - 2 * fair_coin_cdf(n, k + 1) >= level)
        k++;
    *out = (struct kvr_interval){ .lo = kth(x, n, k, NAN),
                                  .hi = kth(x, n, n - 1 - k, NAN),
                                  .level = 1 - 2 * fair_coin_cdf(n, k) };
    out->level = n == 1 ? 0 : out->level;
    out->min_max = out->level < level;
    return KVR_OK;
}

int kvr_outliers(const double *x, int n, bool *flag)
{
    /* 10 standard deviations, in units of the median absolute deviation (MAD); for normal data, a
     * standard deviation is 1.4826 MAD */
    const double limit = 14.826;
    const double median = kvr_median(x, n), mad = n > 0 ? middle(x, n, median) : NAN;
    int count = 0;

    for (int i = 0; i < n; i++) {
        flag[i] = fabs(x[i] - median) > limit * mad;
        count += flag[i];
    }
    return count;
}

double kvr_normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

/* Inverts kvr_normal_cdf() by bisection, which is slow but accurate to the last bits. */
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

/* Computes Student's distribution function by finite sums of powers of cos(atan(t / sqrt(df))).
 * See M. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4. */
double kvr_student_cdf(double t, int df)
{
    const double pi = 3.14159265358979323846, angle = atan(t / sqrt(df)), c = cos(angle);
    double term = df % 2 ? c : 1.0, sum = 0;

    for (int k = 1; k <= df / 2; k++) {
        sum += term;
        term *= df % 2 ? c * c * 2 * k / (2 * k + 1) : c * c * (2 * k - 1) / (2 * k);
    }
    if (df % 2)
        return 0.5 + (angle + sin(angle) * sum) / pi;
    return 0.5 + 0.5 * sin(angle) * sum;
}

double kvr_student_quantile(double p, int df)
{
    double lo = 0, hi = 1;

    if (!(p > 0))
        return -INFINITY;
    if (!(p < 1))
        return INFINITY;
    if (p < 0.5)
        return -kvr_student_quantile(1 - p, df);
    while (kvr_student_cdf(hi, df) < p && hi < 1e12)
        hi *= 2;
    for (;;) {
        double mid = 0.5 * (lo + hi);

        if (mid <= lo || mid >= hi)
            return lo;
        if (kvr_student_cdf(mid, df) < p)
            lo = mid;
        else
            hi = mid;
    }
}

/* Returns the sample skewness, corrected for its bias in normal data. The result is 0 for fewer
 * than three samples, or if all samples are equal. */
static double skewness(const double *x, int n)
{
    double mean = kvr_mean(x, n), square = 0, cube = 0;

    for (int i = 0; i < n; i++) {
        double d = x[i] - mean;

        square += d * d / n;
        cube += d * d * d / n;
    }
    if (n < 3 || !(square > 0))
        return 0;
    return sqrt((double)n * (n - 1)) / (n - 2) * cube / pow(square, 1.5);
}

static double hall(double y, double skew, int n)
{
    /* Near a skewness of 0, the formula below is inaccurate, so the result is its limit y. */
    if (fabs(skew) < 1e-6)
        return y;
    return 3 / skew * (cbrt(1 + skew * (y - skew / (6 * n))) - 1);
}

enum kvr_status kvr_mean_interval(const double *x, int n, double level, struct kvr_interval *out)
{
    double mean = kvr_mean(x, n), s, y, skew;

    if (n < 2)
        return kvr_fail(KVR_EINVAL, "interval of a mean: %d values given, need at least 2", n);
    s = kvr_standard_error(x, n) * sqrt(n);
    y = kvr_student_quantile(0.5 + level / 2, n - 1) / sqrt(n);
    skew = skewness(x, n);
    *out = (struct kvr_interval){ .lo = mean - s * fmax(y, hall(y, skew, n)),
                                  .hi = mean + s * fmax(y, -hall(-y, skew, n)),
                                  .level = level };
    return KVR_OK;
}

void kvr_interval_within(struct kvr_interval *ci, double lo, double hi)
{
    ci->lo = ci->lo < lo ? lo : ci->lo; /* keeps NaN */
    ci->hi = ci->hi > hi ? hi : ci->hi;
}
