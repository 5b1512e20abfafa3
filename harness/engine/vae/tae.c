/* tae.c - the tiny decoder: its layers, the states of its blocks, and decoding frame by frame.
 *
 * Levels 0..3 are resolutions. A level has twice the height and width of the previous level. Each
 * of levels 0..2 has a stage: three residual blocks, a pointwise convolution that makes 1 or 2
 * frames from one frame, upsampling by 2, and a convolution to the next level. In the network,
 * upsampling precedes the pointwise convolution. kvreel computes the pointwise convolution first,
 * which gives the same result with fewer operations. */
#include "harness/engine/vae/tae.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/engine/vae/conv.h"
#include "harness/engine/vae/part.h"
#include "harness/engine/vae/vae_ops.h"

enum {
    LEVELS = KVR_TAE_LEVELS,
    STAGES = LEVELS - 1,
    BLOCKS = 3, /* blocks per stage */
    LAST = 22,  /* number of the last layer; the first convolution has number 1 */
    NAME_LEN = 40,
    TRIMMED = 3, /* discarded frames at the start of a clip */
    MOST_WIDTH = 4096,
};

const int kvr_tae_widths[LEVELS] = { 256, 128, 64, 64 };

static const int times[STAGES] = { 1, 2, 2 };        /* frames that stage i makes from one frame */
static const int first_layer[STAGES] = { 3, 9, 15 }; /* layer number of a stage's first block */
/* Number of frames that each level computes for a clip's first latent frame (frames_first), and for
 * each later latent frame (frames_next). */
static const int frames_next[LEVELS] = { 1, 1, 2, 4 };
static const int frames_first[LEVELS] = { 1, 1, 2, 1 };

struct block {
    struct kvr_conv *conv[3];
    struct kvr_buf before; /* previous frame of the level, [h, w, channels] */
};

struct stage {
    struct block block[BLOCKS];
    struct kvr_conv *grow, *space;
    struct kvr_buf grown; /* output of `grow`, [h, w, times, channels] */
};

struct kvr_tae {
    struct kvr_dev *dev;
    struct kvr_weights *file; /* weights; NULL after they are loaded */
    const struct kvr_vae_ops *ops;
    struct kvr_conv_context *context;
    int h, w, width[LEVELS];
    bool begun; /* the first frame has been decoded */
    int trim;   /* frames left to discard */
    struct kvr_conv *first, *last;
    struct stage stage[STAGES];
    struct kvr_buf x[LEVELS], a, b; /* current frame of each level; a, b: scratch frames */
    struct kvr_buf host;            /* host copy of a latent or a pixel frame (part.h) */
    kvr_vae_frame_fn *frame;
    void *frame_ctx;
};

static int64_t pixels(const struct kvr_tae *t, int level)
{
    return (int64_t)(t->h << level) * (t->w << level);
}

/* --- loading ---------------------------------------------------------------------------- */

static struct kvr_conv_shape shape_at(const struct kvr_tae *t, int level, int in, int out, int taps,
                                      int kernel)
{
    return (struct kvr_conv_shape){ .in = in,
                                    .out = out,
                                    .taps = taps,
                                    .kernel = kernel,
                                    .height = t->h << level,
                                    .width = t->w << level,
                                    .up = 1 };
}

/* Reorders the weights of a file, [out, taps, in, k, k] with the newest frame's tap first, to [out,
 * in, taps, k, k] with the newest frame's tap last. */
static void by_time(const struct kvr_conv_shape *s, const float *from, float *to)
{
    const int64_t kk = (int64_t)s->kernel * s->kernel;

    for (int64_t o = 0; o < s->out; o++)
        for (int64_t i = 0; i < s->in; i++)
            for (int64_t k = 0; k < s->taps; k++)
                memcpy(to + ((o * s->in + i) * s->taps + k) * kk,
                       from + ((o * s->taps + s->taps - 1 - k) * s->in + i) * kk,
                       (size_t)kk * sizeof *to);
}

/* Reads a weight, and sets *rows to the weights of its last s->out output channels. A pointwise
 * weight may have more: then it makes more frames per frame, and kvreel computes only the last of
 * them. */
static enum kvr_status read_last_rows(struct kvr_tae *t, const char *name,
                                      const struct kvr_conv_shape *s, struct kvr_array *out,
                                      const float **rows)
{
    const int64_t shape[] = { -1, (int64_t)s->in * s->taps, s->kernel, s->kernel };
    const struct kvr_weight *w = kvr_weights_find(t->file, name);
    const int64_t row = shape[1] * s->kernel * s->kernel;

    KVR_TRY(kvr_part_read(t->file, t->dev, name, 4, shape, out));
    if (out->t.shape[0] < s->out || (s->kernel == 3 && out->t.shape[0] != s->out))
        return kvr_fail(KVR_EFORMAT,
                        "%s: weight '%s' of this TAEHV decoder has %lld output channels, need %d",
                        kvr_weights_path(t->file), name, (long long)w->shape[0], s->out);
    *rows = (const float *)out->t.data + (out->t.shape[0] - s->out) * row;
    return KVR_OK;
}

/* A convolution with weights w and bias b is loaded so that it computes y = scale (w x + b) +
 * shift. If `biased` is false, the file has no bias for the layer, and b is 0. */
struct affine {
    bool biased;
    float scale, shift;
};
static const struct affine plain = { false, 1, 0 }, with_bias = { true, 1, 0 };
static const struct affine to_both_signs = { true, 2, -1 }; /* from [0, 1] to [-1, 1] */

static enum kvr_status build(struct kvr_tae *t, struct kvr_conv **out, const char *layer,
                             const struct affine *how, const struct kvr_conv_shape *s,
                             float *weight, float *bias)
{
    const int64_t n = (int64_t)s->out * s->in * s->taps * s->kernel * s->kernel;
    struct kvr_array array = { 0 };
    char name[NAME_LEN + 8];
    const float *rows = NULL;
    enum kvr_status st;

    snprintf(name, sizeof name, "%s.weight", layer);
    st = read_last_rows(t, name, s, &array, &rows);
    if (st == KVR_OK)
        by_time(s, rows, weight);
    kvr_array_free(&array);
    snprintf(name, sizeof name, "%s.bias", layer);
    if (st == KVR_OK && how->biased)
        st = kvr_part_read(t->file, t->dev, name, 1, (int64_t[]){ s->out }, &array);
    if (st == KVR_OK && how->biased)
        memcpy(bias, array.t.data, (size_t)s->out * sizeof *bias);
    kvr_array_free(&array);
    for (int64_t i = 0; i < n; i++)
        weight[i] *= how->scale;
    for (int i = 0; i < s->out; i++)
        bias[i] = bias[i] * how->scale + how->shift;
    return st == KVR_OK ? kvr_conv_open(out, t->context, s, weight, bias) : st;
}

static enum kvr_status load_conv(struct kvr_tae *t, struct kvr_conv **out, const char *layer,
                                 const struct affine *how, const struct kvr_conv_shape *s)
{
    const size_t n = (size_t)s->out * (size_t)(s->in * s->taps * s->kernel * s->kernel);
    struct kvr_dev *host = kvr_dev_host(t->dev);
    struct kvr_buf weight = { 0 }, bias = { 0 };
    enum kvr_status st = kvr_buf_alloc(&weight, host, KVR_MEM_WEIGHTS, n * sizeof(float));

    if (st == KVR_OK)
        st = kvr_buf_alloc(&bias, host, KVR_MEM_WEIGHTS, (size_t)s->out * sizeof(float));
    if (st == KVR_OK)
        st = build(t, out, layer, how, s, weight.p, bias.p);
    kvr_buf_free(&weight);
    kvr_buf_free(&bias);
    return st;
}

static enum kvr_status load_block(struct kvr_tae *t, struct block *b, int layer, int level)
{
    for (int i = 0; i < 3; i++) {
        const struct kvr_conv_shape s =
            shape_at(t, level, t->width[level], t->width[level], i ? 1 : 2, 3);
        char name[NAME_LEN];

        snprintf(name, sizeof name, "decoder.%d.conv.%d", layer, 2 * i);
        KVR_TRY(load_conv(t, &b->conv[i], name, &with_bias, &s));
    }
    return KVR_OK;
}

static enum kvr_status load_stage(struct kvr_tae *t, int i)
{
    const int layer = first_layer[i], width = t->width[i];
    const struct kvr_conv_shape grow = shape_at(t, i, width, times[i] * width, 1, 1);
    struct kvr_conv_shape space = shape_at(t, i + 1, width, t->width[i + 1], 1, 3);
    struct stage *s = &t->stage[i];
    char name[NAME_LEN];

    for (int k = 0; k < BLOCKS; k++)
        KVR_TRY(load_block(t, &s->block[k], layer + k, i));
    snprintf(name, sizeof name, "decoder.%d.conv", layer + BLOCKS + 1);
    KVR_TRY(load_conv(t, &s->grow, name, &plain, &grow));
    space.up = 2;
    snprintf(name, sizeof name, "decoder.%d", layer + BLOCKS + 2);
    return load_conv(t, &s->space, name, &plain, &space);
}

static enum kvr_status load_all(struct kvr_tae *t)
{
    const struct kvr_conv_shape first = shape_at(t, 0, KVR_VAE_CHANNELS, t->width[0], 1, 3),
                                last = shape_at(t, LEVELS - 1, t->width[LEVELS - 1], 3, 1, 3);
    char name[NAME_LEN];

    KVR_TRY(load_conv(t, &t->first, "decoder.1", &with_bias, &first));
    for (int i = 0; i < STAGES; i++)
        KVR_TRY(load_stage(t, i));
    snprintf(name, sizeof name, "decoder.%d", LAST);
    return load_conv(t, &t->last, name, &to_both_signs, &last);
}

/* Finds the widths (channels) of the levels. The width of a level is the number of output channels
 * of the convolution that leads to it. */
static enum kvr_status find_widths(struct kvr_tae *t)
{
    static const char *const into[LEVELS] = { "decoder.1.weight", "decoder.8.weight",
                                              "decoder.14.weight", "decoder.20.weight" };
    char have[96];

    for (int i = 0; i < LEVELS; i++) {
        const struct kvr_weight *w = kvr_weights_find(t->file, into[i]);
        const int in = i ? t->width[i - 1] : KVR_VAE_CHANNELS;

        if (!w)
            return kvr_fail(KVR_EFORMAT, "%s: not a TAEHV of Wan 2.1: weight '%s' is missing",
                            kvr_weights_path(t->file), into[i]);
        if (w->n_dims != 4 || w->shape[0] < 1 || w->shape[0] > MOST_WIDTH || w->shape[1] != in)
            return kvr_fail(KVR_EFORMAT,
                            "%s: not a TAEHV of Wan 2.1: weight '%s' has shape %s, need "
                            "[1..%d, %d, 3, 3]",
                            kvr_weights_path(t->file), into[i],
                            kvr_shape_text(w->shape, w->n_dims, have, sizeof have), MOST_WIDTH, in);
        t->width[i] = (int)w->shape[0];
    }
    return KVR_OK;
}

/* Returns the number of floats of the largest frame over all levels. */
static int64_t activation_elements(const int *width, int h, int w)
{
    int64_t most = 0;

    for (int i = 0; i < LEVELS; i++) {
        const int wide = width[i] > 3 ? width[i] : 3;
        const int64_t n = (int64_t)(h << i) * (w << i) * wide;

        most = n > most ? n : most;
    }
    return most;
}

static enum kvr_status make_buffers(struct kvr_tae *t)
{
    const size_t n = (size_t)activation_elements(t->width, t->h, t->w) * sizeof(float);

    for (int i = 0; i < LEVELS; i++) {
        const size_t frame = (size_t)(pixels(t, i) * t->width[i]) * sizeof(float);

        KVR_TRY(kvr_buf_alloc(&t->x[i], t->dev, KVR_MEM_ACT, frame));
        if (i == STAGES)
            break;
        for (int k = 0; k < BLOCKS; k++)
            KVR_TRY(kvr_buf_alloc(&t->stage[i].block[k].before, t->dev, KVR_MEM_ACT, frame));
        KVR_TRY(kvr_buf_alloc(&t->stage[i].grown, t->dev, KVR_MEM_ACT, (size_t)times[i] * frame));
    }
    KVR_TRY(kvr_buf_alloc(&t->a, t->dev, KVR_MEM_ACT, n));
    KVR_TRY(kvr_buf_alloc(&t->b, t->dev, KVR_MEM_ACT, n));
    return kvr_dev_in_host(t->dev)
               ? KVR_OK
               : kvr_buf_alloc(&t->host, kvr_dev_host(t->dev), KVR_MEM_IO,
                               (size_t)pixels(t, LEVELS - 1) * 3 * sizeof(float));
}

static enum kvr_status open_file(struct kvr_tae *t, const char *path)
{
    enum kvr_status st;

    KVR_TRY(kvr_weights_open(&t->file, path));
    st = kvr_weights_check_names(t->file);
    if (st == KVR_OK)
        st = find_widths(t);
    if (st == KVR_OK)
        st = load_all(t);
    if (st == KVR_OK)
        st = make_buffers(t);
    kvr_weights_close(&t->file);
    return st;
}

enum kvr_status kvr_tae_open(struct kvr_tae **out, struct kvr_dev *dev, const char *path,
                             int latent_h, int latent_w)
{
    struct kvr_tae *t = calloc(1, sizeof *t);
    enum kvr_status st;

    *out = NULL;
    if (!t)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    t->dev = dev;
    t->ops = kvr_vae_ops_of(dev, KVR_F32);
    t->h = latent_h;
    t->w = latent_w;
    t->trim = TRIMMED;
    if (latent_h < 1 || latent_w < 1 || latent_h > 4096 || latent_w > 4096)
        st = kvr_fail(KVR_EINVAL,
                      "decoder taehv: the latents are %d x %d (width x height), need 1..4096 each",
                      latent_w, latent_h);
    else
        st = kvr_conv_context_open(&t->context, dev, KVR_F32);
    if (st == KVR_OK)
        st = open_file(t, path);
    if (st != KVR_OK) {
        kvr_tae_close(&t);
        return st;
    }
    *out = t;
    return KVR_OK;
}

static void stage_close(struct stage *s)
{
    for (int k = 0; k < BLOCKS; k++) {
        for (int i = 0; i < 3; i++)
            kvr_conv_close(&s->block[k].conv[i]);
        kvr_buf_free(&s->block[k].before);
    }
    kvr_conv_close(&s->grow);
    kvr_conv_close(&s->space);
    kvr_buf_free(&s->grown);
}

void kvr_tae_close(struct kvr_tae **pt)
{
    struct kvr_tae *t = pt ? *pt : NULL;

    if (!t)
        return;
    kvr_conv_close(&t->first);
    kvr_conv_close(&t->last);
    for (int i = 0; i < STAGES; i++)
        stage_close(&t->stage[i]);
    kvr_conv_context_close(&t->context);
    for (int i = 0; i < LEVELS; i++)
        kvr_buf_free(&t->x[i]);
    kvr_buf_free(&t->a);
    kvr_buf_free(&t->b);
    kvr_buf_free(&t->host);
    free(t);
    *pt = NULL;
}

void kvr_tae_reset(struct kvr_tae *t)
{
    t->begun = false;
    t->trim = TRIMMED;
}

const char *kvr_tae_library(struct kvr_tae *t)
{
    return kvr_conv_context_library(t->context);
}

/* --- decoding a latent frame ------------------------------------------------------------ */

static enum kvr_status image(struct kvr_conv *c, const float *x, int stride, float *y)
{
    return kvr_conv_run(c, &(struct kvr_conv_frame){ x, stride }, y);
}

/* Runs a block. Its first convolution reads the previous and the current frame of the level. If
 * `seen` is false, the current frame is the clip's first at this level, and zeros replace the
 * previous frame. */
static enum kvr_status run_block(struct kvr_tae *t, struct block *b, int level, bool seen)
{
    const int width = t->width[level];
    const int64_t n = pixels(t, level) * width;
    float *x = t->x[level].p, *one = t->a.p, *two = t->b.p;
    const struct kvr_conv_frame frames[] = { { seen ? b->before.p : NULL, width }, { x, width } };

    KVR_TRY(kvr_conv_run(b->conv[0], frames, one));
    kvr_dev_copy(t->dev, b->before.p, x, (size_t)n * sizeof *x);
    t->ops->rectify(t->dev, n, NULL, one);
    KVR_TRY(image(b->conv[1], one, width, two));
    t->ops->rectify(t->dev, n, NULL, two);
    KVR_TRY(image(b->conv[2], two, width, one));
    t->ops->rectify(t->dev, n, one, x);
    return KVR_OK;
}

static enum kvr_status run_head(struct kvr_tae *t)
{
    float *x = t->x[STAGES].p, *rgb = t->a.p;

    t->ops->rectify(t->dev, pixels(t, STAGES) * t->width[STAGES], NULL, x);
    KVR_TRY(image(t->last, x, t->width[STAGES], rgb));
    return kvr_part_emit(t->dev, KVR_F32, &t->host, pixels(t, LEVELS - 1) * 3, rgb, t->frame,
                         t->frame_ctx);
}

/* Runs stage i on the current frame of level i, and then stage i + 1 on every frame that stage i
 * makes. `seen` tells whether level i has a previous frame. A discarded frame skips the
 * convolutions after the last stage's pointwise convolution: they have no state, so later frames do
 * not need them. */
static enum kvr_status run_stage(struct kvr_tae *t, int i, bool seen)
{
    int width, wide;
    struct stage *s;

    assert(i >= 0 && i < STAGES);
    s = &t->stage[i];
    width = t->width[i];
    wide = times[i] * width;
    for (int k = 0; k < BLOCKS; k++)
        KVR_TRY(run_block(t, &s->block[k], i, seen));
    KVR_TRY(image(s->grow, t->x[i].p, width, s->grown.p));
    for (int k = 0; k < times[i]; k++) {
        const float *x = (const float *)s->grown.p + k * width;

        if (i == STAGES - 1 && t->trim) {
            t->trim--;
            continue;
        }
        KVR_TRY(image(s->space, x, wide, t->x[i + 1].p));
        KVR_TRY(i == STAGES - 1 ? run_head(t) : run_stage(t, i + 1, seen || k > 0));
    }
    return KVR_OK;
}

enum kvr_status kvr_tae_decode(struct kvr_tae *t, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx)
{
    const int64_t n = pixels(t, 0);
    float *one = t->a.p, *ready = kvr_dev_in_host(t->dev) ? one : t->host.p;
    enum kvr_status st;

    t->frame = frame;
    t->frame_ctx = ctx;
    for (int c = 0; c < KVR_VAE_CHANNELS; c++)
        for (int64_t i = 0; i < n; i++)
            ready[i * KVR_VAE_CHANNELS + c] = 3.0f * tanhf(z[c * n + i] / 3.0f);
    if (ready != one)
        KVR_TRY(kvr_dev_put(t->dev, one, ready, (size_t)n * KVR_VAE_CHANNELS * sizeof *one));
    KVR_TRY(image(t->first, one, KVR_VAE_CHANNELS, t->x[0].p));
    t->ops->rectify(t->dev, n * t->width[0], NULL, t->x[0].p);
    st = run_stage(t, 0, t->begun);
    t->begun = true;
    return st;
}

/* --- sizes ------------------------------------------------------------------------------ */

/* Adds the weight bytes and the FLOP of a convolution with `products` weights to *c. The
 * convolution computes `first` frames of `area` pixels for the first latent frame, and `next` for
 * each later latent frame. A bias counts even if the file has none. */
static void count(struct kvr_vae_cost *c, double area, double products, int out, int first,
                  int next)
{
    c->weights += (size_t)(products + out) * sizeof(float);
    c->flop_first += 2 * products * area * first;
    c->flop_next += 2 * products * area * next;
}

void kvr_tae_cost(const int widths[LEVELS], int latent_h, int latent_w, struct kvr_vae_cost *out)
{
    size_t floats = 2 * (size_t)activation_elements(widths, latent_h, latent_w), states = 0;

    memset(out, 0, sizeof *out);
    for (int i = 0; i < LEVELS; i++) {
        const double area = (double)(latent_h << i) * (double)(latent_w << i);
        const double wide = widths[i];
        const int in = i ? widths[i - 1] : KVR_VAE_CHANNELS;

        floats += (size_t)(area * wide);
        count(out, area, 9.0 * in * wide, widths[i], frames_first[i], frames_next[i]);
        if (i == STAGES)
            break;
        for (int k = 0; k < BLOCKS; k++) {
            count(out, area, 18 * wide * wide, widths[i], frames_first[i], frames_next[i]);
            count(out, area, 9 * wide * wide, widths[i], frames_first[i], frames_next[i]);
            count(out, area, 9 * wide * wide, widths[i], frames_first[i], frames_next[i]);
        }
        count(out, area, times[i] * wide * wide, times[i] * widths[i], frames_first[i],
              frames_next[i]);
        states += (size_t)(BLOCKS * area * wide);
        floats += (size_t)(times[i] * area * wide);
    }
    count(out, (double)(latent_h << STAGES) * (double)(latent_w << STAGES), 27.0 * widths[STAGES],
          3, frames_first[STAGES], frames_next[STAGES]);
    out->states = states * sizeof(float);
    out->frames = floats * sizeof(float);
}
