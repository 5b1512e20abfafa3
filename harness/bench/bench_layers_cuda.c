/* bench_layers_cuda.c - times the engine's linear layers and their epilogues, with BF16 input and
 * output, on a device. The reference is the fastest cuBLASLt algorithm for the same GEMM. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_gemm.h"
#include "harness/bench/rounds_cuda.h"
#include "harness/device/blaslt.h"
#include "harness/device/stream.h"
#include "harness/engine/gemm.h"

/* A launch of one or more linear layers with the same input x [m,k]. The layers of a transformer
 * block need four calls. "qkv" projects to queries, keys and values. "out" is the output projection
 * of attention, gated and added to the residual. "up" is the up projection of the feed-forward
 * network with GELU, "down" its gated down projection. */
struct call {
    const char *name;
    int m, layers, k, n; /* layers: number of linear layers in the launch; n: outputs of each */
    enum kvr_linear_end end;
};
static const struct call wan[] = { { "qkv", 4680, 3, 1536, 1536, KVR_LINEAR_ROUNDED },
                                   { "out", 4680, 1, 1536, 1536, KVR_LINEAR_ADDED },
                                   { "up", 4680, 1, 1536, 8960, KVR_LINEAR_GELU },
                                   { "down", 4680, 1, 8960, 1536, KVR_LINEAR_ADDED } },
                         small[] = { { "qkv", 40, 3, 96, 64, KVR_LINEAR_ROUNDED },
                                     { "out", 40, 1, 96, 64, KVR_LINEAR_ADDED },
                                     { "up", 33, 1, 64, 96, KVR_LINEAR_GELU },
                                     { "down", 33, 1, 96, 64, KVR_LINEAR_ADDED } };
enum {
    N_CALLS = KVR_BENCH_LAYER_CALLS,
    MAX_LAYERS = 3,
    MAX_BUFFERS = 4,
    N_SAMPLES = 256,
    QUICK = 3,
    WORKSPACE = 32 << 20
};
_Static_assert(sizeof wan / sizeof *wan == N_CALLS && sizeof small / sizeof *small == N_CALLS,
               "a call each");

struct kit {
    struct kvr_dev *dev;
    const struct call *c;
    int n_buffers;
    struct kvr_buf x;             /* BF16 [n_buffers][m,k] */
    struct kvr_buf y;             /* BF16 [n_buffers][layers][m,n] */
    struct kvr_buf left;          /* BF16 [m,n]: product, if the launch cannot add it to y */
    struct kvr_buf gate;          /* float [n]: gate of the epilogue, for one frame */
    struct kvr_buf w, bias;       /* BF16 [layers][n,k], [layers][n]: for cuBLASLt */
    struct kvr_buf workspace;     /* workspace of cuBLASLt */
    struct kvr_buf busy;          /* memory of the filler work (rounds_cuda.h) */
    float *host_x, *host_w;       /* [m,k], [layers][n,k]: exact in BF16 */
    float *host_bias, *host_gate; /* [layers][n], [n] */
    kvr_bf16 *host_y;             /* [layers][m,n] */
    struct kvr_gemm *gemm;
    struct kvr_linear *linear[MAX_LAYERS];
    struct kvr_blaslt *lt; /* NULL: cuBLASLt is not available, `why` has the reason */
    struct kvr_blaslt_plan *first, *best;
    int choice; /* index of `best` */
    bool added; /* the last launch added its product to y */
    char why[256];
};

static const float start = 0.5f; /* initial value of y; exact in BF16 */

static void kit_close(struct kit *t)
{
    for (int i = 0; i < MAX_LAYERS; i++)
        kvr_linear_close(&t->linear[i]);
    kvr_gemm_close(&t->gemm);
    kvr_blaslt_plan_close(&t->first);
    kvr_blaslt_plan_close(&t->best);
    kvr_blaslt_close(&t->lt);
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->y);
    kvr_buf_free(&t->left);
    kvr_buf_free(&t->gate);
    kvr_buf_free(&t->w);
    kvr_buf_free(&t->bias);
    kvr_buf_free(&t->workspace);
    kvr_buf_free(&t->busy);
    free(t->host_x);
    free(t->host_w);
    free(t->host_bias);
    free(t->host_gate);
    free(t->host_y);
}

static size_t x_elements(const struct kit *t)
{
    return (size_t)t->c->m * (size_t)t->c->k;
}

static size_t y_elements(const struct kit *t)
{
    return (size_t)t->c->m * (size_t)t->c->n;
}

static size_t w_elements(const struct kit *t)
{
    return (size_t)t->c->n * (size_t)t->c->k;
}

static enum kvr_status put_bf16(struct kit *t, void *to, const float *x, size_t n)
{
    kvr_bf16 *b = malloc(n * sizeof *b);
    enum kvr_status st;

    if (!b)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_from_f32(b, KVR_BF16, x, n);
    st = kvr_dev_put(t->dev, to, b, n * sizeof *b);
    free(b);
    return st;
}

static kvr_bf16 *input(const struct kit *t, int iter)
{
    return (kvr_bf16 *)t->x.p + (size_t)(iter % t->n_buffers) * x_elements(t);
}

static kvr_bf16 *output(const struct kit *t, int iter, int layer)
{
    const size_t at = (size_t)(iter % t->n_buffers) * (size_t)t->c->layers + (size_t)layer;

    return (kvr_bf16 *)t->y.p + at * y_elements(t);
}

static enum kvr_status alloc_all(struct kit *t)
{
    const size_t bf16 = sizeof(kvr_bf16), layers = (size_t)t->c->layers;
    const size_t x = x_elements(t) * bf16, y = y_elements(t) * bf16, n = (size_t)t->c->n;

    KVR_TRY(kvr_rounds_buffers(t->dev, x + layers * y, MAX_BUFFERS, &t->n_buffers));
    KVR_TRY(kvr_buf_alloc(&t->x, t->dev, KVR_MEM_IO, x * (size_t)t->n_buffers));
    KVR_TRY(kvr_buf_alloc(&t->y, t->dev, KVR_MEM_IO, layers * y * (size_t)t->n_buffers));
    KVR_TRY(kvr_buf_alloc(&t->left, t->dev, KVR_MEM_SCRATCH, y));
    KVR_TRY(kvr_buf_alloc(&t->gate, t->dev, KVR_MEM_IO, n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->w, t->dev, KVR_MEM_WEIGHTS, layers * w_elements(t) * bf16));
    KVR_TRY(kvr_buf_alloc(&t->bias, t->dev, KVR_MEM_WEIGHTS, layers * n * bf16));
    KVR_TRY(kvr_buf_alloc(&t->workspace, t->dev, KVR_MEM_SCRATCH,
                          kvr_stream_emulated() ? 64 : WORKSPACE));
    return kvr_buf_alloc(&t->busy, t->dev, KVR_MEM_SCRATCH,
                         kvr_stream_emulated() ? 64 : (size_t)1 << 30);
}

static enum kvr_status fill(struct kit *t)
{
    const size_t x = x_elements(t), n = (size_t)t->c->n, layers = (size_t)t->c->layers;

    /* Each buffer of x receives the same rows in another order. At the end, host_x equals the first
     * buffer, which check() uses. */
    for (int i = t->n_buffers - 1; i >= 0; i--) {
        kvr_bench_rotate_rows(t->host_x, x * sizeof(float), (size_t)t->c->k * sizeof(float));
        KVR_TRY(put_bf16(t, input(t, i), t->host_x, x));
    }
    KVR_TRY(put_bf16(t, t->w.p, t->host_w, layers * w_elements(t)));
    KVR_TRY(put_bf16(t, t->bias.p, t->host_bias, layers * n));
    return kvr_dev_put(t->dev, t->gate.p, t->host_gate, n * sizeof(float));
}

static enum kvr_status open_layers(struct kit *t)
{
    const struct call *c = t->c;

    KVR_TRY(kvr_gemm_open_as(&t->gemm, t->dev, KVR_BF16));
    for (int i = 0; i < c->layers; i++) {
        KVR_TRY(kvr_linear_open(&t->linear[i], t->gemm, c->n, c->k,
                                t->host_w + (size_t)i * w_elements(t), t->host_bias + i * c->n));
        KVR_TRY(kvr_linear_prepare_end(t->linear[i], c->m, c->end));
    }
    return KVR_OK;
}

static enum kvr_status kit_open(struct kit *t)
{
    const size_t n = (size_t)t->c->n, layers = (size_t)t->c->layers;

    KVR_TRY(kvr_rounds_draw_bf16(&t->host_x, x_elements(t), 2));
    KVR_TRY(kvr_rounds_draw_bf16(&t->host_w, layers * w_elements(t), 3));
    KVR_TRY(kvr_rounds_draw_bf16(&t->host_bias, layers * n, 4));
    KVR_TRY(kvr_rounds_draw_bf16(&t->host_gate, n, 5));
    t->host_y = malloc(layers * y_elements(t) * sizeof *t->host_y);
    if (!t->host_y)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    KVR_TRY(alloc_all(t));
    KVR_TRY(fill(t));
    return open_layers(t);
}

/* ---- timed calls ------------------------------------------------------------------------- */

static enum kvr_status forward(void *ctx, int iter)
{
    struct kit *t = ctx;
    const struct call *c = t->c;
    const struct kvr_linear_gate gate = { t->gate.p, 0, c->m };
    const struct kvr_linear_in in = { input(t, iter), c->k };
    const struct kvr_linear_fused how = { .in = in, .end = c->end, .gate = &gate };
    const struct kvr_linear *l[MAX_LAYERS] = { NULL };
    kvr_bf16 *y[MAX_LAYERS] = { NULL };
    bool left = false;

    for (int i = 0; i < c->layers; i++) {
        l[i] = t->linear[i];
        y[i] = output(t, iter, i);
    }
    t->added = false;
    if (kvr_gemm_fuses(t->gemm))
        KVR_TRY(kvr_linear_run_fused(t->gemm, c->m, &how, c->layers, l, y, &t->added));
    if (t->added)
        return KVR_OK;
    if (c->end != KVR_LINEAR_ADDED)
        return kvr_linear_run_narrow(t->gemm, c->m, in, c->layers, l, c->end, y);
    KVR_TRY(kvr_linear_run_added(t->gemm, c->m, in, l[0], &gate, y[0], t->left.p, &left));
    t->added = !left;
    return KVR_OK;
}

static enum kvr_status by_plan(const struct kit *t, const struct kvr_blaslt_plan *plan, int iter)
{
    const struct call *c = t->c;

    for (int i = 0; i < c->layers; i++)
        KVR_TRY(kvr_blaslt_run(t->lt, plan, input(t, iter),
                               (const kvr_bf16 *)t->w.p + (size_t)i * w_elements(t),
                               (const kvr_bf16 *)t->bias.p + (size_t)i * (size_t)c->n,
                               output(t, iter, i), t->workspace.p));
    return KVR_OK;
}

static enum kvr_status best(void *ctx, int iter)
{
    const struct kit *t = ctx;

    return by_plan(t, t->best, iter);
}

static enum kvr_status first(void *ctx, int iter)
{
    const struct kit *t = ctx;

    return by_plan(t, t->first, iter);
}

/* ---- check of the result ----------------------------------------------------------------- */

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/* Compares an output with v, the bias plus the sum of products in double. Products of BF16 numbers
 * are exact in F32. The device adds 16 products at a time and truncates each of the k / 16 + 1
 * partial sums, which loses up to 2^-23 of it. Partial sums are assumed to be at most 4 sqrt(k),
 * four standard deviations of a sum of k products. Rounding to BF16 adds a relative error of up to
 * 2^-8. GELU multiplies the error of v by at most 1.13, and the device's approximate exponential in
 * GELU adds up to 2^-10 min(|v|, 1). If `added`, the launch added gate * v to y, which was
 * `start`. */
static enum kvr_status check_element(const struct kit *t, enum kvr_linear_end end, bool added,
                                     size_t at, size_t layer, const char *name)
{
    const size_t k = (size_t)t->c->k, n = (size_t)t->c->n, col = at % n;
    const float *x = t->host_x + at / n * k, *w = t->host_w + layer * w_elements(t) + col * k;
    const double cut = (t->c->k / 16 + 1) * 4 * sqrt(t->c->k) * 0x1p-23;
    const double got = (double)kvr_bf16_to_f32(t->host_y[layer * y_elements(t) + at]);
    double v = (double)t->host_bias[layer * n + col], tol = cut;

    for (size_t j = 0; j < k; j++)
        v += (double)x[j] * (double)w[j];
    if (end == KVR_LINEAR_GELU) {
        tol = 1.13 * tol + 0x1p-10 * fmin(fabs(v), 1);
        v = gelu(v);
    }
    tol += 0x1p-8 * fabs(v);
    if (added) {
        const double gate = (double)t->host_gate[col];

        v = (double)start + gate * v;
        tol = fabs(gate) * tol + 0x1p-8 * fabs(v);
    }
    if (!(fabs(got - v) <= tol))
        return kvr_fail(
            KVR_ETOLERANCE,
            "bench: %s: output element %zu of layer %zu is %g, but the CPU computes %g; "
            "a difference of at most %g is allowed",
            name, at, layer, got, v, tol);
    return KVR_OK;
}

static enum kvr_status set_start(struct kit *t)
{
    const size_t n = y_elements(t) * (size_t)t->c->layers;

    for (size_t i = 0; i < n; i++)
        t->host_y[i] = kvr_f32_to_bf16(start);
    return kvr_dev_put(t->dev, output(t, 0, 0), t->host_y, n * sizeof *t->host_y);
}

/* Runs the launch on the first buffer and checks samples of y. y is set to `start` first, because
 * launches may add to y. */
static enum kvr_status check(struct kit *t, kvr_round_fn *run, enum kvr_linear_end end,
                             const char *name)
{
    const size_t all = y_elements(t), layers = (size_t)t->c->layers;
    bool added;

    KVR_TRY(set_start(t));
    KVR_TRY(run(t, 0));
    KVR_TRY(kvr_dev_sync(t->dev));
    added = end == KVR_LINEAR_ADDED && t->added;
    KVR_TRY(kvr_dev_get(t->dev, t->host_y,
                        end == KVR_LINEAR_ADDED && !added ? t->left.p : output(t, 0, 0),
                        layers * all * sizeof *t->host_y));
    for (size_t layer = 0; layer < layers; layer++)
        for (size_t i = 0; i < N_SAMPLES; i++)
            KVR_TRY(check_element(t, end, added, i * (all - 1) / (N_SAMPLES - 1), layer, name));
    return KVR_OK;
}

/* ---- the library ------------------------------------------------------------------------- */

static struct kvr_blaslt_shape shape_of(const struct kit *t, int choice)
{
    return (struct kvr_blaslt_shape){
        .m = t->c->m,
        .n = t->c->n,
        .k = t->c->k,
        .bf16 = true,
        .bias = true,
        .end = t->c->end == KVR_LINEAR_GELU ? KVR_BLASLT_GELU : KVR_BLASLT_BF16,
        .workspace_bytes = WORKSPACE,
        .choice = choice,
    };
}

/* Measures the time of QUICK launches in ns, after one launch that loads the kernel. */
static enum kvr_status quick(struct kit *t, const struct kvr_blaslt_plan *plan, int64_t *ns)
{
    struct kvr_stream *s = kvr_dev_stream(t->dev);
    int64_t a, b;

    KVR_TRY(by_plan(t, plan, 0));
    KVR_TRY(kvr_stream_sync(s));
    kvr_stream_forget_marks(s);
    a = kvr_stream_mark(s);
    for (int i = 0; i < QUICK; i++)
        KVR_TRY(by_plan(t, plan, i));
    b = kvr_stream_mark(s);
    KVR_TRY(kvr_stream_sync(s));
    return kvr_stream_elapsed(s, a, b, ns);
}

/* Chooses the fastest cuBLASLt algorithm. */
static enum kvr_status choose(struct kit *t)
{
    int64_t fastest = INT64_MAX;

    for (int i = 0; i < KVR_BLASLT_CHOICES; i++) {
        const struct kvr_blaslt_shape shape = shape_of(t, i);
        struct kvr_blaslt_plan *p = NULL;
        enum kvr_status st = kvr_blaslt_plan(&p, t->lt, &shape);
        int64_t ns = 0;

        if (st == KVR_EUNSUPPORTED)
            break;
        if (st == KVR_OK)
            st = quick(t, p, &ns);
        if (st == KVR_OK && ns < fastest) {
            fastest = ns;
            t->choice = i;
            kvr_blaslt_plan_close(&t->best);
            t->best = p;
            p = NULL;
        }
        kvr_blaslt_plan_close(&p);
        KVR_TRY(st);
    }
    return KVR_OK;
}

/* Opens cuBLASLt. If cuBLASLt is missing or does not support the GEMM, the function writes the
 * reason to t->why and returns KVR_OK. */
static enum kvr_status open_library(struct kit *t)
{
    const struct kvr_blaslt_shape shape = shape_of(t, 0);
    enum kvr_status st = kvr_blaslt_open(&t->lt, kvr_dev_stream(t->dev));

    if (st == KVR_OK)
        st = kvr_blaslt_plan(&t->first, t->lt, &shape);
    if (st == KVR_OK)
        st = choose(t);
    if (st == KVR_OK)
        st = check(t, best, t->c->end == KVR_LINEAR_GELU ? KVR_LINEAR_GELU : KVR_LINEAR_ROUNDED,
                   "cuBLASLt's product");
    if (st != KVR_EUNSUPPORTED)
        return st;
    snprintf(t->why, sizeof t->why, "%s", kvr_error());
    kvr_blaslt_plan_close(&t->best);
    return KVR_OK;
}

/* ---- rows -------------------------------------------------------------------------------- */

static enum kvr_status time_it(struct kit *t, kvr_round_fn *run, kvr_round_fn *reference,
                               int rounds, struct kvr_bench_row *row)
{
    const struct kvr_rounds turns = { .dev = t->dev,
                                      .ctx = t,
                                      .run = run,
                                      .reference = reference,
                                      .rounds = rounds,
                                      .times = kvr_stream_emulated() ? 1 : 8,
                                      .busy = &t->busy };
    const struct call *c = t->c;
    struct kvr_round_times times;

    KVR_TRY(kvr_rounds_run(&turns, &times));
    kvr_rounds_fill(row, &times, 2.0 * c->m * c->k * c->n * c->layers);
    kvr_rounds_judge(t->dev, row);
    return KVR_OK;
}

static void name_row(const struct kit *t, const char *whose, struct kvr_bench_row *row)
{
    *row = (struct kvr_bench_row){ .unit = "GFLOP/s" };
    snprintf(row->name, sizeof row->name, "gemm.%s.%s.%dx%dx%d", whose, t->c->name, t->c->m,
             t->c->k, t->c->layers * t->c->n);
}

/* Times the engine's launch, the fastest cuBLASLt algorithm, and cuBLASLt's first algorithm. */
static enum kvr_status time_call(struct kit *t, int rounds, const struct kvr_bench_sink *sink,
                                 struct kvr_bench_row *rows, int *n_rows)
{
    static const char *const ends[] = { [KVR_LINEAR_ROUNDED] = "cuBLASLt BF16",
                                        [KVR_LINEAR_GELU] = "cuBLASLt BF16 with GELU",
                                        [KVR_LINEAR_ADDED] =
                                            "cuBLASLt BF16 without the residual addition" };
    struct kvr_bench_row *row = &rows[*n_rows];

    KVR_TRY(check(t, forward, t->c->end, row->name));
    KVR_TRY(open_library(t));
    row->reference = ends[t->c->end];
    KVR_TRY(time_it(t, forward, t->best ? best : forward, rounds, row));
    if (!t->best)
        kvr_bench_without(row, t->why);
    kvr_rounds_judge(t->dev, row);
    KVR_TRY(check(t, forward, t->c->end, row->name)); /* checks the timed output */
    kvr_bench_emit(sink, row);
    ++*n_rows;
    if (!t->best)
        return KVR_OK;
    row = &rows[*n_rows];
    name_row(t, "cuBLASLt", row);
    row->reference = "cuBLASLt's first algorithm";
    KVR_TRY(time_it(t, best, first, rounds, row));
    row->blocks = 0;
    kvr_bench_emit(sink, row);
    ++*n_rows;
    return KVR_OK;
}

enum kvr_status kvr_bench_layers_cuda(struct kvr_dev *dev, int rounds,
                                      const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                      int *n_rows)
{
    for (int i = 0; i < N_CALLS; i++) {
        struct kit t = { .dev = dev, .c = kvr_stream_emulated() ? &small[i] : &wan[i] };
        struct kvr_bench_row *row = &rows[*n_rows];
        enum kvr_status st;

        name_row(&t, "forward", row);
        if (!kvr_bench_wanted(sink, row->name))
            continue;
        st = kit_open(&t);
        if (st == KVR_OK)
            st = time_call(&t, rounds, sink, rows, n_rows);
        kit_close(&t);
        KVR_TRY(st);
    }
    return KVR_OK;
}
