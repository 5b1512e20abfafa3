/* encoder.c - see encoder.h. */
#include "harness/engine/vae/encoder.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/engine/ops.h"
#include "harness/engine/vae/conv.h"
#include "harness/engine/vae/part.h"
#include "harness/engine/vae/vae_layout.h"
#include "harness/engine/vae/vae_ops.h"

enum {
    LEVELS = 4,
    BASE = 160,
    CHANNELS = 48,
    PIXELS = 12,
    SCALE = 16,
    NAME_LEN = 80,
    MAX_THREADS = 64
};

/* Levels (resolutions) of the encoder. `in` and `out` are channels in units of the base width. */
static const struct level {
    int in, out;
    int times; /* input frames per output frame */
} levels[LEVELS] = { { 1, 1, 1 }, { 1, 2, 2 }, { 2, 4, 2 }, { 4, 4, 1 } };

struct encoder {
    struct kvr_dev *dev;
    const struct kvr_weights *file;
    const struct kvr_ops *ops;
    const struct kvr_vae_ops *own;
    struct kvr_conv_context *context;
    int base, h, w;                /* base width in channels; latent height and width */
    struct kvr_buf x, a, b, enter; /* x: current frame; a, b: intermediate results; enter: input of
                                    * the level */
    struct kvr_buf scores, gamma, host;
    int n_threads;
};

int kvr_vae_encoder_scale(int channels)
{
    return channels == CHANNELS ? SCALE : 0;
}

static int64_t pixels(const struct encoder *e, int level)
{
    return (int64_t)(8 * e->h >> level) * (8 * e->w >> level);
}

/* Computes y, the convolution `layer` of the frame x, with zeros as past frames. The function reads
 * the layer's weights from the file and frees them at the end. */
static enum kvr_status convolve(struct encoder *e, const char *layer, int level, int in, int out,
                                int taps, int kernel, const float *x, float *y)
{
    const struct kvr_conv_shape s = { .in = in,
                                      .out = out,
                                      .taps = taps ? taps : 1,
                                      .kernel = kernel,
                                      .height = 8 * e->h >> level,
                                      .width = 8 * e->w >> level,
                                      .up = 1 };
    struct kvr_conv_frame frames[3] = { { NULL, in }, { NULL, in }, { NULL, in } };
    struct kvr_conv *c = NULL;
    enum kvr_status st = kvr_part_conv(e->file, e->context, e->dev, layer, taps == 0, &s, &c);

    frames[s.taps - 1].p = x;
    if (st == KVR_OK)
        st = kvr_conv_run(c, frames, y);
    if (st == KVR_OK)
        st = kvr_dev_sync(e->dev);
    kvr_conv_close(&c);
    return st;
}

/* Applies an RMSNorm with the gain `name`. In the file, the gain has the shape [channels, 1, ...]
 * with `n_ones` ones. */
static enum kvr_status norm(struct encoder *e, const char *name, int level, int channels,
                            int n_ones, bool silu, const float *x, float *y)
{
    const int64_t shape[] = { channels, 1, 1, 1 };
    struct kvr_array gamma = { 0 };
    enum kvr_status st = kvr_part_read(e->file, e->dev, name, 1 + n_ones, shape, &gamma);

    if (st == KVR_OK)
        st = kvr_dev_put(e->dev, e->gamma.p, gamma.t.data, (size_t)channels * sizeof(float));
    if (st == KVR_OK) {
        e->own->norm(e->dev, pixels(e, level), channels, silu, x, e->gamma.p, y);
        st = kvr_dev_sync(e->dev);
    }
    kvr_array_free(&gamma);
    return st;
}

static void add(struct encoder *e, int level, int channels, const float *y, float *x)
{
    e->ops->add(e->dev, &(struct kvr_rows){ pixels(e, level), channels, 1 }, y, NULL, 0, x);
}

/* Runs a residual block on e->x: x becomes shortcut(x) + conv(silu(norm(conv(silu(norm(x)))))). The
 * shortcut is the identity if in equals out, else a pointwise convolution. */
static enum kvr_status block(struct encoder *e, const char *name, int level, int in, int out)
{
    float *x = e->x.p, *one = e->a.p, *two = e->b.p;
    char layer[NAME_LEN];

    snprintf(layer, sizeof layer, "%s.residual.0.gamma", name);
    KVR_TRY(norm(e, layer, level, in, 3, true, x, one));
    snprintf(layer, sizeof layer, "%s.residual.2", name);
    KVR_TRY(convolve(e, layer, level, in, out, 3, 3, one, two));
    snprintf(layer, sizeof layer, "%s.residual.3.gamma", name);
    KVR_TRY(norm(e, layer, level, out, 3, true, two, one));
    snprintf(layer, sizeof layer, "%s.residual.6", name);
    KVR_TRY(convolve(e, layer, level, out, out, 3, 3, one, two));
    if (in != out) {
        snprintf(layer, sizeof layer, "%s.shortcut", name);
        KVR_TRY(convolve(e, layer, level, in, out, 1, 1, x, one));
        kvr_dev_copy(e->dev, x, one, (size_t)(pixels(e, level) * out) * sizeof *x);
    }
    add(e, level, out, two, x);
    return KVR_OK;
}

/* Runs a level: two blocks and, except in the last level, downsampling by 2. The level's shortcut
 * is added to the result: the level's input, which gather() averages to the output's shape if the
 * level downsamples. */
static enum kvr_status run_level(struct encoder *e, int level)
{
    const struct level *l = &levels[level];
    const int in = l->in * e->base, out = l->out * e->base;
    float *x = e->x.p;
    char name[NAME_LEN];

    kvr_dev_copy(e->dev, e->enter.p, x, (size_t)(pixels(e, level) * in) * sizeof *x);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "encoder.downsamples.%d.downsamples.%d", level, i);
        KVR_TRY(block(e, name, level, i ? out : in, out));
    }
    if (level == LEVELS - 1) {
        add(e, level, out, e->enter.p, x);
        return KVR_OK;
    }
    snprintf(name, sizeof name, "encoder.downsamples.%d.downsamples.2.resample.1", level);
    KVR_TRY(convolve(e, name, level, out, out, 0, 3, x, e->a.p));
    e->own->halve(e->dev, 4 * e->h >> level, 4 * e->w >> level, out, e->a.p, x);
    e->own->gather(e->dev, 4 * e->h >> level, 4 * e->w >> level, in, out, l->times, e->enter.p, x);
    return KVR_OK;
}

static enum kvr_status middle(struct encoder *e)
{
    const int top = 4 * e->base, level = LEVELS - 1;
    const int64_t n = pixels(e, level);
    float *x = e->x.p, *one = e->a.p, *qkv = e->b.p;

    KVR_TRY(block(e, "encoder.middle.0", level, top, top));
    KVR_TRY(norm(e, "encoder.middle.1.norm.gamma", level, top, 2, false, x, one));
    KVR_TRY(convolve(e, "encoder.middle.1.to_qkv", level, top, 3 * top, 0, 1, one, qkv));
    KVR_TRY(e->own->attend(e->dev, e->n_threads, n, top, qkv, e->scores.p, one));
    KVR_TRY(convolve(e, "encoder.middle.1.proj", level, top, top, 0, 1, one, qkv));
    add(e, level, top, qkv, x);
    return block(e, "encoder.middle.2", level, top, top);
}

static enum kvr_status head(struct encoder *e, float *z)
{
    const int top = 4 * e->base, level = LEVELS - 1;
    const int64_t n = pixels(e, level);
    const size_t bytes = (size_t)n * 2 * CHANNELS * sizeof *z;
    float *one = e->a.p, *two = e->b.p;
    const float *got = one;

    KVR_TRY(norm(e, "encoder.head.0.gamma", level, top, 3, true, e->x.p, one));
    KVR_TRY(convolve(e, "encoder.head.2", level, top, 2 * CHANNELS, 3, 3, one, two));
    KVR_TRY(convolve(e, "conv1", level, 2 * CHANNELS, 2 * CHANNELS, 1, 1, two, one));
    if (!kvr_dev_in_host(e->dev)) {
        KVR_TRY(kvr_dev_get(e->dev, e->host.p, one, bytes));
        got = e->host.p;
    }
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < CHANNELS; c++) {
            const float v =
                (got[i * 2 * CHANNELS + c] - kvr_vae_2_2.mean[c]) * (1.0f / kvr_vae_2_2.std[c]);

            if (!isfinite(v))
                return kvr_fail(KVR_ENAN,
                                "%s: the encoded first frame has a NaN or infinite latent at "
                                "position %lld of channel %d",
                                kvr_weights_path(e->file), (long long)i, c);
            z[c * n + i] = v;
        }
    return KVR_OK;
}

/* --- sizes ------------------------------------------------------------------------------ */

/* Returns the number of floats of the largest frame that the buffers x, a, b and enter store. */
static int64_t most_floats(const struct encoder *e)
{
    const int last = 12 * e->base > 2 * CHANNELS ? 12 * e->base : 2 * CHANNELS;
    int64_t most = pixels(e, LEVELS - 1) * last;

    for (int i = 0; i < LEVELS; i++) {
        const int wide = levels[i].out * e->base;
        const int64_t n = pixels(e, i) * (i == 0 && wide < PIXELS ? PIXELS : wide);

        most = n > most ? n : most;
    }
    return most;
}

static enum kvr_status make_buffers(struct encoder *e)
{
    struct kvr_buf *const all[] = { &e->x, &e->a, &e->b, &e->enter };
    const size_t n = (size_t)most_floats(e) * sizeof(float);

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        KVR_TRY(kvr_buf_alloc(all[i], e->dev, KVR_MEM_ACT, n));
    e->n_threads = omp_get_max_threads() < MAX_THREADS ? omp_get_max_threads() : MAX_THREADS;
    KVR_TRY(
        kvr_buf_alloc(&e->gamma, e->dev, KVR_MEM_WEIGHTS, (size_t)(4 * e->base) * sizeof(float)));
    if (!kvr_dev_in_host(e->dev))
        KVR_TRY(kvr_buf_alloc(&e->host, kvr_dev_host(e->dev), KVR_MEM_IO,
                              (size_t)pixels(e, LEVELS - 1) * 2 * CHANNELS * sizeof(float)));
    return kvr_buf_alloc(
        &e->scores, e->dev, KVR_MEM_SCRATCH,
        (size_t)e->own->score_floats(e->n_threads, pixels(e, LEVELS - 1), 4 * e->base) *
            sizeof(float));
}

static double layer_flop(const struct encoder *e, int level, int in, int out, int kernel)
{
    return 2.0 * (double)pixels(e, level) * in * out * kernel * kernel;
}

static double block_flop(const struct encoder *e, int level, int in, int out)
{
    const double both = layer_flop(e, level, in, out, 3) + layer_flop(e, level, out, out, 3);

    return both + (in == out ? 0 : layer_flop(e, level, in, out, 1));
}

void kvr_vae_encoder_cost_of(int base, int latent_h, int latent_w, int n_threads,
                             struct kvr_vae_encoder_cost *out)
{
    const struct encoder e = { .base = base, .h = latent_h, .w = latent_w };
    const int top = 4 * base, last = LEVELS - 1;
    const int64_t n = pixels(&e, last);
    const int64_t scores = kvr_vae_ops_cpu.score_floats(n_threads, n, top);
    const size_t square = (size_t)(top > 2 * CHANNELS ? top : 2 * CHANNELS) * (size_t)top * 27;
    double flop = layer_flop(&e, 0, PIXELS, base, 3);

    for (int i = 0; i < LEVELS; i++) {
        const int in = levels[i].in * base, wide = levels[i].out * base;

        flop += block_flop(&e, i, in, wide) + block_flop(&e, i, wide, wide);
        flop += i < last ? layer_flop(&e, i, wide, wide, 3) : 0;
    }
    flop += 2 * block_flop(&e, last, top, top) + layer_flop(&e, last, top, 4 * top, 1);
    flop += 4.0 * (double)n * (double)n * top;
    flop += layer_flop(&e, last, top, 2 * CHANNELS, 3) +
            layer_flop(&e, last, 2 * CHANNELS, 2 * CHANNELS, 1);
    *out = (struct kvr_vae_encoder_cost){ .frames = (size_t)(4 * most_floats(&e)) * sizeof(float),
                                          .scores = (size_t)scores * sizeof(float),
                                          .layer = square * sizeof(float),
                                          .flop = flop };
}

bool kvr_vae_encoder_cost(int channels, int latent_h, int latent_w, int n_threads,
                          struct kvr_vae_encoder_cost *out)
{
    *out = (struct kvr_vae_encoder_cost){ 0 };
    if (channels != CHANNELS)
        return false;
    kvr_vae_encoder_cost_of(BASE, latent_h, latent_w, n_threads, out);
    return true;
}

static enum kvr_status find_base(struct encoder *e)
{
    const struct kvr_weight *first = kvr_weights_find(e->file, "encoder.conv1.weight");
    char have[96];

    if (!first)
        return kvr_fail(KVR_EFORMAT,
                        "%s: an image as first frame needs a Wan 2.2 encoder, but in this file "
                        "weight 'encoder.conv1.weight' is missing",
                        kvr_weights_path(e->file));
    if (first->n_dims != 5 || first->shape[0] < 1 || first->shape[0] > 4096 ||
        first->shape[1] != PIXELS)
        return kvr_fail(KVR_EFORMAT,
                        "%s: an image as first frame needs a Wan 2.2 encoder, but in this file "
                        "weight 'encoder.conv1.weight' has shape %s, need [1..4096, %d, 3, 3, 3]",
                        kvr_weights_path(e->file),
                        kvr_shape_text(first->shape, first->n_dims, have, sizeof have), PIXELS);
    e->base = (int)first->shape[0];
    return KVR_OK;
}

static enum kvr_status encode(struct encoder *e, const float *image, float *z)
{
    const size_t bytes = (size_t)pixels(e, 0) * PIXELS * sizeof *image;

    KVR_TRY(kvr_weights_check_names(e->file));
    KVR_TRY(find_base(e));
    KVR_TRY(make_buffers(e));
    KVR_TRY(kvr_dev_put(e->dev, e->a.p, image, bytes));
    e->own->patch(e->dev, 8 * e->h, 8 * e->w, e->a.p, e->b.p);
    KVR_TRY(convolve(e, "encoder.conv1", 0, PIXELS, e->base, 3, 3, e->b.p, e->x.p));
    for (int level = 0; level < LEVELS; level++)
        KVR_TRY(run_level(e, level));
    KVR_TRY(middle(e));
    return head(e, z);
}

enum kvr_status kvr_vae_encode_frame(struct kvr_dev *dev, const char *path, int latent_h,
                                     int latent_w, const float *image, float *z)
{
    struct encoder e = {
        .dev = dev,
        .ops = kvr_ops_of(dev),
        .own = kvr_vae_ops_of(dev, KVR_F32),
        .h = latent_h,
        .w = latent_w,
    };
    struct kvr_buf *const all[] = { &e.x, &e.a, &e.b, &e.enter, &e.scores, &e.gamma, &e.host };
    struct kvr_weights *file = NULL;
    enum kvr_status st;

    if (latent_h < 1 || latent_w < 1 || latent_h > 4096 || latent_w > 4096)
        return kvr_fail(KVR_EINVAL,
                        "encoder: the latents are %d x %d (width x height), need 1..4096 each",
                        latent_w, latent_h);
    KVR_TRY(kvr_weights_open(&file, path));
    e.file = file;
    st = kvr_conv_context_open(&e.context, dev, KVR_F32);
    if (st == KVR_OK)
        st = encode(&e, image, z);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kvr_buf_free(all[i]);
    kvr_conv_context_close(&e.context);
    kvr_weights_close(&file);
    return st;
}
