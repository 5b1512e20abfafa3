/* gemm_cuda.c - linear layers on a CUDA device. They run by cuBLASLt if it can be loaded and
 * supports the shape, and otherwise by kvreel's kernels. */
#include "harness/engine/gemm_impl.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/rows.h"
#include "harness/device/blaslt.h"
#include "harness/engine/linear_cuda.h"
#include "harness/engine/ops_cuda.h"
#include "harness/engine/product_cuda.h"
#include "harness/engine/tune.h"

/* Size of the cuBLASLt workspace, as NVIDIA recommends for Hopper. Older devices need half of this
 * size. */
enum { WORKSPACE_BYTES = 32 << 20 };

/* Choice of implementation for a shape and an epilogue `end`: a kvr_linear_end except
 * KVR_LINEAR_ADDED, IN_FLOATS for an F32 result, or FUSED_ENDS plus a kvr_linear_end for a fused
 * launch. If cuBLASLt does not support them, `lt` is NULL and kvreel's kernel runs. If cuBLASLt
 * computes a result only in F32, a second kernel converts the result to BF16. Both launches
 * together are still faster than kvreel's kernel. */
enum { IN_FLOATS = KVR_N_LINEAR_ENDS, FUSED_ENDS };
struct shape {
    int64_t m;
    int n, k;
    bool bias;
    int end;
    bool own;   /* kvreel's kernel was measured to be faster than cuBLASLt */
    bool apart; /* separate launches were measured to be faster than the fused kernel */
    struct kvr_blaslt_plan *lt;
};

struct gemm {
    struct kvr_gemm base;
    struct kvr_blaslt *lt; /* NULL: not available */
    struct kvr_buf workspace;
    struct kvr_buf rounded; /* BF16 [m, padded k], the input of the current layers */
    struct kvr_buf floats;  /* F32 [m,n], cuBLASLt's result before its conversion to BF16 */
    bool fuses;             /* the device supports the fused kernels of product_cuda.h */
    /* tuning results, or NULL for cuBLASLt's first algorithm and fused launches where available */
    struct kvr_tune *tune;
    struct shape *shapes;
    int n_shapes, cap_shapes;
    char library[192];
};

struct linear {
    struct kvr_linear base;
    struct kvr_buf w;           /* [n,k] F32, or [n, padded k] BF16 */
    struct kvr_buf bias;        /* F32; with BF16 compute, values rounded to BF16 */
    struct kvr_buf narrow_bias; /* the bias as BF16, for cuBLASLt plans with BF16 results */
};

static const struct linear *linear_of(const struct kvr_linear *l)
{
    return (const struct linear *)l;
}

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
    kvr_tune_close(&g->tune);
    kvr_blaslt_close(&g->lt);
    kvr_buf_free(&g->workspace);
    kvr_buf_free(&g->rounded);
    kvr_buf_free(&g->floats);
    free(g);
}

static enum kvr_status gemm_open(struct kvr_gemm **out, struct kvr_dev *dev, enum kvr_dtype compute)
{
    struct gemm *g = calloc(1, sizeof *g);
    enum kvr_status st;

    if (!g)
        return kvr_fail(KVR_ENOMEM, "gemm: out of memory");
    g->base = (struct kvr_gemm){ .dev = dev, .compute = compute };
    g->fuses = compute == KVR_BF16 && kvr_product_supported(kvr_dev_stream(dev));
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

static enum kvr_status tune(struct kvr_gemm *base)
{
    struct gemm *g = (struct gemm *)base;
    struct kvr_device_info info;
    char machine[384];

    if (!g->lt || base->compute != KVR_BF16 || g->tune)
        return KVR_OK;
    KVR_TRY(kvr_dev_info(base->dev, &info));
    snprintf(machine, sizeof machine, "%s; driver %d; %s", info.name, info.driver, g->library);
    return kvr_tune_open(&g->tune, NULL, machine);
}

static const char *tuned_words(const struct kvr_gemm *base)
{
    const struct gemm *g = (const struct gemm *)base;

    return g->tune ? kvr_tune_words(g->tune) : "";
}

static void free_scratch(struct kvr_gemm *g)
{
    kvr_buf_free(&((struct gemm *)g)->rounded);
    kvr_buf_free(&((struct gemm *)g)->floats);
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
    kvr_buf_free(&l->narrow_bias);
    free(l);
}

/* Rounds the uploaded bias for BF16 compute, and adds a BF16 copy for cuBLASLt. */
static enum kvr_status round_bias(struct linear *l)
{
    const struct gemm *g = gemm_of(&l->base);
    const size_t n = (size_t)l->base.n;

    if (!l->bias.p || g->base.compute == KVR_F32)
        return KVR_OK;
    kvr_values_round(g->base.dev, KVR_BF16, l->bias.p, n);
    if (!g->lt)
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&l->narrow_bias, g->base.dev, KVR_MEM_WEIGHTS, n * sizeof(kvr_bf16)));
    kvr_values_from_f32(g->base.dev, l->narrow_bias.p, KVR_BF16, l->bias.p, n);
    return KVR_OK;
}

/* Converts weights to BF16 and pads them on the host, then copies them to the device. */
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

/* Converts weights that are already on the device to the layer's type. */
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
        return kvr_fail(KVR_ENOMEM, "gemm: out of memory");
    l->base = (struct kvr_linear){ .g = g, .n = n, .k = k, .has_bias = b != NULL };
    st = fill(l, w, b);
    if (st == KVR_OK)
        st = round_bias(l);
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

static struct kvr_blaslt_shape wanted(const struct gemm *g, const struct kvr_linear *l, int64_t m,
                                      int end)
{
    return (struct kvr_blaslt_shape){
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
}

/* ---- autotune: BF16 GEMMs only, so that F32 results do not depend on measured times -------- */

/* A measurement runs TUNE_ROUNDS series of TUNE_TIMES launches. The result is the mean time per
 * launch of the fastest series. */
enum { TUNE_TIMES = 4, TUNE_ROUNDS = 3 };

/* Measurement of one implementation of a layer, with input g->rounded and output y. */
struct trial {
    struct gemm *g;
    const struct kvr_linear *l;
    int64_t m;
    int end;
    const struct kvr_blaslt_plan *lt; /* NULL: kvreel's kernel */
    bool fused;                       /* uses the fused kernel of product_cuda.h */
    void *y;
};

static enum kvr_status run_fused(struct kvr_gemm *base, int64_t m,
                                 const struct kvr_linear_fused *how, int n_layers,
                                 const struct kvr_linear *const *l, kvr_bf16 *const *y, bool *done);

static enum kvr_status run_trial_fused(const struct trial *t)
{
    const struct kvr_linear_gate gate = { .tokens_per_frame = 1 };
    const struct kvr_linear_fused how = { .in = { .columns = kvr_linear_padded(t->l->k) },
                                          .end = (enum kvr_linear_end)t->end,
                                          .gate = &gate };
    kvr_bf16 *const y = t->y;
    bool done;

    KVR_TRY(run_fused(&t->g->base, t->m, &how, 1, &t->l, &y, &done));
    return done ? KVR_OK
                : kvr_fail(KVR_EUNSUPPORTED,
                           "gemm: the GPU has no fused kernel for a matrix product of M x N x K = "
                           "%lld x %d x %d",
                           (long long)t->m, t->l->n, t->l->k);
}

static enum kvr_status run_trial(const struct trial *t)
{
    const struct linear *cu = linear_of(t->l);
    const int k = kvr_linear_padded(t->l->k), n = t->l->n;
    struct gemm *g = t->g;
    struct kvr_stream *s = kvr_dev_stream(g->base.dev);

    if (t->fused)
        return run_trial_fused(t);
    if (t->lt)
        return kvr_blaslt_run(g->lt, t->lt, g->rounded.p, cu->w.p,
                              t->end == IN_FLOATS ? cu->bias.p : cu->narrow_bias.p, t->y,
                              g->workspace.p);
    if (t->end == IN_FLOATS)
        kvr_linear_bf16_cuda(s, t->m, n, k, g->rounded.p, cu->w.p, cu->bias.p, t->y);
    else if (t->end == KVR_LINEAR_GELU)
        kvr_linear_gelu_cuda(s, t->m, n, k, g->rounded.p, cu->w.p, cu->bias.p, t->y);
    else
        kvr_linear_rounded_cuda(s, t->m, n, k, g->rounded.p, cu->w.p, cu->bias.p, t->y);
    return KVR_OK;
}

typedef enum kvr_status trial_fn(const struct trial *t);

/* Measures the time in microseconds, which is INFINITY if the implementation does not support the
 * layer. */
static enum kvr_status time_of(const struct trial *t, trial_fn *run, double *us)
{
    struct kvr_stream *s = kvr_dev_stream(t->g->base.dev);
    const int times = kvr_stream_emulated() ? 1 : TUNE_TIMES;
    enum kvr_status st = run(t);

    *us = INFINITY;
    if (st == KVR_EUNSUPPORTED)
        return KVR_OK;
    KVR_TRY(st);
    KVR_TRY(kvr_dev_sync(t->g->base.dev));
    for (int round = 0; round < TUNE_ROUNDS; round++) {
        const int64_t from = kvr_stream_mark(s);
        int64_t to, ns;

        for (int i = 0; i < times; i++)
            KVR_TRY(run(t));
        to = kvr_stream_mark(s);
        KVR_TRY(kvr_dev_sync(t->g->base.dev));
        KVR_TRY(kvr_stream_elapsed(s, from, to, &ns));
        kvr_stream_unmark(s, from);
        kvr_stream_unmark(s, to);
        *us = fmin(*us, 1e-3 * (double)ns / times);
    }
    return KVR_OK;
}

/* Fills the input of a measurement with repeated weights of the layer, because a GEMM on zeros runs
 * faster than a GEMM on real data. */
static void fill_input(const struct trial *t)
{
    const struct linear *cu = linear_of(t->l);
    const size_t row = (size_t)kvr_linear_padded(t->l->k) * sizeof(kvr_bf16);
    const int64_t n = t->l->n;

    for (int64_t i = 0; i < t->m; i += n)
        kvr_dev_copy(t->g->base.dev, (char *)t->g->rounded.p + (size_t)i * row, cu->w.p,
                     (size_t)(t->m - i < n ? t->m - i : n) * row);
}

/* Measures kvreel's kernel and cuBLASLt's algorithms, and chooses the fastest. */
static enum kvr_status measure(struct trial *t, int *choice, double *us)
{
    struct kvr_blaslt_shape want = wanted(t->g, t->l, t->m, t->end);
    double now;

    *choice = KVR_TUNE_OWN;
    KVR_TRY(time_of(t, run_trial, us));
    for (want.choice = 0; want.choice < KVR_BLASLT_CHOICES; want.choice++) {
        struct kvr_blaslt_plan *lt;
        enum kvr_status st = kvr_blaslt_plan(&lt, t->g->lt, &want);

        if (st == KVR_EUNSUPPORTED)
            break;
        KVR_TRY(st);
        t->lt = lt;
        st = time_of(t, run_trial, &now);
        t->lt = NULL;
        kvr_blaslt_plan_close(&lt);
        KVR_TRY(st);
        if (now < *us) {
            *us = now;
            *choice = want.choice;
        }
    }
    return KVR_OK;
}

/* Copies 1.5 m n BF16 elements within y, as a substitute for y += x on BF16 [m,n]: both read and
 * write 3 m n elements in total. */
static enum kvr_status run_pass(const struct trial *t)
{
    const size_t n = (size_t)t->m * (size_t)t->l->n * 3;

    kvr_dev_copy(t->g->base.dev, t->y, (char *)t->y + n, n);
    return KVR_OK;
}

/* Measures one fused launch (choice 0) against separate launches (choice 1), and chooses the
 * faster. The separate launches are a GEMM and, for KVR_LINEAR_ADDED, the residual add, which
 * run_pass() stands for. */
static enum kvr_status measure_fused(struct trial *t, int *choice, double *us)
{
    double apart, pass = 0;
    int any;

    t->fused = true;
    KVR_TRY(time_of(t, run_trial, us));
    t->fused = false;
    if (t->end == KVR_LINEAR_ADDED)
        KVR_TRY(time_of(t, run_pass, &pass));
    t->end = t->end == KVR_LINEAR_ADDED ? KVR_LINEAR_ROUNDED : t->end;
    KVR_TRY(measure(t, &any, &apart));
    *choice = apart + pass < *us;
    *us = *choice ? apart + pass : *us;
    return KVR_OK;
}

typedef enum kvr_status measure_fn(struct trial *t, int *choice, double *us);

/* Reads a choice from the tuning file, or measures it. The reported peak memory excludes the
 * scratch of the measurement. */
static enum kvr_status tuned(struct gemm *g, const struct kvr_linear *l, int64_t m, int end,
                             const char *how, measure_fn *by, int *choice)
{
    static const char *const ends[] = { "rounded", "gelu", "added", "floats" };
    struct trial t = { .g = g, .l = l, .m = m, .end = end };
    struct kvr_buf y = { 0 };
    char what[KVR_TUNE_WHAT];
    double us = 0;
    enum kvr_status st;

    snprintf(what, sizeof what, "%lldx%dx%d bf16%s %s %s", (long long)m, l->n, l->k,
             l->has_bias ? " bias" : "", ends[end], how);
    if (kvr_tune_find(g->tune, what, choice))
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(&y, g->base.dev, KVR_MEM_SCRATCH,
                          (size_t)m * (size_t)kvr_linear_padded(l->n) * 6));
    t.y = y.p;
    kvr_dev_zero(g->base.dev, y.p, y.n_bytes);
    fill_input(&t);
    st = by(&t, choice, &us);
    kvr_buf_free(&y);
    kvr_mem_reset_peak(g->base.dev);
    return st == KVR_OK ? kvr_tune_keep(g->tune, what, *choice, us) : st;
}

/* ---- shapes --------------------------------------------------------------------------------- */

static enum kvr_status grow(struct gemm *g)
{
    const int cap = g->cap_shapes ? 2 * g->cap_shapes : 16;
    struct shape *grown;

    if (g->n_shapes < g->cap_shapes)
        return KVR_OK;
    grown = realloc(g->shapes, (size_t)cap * sizeof *grown);
    if (!grown)
        return kvr_fail(KVR_ENOMEM,
                        "gemm: out of memory while allocating the list of %d matrix product shapes",
                        cap);
    g->shapes = grown;
    g->cap_shapes = cap;
    return KVR_OK;
}

static enum kvr_status plan_of(struct gemm *g, const struct kvr_linear *l, struct shape *s)
{
    struct kvr_blaslt_shape want = wanted(g, l, s->m, s->end);
    enum kvr_status st = KVR_OK;
    int choice = 0;

    if (!g->lt || (s->end == KVR_LINEAR_GELU &&
                   l->n != kvr_linear_padded(l->n))) /* cuBLASLt does not write zero padding */
        return KVR_OK;
    st = kvr_blaslt_plan(&s->lt, g->lt, &want);
    if (st != KVR_OK || !g->tune)
        return st == KVR_EUNSUPPORTED ? KVR_OK : st;
    st = tuned(g, l, s->m, s->end, "by", measure, &choice);
    if (st != KVR_OK || choice != 0)
        kvr_blaslt_plan_close(&s->lt);
    KVR_TRY(st);
    s->own = choice == KVR_TUNE_OWN;
    if (s->own || choice == 0)
        return KVR_OK;
    want.choice = choice;
    return kvr_blaslt_plan(&s->lt, g->lt, &want);
}

static enum kvr_status add_shape(struct gemm *g, const struct kvr_linear *l, int64_t m, int end)
{
    struct shape s = { .m = m, .n = l->n, .k = l->k, .bias = l->has_bias, .end = end };
    enum kvr_status st;

    KVR_TRY(grow(g));
    st = plan_of(g, l, &s);
    if (st != KVR_OK) {
        kvr_blaslt_plan_close(&s.lt);
        return st;
    }
    g->shapes[g->n_shapes++] = s;
    return KVR_OK;
}

static enum kvr_status prepare_shape(const struct kvr_linear *l, int64_t m, int end)
{
    struct gemm *g = gemm_of(l);

    return find(g, l, m, end) ? KVR_OK : add_shape(g, l, m, end);
}

/* Chooses between one fused launch of GEMM and epilogue, and separate launches (measure_fused).
 * g->rounded must have room for the input. */
static enum kvr_status prepare_fused(const struct kvr_linear *l, int64_t m, int end)
{
    struct gemm *g = gemm_of(l);
    struct shape s = { .m = m, .n = l->n, .k = l->k, .bias = l->has_bias, .end = FUSED_ENDS + end };
    int apart = 0;

    if (!g->fuses || !g->tune || !g->lt || find(g, l, m, s.end))
        return KVR_OK;
    KVR_TRY(grow(g));
    KVR_TRY(tuned(g, l, m, end, "apart", measure_fused, &apart));
    s.apart = apart == 1;
    g->shapes[g->n_shapes++] = s;
    return KVR_OK;
}

/* Reserves memory for an input of m rows with k columns. */
static enum kvr_status reserve_input(struct gemm *g, int64_t m, int k)
{
    if (g->base.compute == KVR_F32)
        return KVR_OK;
    return kvr_buf_reserve(&g->rounded, g->base.dev, KVR_MEM_SCRATCH,
                           (size_t)m * (size_t)kvr_linear_padded(k) * sizeof(kvr_bf16));
}

static enum kvr_status prepare(const struct kvr_linear *l, int64_t m)
{
    KVR_TRY(reserve_input(gemm_of(l), m, l->k));
    return prepare_shape(l, m, IN_FLOATS);
}

/* Runs a layer with F32 output: x [m, padded k], y [m,n]. */
static enum kvr_status run_one(struct gemm *g, int64_t m, const void *x, const struct kvr_linear *l,
                               float *y)
{
    struct kvr_stream *s = kvr_dev_stream(g->base.dev);
    const struct linear *cu = linear_of(l);
    const struct shape *shape = find(g, l, m, IN_FLOATS);
    const int k = columns(&g->base, l->k);

    if (shape->lt)
        return kvr_blaslt_run(g->lt, shape->lt, x, cu->w.p, cu->bias.p, y, g->workspace.p);
    if (g->base.compute == KVR_BF16)
        kvr_linear_bf16_cuda(s, m, l->n, k, x, cu->w.p, cu->bias.p, y);
    else
        kvr_linear_f32_cuda(s, m, l->n, k, x, cu->w.p, cu->bias.p, y);
    return KVR_OK;
}

static void leave(struct kvr_gemm *base, int64_t m, int k, const float *x)
{
    struct gemm *g = (struct gemm *)base;

    kvr_linear_round_cuda(kvr_dev_stream(base->dev), m, k, kvr_linear_padded(k), x, g->rounded.p);
}

static kvr_bf16 *input(struct kvr_gemm *base, int64_t m, int k)
{
    const struct gemm *g = (const struct gemm *)base;

    assert((size_t)m * (size_t)kvr_linear_padded(k) * sizeof(kvr_bf16) <= g->rounded.n_bytes);
    return g->rounded.p;
}

static enum kvr_status run(struct kvr_gemm *base, int64_t m, const float *x, int n_layers,
                           const struct kvr_linear *const *l, float *const *y)
{
    struct gemm *g = (struct gemm *)base;
    const bool rounds = base->compute == KVR_BF16;

    for (int i = 0; i < n_layers; i++)
        KVR_TRY(prepare(l[i], m));
    if (rounds && x)
        leave(base, m, l[0]->k, x);
    for (int i = 0; i < n_layers; i++)
        KVR_TRY(run_one(g, m, rounds ? g->rounded.p : (const void *)x, l[i], y[i]));
    return KVR_OK;
}

/* ---- BF16 ------------------------------------------------------------------------------- */

/* Returns the epilogue that cuBLASLt computes for `end`. cuBLASLt is called with beta = 0, so
 * KVR_LINEAR_ADDED needs a separate kernel for the addition. */
static int asked(enum kvr_linear_end end)
{
    return end == KVR_LINEAR_ADDED ? KVR_LINEAR_ROUNDED : (int)end;
}

static enum kvr_status prepare_end(const struct kvr_linear *l, int64_t m, enum kvr_linear_end end)
{
    struct gemm *g = gemm_of(l);

    KVR_TRY(reserve_input(g, m, l->k));
    KVR_TRY(prepare_fused(l, m, end));
    KVR_TRY(prepare_shape(l, m, asked(end)));
    if (!g->lt || find(g, l, m, asked(end))->lt || find(g, l, m, asked(end))->own)
        return KVR_OK;
    KVR_TRY(prepare_shape(l, m, IN_FLOATS));
    if (!find(g, l, m, IN_FLOATS)->lt)
        return KVR_OK;
    return kvr_buf_reserve(&g->floats, g->base.dev, KVR_MEM_SCRATCH,
                           (size_t)m * (size_t)l->n * sizeof(float));
}

/* Whether cuBLASLt supports this layer, with a BF16 or an F32 result. */
static bool by_library(const struct gemm *g, const struct kvr_linear *l, int64_t m, int end)
{
    const struct shape *s = find(g, l, m, end), *floats = find(g, l, m, IN_FLOATS);

    return s->lt || (!s->own && floats && floats->lt);
}

/* Returns the input rows, padded to the number of columns that the layers read. */
static const kvr_bf16 *input_rows(struct gemm *g, int64_t m, struct kvr_linear_in in, int k)
{
    const int padded = kvr_linear_padded(k);

    if (!in.x)
        return g->rounded.p;
    if (in.columns == padded)
        return in.x;
    kvr_linear_pad_cuda(kvr_dev_stream(g->base.dev), m, k, padded, in.x, g->rounded.p);
    return g->rounded.p;
}

static enum kvr_status run_library(struct gemm *g, int64_t m, const kvr_bf16 *x,
                                   const struct kvr_linear *l, int end, kvr_bf16 *y)
{
    struct kvr_stream *s = kvr_dev_stream(g->base.dev);
    const struct linear *cu = linear_of(l);
    const struct shape *shape = find(g, l, m, end);
    const struct kvr_rows rows = { m, l->n, 1 };

    if (shape->lt)
        return kvr_blaslt_run(g->lt, shape->lt, x, cu->w.p, cu->narrow_bias.p, y, g->workspace.p);
    KVR_TRY(run_one(g, m, x, l, g->floats.p));
    if (end == KVR_LINEAR_GELU)
        kvr_gelu_bf16_cuda(s, &rows, g->floats.p, y, kvr_linear_padded(l->n));
    else
        kvr_linear_round_cuda(s, m, l->n, l->n, g->floats.p, y);
    return KVR_OK;
}

static enum kvr_status run_narrow(struct kvr_gemm *base, int64_t m, struct kvr_linear_in in,
                                  int n_layers, const struct kvr_linear *const *l,
                                  enum kvr_linear_end end, kvr_bf16 *const *y)
{
    struct gemm *g = (struct gemm *)base;
    struct kvr_stream *s = kvr_dev_stream(base->dev);
    const int k = kvr_linear_padded(l[0]->k);
    const kvr_bf16 *x;

    for (int i = 0; i < n_layers; i++)
        KVR_TRY(prepare_end(l[i], m, end));
    x = input_rows(g, m, in, l[0]->k);
    for (int i = 0; i < n_layers; i++) {
        const struct linear *cu = linear_of(l[i]);

        if (by_library(g, l[i], m, end))
            KVR_TRY(run_library(g, m, x, l[i], end, y[i]));
        else if (end == KVR_LINEAR_GELU)
            kvr_linear_gelu_cuda(s, m, l[i]->n, k, x, cu->w.p, cu->bias.p, y[i]);
        else
            kvr_linear_rounded_cuda(s, m, l[i]->n, k, x, cu->w.p, cu->bias.p, y[i]);
    }
    return KVR_OK;
}

static enum kvr_status run_added(struct kvr_gemm *base, int64_t m, struct kvr_linear_in in,
                                 const struct kvr_linear *l, const struct kvr_linear_gate *gate,
                                 kvr_bf16 *sum, kvr_bf16 *y, bool *left)
{
    struct gemm *g = (struct gemm *)base;
    const struct linear *cu = linear_of(l);
    const kvr_bf16 *x;

    KVR_TRY(prepare_end(l, m, KVR_LINEAR_ADDED));
    x = input_rows(g, m, in, l->k);
    *left = by_library(g, l, m, KVR_LINEAR_ROUNDED);
    if (*left)
        return run_library(g, m, x, l, KVR_LINEAR_ROUNDED, y);
    kvr_linear_added_cuda(kvr_dev_stream(base->dev), m, l->n, kvr_linear_padded(l->k), x, cu->w.p,
                          cu->bias.p, gate, sum);
    return KVR_OK;
}

/* ---- fused launches --------------------------------------------------------------------- */

static bool fuses(const struct kvr_gemm *g)
{
    return ((const struct gemm *)g)->fuses;
}

static enum kvr_status run_fused(struct kvr_gemm *base, int64_t m,
                                 const struct kvr_linear_fused *how, int n_layers,
                                 const struct kvr_linear *const *l, kvr_bf16 *const *y, bool *done)
{
    static const enum kvr_product_end ends[] = { [KVR_LINEAR_ROUNDED] = KVR_PRODUCT_STORE,
                                                 [KVR_LINEAR_GELU] = KVR_PRODUCT_GELU,
                                                 [KVR_LINEAR_ADDED] = KVR_PRODUCT_RESIDUAL };
    struct gemm *g = (struct gemm *)base;
    const struct kvr_linear_gate *gate = how->gate;
    struct kvr_product p = {
        .m = m,
        .k = kvr_linear_padded(l[0]->k),
        .x = how->in.x ? how->in.x : g->rounded.p,
        .tokens_per_frame = gate ? gate->tokens_per_frame : 1,
        .end = ends[how->end],
        .gate = gate ? gate->gate : NULL,
        .gate_stride = gate ? gate->stride : 0,
        .n_layers = n_layers,
    };

    *done = false;
    if (how->in.x && how->in.columns != p.k)
        return KVR_OK;
    for (int i = 0; i < n_layers; i++) {
        const struct shape *s = find(g, l[i], m, FUSED_ENDS + (int)how->end);
        const struct linear *cu = linear_of(l[i]);
        float *const squares = i ? NULL : how->squares;

        if (s && s->apart)
            return KVR_OK;
        p.layer[i] = (struct kvr_product_layer){
            .w = cu->w.p,
            .bias = cu->bias.p,
            .y = y[i],
            .n = l[i]->n,
            .columns = how->end == KVR_LINEAR_GELU ? kvr_linear_padded(l[i]->n) : l[i]->n,
            .squares = squares,
        };
    }
    *done = kvr_product_accepts(&p) && kvr_product_cuda(kvr_dev_stream(base->dev), &p);
    return KVR_OK;
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
    .free_scratch = free_scratch,
    .input = input,
    .leave = leave,
    .prepare_end = prepare_end,
    .run_narrow = run_narrow,
    .run_added = run_added,
    .fuses = fuses,
    .run_fused = run_fused,
    .library = library,
    .tune = tune,
    .tuned = tuned_words,
};
