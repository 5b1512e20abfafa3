/* bench.c - rounds into rows. */
#include "harness/bench/bench.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

void kvr_bench_fill(struct kvr_bench_row *row, double *v, double *ratio, int n)
{
    row->median = median(v, n);
    row->min = v[0];
    row->ratio = median(ratio, n);
    row->n = n;
}
