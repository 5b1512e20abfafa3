/* functions.c - see functions.h. */
#include "harness/report/table/functions.h"

#include <math.h>

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

static double mean_lo(double *x, int n)
{
    return of_mean(x, n).lo;
}

static double mean_hi(double *x, int n)
{
    return of_mean(x, n).hi;
}

static double median(double *x, int n)
{
    return kvr_median(x, n);
}

static double median_lo(double *x, int n)
{
    return of_median(x, n).lo;
}

static double median_hi(double *x, int n)
{
    return of_median(x, n).hi;
}

/* Computes the geometric mean and its interval from the logarithms of the values, which replace the
 * values. Mean and interval are NaN if a value is negative. If a value is 0, the mean is 0 and the
 * interval is NaN. */
static struct kvr_interval of_geomean(double *x, int n, double *mean)
{
    struct kvr_interval ci;

    for (int i = 0; i < n; i++)
        x[i] = log(x[i]);
    *mean = exp(kvr_mean(x, n));
    ci = of_mean(x, n);
    ci.lo = exp(ci.lo);
    ci.hi = exp(ci.hi);
    return ci;
}

static double geomean(double *x, int n)
{
    double mean;

    of_geomean(x, n, &mean);
    return mean;
}

static double geomean_lo(double *x, int n)
{
    double mean;

    return of_geomean(x, n, &mean).lo;
}

static double geomean_hi(double *x, int n)
{
    double mean;

    return of_geomean(x, n, &mean).hi;
}

const struct kvr_query_function kvr_report_functions[] = {
    { .name = "mean_lo", .of = mean_lo },
    { .name = "mean_hi", .of = mean_hi },
    { .name = "median", .of = median },
    { .name = "median_lo", .of = median_lo },
    { .name = "median_hi", .of = median_hi },
    { .name = "geomean", .of = geomean },
    { .name = "geomean_lo", .of = geomean_lo },
    { .name = "geomean_hi", .of = geomean_hi },
    { .name = NULL },
};
