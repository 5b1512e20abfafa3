/* perceptual.c - see perceptual.h. */
#include "metrics/perceptual.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/frames.h"
#include "metrics/kernels.h"

static const float shift[3] = { -0.030f, -0.088f, -0.188f };
static const float scale[3] = { 0.458f, 0.448f, 0.450f };

void kvr_perceptual_input(float *x, const uint8_t *rgb, size_t n)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++)
            x[c * n + i] = ((float)rgb[3 * i + c] / 127.5f - 1.0f - shift[c]) / scale[c];
}

/* The outer loops are over channels, so that the activations [channels, n] are read in the order of
 * memory. */
double kvr_perceptual_distance(const float *a, const float *b, const float *head, int channels,
                               size_t n, double *work)
{
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    double *aa = work, *bb = work + n, *d = work + 2 * n;

    memset(work, 0, 3 * n * sizeof *work);
    for (size_t c = 0; c < (size_t)channels; c++) {
        k->add_squares(a + c * n, n, aa);
        k->add_squares(b + c * n, n, bb);
    }
    for (size_t i = 0; i < n; i++) {
        aa[i] = 1.0 / (sqrt(aa[i]) + 1e-10);
        bb[i] = 1.0 / (sqrt(bb[i]) + 1e-10);
    }
    for (size_t c = 0; c < (size_t)channels; c++)
        k->add_distance(a + c * n, aa, b + c * n, bb, (double)head[c], n, d);
    return kvr_sum(d, (int)n) / (double)n;
}

/* Runs oneDNN with one thread. Its partition of work, and thus its rounding, depends on the number
 * of threads. */
enum kvr_status kvr_perceptual_frames(const char *name, kvr_perceptual_fn *fn, const void *net,
                                      const struct kvr_metric_input *in,
                                      struct kvr_metric_value *out)
{
    const int n = in->test->n;
    int failed = 0;

    out->series = malloc((size_t)n * sizeof *out->series);
    if (!out->series)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d frames", name, n);
    out->n_series = n;
#pragma omp parallel
    {
        const int threads = omp_get_max_threads();

        omp_set_num_threads(1);
#pragma omp for schedule(static)
        for (int i = 0; i < n; i++)
            if (!fn(net, in, i, &out->series[i])) {
#pragma omp atomic write
                failed = 1;
            }
        omp_set_num_threads(threads);
    }
    if (failed)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating frames of %dx%d pixels",
                        name, in->test->width, in->test->height);
    for (int i = 0; i < n; i++)
        out->value += out->series[i] / n;
    return KVR_OK;
}
