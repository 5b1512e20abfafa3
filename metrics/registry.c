/* registry.c - the list of metrics, and the checks before and after a metric is computed. */
#include "metrics/metric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRIC(x) extern const struct kvr_metric kvr_metric_##x;
#define METRIC_AND_TRUTH(x) extern const struct kvr_metric kvr_metric_##x, kvr_metric_##x##_truth;
#include "metrics/metrics.def"
#undef METRIC
#undef METRIC_AND_TRUTH

#define METRIC(x) &kvr_metric_##x,
#define METRIC_AND_TRUTH(x) METRIC(x)
const struct kvr_metric *const kvr_metrics[] = {
#include "metrics/metrics.def"
    NULL
};
#undef METRIC
#undef METRIC_AND_TRUTH

#define METRIC(x)
#define METRIC_AND_TRUTH(x) &kvr_metric_##x##_truth,
const struct kvr_metric *const kvr_truth_metrics[] = {
#include "metrics/metrics.def"
    NULL
};
#undef METRIC
#undef METRIC_AND_TRUTH

static const struct kvr_metric *find_in(const struct kvr_metric *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp((*list)->name, name) == 0)
            return *list;
    return NULL;
}

const struct kvr_metric *kvr_metric_find(const char *name)
{
    const struct kvr_metric *m = find_in(kvr_metrics, name);

    return m ? m : find_in(kvr_truth_metrics, name);
}

const struct kvr_metric *kvr_metric_truth_of(const struct kvr_metric *m)
{
    char name[64];

    snprintf(name, sizeof name, "%s_truth", m->name);
    return find_in(kvr_truth_metrics, name);
}

/* Tests whether a value is inside the range, so that NaN fails the test. */
static enum kvr_status check_range(const struct kvr_metric *m, const struct kvr_metric_value *v)
{
    if (!(v->value >= m->lo && v->value <= m->hi))
        return kvr_fail(isfinite(v->value) ? KVR_EINTERNAL : KVR_ENAN,
                        "%s: value %g is outside [%g, %g] %s", m->name, v->value, m->lo, m->hi,
                        m->unit);
    for (int i = v->first; i < v->n_series; i++)
        if (!(v->series[i] >= m->lo && v->series[i] <= m->hi))
            return kvr_fail(isfinite(v->series[i]) ? KVR_EINTERNAL : KVR_ENAN,
                            "%s: frame %d: value %g is outside [%g, %g] %s", m->name, i,
                            v->series[i], m->lo, m->hi, m->unit);
    return KVR_OK;
}

enum kvr_status kvr_metric_measure(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                   struct kvr_metric_value *out)
{
    const struct kvr_frames *ref = in->ref, *test = in->test;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    if (ref->n != test->n || ref->height != test->height || ref->width != test->width)
        return kvr_fail(KVR_EINVAL,
                        "%s: the reference has %d frames of %dx%d (width x height), but the test "
                        "video has %d of %dx%d",
                        m->name, ref->n, ref->width, ref->height, test->n, test->width,
                        test->height);
    if (ref->n <= 0 || ref->height <= 0 || ref->width <= 0) {
        snprintf(out->missing, sizeof out->missing,
                 "no frames to compare: the video has %d frames of %dx%d", ref->n, ref->width,
                 ref->height);
        return KVR_OK;
    }
    st = m->compute(in, out);
    if (st == KVR_OK && !out->missing[0])
        st = check_range(m, out);
    if (st != KVR_OK || out->missing[0])
        kvr_metric_value_free(out);
    return st;
}

enum kvr_status kvr_metric_compute(const struct kvr_metric *m, const struct kvr_frames *ref,
                                   const struct kvr_frames *test, struct kvr_metric_value *out)
{
    const struct kvr_metric_input in = { .ref = ref, .test = test };

    return kvr_metric_measure(m, &in, out);
}

void kvr_metric_value_free(struct kvr_metric_value *v)
{
    free(v->series);
    v->series = NULL;
    v->n_series = 0;
}

/* Converts the PSNR `db` of a frame to the mean squared error divided by the square of the peak
 * value. For m->hi, the PSNR that the metric gives to identical frames, the result is 0. */
static double squared_error_of(const struct kvr_metric *m, double db)
{
    return db < m->hi ? pow(10.0, -db / 10.0) : 0.0;
}

double kvr_metric_pool(const struct kvr_metric *m, const double *series, int from, int to)
{
    double sum = 0.0, mean;
    int n = 0;

    for (int i = from; i < to; i++)
        if (!isnan(series[i])) {
            sum += m->pool == KVR_POOL_DB ? squared_error_of(m, series[i]) : series[i];
            n++;
        }
    if (n == 0)
        return NAN;
    mean = sum / n;
    switch (m->pool) {
    case KVR_POOL_SUM:
        return sum;
    case KVR_POOL_DB:
        return mean > 0.0 ? fmin(-10.0 * log10(mean), m->hi) : m->hi;
    default:
        return mean;
    }
}
