/* conv_cpu.c - convolutions on the CPU. A strip of rows of all frame taps (the frames that a
 * convolution over time reads) is copied to a buffer, with its border of zeros. oneDNN convolves
 * this buffer without padding. F32 layers of at most NARROW channels are computed by a loop with
 * F64 sums. */
#include "harness/engine/vae/conv_impl.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"

/* F32 layers with at most NARROW input and output channels have F64 sums. RMSNorm over few channels
 * amplifies rounding errors if all channels of a pixel are near 0. Such layers occur only in small
 * models, where F64 sums take little time. In 24 decoders with random weights and 2 or 4 channels,
 * F64 sums reduce the error of a decoded clip by a factor of 3 to 4. */
enum { STRIP_ROWS = 4, MAX_THREADS = 64, NARROW = 48 };

struct context {
    struct kvr_conv_context base;
    dnnl_engine_t engine;
    dnnl_data_type_t type; /* type of the inputs and weights of oneDNN */
    char library[64];
    int n_threads;
    dnnl_stream_t stream[MAX_THREADS];
    struct kvr_buf strip[MAX_THREADS], out[MAX_THREADS], scratch[MAX_THREADS];
};

struct conv {
    struct kvr_conv base;
    struct kvr_buf packed, bias; /* weights: F64 [out, kernel, kernel, taps, in] for F64 sums, else
                                  * in oneDNN's layout; F32 bias [out] */
    dnnl_primitive_t p;          /* NULL if the layer has F64 sums */
    dnnl_memory_t weights, biases;
    dnnl_memory_t src[MAX_THREADS], dst[MAX_THREADS], scratch[MAX_THREADS];
};

static enum kvr_status check(dnnl_status_t s, const char *what)
{
    return kvr_onednn_done(s, "convolution", what);
}

#define DNNL_TRY(call) KVR_TRY(check(call, #call))

static struct context *context_of(const struct conv *c)
{
    return (struct context *)c->base.context;
}

static void context_close(struct kvr_conv_context *base)
{
    struct context *r = (struct context *)base;

    for (int i = 0; i < r->n_threads; i++) {
        if (r->stream[i])
            dnnl_stream_destroy(r->stream[i]);
        kvr_buf_free(&r->strip[i]);
        kvr_buf_free(&r->out[i]);
        kvr_buf_free(&r->scratch[i]);
    }
    if (r->engine)
        dnnl_engine_destroy(r->engine);
    free(r);
}

static const char *library(struct kvr_conv_context *base)
{
    return ((struct context *)base)->library;
}

/* Returns the type of oneDNN's inputs and weights. For BF16 layers it is BF16 if oneDNN supports
 * BF16 on this CPU, otherwise F32 with values that are rounded to BF16. */
static dnnl_data_type_t factors(enum kvr_dtype type)
{
    return type == KVR_BF16 && kvr_onednn_has_bf16() ? dnnl_bf16 : dnnl_f32;
}

static enum kvr_status context_open(struct kvr_conv_context **out, struct kvr_dev *dev,
                                    enum kvr_dtype type)
{
    const dnnl_version_t *v = dnnl_version();
    struct context *r = calloc(1, sizeof *r);
    enum kvr_status st;

    if (!r)
        return kvr_fail(KVR_ENOMEM, "convolution: out of memory");
    r->base.dev = dev;
    r->base.type = type;
    r->n_threads = omp_get_max_threads() < MAX_THREADS ? omp_get_max_threads() : MAX_THREADS;
    kvr_onednn_limit();
    r->type = factors(type);
    snprintf(r->library, sizeof r->library, "oneDNN %d.%d%s", v->major, v->minor,
             type != KVR_BF16       ? ""
             : r->type == dnnl_bf16 ? ", BF16"
                                    : ", F32 products of BF16 values");
    st = check(kvr_dnnl_engine_create(&r->engine, dnnl_cpu, 0), "engine");
    for (int i = 0; i < r->n_threads && st == KVR_OK; i++)
        st = check(kvr_dnnl_stream_create(&r->stream[i], r->engine, dnnl_stream_default_flags),
                   "stream");
    if (st != KVR_OK) {
        context_close(&r->base);
        return st;
    }
    *out = &r->base;
    return KVR_OK;
}

/* --- building --------------------------------------------------------------------------- */

static int border(const struct conv *c)
{
    return c->base.s.kernel / 2;
}

static enum kvr_status describe(const struct conv *c, dnnl_primitive_desc_t *pd,
                                dnnl_memory_desc_t *src, dnnl_memory_desc_t *dst,
                                dnnl_memory_desc_t *bias)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const dnnl_dim_t k = s->kernel, channels = (dnnl_dim_t)s->in * s->taps;
    const dnnl_dims_t in = { 1, channels, STRIP_ROWS + k - 1, s->width + k - 1 };
    const dnnl_dims_t out = { 1, s->out, STRIP_ROWS, s->width };
    const dnnl_dims_t w = { s->out, channels, k, k }, b = { s->out };
    const dnnl_dims_t ones = { 1, 1 }, zeros = { 0, 0 };
    dnnl_memory_desc_t weights;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    enum kvr_status st;

    DNNL_TRY(dnnl_memory_desc_init_by_tag(src, 4, in, context_of(c)->type, dnnl_nhwc));
    DNNL_TRY(dnnl_memory_desc_init_by_tag(dst, 4, out, dnnl_f32, dnnl_nhwc));
    DNNL_TRY(
        dnnl_memory_desc_init_by_tag(&weights, 4, w, context_of(c)->type, dnnl_format_tag_any));
    DNNL_TRY(dnnl_memory_desc_init_by_tag(bias, 1, b, dnnl_f32, dnnl_x));
    DNNL_TRY(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference,
                                                dnnl_convolution_direct, src, &weights, bias, dst,
                                                ones, zeros, zeros));
    DNNL_TRY(kvr_dnnl_primitive_attr_create(&attr));
    st = check(kvr_dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
               "scratchpad mode");
    if (st == KVR_OK)
        st = check(kvr_dnnl_primitive_desc_create(pd, &desc, attr, context_of(c)->engine, NULL),
                   "convolution");
    dnnl_primitive_attr_destroy(attr);
    return st;
}

static void store_f32(void *to, int64_t i, float v)
{
    ((float *)to)[i] = v;
}

/* Packs weights as [out, taps, in, k, k], with frame taps before input channels. */
static void by_tap(const struct kvr_conv_shape *s, const float *from, float *to)
{
    const int64_t kk = (int64_t)s->kernel * s->kernel;
    const struct kvr_conv_strides by = { s->taps * s->in * kk, s->in * kk, 1, kk };

    kvr_conv_pack(s, &by, from, store_f32, to);
}

static void round_bf16(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}

static enum kvr_status reorder(struct conv *c, const float *plain, const dnnl_memory_desc_t *to)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const dnnl_dims_t w = { s->out, (dnnl_dim_t)s->in * s->taps, s->kernel, s->kernel };
    dnnl_engine_t engine = context_of(c)->engine;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t p = NULL;
    dnnl_memory_t from = NULL;
    dnnl_memory_desc_t md;
    enum kvr_status st;

    DNNL_TRY(dnnl_memory_desc_init_by_tag(&md, 4, w, dnnl_f32, dnnl_oihw));
    st = check(kvr_dnnl_memory_create(&from, &md, engine, (void *)plain), "weights memory");
    if (st == KVR_OK)
        st = check(kvr_dnnl_reorder_primitive_desc_create(&pd, &md, engine, to, engine, NULL),
                   "reorder");
    if (st == KVR_OK)
        st = check(kvr_dnnl_primitive_create(&p, pd), "reorder primitive");
    if (st == KVR_OK) {
        const dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, c->weights } };

        st = check(kvr_dnnl_primitive_execute(p, context_of(c)->stream[0], 2, args), "reorder run");
    }
    if (p)
        dnnl_primitive_destroy(p);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (from)
        dnnl_memory_destroy(from);
    return st;
}

static enum kvr_status pack(struct conv *c, const dnnl_memory_desc_t *md, const float *weight)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const size_t n = (size_t)s->out * (size_t)s->in * (size_t)(s->taps * s->kernel * s->kernel);
    struct kvr_buf plain = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_buf_alloc(&c->packed, c->base.context->dev, KVR_MEM_WEIGHTS,
                          dnnl_memory_desc_get_size(md)));
    DNNL_TRY(kvr_dnnl_memory_create(&c->weights, md, context_of(c)->engine, c->packed.p));
    KVR_TRY(kvr_buf_alloc(&plain, c->base.context->dev, KVR_MEM_WEIGHTS, n * sizeof *weight));
    by_tap(s, weight, plain.p);
    if (c->base.context->type == KVR_BF16)
        round_bf16(plain.p, (int64_t)n);
    st = reorder(c, plain.p, md);
    kvr_buf_free(&plain);
    return st;
}

/* Creates the oneDNN memory objects and the buffers of every thread. */
static enum kvr_status make_room(struct conv *c, const dnnl_memory_desc_t *src,
                                 const dnnl_memory_desc_t *dst, const dnnl_memory_desc_t *scratch)
{
    const size_t n_scratch = dnnl_memory_desc_get_size(scratch);
    struct context *r = context_of(c);

    for (int i = 0; i < r->n_threads; i++) {
        DNNL_TRY(kvr_dnnl_memory_create(&c->src[i], src, r->engine, DNNL_MEMORY_NONE));
        DNNL_TRY(kvr_dnnl_memory_create(&c->dst[i], dst, r->engine, DNNL_MEMORY_NONE));
        KVR_TRY(kvr_buf_reserve(&r->strip[i], r->base.dev, KVR_MEM_SCRATCH,
                                dnnl_memory_desc_get_size(src)));
        KVR_TRY(kvr_buf_reserve(&r->out[i], r->base.dev, KVR_MEM_SCRATCH,
                                dnnl_memory_desc_get_size(dst)));
        if (n_scratch == 0)
            continue;
        DNNL_TRY(kvr_dnnl_memory_create(&c->scratch[i], scratch, r->engine, DNNL_MEMORY_NONE));
        KVR_TRY(kvr_buf_reserve(&r->scratch[i], r->base.dev, KVR_MEM_SCRATCH, n_scratch));
    }
    return KVR_OK;
}

static enum kvr_status build(struct conv *c, const float *weight, const float *bias)
{
    const size_t n_bias = (size_t)c->base.s.out * sizeof *bias;
    dnnl_memory_desc_t src, dst, b;
    dnnl_primitive_desc_t pd = NULL;
    enum kvr_status st;

    KVR_TRY(describe(c, &pd, &src, &dst, &b));
    st = check(kvr_dnnl_primitive_create(&c->p, pd), "convolution primitive");
    if (st == KVR_OK)
        st = pack(c, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), weight);
    if (st == KVR_OK)
        st = kvr_buf_alloc(&c->bias, c->base.context->dev, KVR_MEM_WEIGHTS, n_bias);
    if (st == KVR_OK) {
        memcpy(c->bias.p, bias, n_bias);
        if (c->base.context->type == KVR_BF16)
            round_bf16(c->bias.p, c->base.s.out);
        st = check(kvr_dnnl_memory_create(&c->biases, &b, context_of(c)->engine, c->bias.p),
                   "bias memory");
    }
    if (st == KVR_OK)
        st =
            make_room(c, &src, &dst, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    dnnl_primitive_desc_destroy(pd);
    return st;
}

/* Whether the layer has F64 sums. BF16 layers have F32 sums, because the rounding of their inputs
 * dominates the error. */
static bool is_narrow(const struct conv *c)
{
    return c->base.context->type == KVR_F32 && c->base.s.in <= NARROW && c->base.s.out <= NARROW;
}

static void store_f64(void *to, int64_t i, float v)
{
    ((double *)to)[i] = (double)v;
}

static enum kvr_status build_narrow(struct conv *c, const float *weight, const float *bias)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const size_t n = (size_t)s->out * (size_t)(s->in * s->taps * s->kernel * s->kernel);
    const size_t n_bias = (size_t)s->out * sizeof *bias;
    const size_t wide = (size_t)(s->width + 2 * border(c)) * (size_t)(s->taps * s->in);
    const struct kvr_conv_strides by = kvr_conv_taps_last(s);
    struct context *r = context_of(c);

    KVR_TRY(kvr_buf_alloc(&c->packed, r->base.dev, KVR_MEM_WEIGHTS, n * sizeof(double)));
    KVR_TRY(kvr_buf_alloc(&c->bias, r->base.dev, KVR_MEM_WEIGHTS, n_bias));
    /* for each output channel, weights [row, column, taps, in] are in the strip's order */
    kvr_conv_pack(s, &by, weight, store_f64, c->packed.p);
    memcpy(c->bias.p, bias, n_bias);
    for (int i = 0; i < r->n_threads; i++)
        KVR_TRY(kvr_buf_reserve(&r->strip[i], r->base.dev, KVR_MEM_SCRATCH,
                                (STRIP_ROWS + (size_t)s->kernel - 1) * wide * sizeof(float)));
    return KVR_OK;
}

static void drop(dnnl_memory_t m)
{
    if (m)
        dnnl_memory_destroy(m);
}

static void conv_close(struct kvr_conv *base)
{
    struct conv *c = (struct conv *)base;

    for (int i = 0; i < MAX_THREADS; i++) {
        drop(c->src[i]);
        drop(c->dst[i]);
        drop(c->scratch[i]);
    }
    drop(c->weights);
    drop(c->biases);
    if (c->p)
        dnnl_primitive_destroy(c->p);
    kvr_buf_free(&c->packed);
    kvr_buf_free(&c->bias);
    free(c);
}

static enum kvr_status conv_open(struct kvr_conv **out, struct kvr_conv_context *context,
                                 const struct kvr_conv_shape *s, const float *weight,
                                 const float *bias)
{
    const int threads = omp_get_max_threads();
    struct conv *c = calloc(1, sizeof *c);
    enum kvr_status st;

    if (!c)
        return kvr_fail(KVR_ENOMEM, "convolution: out of memory");
    c->base = (struct kvr_conv){ .context = context, .s = *s };
    /* oneDNN plans for this number of threads; run() executes a strip on one thread */
    omp_set_num_threads(1);
    st = is_narrow(c) ? build_narrow(c, weight, bias) : build(c, weight, bias);
    omp_set_num_threads(threads);
    if (st != KVR_OK) {
        conv_close(&c->base);
        return st;
    }
    *out = &c->base;
    return KVR_OK;
}

/* --- running ---------------------------------------------------------------------------- */

/* Converts n elements of a frame to oneDNN's type, or writes zeros if `from` is NULL. Returns the
 * address after the last element written. */
static char *fill(const struct context *r, char *to, const void *from, int64_t i, int n)
{
    const size_t bytes = (size_t)n * dnnl_data_type_size(r->type);

    if (!from)
        memset(to, 0, bytes);
    else if (r->base.type == KVR_BF16 && r->type == dnnl_f32)
        kvr_to_f32((float *)(void *)to, (const kvr_bf16 *)from + i, KVR_BF16, (size_t)n);
    else
        memcpy(to, (const char *)from + (size_t)i * dnnl_data_type_size(r->type), bytes);
    return to + bytes;
}

/* Copies row y of all frame taps to `to` [width + 2 border, taps, in], with zeros outside of the
 * frame. */
static void fill_row(const struct conv *c, const struct kvr_conv_frame *f, int y, char *to)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const struct context *r = context_of(c);
    const int b = border(c), pixel = s->taps * s->in;
    const int64_t row = (int64_t)(y / s->up) * (s->width / s->up);

    if (y < 0 || y >= s->height) {
        fill(r, to, NULL, 0, (s->width + 2 * b) * pixel);
        return;
    }
    to = fill(r, to, NULL, 0, b * pixel);
    for (int x = 0; x < s->width; x++)
        for (int t = 0; t < s->taps; t++)
            to = fill(r, to, f[t].p, (row + x / s->up) * f[t].stride, s->in);
    fill(r, to, NULL, 0, b * pixel);
}

static dnnl_status_t run_strip(struct conv *c, const struct kvr_conv_frame *f, int y0, void *y,
                               int thread)
{
    const struct kvr_conv_shape *s = &c->base.s;
    struct context *r = context_of(c);
    const int b = border(c), rows = s->height - y0 < STRIP_ROWS ? s->height - y0 : STRIP_ROWS;
    const size_t wide =
        (size_t)(s->width + 2 * b) * (size_t)(s->taps * s->in) * dnnl_data_type_size(r->type);
    const int64_t line = (int64_t)s->width * s->out;
    const bool direct = r->base.type == KVR_F32 && rows == STRIP_ROWS;
    float *to = direct ? (float *)y + y0 * line : r->out[thread].p;
    const dnnl_exec_arg_t args[] = {
        { DNNL_ARG_SRC, c->src[thread] },
        { DNNL_ARG_WEIGHTS, c->weights },
        { DNNL_ARG_BIAS, c->biases },
        { DNNL_ARG_DST, c->dst[thread] },
        { DNNL_ARG_SCRATCHPAD, c->scratch[thread] },
    };
    dnnl_status_t st;

    for (int i = 0; i < STRIP_ROWS + 2 * b; i++)
        fill_row(c, f, y0 + i - b, (char *)r->strip[thread].p + (size_t)i * wide);
    st = kvr_dnnl_memory_set_data_handle(c->src[thread], r->strip[thread].p);
    if (st == dnnl_success)
        st = kvr_dnnl_memory_set_data_handle(c->dst[thread], to);
    if (st == dnnl_success && c->scratch[thread])
        st = kvr_dnnl_memory_set_data_handle(c->scratch[thread], r->scratch[thread].p);
    if (st == dnnl_success)
        st = kvr_dnnl_primitive_execute(c->p, r->stream[thread], c->scratch[thread] ? 5 : 4, args);
    if (st == dnnl_success && !direct)
        kvr_from_f32((char *)y + (size_t)(y0 * line) * kvr_dtype_size(r->base.type), r->base.type,
                     to, (size_t)(rows * line));
    return st;
}

/* Computes a strip of rows like run_strip(), but with F64 sums. One row of a kernel multiplies
 * kernel * taps * in consecutive values of the strip. */
static void run_narrow(struct conv *c, const struct kvr_conv_frame *f, int y0, float *y, int thread)
{
    const struct kvr_conv_shape *s = &c->base.s;
    const int b = border(c), rows = s->height - y0 < STRIP_ROWS ? s->height - y0 : STRIP_ROWS;
    const int64_t pixel = (int64_t)s->taps * s->in, n = s->kernel * pixel;
    const int64_t wide = (s->width + 2 * b) * pixel;
    const double *weight = c->packed.p;
    const float *bias = c->bias.p;
    float *strip = context_of(c)->strip[thread].p;

    for (int i = 0; i < rows + 2 * b; i++)
        fill_row(c, f, y0 + i - b, (char *)(strip + i * wide));
    for (int64_t i = 0; i < (int64_t)rows * s->width; i++) {
        const float *from = strip + i / s->width * wide + i % s->width * pixel;
        float *to = y + ((int64_t)y0 * s->width + i) * s->out;

        for (int o = 0; o < s->out; o++) {
            const double *w = weight + o * s->kernel * n;
            double sum = (double)bias[o];

            for (int row = 0; row < s->kernel; row++)
                for (int64_t k = 0; k < n; k++)
                    sum += w[row * n + k] * (double)from[row * wide + k];
            to[o] = (float)sum;
        }
    }
}

static enum kvr_status run(struct kvr_conv *base, const struct kvr_conv_frame *frames, void *y)
{
    struct conv *c = (struct conv *)base;
    const int n = (c->base.s.height + STRIP_ROWS - 1) / STRIP_ROWS;
    int worst = dnnl_success;

#pragma omp parallel for schedule(dynamic) num_threads(context_of(c)->n_threads)                   \
    reduction(max                                                                                  \
              : worst)
    for (int i = 0; i < n; i++) {
        const int thread = omp_get_thread_num();
        int st = dnnl_success;

        if (c->p)
            st = (int)run_strip(c, frames, i * STRIP_ROWS, y, thread);
        else
            run_narrow(c, frames, i * STRIP_ROWS, y, thread);
        worst = st > worst ? st : worst;
    }
    return check((dnnl_status_t)worst, "convolution run");
}

const struct kvr_conv_kind kvr_conv_cpu = {
    .context_open = context_open,
    .context_close = context_close,
    .library = library,
    .open = conv_open,
    .close = conv_close,
    .run = run,
};
