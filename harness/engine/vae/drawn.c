/* drawn.c - writes a file of random weights for a decoder: lists the decoder's tensors and
 * generates their values. */
#include "harness/engine/vae/drawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "harness/engine/draw.h"
#include "harness/engine/vae/decoder.h"
#include "harness/engine/vae/tae.h"
#include "harness/engine/vae/vae_layout.h"

enum { MAX_TENSORS = 256, NAME_LEN = 96 };

struct drawn {
    uint64_t seed;
    int n;
    char name[MAX_TENSORS][NAME_LEN];
    struct kvr_st_item item[MAX_TENSORS];
};

/* Adds a tensor to the list. kvr_draw_tensor() generates the values from the first n_random extents
 * of the shape; the other extents are 1. n_random is 1 for biases and gains. All values of a gain
 * are 1. */
static enum kvr_status add(struct drawn *d, const char *layer, const char *suffix, int n_random,
                           int n_dims, const int64_t *shape)
{
    struct kvr_st_item *item;
    char *name;

    if (d->n == MAX_TENSORS)
        return kvr_fail(KVR_EINTERNAL,
                        "decoder: a decoder with random weights has more than %d tensors",
                        MAX_TENSORS);
    item = &d->item[d->n];
    name = d->name[d->n];
    snprintf(name, NAME_LEN, "%.64s%s", layer, suffix);
    item->name = name;
    item->t = (struct kvr_tensor){ .dtype = KVR_F32, .n_dims = n_dims };
    memcpy(item->t.shape, shape, (size_t)n_dims * sizeof *shape);
    item->t.data = malloc(kvr_tensor_bytes(&item->t));
    if (!item->t.data)
        return kvr_fail(KVR_ENOMEM, "decoder: out of memory while allocating tensor '%s'", name);
    kvr_draw_tensor(d->seed, name, n_random, shape, item->t.data);
    d->n++;
    return KVR_OK;
}

/* Adds a random weight tensor. The standard deviation of its values is 1 / sqrt(fan-in). */
static enum kvr_status add_weight(struct drawn *d, const char *layer, int n_dims,
                                  const int64_t *shape)
{
    return add(d, layer, ".weight", n_dims, n_dims, shape);
}

/* Adds the weight and bias of a convolution over time and space, or of a 2D convolution if
 * `flat`. */
static enum kvr_status add_conv(struct drawn *d, const char *layer, bool flat, int in, int out,
                                int taps, int kernel)
{
    const int64_t shape[] = { out, in, taps, kernel, kernel },
                  plane[] = { out, in, kernel, kernel };

    KVR_TRY(add_weight(d, layer, flat ? 4 : 5, flat ? plane : shape));
    return add(d, layer, ".bias", 1, 1, shape);
}

static enum kvr_status add_gain(struct drawn *d, const char *name, int channels, int n_ones)
{
    return add(d, name, "", 1, 1 + n_ones, (int64_t[]){ channels, 1, 1, 1 });
}

/* --- Wan's VAE --------------------------------------------------------------------------- */

static enum kvr_status add_block(struct drawn *d, const struct kvr_vae_block_row *r, int base)
{
    const int in = r->in * base, out = r->out * base;
    char name[NAME_LEN];

    snprintf(name, sizeof name, "%s.residual.0.gamma", r->name);
    KVR_TRY(add_gain(d, name, in, 3));
    snprintf(name, sizeof name, "%s.residual.2", r->name);
    KVR_TRY(add_conv(d, name, false, in, out, 3, 3));
    snprintf(name, sizeof name, "%s.residual.3.gamma", r->name);
    KVR_TRY(add_gain(d, name, out, 3));
    snprintf(name, sizeof name, "%s.residual.6", r->name);
    KVR_TRY(add_conv(d, name, false, out, out, 3, 3));
    snprintf(name, sizeof name, "%s.shortcut", r->name);
    return in == out ? KVR_OK : add_conv(d, name, false, in, out, 1, 1);
}

static enum kvr_status add_up(struct drawn *d, const struct kvr_vae_up_row *r, int base)
{
    const int in = r->in * base, out = r->out * base;
    char name[NAME_LEN];

    snprintf(name, sizeof name, "%s.time_conv", r->name);
    if (r->doubles)
        KVR_TRY(add_conv(d, name, false, in, 2 * in, 3, 1));
    snprintf(name, sizeof name, "%s.resample.1", r->name);
    return add_conv(d, name, true, in, out, 1, 3);
}

static enum kvr_status list_vae(struct drawn *d, const struct kvr_vae_layout *l, int base)
{
    const int top = 4 * base, out_channels = 3 * l->patch * l->patch;

    KVR_TRY(add_conv(d, "conv2", false, l->channels, l->channels, 1, 1));
    KVR_TRY(add_conv(d, "decoder.conv1", false, l->channels, top, 3, 3));
    KVR_TRY(add_gain(d, "decoder.middle.1.norm.gamma", top, 2));
    KVR_TRY(add_conv(d, "decoder.middle.1.to_qkv", true, top, 3 * top, 1, 1));
    KVR_TRY(add_conv(d, "decoder.middle.1.proj", true, top, top, 1, 1));
    for (int i = 0; i < KVR_VAE_BLOCKS; i++)
        KVR_TRY(add_block(d, &l->block[i], base));
    for (int i = 0; i < KVR_VAE_UPS; i++)
        KVR_TRY(add_up(d, &l->up[i], base));
    KVR_TRY(add_gain(d, "decoder.head.0.gamma", base, 3));
    return add_conv(d, "decoder.head.2", false, base, out_channels, 3, 3);
}

/* --- TAEHV ------------------------------------------------------------------------------- */

/* Adds the tensors of a stage of the tiny decoder (tae.c), whose first layer has the number
 * `layer`. A stage has three blocks, upsampling without weights, a pointwise convolution that makes
 * `times` frames from one frame, and a convolution to `next` channels. */
static enum kvr_status list_stage(struct drawn *d, int layer, int width, int times, int next)
{
    char name[NAME_LEN];

    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "decoder.%d.conv.%d", layer + k, 2 * i);
            KVR_TRY(add_conv(d, name, true, i ? width : 2 * width, width, 1, 3));
        }
    snprintf(name, sizeof name, "decoder.%d.conv", layer + 4);
    KVR_TRY(add_weight(d, name, 4, (int64_t[]){ (int64_t)times * width, width, 1, 1 }));
    snprintf(name, sizeof name, "decoder.%d", layer + 5);
    return add_weight(d, name, 4, (int64_t[]){ next, width, 3, 3 });
}

static enum kvr_status list_tae(struct drawn *d)
{
    const int *w = kvr_tae_widths;

    KVR_TRY(add_conv(d, "decoder.1", true, KVR_VAE_CHANNELS, w[0], 1, 3));
    KVR_TRY(list_stage(d, 3, w[0], 1, w[1]));
    KVR_TRY(list_stage(d, 9, w[1], 2, w[2]));
    KVR_TRY(list_stage(d, 15, w[2], 2, w[3]));
    return add_conv(d, "decoder.22", true, w[3], 3, 1, 3);
}

enum kvr_status kvr_decoder_draw(enum kvr_decoder_kind kind, int channels, int base, uint64_t seed,
                                 const char *path)
{
    static const char *const about[] = { "weights", "random", NULL };
    const struct kvr_vae_layout *l = channels == kvr_vae_2_1.channels   ? &kvr_vae_2_1
                                     : channels == kvr_vae_2_2.channels ? &kvr_vae_2_2
                                                                        : NULL;
    struct drawn *d;
    enum kvr_status st;

    if (!l || (kind == KVR_DECODER_TAEHV && channels != KVR_VAE_CHANNELS))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "decoder %s does not support latents of %d channels, need %d%s",
                        kvr_decoder_names[kind], channels, KVR_VAE_CHANNELS,
                        kind == KVR_DECODER_TAEHV ? "" : " or 48");
    d = calloc(1, sizeof *d);
    if (!d)
        return kvr_fail(KVR_ENOMEM, "decoder: out of memory");
    d->seed = seed;
    st = kind == KVR_DECODER_TAEHV ? list_tae(d)
                                   : list_vae(d, l, base ? base : kvr_decoder_base(channels));
    if (st == KVR_OK)
        st = kvr_st_write(path, d->item, d->n, about);
    for (int i = 0; i < d->n; i++)
        free(d->item[i].t.data);
    free(d);
    return st;
}
