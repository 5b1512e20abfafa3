/* bench_gemm.c - see bench_gemm.h. */
#include "harness/bench/bench_gemm.h"

#include <math.h>
#include <stdio.h>

#include "harness/core/clock.h"
#include "harness/core/isa.h"
#include "harness/core/onednn.h"
#include "harness/core/onednn_guard.h"
#include "harness/core/rng.h"
#include "harness/engine/gemm.h"

/* Shapes of linear layers: those of the bundled model, and those of Wan for a third of a chunk. */
static const struct shape {
    int m, k, n;
} shapes[] = { { 108, 192, 192 },
               { 108, 192, 768 },
               { 108, 768, 192 },
               { 1560, 1536, 1536 },
               { 1560, 1536, 8960 } };
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };
_Static_assert(2 * (int)N_SHAPES <= (int)KVR_BENCH_GEMM_ROWS,
               "KVR_BENCH_GEMM_ROWS must allow an F32 and a BF16 row per shape");

struct kit {
    const struct shape *s;
    enum kvr_dtype compute;
    struct kvr_gemm *gemm;
    struct kvr_linear *linear;
    struct kvr_buf x, w, y, reference;
};

static void kit_close(struct kit *t)
{
    kvr_linear_close(&t->linear);
    kvr_gemm_close(&t->gemm);
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->w);
    kvr_buf_free(&t->y);
    kvr_buf_free(&t->reference);
}

static void round_bf16(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}

static enum kvr_status kit_open(struct kit *t, struct kvr_dev *dev)
{
    const size_t m = (size_t)t->s->m, n = (size_t)t->s->n, k = (size_t)t->s->k;

    KVR_TRY(kvr_buf_alloc(&t->x, dev, KVR_MEM_IO, m * k * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->w, dev, KVR_MEM_IO, n * k * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->y, dev, KVR_MEM_IO, m * n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->reference, dev, KVR_MEM_IO, m * n * sizeof(float)));
    kvr_normal(t->x.p, m * k, 1, KVR_RNG_SYNTHETIC, 2, 0, 0);
    kvr_normal(t->w.p, n * k, 1, KVR_RNG_SYNTHETIC, 3, 0, 0);
    /* kvreel's BF16 GEMM rounds its inputs to BF16, but the F32 reference does not. With inputs
     * that are exact in BF16, both multiply the same numbers. */
    if (t->compute == KVR_BF16) {
        round_bf16(t->x.p, m * k);
        round_bf16(t->w.p, n * k);
    }
    KVR_TRY(kvr_gemm_open_as(&t->gemm, dev, t->compute));
    KVR_TRY(kvr_linear_open(&t->linear, t->gemm, t->s->n, t->s->k, t->w.p, NULL));
    return kvr_linear_prepare(t->linear, t->s->m);
}

static enum kvr_status plain(struct kit *t)
{
    return kvr_onednn_done(kvr_dnnl_sgemm('N', 'T', t->s->m, t->s->n, t->s->k, 1, t->x.p, t->s->k,
                                          t->w.p, t->s->k, 0, t->reference.p, t->s->n),
                           "bench", "a matrix product");
}

static enum kvr_status packed(struct kit *t)
{
    const struct kvr_linear *l = t->linear;
    float *y = t->y.p;

    return kvr_linear_run(t->gemm, t->s->m, t->x.p, 1, &l, &y);
}

/* Tolerance: F32 sums of k products of order 1 are of order sqrt(k). Two sums of the same products
 * in different orders differ by about sqrt(k) 2^-24 of their magnitude, so by k 2^-24. The
 * tolerance is 40 times as large. */
static enum kvr_status check(const struct kit *t)
{
    const double tol = 40 * sqrt(t->s->k) * 0x1p-24 * sqrt(t->s->k);
    const float *a = t->y.p, *b = t->reference.p;

    for (int64_t i = 0; i < (int64_t)t->s->m * t->s->n; i++)
        if (!(fabs((double)a[i] - b[i]) <= tol))
            return kvr_fail(KVR_ETOLERANCE,
                            "bench: gemm, m %d, k %d, n %d: element %lld is %g, but oneDNN "
                            "computes %g; a difference of at most %g is allowed",
                            t->s->m, t->s->k, t->s->n, (long long)i, (double)a[i], (double)b[i],
                            tol);
    return KVR_OK;
}

/* Measures the rate in GFLOP/s of one matrix product with evicted CPU caches, and once more
 * immediately afterwards. */
static enum kvr_status time_caches(struct kit *t, double flops, double *cold, double *warm)
{
    KVR_TRY(kvr_bench_evict_all());
    for (int i = 0; i < 2; i++) {
        const int64_t t0 = kvr_now_ns();

        KVR_TRY(packed(t));
        *(i ? warm : cold) = flops / (double)(kvr_now_ns() - t0);
    }
    return KVR_OK;
}

static enum kvr_status time_shape(struct kit *t, int rounds, struct kvr_bench_row *row)
{
    const double flops = 2.0 * t->s->m * t->s->k * t->s->n;
    /* Each time measurement of a small layer covers several runs, 1e8 FLOP in all. */
    const int times = flops < 1e8 ? (int)(1e8 / flops) : 1;
    double v[KVR_BENCH_MAX_ROUNDS], ratio[KVR_BENCH_MAX_ROUNDS];
    double cold[KVR_BENCH_CACHE_ROUNDS], warm[KVR_BENCH_CACHE_ROUNDS];
    bool last = false;
    int n = 0;

    KVR_TRY(plain(t)); /* warm-up */
    KVR_TRY(packed(t));
    for (; !last; n++) {
        int64_t t0, reference;

        last = kvr_bench_last(ratio, n, rounds);
        kvr_bench_rotate_rows(t->x.p, (size_t)t->s->m * (size_t)t->s->k * sizeof(float),
                              /* each round multiplies the rows in another order */
                              (size_t)t->s->k * sizeof(float));
        t0 = kvr_now_ns();
        for (int r = 0; r < times; r++)
            KVR_TRY(plain(t));
        reference = kvr_now_ns() - t0;
        t0 = kvr_now_ns();
        for (int r = 0; r < times; r++)
            KVR_TRY(packed(t));
        t0 = kvr_now_ns() - t0;
        v[n] = times * flops / (double)t0;
        ratio[n] = (double)reference / (double)t0;
        if (n < kvr_bench_cache_rounds(rounds))
            KVR_TRY(time_caches(t, flops, &cold[n], &warm[n]));
    }
    *row = (struct kvr_bench_row){ .device = "cpu", .unit = "GFLOP/s", .reference = "dnnl_sgemm" };
    snprintf(row->name, sizeof row->name, "gemm.%s%dx%dx%d", t->compute == KVR_BF16 ? "bf16." : "",
             t->s->m, t->s->k, t->s->n);
    kvr_bench_fill(row, v, ratio, n);
    kvr_bench_fill_caches(row, cold, warm, kvr_bench_cache_rounds(rounds));
    return KVR_OK;
}

enum kvr_status kvr_bench_gemm(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                               int *n_rows)
{
    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds,
                        KVR_BENCH_MAX_ROUNDS);
    *n_rows = 0;
    for (int i = 0; i < (int)N_SHAPES * (kvr_isa_has_tiles() ? 2 : 1); i++) {
        struct kit t = { .s = &shapes[i % (int)N_SHAPES],
                         .compute = i < (int)N_SHAPES ? KVR_F32 : KVR_BF16 };
        enum kvr_status st = kit_open(&t, dev);

        if (st == KVR_OK)
            st = time_shape(&t, rounds, &rows[(*n_rows)++]);
        if (st == KVR_OK) /* checks the result of the last timed round */
            st = check(&t);
        kit_close(&t);
        KVR_TRY(st);
    }
    return KVR_OK;
}
