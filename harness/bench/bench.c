/* bench.c - rounds into rows. */
#include "harness/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    row->ratio_q1 = ratio[n / 4];
    row->ratio_q3 = ratio[n - 1 - n / 4];
    row->missing[0] = 0;
    row->n = n;
}

/* By pieces, so that rows of any size take no memory. */
void kvr_bench_turn(void *x, size_t n_bytes, size_t row_bytes)
{
    char *p = x, piece[4096];

    for (size_t at = 0; at < row_bytes; at += sizeof piece) {
        const size_t n = row_bytes - at < sizeof piece ? row_bytes - at : sizeof piece;

        memcpy(piece, p, n);
        memmove(p, p + n, n_bytes - n);
        memcpy(p + n_bytes - n, piece, n);
    }
}

void kvr_bench_without(struct kvr_bench_row *row, const char *why)
{
    row->ratio = row->ratio_q1 = row->ratio_q3 = NAN;
    snprintf(row->missing, sizeof row->missing, "%s", why);
}
