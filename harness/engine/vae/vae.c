/* vae.c - the VAE decoder of vae.h: loads its layers, stores the past input frames of its temporal
 * convolutions, and decodes one latent frame at a time. */
#include "harness/engine/vae/vae.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/engine/vae/conv.h"
#include "harness/engine/vae/part.h"
#include "harness/engine/vae/vae_layout.h"
#include "harness/engine/vae/vae_ops.h"

enum {
    LEVELS = KVR_VAE_LEVELS,
    BLOCKS = KVR_VAE_BLOCKS,
    UPS = KVR_VAE_UPS,
    NAME_LEN = 80,
    MAX_THREADS = 64,
};

/* [level]: number of frames that a level computes per latent frame after a clip's first */
static const int frames_next[LEVELS] = { 1, 2, 4, 4 };

/* State of a temporal convolution: its last two input frames. */
struct state {
    struct kvr_buf buf;
    char *slot[2]; /* the frames, the older first */
    int n;         /* number of stored frames, at most 2 */
    int64_t elems;
};

struct block {
    const float *norm1, *norm2; /* [in], [out] */
    struct kvr_conv *conv1, *conv2, *shortcut;
    int state; /* index in kvr_vae.state of conv1's state; conv2's state follows it */
    int in, out;
};

struct up {
    struct kvr_conv *time, *space; /* time: doubles the frame rate, may be NULL; space: upsamples */
    int state;                     /* index in kvr_vae.state of the state of `time` */
    int in, out;
    struct kvr_buf twins; /* output of `time`: two frames, interleaved by pixel, [h, w, 2, in] */
};

struct kvr_vae {
    struct kvr_dev *dev;
    struct kvr_weights *file; /* weight file; NULL after kvr_vae_open() has closed it */
    enum kvr_dtype type;      /* type of frames and states: KVR_F32 or KVR_BF16 */
    size_t elem;              /* bytes per element */
    const struct kvr_vae_ops *own;
    const struct kvr_vae_layout *layout;
    struct kvr_conv_context *context;
    int base, h, w;
    bool begun; /* the first frame has been decoded */
    struct kvr_conv *conv2, *conv1, *qkv, *proj, *head;
    const float *norm_attention, *norm_head;
    struct block block[BLOCKS];
    struct up up[UPS];
    struct kvr_buf x[LEVELS], a, b; /* current frame of each level; a, b: scratch frames */
    struct kvr_buf entered[UPS];    /* copy of a level's input, for its shortcut (see `around`) */
    struct kvr_buf scores;
    struct kvr_buf host;    /* host copy of a latent or a pixel frame (part.h) */
    struct kvr_buf seen;    /* host copy of stored input frames, returned by kvr_vae_state() */
    struct kvr_buf vectors; /* gains of all norms */
    size_t n_vectors;
    struct state state[KVR_VAE_STATES];
    int n_states, n_threads;
    kvr_vae_frame_fn *frame;
    void *frame_ctx;
    kvr_vae_tap_fn *tap;
    void *tap_ctx;
};

static int64_t pixels(const struct kvr_vae *v, int level)
{
    return (int64_t)(v->h << level) * (v->w << level);
}

/* If kvr_vae_tap() has set a callback, calls it with an F32 host copy of x, which has n elements in
 * device memory. */
static enum kvr_status show(const struct kvr_vae *v, const char *name, const void *x, int64_t n)
{
    struct kvr_buf host = { 0 };
    enum kvr_status st;

    if (!v->tap)
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc_raw(&host, kvr_dev_host(v->dev), KVR_MEM_IO,
                              kvr_part_fetch_bytes(v->type, n)));
    st = kvr_part_fetch(v->dev, v->type, n, x, host.p);
    if (st == KVR_OK)
        v->tap(v->tap_ctx, name, host.p, n);
    kvr_buf_free(&host);
    return st;
}

/* --- loading ---------------------------------------------------------------------------- */

static enum kvr_status load_conv(struct kvr_vae *v, struct kvr_conv **out, const char *layer,
                                 bool flat, const struct kvr_conv_shape *s)
{
    return kvr_part_conv(v->file, v->context, v->dev, layer, flat, s, out);
}

static enum kvr_status load_gamma(struct kvr_vae *v, const float **out, const char *name,
                                  int channels, int n_ones)
{
    const int64_t shape[] = { channels, 1, 1, 1 };
    struct kvr_array gamma = { 0 };
    float *to = (float *)v->vectors.p + v->n_vectors;
    enum kvr_status st = kvr_part_read(v->file, v->dev, name, 1 + n_ones, shape, &gamma);

    if (st == KVR_OK)
        st = kvr_dev_put(v->dev, to, gamma.t.data, (size_t)channels * sizeof *to);
    if (st == KVR_OK) {
        v->n_vectors += (size_t)channels;
        *out = to;
    }
    kvr_array_free(&gamma);
    return st;
}

static struct kvr_conv_shape shape_at(const struct kvr_vae *v, int level, int in, int out, int taps,
                                      int kernel)
{
    return (struct kvr_conv_shape){ .in = in,
                                    .out = out,
                                    .taps = taps,
                                    .kernel = kernel,
                                    .height = v->h << level,
                                    .width = v->w << level,
                                    .up = 1 };
}

/* Adds a state without memory. The memory of all states is allocated after the weights are loaded,
 * because loading a convolution runs trials of its implementations, which need memory. */
static void add_state(struct kvr_vae *v, int level, int channels)
{
    v->state[v->n_states++].elems = pixels(v, level) * channels;
}

static enum kvr_status make_states(struct kvr_vae *v)
{
    for (int i = 0; i < v->n_states; i++) {
        struct state *s = &v->state[i];

        KVR_TRY(kvr_buf_alloc(&s->buf, v->dev, KVR_MEM_ACT, (size_t)s->elems * 2 * v->elem));
        s->slot[0] = s->buf.p;
        s->slot[1] = s->slot[0] + (size_t)s->elems * v->elem;
    }
    return KVR_OK;
}

static enum kvr_status load_block(struct kvr_vae *v, int i)
{
    const struct kvr_vae_block_row *r = &v->layout->block[i];
    const int in = r->in * v->base, out = r->out * v->base;
    const struct kvr_conv_shape one = shape_at(v, r->level, in, out, 3, 3),
                                two = shape_at(v, r->level, out, out, 3, 3),
                                point = shape_at(v, r->level, in, out, 1, 1);
    struct block *b = &v->block[i];
    char name[NAME_LEN];

    b->in = in;
    b->out = out;
    b->state = v->n_states;
    snprintf(name, sizeof name, "%s.residual.0.gamma", r->name);
    KVR_TRY(load_gamma(v, &b->norm1, name, in, 3));
    snprintf(name, sizeof name, "%s.residual.2", r->name);
    KVR_TRY(load_conv(v, &b->conv1, name, false, &one));
    add_state(v, r->level, in);
    snprintf(name, sizeof name, "%s.residual.3.gamma", r->name);
    KVR_TRY(load_gamma(v, &b->norm2, name, out, 3));
    snprintf(name, sizeof name, "%s.residual.6", r->name);
    KVR_TRY(load_conv(v, &b->conv2, name, false, &two));
    add_state(v, r->level, out);
    if (in == out)
        return KVR_OK;
    snprintf(name, sizeof name, "%s.shortcut", r->name);
    return load_conv(v, &b->shortcut, name, false, &point);
}

/* Loads the layers that upsample level i. */
static enum kvr_status load_up(struct kvr_vae *v, int i)
{
    const struct kvr_vae_up_row *r = &v->layout->up[i];
    const int in = r->in * v->base, out = r->out * v->base;
    struct kvr_conv_shape space = shape_at(v, i + 1, in, out, 1, 3),
                          time = shape_at(v, i, in, 2 * in, 3, 1);
    struct up *u = &v->up[i];
    char name[NAME_LEN];

    u->in = in;
    u->out = out;
    space.up = 2;
    if (r->doubles) {
        snprintf(name, sizeof name, "%s.time_conv", r->name);
        KVR_TRY(load_conv(v, &u->time, name, false, &time));
        u->state = v->n_states;
        add_state(v, i, in);
    }
    snprintf(name, sizeof name, "%s.resample.1", r->name);
    return load_conv(v, &u->space, name, true, &space);
}

static enum kvr_status load_level(struct kvr_vae *v, int level)
{
    for (int i = v->layout->first_block[level]; i < v->layout->first_block[level + 1]; i++)
        KVR_TRY(load_block(v, i));
    return level < UPS ? load_up(v, level) : KVR_OK;
}

static int n_gammas(const struct kvr_vae_layout *l)
{
    int n = 4 + 1;

    for (int i = 0; i < BLOCKS; i++)
        n += l->block[i].in + l->block[i].out;
    return n;
}

static enum kvr_status load_all(struct kvr_vae *v)
{
    const int top = 4 * v->base, channels = v->layout->channels;
    const int out_channels = 3 * v->layout->patch * v->layout->patch;
    const size_t vectors = (size_t)n_gammas(v->layout) * (size_t)v->base * sizeof(float);
    const struct kvr_conv_shape conv2 = shape_at(v, 0, channels, channels, 1, 1),
                                conv1 = shape_at(v, 0, channels, top, 3, 3),
                                qkv = shape_at(v, 0, top, 3 * top, 1, 1),
                                proj = shape_at(v, 0, top, top, 1, 1),
                                head = shape_at(v, LEVELS - 1, v->base, out_channels, 3, 3);

    KVR_TRY(kvr_buf_alloc(&v->vectors, v->dev, KVR_MEM_WEIGHTS, vectors));
    KVR_TRY(load_conv(v, &v->conv2, "conv2", false, &conv2));
    KVR_TRY(load_conv(v, &v->conv1, "decoder.conv1", false, &conv1));
    add_state(v, 0, channels);
    KVR_TRY(load_gamma(v, &v->norm_attention, "decoder.middle.1.norm.gamma", top, 2));
    KVR_TRY(load_conv(v, &v->qkv, "decoder.middle.1.to_qkv", true, &qkv));
    KVR_TRY(load_conv(v, &v->proj, "decoder.middle.1.proj", true, &proj));
    for (int level = 0; level < LEVELS; level++)
        KVR_TRY(load_level(v, level));
    KVR_TRY(load_gamma(v, &v->norm_head, "decoder.head.0.gamma", v->base, 3));
    add_state(v, LEVELS - 1, v->base);
    return load_conv(v, &v->head, "decoder.head.2", false, &head);
}

/* --- sizes ------------------------------------------------------------------------------ */

/* Returns the number of floats of the largest buffer: the largest frame of a level, the queries,
 * keys and values of level 0, or the output of the head. */
static int64_t activation_elements(const struct kvr_vae_layout *l, int base, int h, int w)
{
    const int out_channels = 3 * l->patch * l->patch;
    int64_t most = (int64_t)h * w * 12 * base;

    for (int i = 0; i < LEVELS; i++) {
        const int width = l->widest[i] * base;
        const int64_t n = ((int64_t)(h << i) * (w << i)) *
                          (i == LEVELS - 1 && width < out_channels ? out_channels : width);

        most = n > most ? n : most;
    }
    return most;
}

/* Returns the number of input channels of a level. */
static int entering(const struct kvr_vae *v, int level)
{
    return level ? v->up[level - 1].out : 4 * v->base;
}

/* Returns the number of floats of a pixel frame. */
static int64_t frame_floats(const struct kvr_vae *v)
{
    return pixels(v, LEVELS - 1) * v->layout->patch * v->layout->patch * 3;
}

static enum kvr_status make_buffers(struct kvr_vae *v)
{
    const size_t n = (size_t)activation_elements(v->layout, v->base, v->h, v->w) * v->elem;

    for (int i = 0; i < LEVELS; i++)
        KVR_TRY(kvr_buf_alloc(&v->x[i], v->dev, KVR_MEM_ACT,
                              (size_t)(pixels(v, i) * v->layout->widest[i] * v->base) * v->elem));
    KVR_TRY(kvr_buf_alloc(&v->a, v->dev, KVR_MEM_ACT, n));
    KVR_TRY(kvr_buf_alloc(&v->b, v->dev, KVR_MEM_ACT, n));
    for (int i = 0; i < UPS && v->layout->around; i++)
        KVR_TRY(kvr_buf_alloc(&v->entered[i], v->dev, KVR_MEM_ACT,
                              (size_t)(pixels(v, i) * entering(v, i)) * v->elem));
    for (int i = 0; i < UPS; i++)
        if (v->up[i].time)
            KVR_TRY(kvr_buf_alloc(&v->up[i].twins, v->dev, KVR_MEM_ACT,
                                  (size_t)(pixels(v, i) * 2 * v->up[i].in) * v->elem));
    v->n_threads = omp_get_max_threads() < MAX_THREADS ? omp_get_max_threads() : MAX_THREADS;
    if (!kvr_dev_in_host(v->dev) || v->type != KVR_F32)
        KVR_TRY(kvr_buf_alloc(&v->host, kvr_dev_host(v->dev), KVR_MEM_IO,
                              kvr_part_fetch_bytes(v->type, frame_floats(v))));
    return kvr_buf_alloc(&v->scores, v->dev, KVR_MEM_SCRATCH,
                         (size_t)v->own->score_floats(v->n_threads, pixels(v, 0), 4 * v->base) *
                             sizeof(float));
}

struct tally {
    const struct kvr_vae_layout *layout;
    int base, h, w;
    size_t elem;
    struct kvr_vae_cost *to;
};

/* Adds the costs of a convolution at a level to t->to: the bytes of weights and stored input
 * frames, and the floating-point operations. The convolution runs n_first times for a clip's first
 * latent frame, and n_next times for each later one. */
static void count(const struct tally *t, int level, int in, int out, int taps, int kernel,
                  int n_first, int n_next)
{
    const double area = (double)(t->h << level) * (double)(t->w << level);
    const double weights = (double)in * out * taps * kernel * kernel;

    t->to->weights += (size_t)weights * t->elem + (size_t)out * sizeof(float);
    t->to->states += taps > 1 ? (size_t)(2 * area * in) * t->elem : 0;
    t->to->flop_first += 2 * weights * area * n_first;
    t->to->flop_next += 2 * weights * area * n_next;
}

static void count_level(const struct tally *t, int level)
{
    const struct kvr_vae_layout *l = t->layout;
    const int base = t->base, n = frames_next[level];

    for (int i = l->first_block[level]; i < l->first_block[level + 1]; i++) {
        const struct kvr_vae_block_row *r = &l->block[i];

        count(t, level, r->in * base, r->out * base, 3, 3, 1, n);
        count(t, level, r->out * base, r->out * base, 3, 3, 1, n);
        if (r->in != r->out)
            count(t, level, r->in * base, r->out * base, 1, 1, 1, n);
    }
    if (level == UPS)
        return;
    if (l->up[level].doubles)
        count(t, level, l->up[level].in * base, 2 * l->up[level].in * base, 3, 1, 0, n);
    count(t, level + 1, l->up[level].in * base, l->up[level].out * base, 1, 3, 1,
          frames_next[level + 1]);
}

static const struct kvr_vae_layout *layout_of(int channels)
{
    return channels == kvr_vae_2_1.channels   ? &kvr_vae_2_1
           : channels == kvr_vae_2_2.channels ? &kvr_vae_2_2
                                              : NULL;
}

bool kvr_vae_cost(int channels, int base, int latent_h, int latent_w, enum kvr_dtype type,
                  struct kvr_vae_cost *out)
{
    const struct kvr_vae_layout *l = layout_of(channels);
    const struct tally t = { l, base, latent_h, latent_w, kvr_dtype_size(type), out };
    const double n = (double)latent_h * latent_w;
    size_t elements;

    memset(out, 0, sizeof *out);
    if (!l)
        return false;
    elements = 2 * (size_t)activation_elements(l, base, latent_h, latent_w);
    count(&t, 0, channels, channels, 1, 1, 1, 1);
    count(&t, 0, channels, 4 * base, 3, 3, 1, 1);
    count(&t, 0, 4 * base, 12 * base, 1, 1, 1, 1);
    count(&t, 0, 4 * base, 4 * base, 1, 1, 1, 1);
    out->flop_first += 4 * n * n * 4 * base;
    out->flop_next += 4 * n * n * 4 * base;
    for (int level = 0; level < LEVELS; level++) {
        const size_t area = (size_t)(latent_h << level) * (size_t)(latent_w << level);

        count_level(&t, level);
        elements += area * (size_t)(l->widest[level] * base);
        if (level < UPS && l->around)
            elements += area * (size_t)((level ? l->up[level - 1].out : 4) * base);
        if (level < UPS && l->up[level].doubles)
            elements += area * (size_t)(2 * l->up[level].in * base);
    }
    count(&t, LEVELS - 1, base, 3 * l->patch * l->patch, 3, 3, 1, frames_next[LEVELS - 1]);
    out->weights += (size_t)(n_gammas(l) * base) * sizeof(float);
    out->frames = elements * t.elem;
    return true;
}

/* --- opening ---------------------------------------------------------------------------- */

/* Identifies the decoder's layout by its number of latent channels, and finds its base width. */
static enum kvr_status find_layout(struct kvr_vae *v)
{
    const struct kvr_weight *head = kvr_weights_find(v->file, "decoder.head.2.weight");
    const struct kvr_weight *first = kvr_weights_find(v->file, "decoder.conv1.weight");
    char have[96];

    if (!head || !first)
        return kvr_fail(KVR_EFORMAT, "%s: not a VAE of Wan: weight 'decoder.%s.weight' is missing",
                        kvr_weights_path(v->file), head ? "conv1" : "head.2");
    if (head->n_dims != 5 || head->shape[1] < 1 || head->shape[1] > 4096)
        return kvr_fail(KVR_EFORMAT,
                        "%s: not a VAE of Wan: weight 'decoder.head.2.weight' has shape %s, need 5 "
                        "dimensions, and an extent of 1..4096 in the second",
                        kvr_weights_path(v->file),
                        kvr_shape_text(head->shape, head->n_dims, have, sizeof have));
    v->base = (int)head->shape[1];
    if (first->n_dims == 5 && first->shape[1] <= 1024)
        v->layout = layout_of((int)first->shape[1]);
    if (!v->layout)
        return kvr_fail(KVR_EFORMAT,
                        "%s: not a VAE of Wan: weight 'decoder.conv1.weight' has shape %s, need 5 "
                        "dimensions, and %d or %d latent channels in the second",
                        kvr_weights_path(v->file),
                        kvr_shape_text(first->shape, first->n_dims, have, sizeof have),
                        kvr_vae_2_1.channels, kvr_vae_2_2.channels);
    return KVR_OK;
}

static enum kvr_status open_file(struct kvr_vae *v, const char *path)
{
    enum kvr_status st;

    KVR_TRY(kvr_weights_open(&v->file, path));
    st = kvr_weights_check_names(v->file);
    if (st == KVR_OK)
        st = find_layout(v);
    if (st == KVR_OK)
        st = load_all(v);
    if (st == KVR_OK)
        st = make_states(v);
    if (st == KVR_OK)
        st = make_buffers(v);
    kvr_weights_close(&v->file);
    return st;
}

enum kvr_status kvr_vae_open(struct kvr_vae **out, struct kvr_dev *dev, enum kvr_dtype type,
                             const char *path, int latent_h, int latent_w)
{
    struct kvr_vae *v = calloc(1, sizeof *v);
    enum kvr_status st;

    *out = NULL;
    if (!v)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    v->dev = dev;
    v->type = type;
    v->elem = kvr_dtype_size(type);
    v->own = kvr_vae_ops_of(dev, type);
    v->h = latent_h;
    v->w = latent_w;
    if (latent_h < 1 || latent_w < 1 || latent_h > 4096 || latent_w > 4096)
        st =
            kvr_fail(KVR_EINVAL, "vae: the latents are %d x %d (width x height), need 1..4096 each",
                     latent_w, latent_h);
    else
        st = kvr_conv_context_open(&v->context, dev, type);
    if (st == KVR_OK)
        st = open_file(v, path);
    if (st != KVR_OK) {
        kvr_vae_close(&v);
        return st;
    }
    *out = v;
    return KVR_OK;
}

void kvr_vae_close(struct kvr_vae **pv)
{
    struct kvr_vae *v = pv ? *pv : NULL;

    if (!v)
        return;
    kvr_conv_close(&v->conv2);
    kvr_conv_close(&v->conv1);
    kvr_conv_close(&v->qkv);
    kvr_conv_close(&v->proj);
    kvr_conv_close(&v->head);
    for (int i = 0; i < BLOCKS; i++) {
        kvr_conv_close(&v->block[i].conv1);
        kvr_conv_close(&v->block[i].conv2);
        kvr_conv_close(&v->block[i].shortcut);
    }
    for (int i = 0; i < UPS; i++) {
        kvr_conv_close(&v->up[i].time);
        kvr_conv_close(&v->up[i].space);
        kvr_buf_free(&v->up[i].twins);
    }
    kvr_conv_context_close(&v->context);
    for (int i = 0; i < KVR_VAE_STATES; i++)
        kvr_buf_free(&v->state[i].buf);
    for (int i = 0; i < LEVELS; i++)
        kvr_buf_free(&v->x[i]);
    for (int i = 0; i < UPS; i++)
        kvr_buf_free(&v->entered[i]);
    kvr_buf_free(&v->a);
    kvr_buf_free(&v->b);
    kvr_buf_free(&v->scores);
    kvr_buf_free(&v->host);
    kvr_buf_free(&v->seen);
    kvr_buf_free(&v->vectors);
    free(v);
    *pv = NULL;
}

const char *kvr_vae_library(struct kvr_vae *v)
{
    return kvr_conv_context_library(v->context);
}

int kvr_vae_channels(const struct kvr_vae *v)
{
    return v->layout->channels;
}

int kvr_vae_scale(const struct kvr_vae *v)
{
    return v->layout->patch << (LEVELS - 1);
}

void kvr_vae_reset(struct kvr_vae *v)
{
    v->begun = false;
    for (int i = 0; i < KVR_VAE_STATES; i++)
        v->state[i].n = 0;
}

void kvr_vae_tap(struct kvr_vae *v, kvr_vae_tap_fn *fn, void *ctx)
{
    v->tap = fn;
    v->tap_ctx = ctx;
}

enum kvr_status kvr_vae_state(struct kvr_vae *v, int i, const float *frame[2], int *n_frames,
                              int64_t *n_elems)
{
    const struct state *s = &v->state[i];
    const size_t bytes = kvr_part_fetch_bytes(v->type, s->elems);

    *n_frames = s->n;
    *n_elems = s->elems;
    KVR_TRY(kvr_buf_reserve(&v->seen, kvr_dev_host(v->dev), KVR_MEM_IO, 2 * bytes));
    for (int k = 0; k < s->n; k++) {
        void *to = (char *)v->seen.p + (size_t)k * bytes;

        KVR_TRY(kvr_part_fetch(v->dev, v->type, s->elems, s->slot[2 - s->n + k], to));
        frame[k] = to;
    }
    return KVR_OK;
}

/* --- a frame ---------------------------------------------------------------------------- */

static void push(struct kvr_vae *v, struct state *s, const void *x)
{
    char *oldest = s->slot[0];

    kvr_dev_copy(v->dev, oldest, x, (size_t)s->elems * v->elem);
    s->slot[0] = s->slot[1];
    s->slot[1] = oldest;
    s->n += s->n < 2;
}

/* Applies the temporal convolution c to the two frames stored in `s` and the current frame x, and
 * writes the result to y. Then stores x in `s` as the newest frame. */
static enum kvr_status causal(struct kvr_vae *v, struct kvr_conv *c, struct state *s, const void *x,
                              int channels, void *y)
{
    const struct kvr_conv_frame frames[] = { { s->n > 1 ? s->slot[0] : NULL, channels },
                                             { s->n > 0 ? s->slot[1] : NULL, channels },
                                             { x, channels } };

    KVR_TRY(kvr_conv_run(c, frames, y));
    push(v, s, x);
    return KVR_OK;
}

static enum kvr_status image(struct kvr_conv *c, const void *x, int stride, void *y)
{
    return kvr_conv_run(c, &(struct kvr_conv_frame){ x, stride }, y);
}

/* Adds y to x, for n pixels. */
static void add(struct kvr_vae *v, int64_t n, int channels, const void *y, void *x)
{
    v->own->add(v->dev, n * channels, y, x);
}

/* Computes x = shortcut(x) + conv2(silu(norm2(conv1(silu(norm1(x)))))). */
static enum kvr_status run_block(struct kvr_vae *v, int i)
{
    const int level = v->layout->block[i].level;
    const int64_t n = pixels(v, level);
    struct block *b = &v->block[i];
    void *x = v->x[level].p, *one = v->a.p, *two = v->b.p;

    v->own->norm(v->dev, n, b->in, true, x, b->norm1, one);
    KVR_TRY(causal(v, b->conv1, &v->state[b->state], one, b->in, two));
    v->own->norm(v->dev, n, b->out, true, two, b->norm2, one);
    KVR_TRY(causal(v, b->conv2, &v->state[b->state + 1], one, b->out, two));
    if (b->shortcut) {
        KVR_TRY(image(b->shortcut, x, b->in, one));
        kvr_dev_copy(v->dev, x, one, (size_t)(n * b->out) * v->elem);
    }
    add(v, n, b->out, two, x);
    return show(v, v->layout->block[i].tap, x, n * b->out);
}

/* Computes attention between the pixels of a frame, x = x + proj(softmax(q k^T / sqrt(C)) v). */
static enum kvr_status attention(struct kvr_vae *v)
{
    const int d = 4 * v->base;
    const int64_t n = pixels(v, 0);
    void *x = v->x[0].p, *one = v->a.p, *qkv = v->b.p;

    v->own->norm(v->dev, n, d, false, x, v->norm_attention, one);
    KVR_TRY(image(v->qkv, one, d, qkv));
    KVR_TRY(v->own->attend(v->dev, v->n_threads, n, d, qkv, v->scores.p, one));
    KVR_TRY(image(v->proj, one, d, qkv));
    add(v, n, d, qkv, x);
    return show(v, "middle1", x, n * d);
}

static enum kvr_status run_head(struct kvr_vae *v)
{
    const int64_t n = pixels(v, LEVELS - 1);
    void *one = v->a.p, *rgb = v->b.p;

    v->own->norm(v->dev, n, v->base, true, v->x[LEVELS - 1].p, v->norm_head, one);
    KVR_TRY(show(v, "head1", one, n * v->base));
    KVR_TRY(causal(v, v->head, &v->state[KVR_VAE_STATES - 1], one, v->base, rgb));
    if (v->layout->patch > 1) {
        v->own->unpatch(v->dev, v->h << (LEVELS - 1), v->w << (LEVELS - 1), rgb, one);
        rgb = one;
    }
    return kvr_part_emit(v->dev, v->type, &v->host, frame_floats(v), rgb, v->frame, v->frame_ctx);
}

static enum kvr_status run_level(struct kvr_vae *v, int level);

/* Upsamples frame x of level i to twice its height and width, and runs all later levels on the
 * result. Pixels of x are `stride` elements apart, because x may be interleaved with another frame.
 * If level i makes two frames from one, `which` is 0 for the earlier and 1 for the later frame. */
static enum kvr_status run_space(struct kvr_vae *v, int i, const void *x, int stride, int which)
{
    struct up *u = &v->up[i];

    KVR_TRY(image(u->space, x, stride, v->x[i + 1].p));
    if (v->layout->around)
        v->own->spread(v->dev, v->h << i, v->w << i, entering(v, i), u->out, u->time ? 2 : 1, which,
                       v->entered[i].p, v->x[i + 1].p);
    KVR_TRY(show(v, v->layout->up[i].tap, v->x[i + 1].p, pixels(v, i + 1) * u->out));
    return run_level(v, i + 1);
}

/* Upsamples the current frame of level i. If the level has the convolution `time`, it makes two
 * frames, and each is upsampled in space. A clip's first frame bypasses `time`, which does not
 * store it either. For the level's shortcut, the first frame counts as the later of two frames. */
static enum kvr_status run_up(struct kvr_vae *v, int i)
{
    struct up *u = &v->up[i];
    const void *x = v->x[i].p;
    char *twins = u->twins.p;

    if (!u->time || !v->begun)
        return run_space(v, i, x, u->in, u->time ? 1 : 0);
    KVR_TRY(causal(v, u->time, &v->state[u->state], x, u->in, twins));
    KVR_TRY(run_space(v, i, twins, 2 * u->in, 0));
    return run_space(v, i, twins + (size_t)u->in * v->elem, 2 * u->in, 1);
}

static enum kvr_status run_level(struct kvr_vae *v, int level)
{
    /* first block that the level's shortcut spans; it does not span the two middle blocks */
    const int first = level ? v->layout->first_block[level] : 2;

    for (int i = v->layout->first_block[level]; i < v->layout->first_block[level + 1]; i++) {
        if (i == first && level < UPS && v->layout->around)
            kvr_dev_copy(v->dev, v->entered[level].p, v->x[level].p, v->entered[level].n_bytes);
        KVR_TRY(run_block(v, i));
        if (i == 0)
            KVR_TRY(attention(v));
    }
    return level < UPS ? run_up(v, level) : run_head(v);
}

/* Denormalizes the latent frame z [channels, n pixels] in host memory, and writes it transposed to
 * `to` [n pixels, channels]. */
static void prepare(const struct kvr_vae *v, const float *z, float *to)
{
    const int channels = v->layout->channels;
    const int64_t n = pixels(v, 0);

    for (int c = 0; c < channels; c++) {
        const float inverse = 1.0f / v->layout->std[c];

        for (int64_t i = 0; i < n; i++)
            to[i * channels + c] = z[c * n + i] / inverse + v->layout->mean[c];
    }
}

enum kvr_status kvr_vae_decode(struct kvr_vae *v, const float *z, kvr_vae_frame_fn *frame,
                               void *ctx)
{
    const int channels = v->layout->channels;
    const int64_t n = pixels(v, 0);
    void *one = v->a.p, *two = v->b.p, *ready = v->host.p ? v->host.p : one;
    enum kvr_status st;

    v->frame = frame;
    v->frame_ctx = ctx;
    prepare(v, z, ready);
    if (v->type == KVR_BF16) {
        float *x = ready;
        kvr_bf16 *rounded = (kvr_bf16 *)(x + n * channels);

        kvr_from_f32(rounded, KVR_BF16, x, (size_t)(n * channels));
        ready = rounded;
    }
    if (ready != one)
        KVR_TRY(kvr_dev_put(v->dev, one, ready, (size_t)(n * channels) * v->elem));
    KVR_TRY(image(v->conv2, one, channels, two));
    KVR_TRY(show(v, "conv2", two, n * channels));
    KVR_TRY(causal(v, v->conv1, &v->state[0], two, channels, v->x[0].p));
    KVR_TRY(show(v, "conv1", v->x[0].p, n * 4 * v->base));
    st = run_level(v, 0);
    v->begun = true;
    return st;
}

/* --- output frames ---------------------------------------------------------------------- */

int kvr_vae_frames(int n_latent)
{
    return n_latent < 1 ? 0 : 1 + KVR_VAE_TIMES * (n_latent - 1);
}

void kvr_vae_bytes_of(const float *y, int64_t n, uint8_t *to, bool *finite)
{
    bool all = true;

    for (int64_t i = 0; i < n; i++) {
        const float c = y[i] > -1.0f ? y[i] < 1.0f ? y[i] : 1.0f : -1.0f; /* NaN becomes -1 */

        all = all && isfinite(y[i]);
        to[i] = (uint8_t)(255.0f * (0.5f * c + 0.5f));
    }
    *finite = all;
}
