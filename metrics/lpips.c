/* lpips.c - learned perceptual distance (Zhang et al. 2018), AlexNet features, linear heads v0.1.
 *
 *     x = (p / 127.5 - 1 - shift) / scale           per channel, pixels to the network's input
 *     f_l = activation l / (its norm over channels + 1e-10)
 *     LPIPS = sum over l of mean over positions of sum_c w_l[c] (f_l[c] - g_l[c])^2
 *
 * Weights come from one safetensors file: the trunk under torchvision's names, the heads as
 * lin{0..4}.model.1.weight [1, C, 1, 1], as the authors' package has them. None is bundled. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/alexnet.h"
#include "metrics/frames.h"
#include "metrics/kernels.h"

enum { TAPS = KVR_ALEXNET_TAPS };

static const float shift[3] = { -0.030f, -0.088f, -0.188f };
static const float scale[3] = { 0.458f, 0.448f, 0.450f };

struct net {
    struct kvr_alexnet trunk;
    const float *head[TAPS]; /* [C] */
    struct kvr_alexnet_shape shape[TAPS];
};

static enum kvr_status open_heads(struct net *net, const struct kvr_st *f)
{
    for (int i = 0; i < TAPS; i++) {
        const int64_t shape[] = { 1, net->shape[i].channels, 1, 1 };
        struct kvr_tensor t;
        char name[64];

        snprintf(name, sizeof name, "lin%d.model.1.weight", i);
        KVR_TRY(kvr_st_get_shaped(f, name, 4, shape, &t));
        if (t.dtype != KVR_F32)
            return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' is %s, need F32", kvr_st_path(f), name,
                            kvr_dtype_name(t.dtype));
        net->head[i] = t.data;
    }
    return KVR_OK;
}

static void to_input(float *x, const uint8_t *rgb, size_t n)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++)
            x[c * n + i] = ((float)rgb[3 * i + c] / 127.5f - 1.0f - shift[c]) / scale[c];
}

/* a, b [C, n]; work [3, n]. Channel by channel, so that memory is read in its order. */
static double distance(const float *a, const float *b, const float *head, int channels, size_t n,
                       double *work)
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

static bool of_frame(const struct net *net, const struct kvr_metric_input *in, int i, double *value)
{
    const size_t n = kvr_frame_bytes(in->test) / 3;
    size_t floats = 3 * n, taps = 0;
    float *tap[2][TAPS], *x;
    double *work;
    bool ok;

    for (int t = 0; t < TAPS; t++)
        taps += (size_t)net->shape[t].channels * (size_t)net->shape[t].height *
                (size_t)net->shape[t].width;
    x = malloc((floats + 2 * taps) * sizeof *x);
    /* The first activation has the most positions. */
    work = malloc(3 * (size_t)net->shape[0].height * (size_t)net->shape[0].width * sizeof *work);
    if (!x || !work) {
        free(x);
        free(work);
        return false;
    }
    for (int side = 0; side < 2; side++)
        for (int t = 0; t < TAPS; t++) {
            tap[side][t] = x + floats;
            floats += (size_t)net->shape[t].channels * (size_t)net->shape[t].height *
                      (size_t)net->shape[t].width;
        }
    ok = true;
    for (int side = 0; side < 2 && ok; side++) {
        to_input(x, kvr_frame_at(side ? in->test : in->ref, i), n);
        ok = kvr_alexnet_run(&net->trunk, x, in->test->height, in->test->width, net->shape,
                             tap[side]);
    }
    *value = 0.0;
    for (int t = 0; t < TAPS && ok; t++)
        *value += distance(tap[0][t], tap[1][t], net->head[t], net->shape[t].channels,
                           (size_t)net->shape[t].height * (size_t)net->shape[t].width, work);
    free(x);
    free(work);
    return ok;
}

/* oneDNN cuts its work by the number of threads it sees: one, whatever the number here. */
static enum kvr_status over_frames(const struct net *net, const struct kvr_metric_input *in,
                                   struct kvr_metric_value *out)
{
    const int n = in->test->n;
    int failed = 0;

    out->series = malloc((size_t)n * sizeof *out->series);
    if (!out->series)
        return kvr_fail(KVR_ENOMEM, "lpips: no memory for %d frames", n);
    out->n_series = n;
#pragma omp parallel
    {
        const int threads = omp_get_max_threads();

        omp_set_num_threads(1);
#pragma omp for schedule(static)
        for (int i = 0; i < n; i++)
            if (!of_frame(net, in, i, &out->series[i])) {
#pragma omp atomic write
                failed = 1;
            }
        omp_set_num_threads(threads);
    }
    if (failed)
        return kvr_fail(KVR_ENOMEM, "lpips: no memory for frames of %dx%d", in->test->width,
                        in->test->height);
    for (int i = 0; i < n; i++)
        out->value += out->series[i] / n;
    return KVR_OK;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    struct kvr_st *f = NULL;
    struct net net;
    enum kvr_status st;

    if (!in->lpips_weights) {
        snprintf(out->missing, sizeof out->missing,
                 "no weights: models/lpips/alexnet.safetensors is not there");
        return KVR_OK;
    }
    if (!kvr_alexnet_shape(in->test->height, in->test->width, net.shape)) {
        snprintf(out->missing, sizeof out->missing, "frames of %dx%d are too small for AlexNet",
                 in->test->width, in->test->height);
        return KVR_OK;
    }
    KVR_TRY(kvr_st_open(&f, in->lpips_weights));
    st = kvr_alexnet_open(&net.trunk, f);
    if (st == KVR_OK)
        st = open_heads(&net, f);
    if (st == KVR_OK)
        st = over_frames(&net, in, out);
    kvr_st_close(&f);
    return st;
}

KVR_METRIC_AND_TRUTH(lpips, "lpips", "LPIPS v0.1, AlexNet; needs weights that are not bundled",
                     .unit = "1", .direction = -1, .lo = 0.0, .hi = 100.0, .version = 1,
                     .source = "Zhang et al. 2018, arXiv:1801.03924", .compute = compute);
