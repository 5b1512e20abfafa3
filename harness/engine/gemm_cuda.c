/* gemm_cuda.c - linear layers on a CUDA device: by cuBLASLt where it can be loaded and has
 * something for the shape, else by our own kernels. */
#include "harness/engine/gemm_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/blaslt.h"
#include "harness/engine/linear_cuda.h"

/* What NVIDIA recommends for Hopper; half of it would do for older devices. */
enum { WORKSPACE_BYTES = 32 << 20 };

/* One per shape and end. `lt` NULL: the library has nothing, our own kernel serves (but for results in
 * BF16, which then take a pass of their own). */
enum { IN_FLOATS = KVR_N_LINEAR_ENDS };
struct shape {
    int64_t m;
    int n, k;
    bool bias;
    int end; /* kvr_linear_end, or IN_FLOATS */
    struct kvr_blaslt_plan *lt;
};

struct gemm {
    struct kvr_gemm base;
    struct kvr_blaslt *lt; /* NULL: not there */
    struct kvr_buf workspace;
    struct kvr_buf rounded; /* BF16 [m, padded k]: the input of the layers that run */
    struct shape *shapes;
    int n_shapes, cap_shapes;
    char library[192];
};

struct linear {
    struct kvr_linear base;
    struct kvr_buf w; /* [n,k] F32, or [n, padded k] BF16 */
    struct kvr_buf bias;
};

static struct gemm *gemm_of(const struct kvr_linear *l)
{
    return (struct gemm *)l->g;
}

static int columns(const struct kvr_gemm *g, int k)
{
    return g->compute == KVR_BF16 ? kvr_linear_padded(k) : k;
}

static void gemm_close(struct kvr_gemm *base)
{
    struct gemm *g = (struct gemm *)base;

    for (int i = 0; i < g->n_shapes; i++)
        kvr_blaslt_plan_close(&g->shapes[i].lt);
    free(g->shapes);
    kvr_blaslt_close(&g->lt);
    kvr_buf_free(&g->workspace);
    kvr_buf_free(&g->rounded);
    free(g);
}

static enum kvr_status gemm_open(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute)
{
    struct gemm *g = calloc(1, sizeof *g);
    enum kvr_status st;

    if (!g)
        return kvr_fail(KVR_ENOMEM, "gemm: no memory");
    g->base = (struct kvr_gemm){ .dev = dev, .compute = compute };
    st = kvr_blaslt_open(&g->lt, kvr_dev_stream(dev));
    if (st == KVR_OK)
        st = kvr_blaslt_find(g->library, sizeof g->library);
    if (st == KVR_OK)
        st = kvr_buf_alloc(&g->workspace, dev, KVR_MEM_SCRATCH, WORKSPACE_BYTES);
    if (st == KVR_EUNSUPPORTED) {
        snprintf(g->library, sizeof g->library, "kvreel (%s)", kvr_error());
        st = KVR_OK;
    }
    if (st != KVR_OK) {
        gemm_close(&g->base);
        return st;
    }
    *out = &g->base;
    return KVR_OK;
}

static void rest(struct kvr_gemm *g)
{
    kvr_buf_free(&((struct gemm *)g)->rounded);
}

static const char *library(const struct kvr_gemm *g)
{
    return ((const struct gemm *)g)->library;
}

static void linear_close(struct kvr_linear *base)
{
    struct linear *l = (struct linear *)base;

    kvr_buf_free(&l->w);
    kvr_buf_free(&l->bias);
    free(l);
}

/* Through one host buffer, as the device will hold it. */
static enum kvr_status upload_bf16(struct linear *l, const float *w)
{
    const int n = l->base.n, k = l->base.k, padded = kvr_linear_padded(k);
    const size_t n_bytes = (size_t)n * (size_t)padded * sizeof(kvr_bf16);
    struct kvr_dev *dev = l->base.g->dev;
    struct kvr_buf host = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_buf_alloc(&host, kvr_dev_host(dev), KVR_MEM_IO, n_bytes));
#pragma omp parallel for schedule(static) if (n > 64)
    for (int i = 0; i < n; i++) {
        kvr_bf16 *to = (kvr_bf16 *)host.p + (int64_t)i * padded;

        for (int j = 0; j < k; j++)
            to[j] = kvr_f32_to_bf16(w[(int64_t)i * k + j]);
        memset(to + k, 0, (size_t)(padded - k) * sizeof *to);
    }
    st = kvr_buf_alloc(&l->w, dev, KVR_MEM_WEIGHTS, n_bytes);
    if (st == KVR_OK)
        st = kvr_dev_put(dev, l->w.p, host.p, n_bytes);
    kvr_buf_free(&host);
    return st;
}

static enum kvr_status upload(struct linear *l, const float *w, const float *b)
{
    struct kvr_dev *dev = l->base.g->dev;
    const size_t n = (size_t)l->base.n * sizeof(float), all = n * (size_t)l->base.k;

    if (b) {
        KVR_TRY(kvr_buf_alloc(&l->bias, dev, KVR_MEM_WEIGHTS, n));
        KVR_TRY(kvr_dev_put(dev, l->bias.p, b, n));
    }
    if (l->base.g->compute == KVR_BF16)
        return upload_bf16(l, w);
    KVR_TRY(kvr_buf_alloc(&l->w, dev, KVR_MEM_WEIGHTS, all));
    return kvr_dev_put(dev, l->w.p, w, all);
}

/* What is on the device already, in the type that the layer computes in. */
static enum kvr_status take_over(struct linear *l, const float *w, const float *b)
{
    struct kvr_dev *dev = l->base.g->dev;
    const size_t n = (size_t)l->base.n * sizeof(float), all = n * (size_t)l->base.k;
    const int padded = kvr_linear_padded(l->base.k);

    if (b) {
        KVR_TRY(kvr_buf_alloc(&l->bias, dev, KVR_MEM_WEIGHTS, n));
        kvr_dev_copy(dev, l->bias.p, b, n);
    }
    if (l->base.g->compute != KVR_BF16) {
        KVR_TRY(kvr_buf_alloc(&l->w, dev, KVR_MEM_WEIGHTS, all));
        kvr_dev_copy(dev, l->w.p, w, all);
        return KVR_OK;
    }
    KVR_TRY(kvr_buf_alloc(&l->w, dev, KVR_MEM_WEIGHTS,
                          (size_t)l->base.n * (size_t)padded * sizeof(kvr_bf16)));
    kvr_linear_round_cuda(kvr_dev_stream(dev), l->base.n, l->base.k, padded, w, l->w.p);
    return KVR_OK;
}

typedef enum kvr_status fill_fn(struct linear *l, const float *w, const float *b);

static enum kvr_status open_with(fill_fn *fill, struct kvr_linear **out, struct kvr_gemm *g, int n,
                                 int k, const float *w, const float *b)
{
    struct linear *l = calloc(1, sizeof *l);
    enum kvr_status st;

    if (!l)
        return kvr_fail(KVR_ENOMEM, "gemm: no memory");
    l->base = (struct kvr_linear){ .g = g, .n = n, .k = k, .has_bias = b != NULL };
    st = fill(l, w, b);
    if (st != KVR_OK) {
        linear_close(&l->base);
        return st;
    }
    *out = &l->base;
    return KVR_OK;
}

static enum kvr_status linear_open(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                   const float *w, const float *b)
{
    return open_with(upload, out, g, n, k, w, b);
}

static enum kvr_status linear_open_there(struct kvr_linear **out, struct kvr_gemm *g, int n, int k,
                                         const float *w, const float *b)
{
    return open_with(take_over, out, g, n, k, w, b);
}

static struct shape *find(const struct gemm *g, const struct kvr_linear *l, int64_t m, int end)
{
    for (int i = 0; i < g->n_shapes; i++) {
        struct shape *s = &g->shapes[i];

        if (s->m == m && s->n == l->n && s->k == l->k && s->bias == l->has_bias && s->end == end)
            return s;
    }
    return NULL;
}

static enum kvr_status add_shape(struct gemm *g, const struct kvr_linear *l, int64_t m, int end)
{
    const struct kvr_blaslt_shape want = {
        .m = m,
        .n = l->n,
        .k = columns(&g->base, l->k),
        .bf16 = g->base.compute == KVR_BF16,
        .bias = l->has_bias,
        .end = end == KVR_LINEAR_GELU      ? KVR_BLASLT_GELU
               : end == KVR_LINEAR_ROUNDED ? KVR_BLASLT_BF16
                                           : KVR_BLASLT_F32,
        .workspace_bytes = WORKSPACE_BYTES,
    };
    struct shape s = { .m = m, .n = l->n, .k = l->k, .bias = l->has_bias, .end = end };
    enum kvr_status st = KVR_OK;

    if (g->n_shapes == g->cap_shapes) {
        int cap = g->cap_shapes ? 2 * g->cap_shapes : 16;
        struct shape *grown = realloc(g->shapes, (size_t)cap * sizeof *grown);

        if (!grown)
            return kvr_fail(KVR_ENOMEM, "gemm: no memory for %d shapes", cap);
        g->shapes = grown;
        g->cap_shapes = cap;
    }
    if (g->lt &&
        (end != KVR_LINEAR_GELU || l->n == kvr_linear_padded(l->n))) /* it leaves no zeros behind */
        st = kvr_blaslt_plan(&s.lt, g->lt, &want);
    if (st != KVR_OK && st != KVR_EUNSUPPORTED)
        return st;
    g->shapes[g->n_shapes++] = s;
    return KVR_OK;
}

static enum kvr_status prepare_shape(const struct kvr_linear *l, int64_t m, int end)
{
    struct gemm *g = gemm_of(l);

    return find(g, l, m, end) ? KVR_OK : add_shape(g, l, m, end);
}

static enum kvr_status prepare(const struct kvr_linear *l, int64_t m)
{
    struct gemm *g = gemm_of(l);

    KVR_TRY(prepare_shape(l, m, IN_FLOATS));
    if (g->base.compute == KVR_F32)
        return KVR_OK;
    return kvr_buf_reserve(&g->rounded, g->base.dev, KVR_MEM_SCRATCH,
                           (size_t)m * (size_t)kvr_linear_padded(l->k) * sizeof(kvr_bf16));
}

static enum kvr_status run_one(struct gemm *g, int64_t m, const void *x, const struct kvr_linear *l,
                               float *y)
{
    struct kvr_stream *s = kvr_dev_stream(g->base.dev);
    const struct linear *mine = (const struct linear *)l;
    const struct shape *shape = find(g, l, m, IN_FLOATS);
    const int k = columns(&g->base, l->k);

    if (shape->lt)
        return kvr_blaslt_run(g->lt, shape->lt, x, mine->w.p, mine->bias.p, y, g->workspace.p);
    if (g->base.compute == KVR_BF16)
        kvr_linear_bf16_cuda(s, m, l->n, k, x, mine->w.p, mine->bias.p, y);
    else
        kvr_linear_f32_cuda(s, m, l->n, k, x, mine->w.p, mine->bias.p, y);
    return KVR_OK;
}

/* x, or what was left there, as layers of k columns take it. */
static const kvr_bf16 *rounded(struct gemm *g, int64_t m, const float *x, int k)
{
    if (x)
        kvr_linear_round_cuda(kvr_dev_stream(g->base.dev), m, k, kvr_linear_padded(k), x,
                              g->rounded.p);
    return g->rounded.p;
}

static enum kvr_status run(struct kvr_gemm *base, int64_t m, const float *x, int n_layers,
                           const struct kvr_linear *const *l, float *const *y)
{
    struct gemm *g = (struct gemm *)base;
    const void *in = x;

    for (int i = 0; i < n_layers; i++)
        KVR_TRY(prepare(l[i], m));
    if (base->compute == KVR_BF16)
        in = rounded(g, m, x, l[0]->k);
    for (int i = 0; i < n_layers; i++)
        KVR_TRY(run_one(g, m, in, l[i], y[i]));
    return KVR_OK;
}

static enum kvr_status prepare_end(const struct kvr_linear *l, int64_t m, enum kvr_linear_end end)
{
    KVR_TRY(prepare(l, m));
    return l->g->compute == KVR_BF16 ? prepare_shape(l, m, end) : KVR_OK;
}

static enum kvr_status run_end(struct kvr_gemm *base, int64_t m, const float *x,
                               const struct kvr_linear *l, enum kvr_linear_end end, kvr_bf16 *y,
                               bool *done)
{
    struct gemm *g = (struct gemm *)base;
    struct kvr_stream *s = kvr_dev_stream(base->dev);
    const struct linear *mine = (const struct linear *)l;
    const int k = kvr_linear_padded(l->k);
    const struct shape *shape;

    if (base->compute != KVR_BF16)
        return KVR_OK;
    KVR_TRY(prepare_end(l, m, end));
    shape = find(g, l, m, end);
    /* The library's product and a pass are faster than our own. */
    *done = shape->lt || !find(g, l, m, IN_FLOATS)->lt;
    if (!*done)
        return KVR_OK;
    const kvr_bf16 *in = rounded(g, m, x, l->k);

    if (shape->lt)
        return kvr_blaslt_run(g->lt, shape->lt, in, mine->w.p, mine->bias.p, y, g->workspace.p);
    if (end == KVR_LINEAR_GELU)
        kvr_linear_gelu_cuda(s, m, l->n, k, in, mine->w.p, mine->bias.p, y);
    else
        kvr_linear_rounded_cuda(s, m, l->n, k, in, mine->w.p, mine->bias.p, y);
    return KVR_OK;
}

static enum kvr_status run_rounded(struct kvr_gemm *base, int64_t m, const kvr_bf16 *x,
                                   const struct kvr_linear *l, float *y)
{
    KVR_TRY(prepare(l, m));
    return run_one((struct gemm *)base, m, x, l, y);
}

static kvr_bf16 *input(struct kvr_gemm *base, int64_t m, int k, int *columns)
{
    const struct gemm *g = (const struct gemm *)base;
    const size_t n_bytes = (size_t)m * (size_t)kvr_linear_padded(k) * sizeof(kvr_bf16);

    *columns = kvr_linear_padded(k);
    return base->compute == KVR_BF16 && n_bytes <= g->rounded.n_bytes ? g->rounded.p : NULL;
}

const struct kvr_gemm_kind kvr_gemm_cuda = {
    .holds_bf16 = true,
    .open = gemm_open,
    .close = gemm_close,
    .linear_open = linear_open,
    .linear_open_there = linear_open_there,
    .linear_close = linear_close,
    .prepare = prepare,
    .run = run,
    .rest = rest,
    .input = input,
    .prepare_end = prepare_end,
    .run_end = run_end,
    .run_rounded = run_rounded,
    .library = library,
};
