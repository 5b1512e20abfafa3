/* lpips.c - learned perceptual distance (Zhang et al. 2018), AlexNet features, linear heads v0.1.
 *
 *     x = (p / 127.5 - 1 - shift) / scale           per channel, pixels to the network's input
 *     f_l = activation l / (its norm over channels + 1e-10)
 *     LPIPS = sum over l of mean over positions of sum_c w_l[c] (f_l[c] - g_l[c])^2
 *
 * Weights come from one safetensors file: the trunk with torchvision's names, the heads as
 * lin{0..4}.model.1.weight [1, C, 1, 1] as in the authors' package. No weights are bundled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/alexnet.h"
#include "metrics/frames.h"
#include "metrics/perceptual.h"

enum { TAPS = KVR_ALEXNET_TAPS };

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
            return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has type %s, need F32", kvr_st_path(f),
                            name, kvr_dtype_name(t.dtype));
        net->head[i] = t.data;
    }
    return KVR_OK;
}

static bool of_frame(const void *ctx, const struct kvr_metric_input *in, int i, double *value)
{
    const struct net *net = ctx;
    const size_t n = kvr_frame_bytes(in->test) / 3;
    size_t floats = 3 * n, taps = 0;
    float *tap[2][TAPS], *x;
    double *work;
    bool ok;

    for (int t = 0; t < TAPS; t++)
        taps += (size_t)net->shape[t].channels * (size_t)net->shape[t].height *
                (size_t)net->shape[t].width;
    x = malloc((floats + 2 * taps) * sizeof *x);
    /* kvr_perceptual_distance() needs 3 doubles per position. The first activation has the most
     * positions. */
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
        kvr_perceptual_input(x, kvr_frame_at(side ? in->test : in->ref, i), n);
        ok = kvr_alexnet_run(&net->trunk, x, in->test->height, in->test->width, net->shape,
                             tap[side]);
    }
    *value = 0.0;
    for (int t = 0; t < TAPS && ok; t++)
        *value += kvr_perceptual_distance(
            tap[0][t], tap[1][t], net->head[t], net->shape[t].channels,
            (size_t)net->shape[t].height * (size_t)net->shape[t].width, work);
    free(x);
    free(work);
    return ok;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    struct kvr_st *f = NULL;
    struct net net;
    enum kvr_status st;

    if (!in->lpips_weights) {
        snprintf(out->missing, sizeof out->missing,
                 "models/lpips/alexnet.safetensors is missing; kvreel does not include these "
                 "weights, see docs/measuring.md");
        return KVR_OK;
    }
    if (!kvr_alexnet_shape(in->test->height, in->test->width, net.shape)) {
        int least = 1;

        while (!kvr_alexnet_shape(least, least, net.shape))
            least++;
        snprintf(out->missing, sizeof out->missing,
                 "frames of %dx%d are too small for AlexNet: need at least %dx%d pixels",
                 in->test->width, in->test->height, least, least);
        return KVR_OK;
    }
    KVR_TRY(kvr_st_open(&f, in->lpips_weights));
    st = kvr_alexnet_open(&net.trunk, f);
    if (st == KVR_OK)
        st = open_heads(&net, f);
    if (st == KVR_OK)
        st = kvr_perceptual_frames("lpips", of_frame, &net, in, out);
    kvr_st_close(&f);
    return st;
}

KVR_METRIC_AND_TRUTH(lpips, "lpips", "LPIPS v0.1, AlexNet; needs weights that are not bundled",
                     .unit = "1", .direction = -1, .lo = 0.0, .hi = 100.0, .version = 1,
                     .source = "Zhang et al. 2018, arXiv:1801.03924", .compute = compute);
