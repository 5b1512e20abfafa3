/* frames.c - see frames.h. */
#include "metrics/frames.h"

#include <math.h>
#include <stdlib.h>

#include "metrics/kernels.h"

enum kvr_status kvr_metric_per_frame(const struct kvr_metric_input *in,
                                     struct kvr_metric_value *out, const char *name, int first,
                                     int end, kvr_frame_fn *fn)
{
    int failed = 0;

    out->series = malloc((size_t)end * sizeof *out->series);
    if (!out->series)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d frames", name, end);
    out->n_series = end;
    out->first = first;
    for (int i = 0; i < first; i++)
        out->series[i] = NAN;
#pragma omp parallel for schedule(static)
    for (int i = first; i < end; i++)
        if (!fn(in, i, &out->series[i])) {
#pragma omp atomic write
            failed = 1;
        }
    if (failed)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating frames of %dx%d pixels",
                        name, in->test->width, in->test->height);
    for (int i = first; i < end; i++)
        out->value += out->series[i];
    out->value /= end - first;
    return KVR_OK;
}

uint64_t kvr_sum_squared(const uint8_t *a, const uint8_t *b, size_t n)
{
    return kvr_metric_kernels()->sum_squared(a, b, n);
}

uint64_t kvr_sum_absolute(const uint8_t *a, const uint8_t *b, size_t n)
{
    return kvr_metric_kernels()->sum_absolute(a, b, n);
}

double kvr_sum(const double *p, int n)
{
    double s[4] = { 0 };
    int i = 0;

    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++)
            s[j] += p[i + j];
    for (; i < n; i++)
        s[0] += p[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

void kvr_luma(uint8_t *y, const uint8_t *rgb, size_t n)
{
    kvr_metric_kernels()->luma(y, rgb, n);
}
