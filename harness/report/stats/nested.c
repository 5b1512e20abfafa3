/* nested.c - see nested.h. */
#include "harness/report/stats/nested.h"

#include <math.h>
#include <stdlib.h>

static int order(const struct kvr_sample *a, const struct kvr_sample *b)
{
    if (a->prompt != b->prompt)
        return a->prompt < b->prompt ? -1 : 1;
    return (a->seed > b->seed) - (a->seed < b->seed);
}

static int by_unit(const void *pa, const void *pb)
{
    const struct kvr_sample *a = pa, *b = pb;
    int c = order(a, b);

    /* Samples of the same prompt and seed are sorted by value, so that the rounding of sums does
     * not depend on the order of rows. */
    return c ? c : (a->x > b->x) - (a->x < b->x);
}

/* Averages adjacent samples with the same prompt and seed. */
static int merge(struct kvr_sample *s, int n)
{
    int m = 0;

    for (int i = 0, j; i < n; i = j) {
        double sum = 0;

        for (j = i; j < n && order(&s[i], &s[j]) == 0; j++)
            sum += s[j].x;
        s[m] = s[i];
        s[m++].x = sum / (j - i);
    }
    return m;
}

int kvr_nest(struct kvr_sample *s, int n, enum kvr_nesting unit)
{
    int m = 0;

    for (int i = 0; i < n; i++)
        if (isfinite(s[i].x))
            s[m++] = s[i];
    qsort(s, (size_t)m, sizeof *s, by_unit);
    m = merge(s, m);
    if (unit == KVR_PER_SEED)
        return m;
    for (int i = 0; i < m; i++)
        s[i].seed = 0;
    return merge(s, m);
}

int kvr_nest_pairs(const struct kvr_sample *a, int n_a, const struct kvr_sample *b, int n_b,
                   struct kvr_sample *d)
{
    int n = 0;

    for (int i = 0, j = 0; i < n_a && j < n_b;) {
        int c = order(&a[i], &b[j]);

        if (c == 0) {
            d[n] = a[i];
            d[n++].x = a[i].x - b[j].x;
        }
        i += c <= 0;
        j += c >= 0;
    }
    return n;
}

double kvr_nest_within(struct kvr_sample *s, int n)
{
    double off = 0.0;
    int m = 0, df = 0;

    for (int i = 0; i < n; i++)
        if (isfinite(s[i].x))
            s[m++] = s[i];
    qsort(s, (size_t)m, sizeof *s, by_unit);
    for (int i = 0, j; i < m; i = j) {
        double mean = 0.0;

        for (j = i; j < m && order(&s[i], &s[j]) == 0; j++)
            mean += s[j].x;
        mean /= j - i;
        df += j - i - 1;
        for (int k = i; k < j; k++)
            off += (s[k].x - mean) * (s[k].x - mean);
    }
    return df ? sqrt(off / df) : NAN;
}

void kvr_nest_values(const struct kvr_sample *s, int n, double *x)
{
    for (int i = 0; i < n; i++)
        x[i] = s[i].x;
}
