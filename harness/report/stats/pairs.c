/* pairs.c - see pairs.h. */
#include "harness/report/stats/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes the sums of d [n] for all 2^n assignments of signs, in ascending order. For each term, it
 * merges two sorted lists: the sums so far minus the term, and the sums so far plus the term. The
 * algorithm is from E. Horowitz and S. Sahni, Computing partitions with applications to the
 * knapsack problem, J. ACM 21 (1974). `scratch` has room for 2^n values. */
static void signed_sums(const double *d, int n, double *sum, double *scratch)
{
    size_t len = 1;

    sum[0] = 0;
    for (int k = 0; k < n; k++) {
        double x = fabs(d[k]);
        /* indices of the merged lists' next elements: scratch[down] - x and scratch[up] + x */
        size_t down = 0, up = 0;

        memcpy(scratch, sum, len * sizeof *sum);
        for (size_t i = 0; i < 2 * len; i++)
            sum[i] = down < len && scratch[down] - x <= scratch[up] + x ? scratch[down++] - x
                                                                        : scratch[up++] + x;
        len *= 2;
    }
}

/* Number of pairs from a [n_a] and b [n_b], both ascending, whose sum is >= limit. */
static double count_above(const double *a, size_t n_a, const double *b, size_t n_b, double limit)
{
    double count = 0;

    /* The larger a[i] is, the smaller is the first b[j] with a[i] + b[j] >= limit. */
    for (size_t i = 0, j = n_b; i < n_a; i++) {
        while (j > 0 && a[i] + b[j - 1] >= limit)
            j--;
        count += (double)(n_b - j);
    }
    return count;
}

/* Computes the share of the 2^n signed sums of d that is >= near (*at_least), and the share that is
 * >= far (*beyond). */
static enum kvr_status tail_shares(const double *d, int n, double near, double far,
                                   double *at_least, double *beyond)
{
    const int half = n / 2;
    const size_t n_a = (size_t)1 << half, n_b = (size_t)1 << (n - half);
    double *a = malloc(n_a * sizeof *a), *b = malloc(n_b * sizeof *b),
           *scratch = malloc(n_b * sizeof *scratch);
    enum kvr_status st = KVR_OK;

    *at_least = *beyond = NAN;
    if (a && b && scratch) {
        signed_sums(d, half, a, scratch);
        signed_sums(d + half, n - half, b, scratch);
        *at_least = ldexp(count_above(a, n_a, b, n_b, near), -n);
        *beyond = ldexp(count_above(a, n_a, b, n_b, far), -n);
    } else {
        st = kvr_fail(KVR_ENOMEM,
                      "pairs: out of memory while allocating the sums of %d differences", n);
    }
    free(a);
    free(b);
    free(scratch);
    return st;
}

static enum kvr_status sign_flip_test(const double *d, int n, struct kvr_comparison *c)
{
    double sum = 0, size = 0, tolerance, reach, at_least, beyond;

    for (int i = 0; i < n; i++) {
        sum += d[i];
        size += fabs(d[i]);
    }
    /* Sums that are mathematically equal can differ by rounding, because their terms are added in
     * different orders. */
    tolerance = 1e-12 * size;
    reach = fabs(sum);
    if (reach <= tolerance) { /* the sum is 0, so no signed sum is nearer to 0 */
        c->p = 1;
        c->p_above = 0.5;
        return KVR_OK;
    }
    KVR_TRY(tail_shares(d, n, reach - tolerance, reach + tolerance, &at_least, &beyond));
    c->p = 2 * at_least; /* the sums are symmetric about 0 */
    c->p_above = 0.5 * (at_least + beyond);
    if (sum > 0)
        c->p_above = 1 - c->p_above;
    return KVR_OK;
}

enum kvr_status kvr_compare(const double *d, int n, double level, struct kvr_comparison *out)
{
    *out = (struct kvr_comparison){
        .n = n, .mean = kvr_mean(d, n), .ci = { NAN, NAN, level, false }, .p = NAN, .p_above = NAN
    };
    if (n >= 2)
        KVR_TRY(kvr_mean_interval(d, n, level, &out->ci));
    if (n > KVR_FLIPS_EXACT) {
        double se = kvr_standard_error(d, n), t = out->mean / se;

        if (!(se > 0))
            t = out->mean > 0 ? INFINITY : out->mean < 0 ? -INFINITY : 0;
        out->p_above = kvr_student_cdf(t, n - 1);
        out->p = 2 * kvr_student_cdf(-fabs(t), n - 1);
        return KVR_OK;
    }
    return n > 0 ? sign_flip_test(d, n, out) : KVR_OK;
}

struct ranked {
    double p;
    int index;
};

static int by_p(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return x->p != y->p ? (x->p > y->p) - (x->p < y->p) : x->index - y->index;
}

enum kvr_status kvr_holm(const double *p, int m, double *adjusted)
{
    struct ranked *r = malloc(((size_t)m + 1) * sizeof *r);
    double least = 0;
    int n = 0;

    if (!r)
        return kvr_fail(KVR_ENOMEM, "pairs: out of memory while allocating %d comparisons", m);
    for (int i = 0; i < m; i++) {
        adjusted[i] = NAN;
        if (!isnan(p[i]))
            r[n++] = (struct ranked){ p[i], i };
    }
    qsort(r, (size_t)n, sizeof *r, by_p);
    for (int i = 0; i < n; i++) {
        least = fmax(least, fmin(1, r[i].p * (n - i)));
        adjusted[r[i].index] = least;
    }
    free(r);
    return KVR_OK;
}

bool kvr_separable(const struct kvr_comparison *c, double adjusted)
{
    return c->n >= KVR_PAIRS_MIN && adjusted <= 1 - c->ci.level + 1e-12 &&
           (c->ci.lo > 0 || c->ci.hi < 0);
}

int kvr_pairs_needed(int m, double level)
{
    int n = KVR_PAIRS_MIN;

    while (n < 60 && ldexp(1, 1 - n) * m > 1 - level + 1e-12)
        n++;
    return n;
}
