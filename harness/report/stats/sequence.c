/* sequence.c - see sequence.h. */
#include "harness/report/stats/sequence.h"

#include <math.h>
#include <stdlib.h>

static const double prior = 1; /* prior variance of the effect size (G in sequence.h) */

void kvr_sequence_add(struct kvr_sequence *s, double x)
{
    /* Equations 1.5 and 1.6, for one added value, of P. Pebay, Formulas for robust, one-pass
     * parallel computation of covariances and arbitrary-order statistical moments,
     * SAND2008-6212. */
    const double d = x - s->mean, d_n = d / (s->n + 1), t = d * d_n * s->n;

    s->n++;
    s->m3 += t * d_n * (s->n - 2) - 3 * d_n * s->m2;
    s->m2 += t;
    s->mean += d_n;
}

double kvr_sequence_sd(const struct kvr_sequence *s)
{
    return s->n < 2 ? NAN : sqrt(s->m2 / (s->n - 1));
}

/* Returns the sample skewness sqrt(n (n - 1)) / (n - 2) * (m3 / n) / (m2 / n)^1.5. m2 and m3 are
 * the sums of the squares and cubes of the deviations from the mean. If all values are equal, the
 * result is 0. */
static double skewness(const struct kvr_sequence *s)
{
    const double n = s->n, square = s->m2 / n;

    return square > 0 ? sqrt(n * (n - 1)) / (n - 2) * (s->m3 / n) / pow(square, 1.5) : 0;
}

/* Returns the logarithm of the e-value E(m) of sequence.h for n values, where z = |mean - m| / sd.
 * `g1` is the sample skewness G1, with reversed sign if the mean is below m. */
static double log_e_of(double z, double g1, double n)
{
    const double error = sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)));
    const double g = fmin(g1, 0) - error, wide = 1 + n * prior;
    double t2;

    z = fmin(z, z + g * z * z / 3 + g * g * z * z * z / 27 + g / (6 * n));
    if (!(z > 0))
        return 0;
    if (isinf(z))
        return fmax(0, 0.5 * (n - 1) * log(wide));
    t2 = z * z * n / (n - 1);
    return fmax(0, -0.5 * log(wide) + 0.5 * n * (log1p(t2) - log1p(t2 / wide)));
}

static double log_e_at(const struct kvr_sequence *s, double m, double n)
{
    const double sd = kvr_sequence_sd(s), d = s->mean - m;

    if (s->n < KVR_SEQUENCE_MIN || !(fabs(d) > 0))
        return 0;
    /* If all values are equal, sd is 0, so z is infinite. */
    return log_e_of(sd > 0 ? fabs(d) / sd : INFINITY, d > 0 ? skewness(s) : -skewness(s), n);
}

double kvr_sequence_log_e(const struct kvr_sequence *s, double m)
{
    return log_e_at(s, m, s->n);
}

static double log_e_of_region(const struct kvr_sequence *s, double margin, double n,
                              enum kvr_region *region)
{
    *region = s->mean > margin ? KVR_ABOVE : s->mean < -margin ? KVR_BELOW : KVR_WITHIN;
    if (*region == KVR_ABOVE)
        return log_e_at(s, margin, n);
    if (*region == KVR_BELOW)
        return log_e_at(s, -margin, n);
    return fmin(log_e_at(s, margin, n), log_e_at(s, -margin, n));
}

void kvr_sequence_region(const struct kvr_sequence *s, double margin, enum kvr_region *region,
                         double *log_e)
{
    *log_e = log_e_of_region(s, margin, s->n, region);
}

/* Returns the distance between the mean and the value m at which log E(m) reaches log_e, found by
 * bisection. `side` is +1 for m above the mean, and -1 for m below it. */
static double reach(const struct kvr_sequence *s, double log_e, double side)
{
    double lo = 0, hi = fmax(kvr_sequence_sd(s), 1e-300);

    while (kvr_sequence_log_e(s, s->mean + side * hi) < log_e) {
        hi *= 2;
        if (hi > 1e290)
            return INFINITY;
    }
    for (int i = 0; i < 100; i++) {
        const double mid = 0.5 * (lo + hi);

        *(kvr_sequence_log_e(s, s->mean + side * mid) < log_e ? &lo : &hi) = mid;
    }
    return hi;
}

void kvr_sequence_interval(const struct kvr_sequence *s, double log_e, double *lo, double *hi)
{
    const bool equal = s->n >= KVR_SEQUENCE_MIN && !(kvr_sequence_sd(s) > 0);

    *lo = -INFINITY;
    *hi = INFINITY;
    if (s->n < KVR_SEQUENCE_MIN)
        return;
    if (equal && kvr_sequence_log_e(s, s->mean + 1) >= log_e) {
        *lo = *hi = s->mean;
        return;
    }
    if (equal)
        return;
    *lo = s->mean - reach(s, log_e, -1);
    *hi = s->mean + reach(s, log_e, 1);
}

double kvr_sequence_needed(const struct kvr_sequence *s, double margin, double log_e)
{
    enum kvr_region region;
    double lo = KVR_SEQUENCE_MIN, hi = KVR_SEQUENCE_MIN;

    if (s->n < KVR_SEQUENCE_MIN)
        return NAN;
    while (log_e_of_region(s, margin, hi, &region) < log_e) {
        lo = hi;
        hi *= 2;
        if (hi > 1e7)
            return INFINITY;
    }
    while (hi - lo > 1) {
        const double mid = floor(0.5 * (lo + hi));

        *(log_e_of_region(s, margin, mid, &region) < log_e ? &lo : &hi) = mid;
    }
    return hi;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

enum kvr_status kvr_e_bh(const double *log_e, int m, double alpha, bool *rejected,
                         double *threshold)
{
    double *sorted = malloc(((size_t)m + 1) * sizeof *sorted);
    int n = 0, k = 0;

    if (!sorted)
        return kvr_fail(KVR_ENOMEM, "sequence: out of memory while allocating %d claims", m);
    for (int i = 0; i < m; i++)
        if (!isnan(log_e[i]))
            sorted[n++] = log_e[i];
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    for (int i = n; i > 0 && k == 0; i--)
        if (sorted[i - 1] >= log(n / (i * alpha)))
            k = i;
    for (int i = 0; i < m; i++)
        rejected[i] = k > 0 && log_e[i] >= sorted[k - 1];
    *threshold = log(fmax(n, 1) / (fmax(k, 1) * alpha));
    free(sorted);
    return KVR_OK;
}
