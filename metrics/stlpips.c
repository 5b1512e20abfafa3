/* stlpips.c - shift-tolerant LPIPS (Ghildyal and Liu 2022): LPIPS on an anti-aliased AlexNet, in
 * which only blurs have stride 2.
 *
 *     f1 = relu(blur(conv11(x)))                   64 channels
 *     f2 = relu(conv5(blur(max3(f1))))             192
 *     f3 = relu(conv3(blur(max3(f2))))             384
 *     f4 = relu(conv3(f3)), f5 = relu(conv3(f4))   256
 *     ST-LPIPS = sum over l of the distance of f_l (perceptual.h)
 *
 * max3 is 3x3 max pooling of stride 1 without padding. blur convolves each channel with the 3x3
 * kernel [1 2 1]^T [1 2 1] / 16, with stride 2 and reflection padding of 2 pixels. The weights are
 * the authors' original file, fetched by `make metric-stlpips`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "harness/files/weights/weights.h"
#include "metrics/frames.h"
#include "metrics/perceptual.h"
#include "metrics/strips.h"

enum { TAPS = 5, LEAST = 21 };

static const struct layer {
    const char *name;
    struct kvr_strip_layer conv;
    bool pool; /* whether max3 and blur precede the layer */
} layers[TAPS] = {
    { "net.slice1.0", { 3, 64, 11, 1, 2, false }, false }, /* ReLU follows blur */
    { "net.slice2.5", { 64, 192, 5, 1, 2, true }, true },
    { "net.slice3.9", { 192, 384, 3, 1, 1, true }, true },
    { "net.slice4.11", { 384, 256, 3, 1, 1, true }, false },
    { "net.slice5.13", { 256, 256, 3, 1, 1, true }, false },
};

struct shape {
    int height, width;
};

struct net {
    float *weight[TAPS], *bias[TAPS], *head[TAPS]; /* owned */
    struct shape tap[TAPS], conv1;
};

static void net_free(struct net *net)
{
    for (int i = 0; i < TAPS; i++) {
        free(net->weight[i]);
        free(net->bias[i]);
        free(net->head[i]);
    }
}

/* --- weights ---------------------------------------------------------------------------- */

static enum kvr_status get(const struct kvr_weights *w, const char *name, int n_dims,
                           const int64_t *shape, float **out)
{
    const struct kvr_weight *t = kvr_weights_find(w, name);
    const char *path = kvr_weights_path(w);
    char want[96], have[96];
    int64_t bad;

    if (!t)
        return kvr_fail(KVR_ENOTFOUND, "%s: weight '%s' is missing", path, name);
    if (t->n_dims != n_dims || memcmp(t->shape, shape, (size_t)n_dims * sizeof *shape) != 0)
        return kvr_fail(KVR_EFORMAT, "%s: weight '%s' has shape %s, ST-LPIPS needs %s", path, name,
                        kvr_shape_text(t->shape, t->n_dims, have, sizeof have),
                        kvr_shape_text(shape, n_dims, want, sizeof want));
    KVR_TRY(kvr_weight_nonfinite(t, &bad));
    if (bad)
        return kvr_fail(KVR_ENAN, "%s: weight '%s' has %lld values that are NaN or infinite", path,
                        name, (long long)bad);
    *out = malloc((size_t)t->n * sizeof **out);
    if (!*out)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating weight '%s'", path, name);
    return kvr_weight_f32(t, 0, t->n, *out);
}

static enum kvr_status load(struct net *net, const struct kvr_weights *w)
{
    for (int i = 0; i < TAPS; i++) {
        const struct kvr_strip_layer *l = &layers[i].conv;
        const int64_t shape[] = { l->out, l->in, l->kernel, l->kernel };
        const int64_t head[] = { 1, l->out, 1, 1 };
        char name[64];

        snprintf(name, sizeof name, "%s.weight", layers[i].name);
        KVR_TRY(get(w, name, 4, shape, &net->weight[i]));
        snprintf(name, sizeof name, "%s.bias", layers[i].name);
        KVR_TRY(get(w, name, 1, shape, &net->bias[i]));
        snprintf(name, sizeof name, "lin%d.model.1.weight", i);
        KVR_TRY(get(w, name, 4, head, &net->head[i]));
    }
    return KVR_OK;
}

/* --- the network ------------------------------------------------------------------------ */

static int blurred(int n)
{
    return (n + 1) / 2 + 1;
}

static void find_shapes(struct net *net, int height, int width)
{
    struct shape s = { height, width };

    for (int i = 0; i < TAPS; i++) {
        const struct kvr_strip_layer *l = &layers[i].conv;

        if (layers[i].pool)
            s = (struct shape){ blurred(s.height - 2), blurred(s.width - 2) };
        s = (struct shape){ kvr_strip_output_size(s.height, l), kvr_strip_output_size(s.width, l) };
        if (i == 0) {
            net->conv1 = s;
            s = (struct shape){ blurred(s.height), blurred(s.width) };
        }
        net->tap[i] = s;
    }
}

/* 3x3 max pooling of n channels, x [n, h, w], to y [n, h - 2, w - 2]. */
static void max3(float *y, const float *x, int n, const struct shape *s)
{
    const size_t w = (size_t)s->width, plane = (size_t)s->height * w;

    for (int c = 0; c < n; c++)
        for (int r = 0; r + 2 < s->height; r++)
            for (int i = 0; i + 2 < s->width; i++) {
                const float *p = x + (size_t)c * plane + (size_t)r * w + (size_t)i;
                float m = p[0];

                for (size_t dy = 0; dy < 3; dy++)
                    for (size_t dx = 0; dx < 3; dx++)
                        m = p[dy * w + dx] > m ? p[dy * w + dx] : m;
                *y++ = m;
            }
}

/* Reflects an index outside [0, n): -1 becomes 1, n becomes n - 2. */
static int mirrored(int i, int n)
{
    i = i < 0 ? -i : i;
    return i < n ? i : 2 * (n - 1) - i;
}

/* Blurs n channels with stride 2: x [n, h, w] to y [n, blurred(h), blurred(w)]. */
static void blur(float *y, const float *x, int n, const struct shape *s, bool relu)
{
    static const float tap[3] = { 0.25f, 0.5f, 0.25f };
    const int h = blurred(s->height), w = blurred(s->width);

    for (int c = 0; c < n; c++)
        for (int r = 0; r < h; r++)
            for (int i = 0; i < w; i++) {
                const float *p = x + (size_t)c * (size_t)s->height * (size_t)s->width;
                float sum = 0;

                for (int dy = 0; dy < 3; dy++)
                    for (int dx = 0; dx < 3; dx++)
                        sum += tap[dy] * tap[dx] *
                               p[(size_t)mirrored(2 * r + dy - 2, s->height) * (size_t)s->width +
                                 (size_t)mirrored(2 * i + dx - 2, s->width)];
                *y++ = sum > 0 || !relu ? sum : 0;
            }
}

static size_t floats(int channels, struct shape s)
{
    return (size_t)channels * (size_t)s.height * (size_t)s.width;
}

/* Sizes, in floats, of the scratch arrays of forward(), which fit every layer: `col` for the im2col
 * matrix, `wide` for the input of a blur, `narrow` for its output. */
struct workspace {
    size_t col, wide, narrow;
};

static struct workspace workspace_for(const struct net *net)
{
    struct workspace r = { .wide = floats(layers[0].conv.out, net->conv1) };

    for (int i = 0; i < TAPS; i++) {
        const struct kvr_strip_layer *l = &layers[i].conv;
        const struct shape out = i ? net->tap[i] : net->conv1;
        const size_t col = kvr_strip_floats(l, out.height, out.width);

        r.col = col > r.col ? col : r.col;
        if (layers[i].pool) {
            const struct shape in = net->tap[i - 1];
            const struct shape most = { in.height - 2, in.width - 2 };
            const struct shape least = { blurred(most.height), blurred(most.width) };

            r.wide = floats(l->in, most) > r.wide ? floats(l->in, most) : r.wide;
            r.narrow = floats(l->in, least) > r.narrow ? floats(l->in, least) : r.narrow;
        }
    }
    return r;
}

/* Computes the activations f1 .. f5 of the image x [3, height, width] into tap[0] .. tap[4], each
 * [channels, height, width]. wide, narrow and col are scratch. Returns false if memory runs out. */
static bool forward(const struct net *net, const float *x, struct shape in, float *const *tap,
                    float *wide, float *narrow, float *col)
{
    for (int i = 0; i < TAPS; i++) {
        const struct kvr_strip_layer *l = &layers[i].conv;

        if (layers[i].pool) {
            const struct shape pooled = { in.height - 2, in.width - 2 };

            max3(wide, x, l->in, &in);
            blur(narrow, wide, l->in, &pooled, false);
            x = narrow;
            in = (struct shape){ blurred(pooled.height), blurred(pooled.width) };
        }
        if (i == 0) {
            if (!kvr_strip_convolve(l, net->weight[0], net->bias[0], x, in.height, in.width,
                                    net->conv1.height, net->conv1.width, wide, col))
                return false;
            blur(tap[0], wide, l->out, &net->conv1, true);
        } else if (!kvr_strip_convolve(l, net->weight[i], net->bias[i], x, in.height, in.width,
                                       net->tap[i].height, net->tap[i].width, tap[i], col)) {
            return false;
        }
        x = tap[i];
        in = net->tap[i];
    }
    return true;
}

static bool of_frame(const void *ctx, const struct kvr_metric_input *in, int i, double *value)
{
    const struct net *net = ctx;
    const struct shape size = { in->test->height, in->test->width };
    const struct workspace r = workspace_for(net);
    const size_t n = kvr_frame_bytes(in->test) / 3;
    size_t taps = 0;
    float *tap[2][TAPS], *all, *at;
    double *work;
    bool ok = true;

    for (int t = 0; t < TAPS; t++)
        taps += floats(layers[t].conv.out, net->tap[t]);
    all = malloc((3 * n + 2 * taps + r.col + r.wide + r.narrow) * sizeof *all);
    work = malloc(3 * floats(1, net->tap[0]) * sizeof *work);
    if (!all || !work) {
        free(all);
        free(work);
        return false;
    }
    at = all + 3 * n + r.col + r.wide + r.narrow;
    for (int side = 0; side < 2 && ok; side++) {
        for (int t = 0; t < TAPS; t++) {
            tap[side][t] = at;
            at += floats(layers[t].conv.out, net->tap[t]);
        }
        kvr_perceptual_input(all, kvr_frame_at(side ? in->test : in->ref, i), n);
        ok = forward(net, all, size, tap[side], all + 3 * n, all + 3 * n + r.wide,
                     all + 3 * n + r.wide + r.narrow);
    }
    *value = 0.0;
    for (int t = 0; t < TAPS && ok; t++)
        *value += kvr_perceptual_distance(tap[0][t], tap[1][t], net->head[t], layers[t].conv.out,
                                          floats(1, net->tap[t]), work);
    free(all);
    free(work);
    return ok;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    struct kvr_weights *w;
    struct net net = { 0 };
    enum kvr_status st;

    if (!in->stlpips_weights) {
        snprintf(out->missing, sizeof out->missing,
                 "no weights: models/stlpips/alex_shift_tolerant.pth is missing; run `make "
                 "metric-stlpips`");
        return KVR_OK;
    }
    if (in->test->height < LEAST || in->test->width < LEAST) {
        snprintf(
            out->missing, sizeof out->missing,
            "frames of %dx%d are too small: ST-LPIPS needs width and height of at least %d pixels",
            in->test->width, in->test->height, LEAST);
        return KVR_OK;
    }
    kvr_onednn_limit();
    KVR_TRY(kvr_weights_open(&w, in->stlpips_weights));
    st = load(&net, w);
    kvr_weights_close(&w);
    find_shapes(&net, in->test->height, in->test->width);
    if (st == KVR_OK)
        st = kvr_perceptual_frames("stlpips", of_frame, &net, in, out);
    net_free(&net);
    return st;
}

KVR_METRIC_AND_TRUTH(stlpips, "stlpips",
                     "shift-tolerant LPIPS, AlexNet; needs weights that are not bundled",
                     .unit = "1", .direction = -1, .lo = 0.0, .hi = 100.0, .version = 1,
                     .source = "Ghildyal and Liu 2022, arXiv:2207.13686", .compute = compute);
