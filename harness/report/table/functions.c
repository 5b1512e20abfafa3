/* functions.c - see functions.h. */
#include "harness/report/table/functions.h"

#include <math.h>
#include <stdlib.h>

#include "harness/report/stats/stats.h"

static const double level = 0.95;

static struct kvr_interval of_mean(const double *x, int n)
{
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };

    if (n > 1 && kvr_mean_interval(x, n, level, &ci) != KVR_OK)
        ci.lo = ci.hi = NAN;
    return ci;
}

static struct kvr_interval of_median(const double *x, int n)
{
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };

    if (n > 1 && kvr_median_interval(x, n, level, &ci) != KVR_OK)
        ci.lo = ci.hi = NAN;
    return ci;
}

static double mean_lo(const double *x, int n)
{
    return of_mean(x, n).lo;
}

static double mean_hi(const double *x, int n)
{
    return of_mean(x, n).hi;
}

static double median_lo(const double *x, int n)
{
    return of_median(x, n).lo;
}

static double median_hi(const double *x, int n)
{
    return of_median(x, n).hi;
}

/* Computes the geometric mean and its interval from the logarithms of the values. Mean and interval
 * are NaN if a value is negative. If a value is 0, the mean is 0 and the interval is NaN. */
static struct kvr_interval of_geomean(const double *x, int n, double *mean)
{
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };
    double *logs = malloc(((size_t)n + 1) * sizeof *logs);

    *mean = NAN;
    for (int i = 0; logs && i < n; i++)
        logs[i] = log(x[i]);
    if (logs) {
        *mean = exp(kvr_mean(logs, n));
        ci = of_mean(logs, n);
        ci.lo = exp(ci.lo);
        ci.hi = exp(ci.hi);
    }
    free(logs);
    return ci;
}

static double geomean(const double *x, int n)
{
    double mean;

    of_geomean(x, n, &mean);
    return mean;
}

static double geomean_lo(const double *x, int n)
{
    double mean;

    return of_geomean(x, n, &mean).lo;
}

static double geomean_hi(const double *x, int n)
{
    double mean;

    return of_geomean(x, n, &mean).hi;
}

const struct kvr_query_function kvr_report_functions[] = {
    { .name = "mean_lo", .of = mean_lo },
    { .name = "mean_hi", .of = mean_hi },
    { .name = "median", .of = kvr_median },
    { .name = "median_lo", .of = median_lo },
    { .name = "median_hi", .of = median_hi },
    { .name = "geomean", .of = geomean },
    { .name = "geomean_lo", .of = geomean_lo },
    { .name = "geomean_hi", .of = geomean_hi },
    { .name = NULL },
};
