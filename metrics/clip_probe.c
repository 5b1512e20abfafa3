/* clip_probe.c - see clip_probe.h. */
#include "metrics/clip_probe.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK = 32,
    PATH = 64,
    FLAT = 1152,
    MOST_FRAMES = 32,
    MOST_TAPS = 288,
    MOST_OUT = 32,
    MOST_ROW = 24
};

static const struct layer {
    int in, out, kernel, size; /* size: height and width of the input, in pixels */
} layers[3] = { { 3, 16, 5, 48 }, { 16, 32, 3, 24 }, { 32, 32, 3, 12 } };

static const char *const heads[KVR_CLIP_HEADS] = { "shape", "color", "motion", "ground",
                                                   "ground_color" };

static enum kvr_status get(const struct kvr_st *f, const char *layer, const char *what, int n_dims,
                           const int64_t *shape, const float **out)
{
    struct kvr_tensor t;
    char name[64];
    int64_t n = 1;

    snprintf(name, sizeof name, "%s.%s", layer, what);
    KVR_TRY(kvr_st_get_shaped(f, name, n_dims, shape, &t));
    if (t.dtype != KVR_F32)
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has type %s, need F32", kvr_st_path(f), name,
                        kvr_dtype_name(t.dtype));
    *out = t.data;
    for (int i = 0; i < n_dims; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n; i++)
        if (!isfinite((*out)[i]))
            return kvr_fail(KVR_ENAN,
                            "%s: tensor '%s' contains %g at element %lld; weights must be finite",
                            kvr_st_path(f), name, (double)(*out)[i], (long long)i);
    return KVR_OK;
}

static enum kvr_status get_linear(const struct kvr_st *f, const char *layer, int out, int in,
                                  const float **weight, const float **bias)
{
    KVR_TRY(get(f, layer, "weight", 2, (const int64_t[]){ out, in }, weight));
    return get(f, layer, "bias", 1, (const int64_t[]){ out }, bias);
}

/* Parses the metadata of a classifier head, such as "4,5 motion:still dir:left ...": the positions
 * of one or two words in the prompt (slots), then the words that are the classes of the head. */
static enum kvr_status read_words(struct kvr_clip_head *h, const struct kvr_st *f)
{
    const char *text = kvr_st_metadata(f, h->name);
    int n = 0;

    h->slot[1] = -1;
    if (!text || sscanf(text, "%d%n,%d%n", &h->slot[0], &n, &h->slot[1], &n) < 1 || h->slot[0] < 0)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: metadata '%s' is '%.60s', need one or two positions of words in the prompt, then "
            "the words that are the classes, as in '4,5 motion:still dir:left'",
            kvr_st_path(f), h->name, text ? text : "");
    for (text += n; *text;) {
        size_t len;

        text += strspn(text, " ");
        len = strcspn(text, " ");
        if (len == 0)
            break;
        if (h->n_classes == KVR_CLIP_CLASSES || len >= sizeof h->word[0])
            return kvr_fail(KVR_EFORMAT,
                            "%s: metadata '%s': class %d, '%.*s', has %zu characters; need at most "
                            "%d classes, each of fewer than %zu characters",
                            kvr_st_path(f), h->name, h->n_classes + 1, (int)(len < 60 ? len : 60),
                            text, len, KVR_CLIP_CLASSES, sizeof h->word[0]);
        memcpy(h->word[h->n_classes++], text, len);
        text += len;
    }
    return h->n_classes >= 2 ? KVR_OK
                             : kvr_fail(KVR_EFORMAT,
                                        "%s: metadata '%s' lists %d words to distinguish, "
                                        "need at least 2, as in '4,5 motion:still dir:left'",
                                        kvr_st_path(f), h->name, h->n_classes);
}

static enum kvr_status open_head(struct kvr_clip_probe *p, int i, const struct kvr_st *f)
{
    struct kvr_clip_head *h = &p->head[i];

    h->name = heads[i];
    h->moves = strcmp(h->name, "motion") == 0;
    KVR_TRY(read_words(h, f));
    return get_linear(f, h->name, h->n_classes, h->moves ? PATH : LOOK, &h->weight, &h->bias);
}

enum kvr_status kvr_clip_probe_open(struct kvr_clip_probe *p, const struct kvr_st *f)
{
    const char *window = kvr_st_metadata(f, "window");

    memset(p, 0, sizeof *p);
    p->window = window ? (int)strtol(window, NULL, 10) : 0;
    if (p->window < 1 || p->window > MOST_FRAMES)
        return kvr_fail(KVR_EFORMAT, "%s: metadata 'window' is '%s', need 1..%d frames",
                        kvr_st_path(f), window ? window : "", MOST_FRAMES);
    for (int i = 0; i < 3; i++) {
        const struct layer *l = &layers[i];
        char name[16];

        snprintf(name, sizeof name, "conv%d", i);
        KVR_TRY(get(f, name, "weight", 4, (const int64_t[]){ l->out, l->in, l->kernel, l->kernel },
                    &p->conv[i]));
        KVR_TRY(get(f, name, "bias", 1, (const int64_t[]){ l->out }, &p->conv_bias[i]));
    }
    KVR_TRY(get_linear(f, "look", LOOK, FLAT, &p->look, &p->look_bias));
    KVR_TRY(get_linear(f, "place", LOOK, FLAT, &p->place, &p->place_bias));
    KVR_TRY(get_linear(f, "path", PATH, LOOK * p->window, &p->path, &p->path_bias));
    for (int i = 0; i < KVR_CLIP_HEADS; i++)
        KVR_TRY(open_head(p, i, f));
    return KVR_OK;
}

/* Transposes weights w [out, in, kernel, kernel] to [in, kernel, kernel, out]. */
static void channels_last(const struct layer *l, const float *w, float *to)
{
    const int taps = l->in * l->kernel * l->kernel;

    for (int o = 0; o < l->out; o++)
        for (int k = 0; k < taps; k++)
            to[k * l->out + o] = w[o * taps + k];
}

/* Computes y [out, size / 2, size / 2] = relu(bias + conv(w, x)) with stride 2 and zero padding,
 * for x [in, size, size]. Each output sums its products in a fixed order: by input channel, kernel
 * row, kernel column. Partial sums of all output channels are adjacent, so that compilers vectorize
 * over output channels. */
static void convolve(const struct layer *l, const float *w, const float *bias, const float *x,
                     float *y)
{
    const int half = l->size / 2, pad = l->kernel / 2;
    float tap[MOST_TAPS * MOST_OUT], sum[MOST_ROW * MOST_OUT];

    channels_last(l, w, tap);
    for (int r = 0; r < half; r++) {
        for (int c = 0; c < half; c++)
            memcpy(sum + c * l->out, bias, (size_t)l->out * sizeof *sum);
        for (int t = 0; t < l->in * l->kernel * l->kernel; t++) {
            const int i = t / (l->kernel * l->kernel), at = 2 * r + t / l->kernel % l->kernel - pad;
            const float *k = tap + t * l->out, *row = x + i * l->size * l->size;

            if (at < 0 || at >= l->size)
                continue;
            row += at * l->size;
            for (int c = 0; c < half; c++) {
                const int to = 2 * c + t % l->kernel - pad;

                if (to < 0 || to >= l->size)
                    continue;
                for (int o = 0; o < l->out; o++)
                    sum[c * l->out + o] += k[o] * row[to];
            }
        }
        for (int o = 0; o < l->out; o++)
            for (int c = 0; c < half; c++)
                y[(o * half + r) * half + c] = fmaxf(sum[c * l->out + o], 0);
    }
}

static void linear(const float *w, const float *bias, const float *x, int in, int out, bool relu,
                   float *y)
{
    for (int o = 0; o < out; o++) {
        float sum = bias[o];

        for (int i = 0; i < in; i++)
            sum += w[o * in + i] * x[i];
        y[o] = relu && sum < 0 ? 0 : sum;
    }
}

void kvr_clip_probe_frame(const struct kvr_clip_probe *p, const uint8_t *rgb, float *seen)
{
    enum { N = KVR_CLIP_SIZE * KVR_CLIP_SIZE };
    float x[3 * N], a[16 * N / 4], b[32 * N / 16], c[FLAT];

    for (int i = 0; i < 3 * N; i++)
        x[i % 3 * N + i / 3] = (float)rgb[i] / 127.5f - 1.0f;
    convolve(&layers[0], p->conv[0], p->conv_bias[0], x, a);
    convolve(&layers[1], p->conv[1], p->conv_bias[1], a, b);
    convolve(&layers[2], p->conv[2], p->conv_bias[2], b, c);
    linear(p->look, p->look_bias, c, FLAT, LOOK, true, seen);
    linear(p->place, p->place_bias, c, FLAT, LOOK, true, seen + LOOK);
}

void kvr_clip_probe_read(const struct kvr_clip_probe *p, const float *seen, int h, float *share)
{
    const struct kvr_clip_head *head = &p->head[h];
    float places[MOST_FRAMES * LOOK], in[PATH] = { 0 }, top = -INFINITY, sum = 0;

    assert(p->window > 0 && p->window <= MOST_FRAMES);
    if (head->moves) {
        for (int f = 0; f < p->window; f++)
            memcpy(places + f * LOOK, seen + f * KVR_CLIP_SEEN + LOOK, LOOK * sizeof *places);
        linear(p->path, p->path_bias, places, LOOK * p->window, PATH, true, in);
    } else {
        for (int f = 0; f < p->window; f++)
            for (int i = 0; i < LOOK; i++)
                in[i] += seen[f * KVR_CLIP_SEEN + i] / (float)p->window;
    }
    linear(head->weight, head->bias, in, head->moves ? PATH : LOOK, head->n_classes, false, share);
    for (int i = 0; i < head->n_classes; i++)
        top = share[i] > top ? share[i] : top;
    for (int i = 0; i < head->n_classes; i++)
        sum += share[i] = expf(share[i] - top);
    for (int i = 0; i < head->n_classes; i++)
        share[i] /= sum;
}
