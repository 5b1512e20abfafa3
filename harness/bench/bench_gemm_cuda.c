/* bench_gemm_cuda.c - times kvreel's GEMM kernels for linear layers, against cuBLASLt. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_gemm.h"
#include "harness/bench/rounds_cuda.h"
#include "harness/device/stream.h"
#include "harness/engine/gemm.h"
#include "harness/engine/linear_cuda.h"

/* GEMM shapes of a chunk in Wan's linear layers: attention, feed-forward network up and down. */
static const struct shape {
    int m, k, n;
} wan[] = { { 4680, 1536, 1536 }, { 4680, 1536, 8960 }, { 4680, 8960, 1536 } },
  small[] = { { 40, 96, 64 }, { 33, 50, 24 }, { 7, 64, 130 } };
enum { N_SHAPES = 3, MAX_BUFFERS = 4, N_SAMPLES = 256 };
_Static_assert((int)N_SHAPES + 2 * (int)KVR_BENCH_LAYER_CALLS <= (int)KVR_BENCH_GEMM_ROWS,
               "KVR_BENCH_GEMM_ROWS must allow a row per shape and layer call");

struct kit {
    struct kvr_dev *dev;
    struct shape s;
    int padded, n_buffers;
    struct kvr_buf x, y;             /* float [n_buffers][m,k], [n_buffers][m,n] */
    struct kvr_buf rounded, w;       /* BF16 [m,padded], [n,padded] */
    struct kvr_buf busy;             /* memory of the filler work (rounds_cuda.h) */
    float *host_x, *host_w, *host_y; /* exact in BF16 */
    struct kvr_gemm *gemm;
    struct kvr_linear *linear;
};

static void kit_close(struct kit *t)
{
    kvr_linear_close(&t->linear);
    kvr_gemm_close(&t->gemm);
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->y);
    kvr_buf_free(&t->rounded);
    kvr_buf_free(&t->w);
    kvr_buf_free(&t->busy);
    free(t->host_x);
    free(t->host_w);
    free(t->host_y);
}

/* Copies the weights W [n,k] to the device for kvreel's kernel, in BF16. Zeros pad each row to
 * t->padded elements. */
static enum kvr_status put_weights(struct kit *t)
{
    const size_t padded = (size_t)t->padded, k = (size_t)t->s.k, n = (size_t)t->s.n;
    kvr_bf16 *w = calloc(n * padded, sizeof *w);
    enum kvr_status st;

    if (!w)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    for (size_t i = 0; i < n; i++)
        kvr_from_f32(w + i * padded, KVR_BF16, t->host_w + i * k, k);
    st = kvr_dev_put(t->dev, t->w.p, w, n * padded * sizeof *w);
    free(w);
    return st;
}

static enum kvr_status kit_open(struct kit *t)
{
    const size_t m = (size_t)t->s.m, k = (size_t)t->s.k, n = (size_t)t->s.n;
    const size_t x = m * k * sizeof(float), y = m * n * sizeof(float);

    t->padded = kvr_linear_padded(t->s.k);
    KVR_TRY(kvr_rounds_buffers(t->dev, x + y, MAX_BUFFERS, &t->n_buffers));
    KVR_TRY(kvr_rounds_draw_bf16(&t->host_x, m * k, 2));
    KVR_TRY(kvr_rounds_draw_bf16(&t->host_w, n * k, 3));
    KVR_TRY(kvr_rounds_draw_bf16(&t->host_y, m * n, 4));
    KVR_TRY(kvr_buf_alloc(&t->x, t->dev, KVR_MEM_IO, x * (size_t)t->n_buffers));
    KVR_TRY(kvr_buf_alloc(&t->y, t->dev, KVR_MEM_IO, y * (size_t)t->n_buffers));
    KVR_TRY(kvr_buf_alloc(&t->rounded, t->dev, KVR_MEM_SCRATCH,
                          m * (size_t)t->padded * sizeof(kvr_bf16)));
    KVR_TRY(
        kvr_buf_alloc(&t->w, t->dev, KVR_MEM_WEIGHTS, n * (size_t)t->padded * sizeof(kvr_bf16)));
    KVR_TRY(kvr_buf_alloc(&t->busy, t->dev, KVR_MEM_SCRATCH,
                          kvr_stream_emulated() ? 64 : (size_t)1 << 30));
    /* Each buffer of x receives the same rows in another order. At the end, host_x equals the first
     * buffer, which verify() checks. */
    for (int i = t->n_buffers - 1; i >= 0; i--) {
        kvr_bench_rotate_rows(t->host_x, x, k * sizeof(float));
        KVR_TRY(kvr_dev_put(t->dev, (char *)t->x.p + x * (size_t)i, t->host_x, x));
    }
    KVR_TRY(put_weights(t));
    KVR_TRY(kvr_gemm_open_as(&t->gemm, t->dev, KVR_BF16));
    KVR_TRY(kvr_linear_open(&t->linear, t->gemm, t->s.n, t->s.k, t->host_w, NULL));
    return kvr_linear_prepare(t->linear, t->s.m);
}

static const float *input(const struct kit *t, int iter)
{
    return (const float *)t->x.p + (size_t)(iter % t->n_buffers) * (size_t)t->s.m * (size_t)t->s.k;
}

static float *output(const struct kit *t, int iter)
{
    return (float *)t->y.p + (size_t)(iter % t->n_buffers) * (size_t)t->s.m * (size_t)t->s.n;
}

/* Runs kvreel's kernel. The measured times of kvreel's kernel and of the reference, run_library(),
 * both include rounding x to BF16. */
static enum kvr_status run_own(void *ctx, int iter)
{
    const struct kit *t = ctx;
    struct kvr_stream *s = kvr_dev_stream(t->dev);

    kvr_linear_round_cuda(s, t->s.m, t->s.k, t->padded, input(t, iter), t->rounded.p);
    kvr_linear_bf16_cuda(s, t->s.m, t->s.n, t->padded, t->rounded.p, t->w.p, NULL, output(t, iter));
    return KVR_OK;
}

static enum kvr_status run_library(void *ctx, int iter)
{
    const struct kit *t = ctx;
    const struct kvr_linear *l = t->linear;
    float *y = output(t, iter);

    return kvr_linear_run(t->gemm, t->s.m, input(t, iter), 1, &l, &y);
}

/* Compares samples of y with sums in double. Products of BF16 numbers are exact in F32. Tensor
 * cores add 16 products at a time and truncate each of the k / 16 + 1 partial sums, which loses up
 * to 2^-23 of it. Partial sums are assumed to be at most 4 sqrt(k), four standard deviations of a
 * sum of k products. */
static enum kvr_status verify(struct kit *t, const char *name)
{
    const double terms = (double)t->s.k, tol = (terms / 16 + 1) * 4 * sqrt(terms) * 0x1p-23;
    const size_t all = (size_t)t->s.m * (size_t)t->s.n, k = (size_t)t->s.k;

    KVR_TRY(kvr_dev_sync(t->dev));
    KVR_TRY(kvr_dev_get(t->dev, t->host_y, output(t, 0), all * sizeof(float)));
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const size_t at = i * (all - 1) / (N_SAMPLES - 1);
        const float *x = t->host_x + at / (size_t)t->s.n * k,
                    *w = t->host_w + at % (size_t)t->s.n * k;
        double sum = 0;

        for (size_t j = 0; j < k; j++)
            sum += (double)x[j] * (double)w[j];
        if (!(fabs(sum - (double)t->host_y[at]) <= tol))
            return kvr_fail(KVR_ETOLERANCE,
                            "bench: %s, m %d, k %d, n %d: element %zu is %g, but %g was expected; "
                            "a difference of at most %g is allowed",
                            name, t->s.m, t->s.k, t->s.n, at, (double)t->host_y[at], sum, tol);
    }
    return KVR_OK;
}

static enum kvr_status check(struct kit *t, kvr_round_fn *run, const char *name)
{
    KVR_TRY(run(t, 0));
    return verify(t, name);
}

static enum kvr_status time_shape(struct kit *t, int rounds, struct kvr_bench_row *row)
{
    const struct kvr_rounds turns = { .dev = t->dev,
                                      .ctx = t,
                                      .run = run_own,
                                      .reference = run_library,
                                      .rounds = rounds,
                                      .times = kvr_stream_emulated() ? 1 : 8,
                                      .busy = &t->busy };
    const double flops = 2.0 * t->s.m * t->s.k * t->s.n;
    struct kvr_round_times times;

    KVR_TRY(kvr_rounds_run(&turns, &times));
    kvr_rounds_fill(row, &times, flops);
    if (strncmp(kvr_gemm_library(t->gemm), "cuBLASLt", 8) != 0)
        kvr_bench_without(row, kvr_gemm_library(t->gemm));
    kvr_rounds_judge(t->dev, row);
    return KVR_OK;
}

enum kvr_status kvr_bench_gemm_cuda(struct kvr_dev *dev, int rounds,
                                    const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                    int *n_rows)
{
    *n_rows = 0;
    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds,
                        KVR_BENCH_MAX_ROUNDS);
    KVR_TRY(kvr_bench_layers_cuda(dev, rounds, sink, rows, n_rows));
    for (int i = 0; i < (int)N_SHAPES; i++) {
        struct kit t = { .dev = dev, .s = kvr_stream_emulated() ? small[i] : wan[i] };
        struct kvr_bench_row *row = &rows[*n_rows];
        enum kvr_status st;

        *row = (struct kvr_bench_row){ .unit = "GFLOP/s", .reference = "cuBLASLt BF16" };
        snprintf(row->name, sizeof row->name, "gemm.own.BF16.%dx%dx%d", t.s.m, t.s.k, t.s.n);
        if (!kvr_bench_wanted(sink, row->name))
            continue;
        st = kit_open(&t);
        if (st == KVR_OK)
            st = check(&t, run_library, "reference GEMM");
        if (st == KVR_OK)
            st = check(&t, run_own, row->name);
        if (st == KVR_OK)
            st = time_shape(&t, rounds, row);
        if (st == KVR_OK) /* checks the output of the timed launches */
            st = verify(&t, row->name);
        kit_close(&t);
        KVR_TRY(st);
        kvr_bench_emit(sink, row);
        ++*n_rows;
    }
    return KVR_OK;
}
