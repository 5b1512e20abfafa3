/* cases_gemm.c - linear layers on a device: kvreel's kernels, and cuBLASLt if present.
 *
 * The reference is a sum in float64, whose rounding error is negligible. Let u = 2^-24. An output
 * sums K terms x w; S is the sum of their magnitudes. Error bounds:
 *
 *   F32       K fused products and sums in order, and the bias: (K + 1) u (S + |bias|)
 *   BF16      Products are exact. Tensor cores add groups of 16 in an unspecified order and may
 *             truncate bits below 2^-23 of the largest term, 16 times per group: K 2^-23 S
 *   cuBLASLt  The order of summation is unknown. The bound of BF16 is used for F32, too.
 *
 * If S exceeds the range of F32, the result must be non-finite. */
#include "harness/device/blaslt.h"
#include "harness/engine/linear_cuda.h"
#include "harness/engine/ops_cuda.h"
#include "tests/cuda/both.h"

static const struct {
    int64_t m;
    int n, k;
} shapes[] = {
    { 1, 1, 1 }, { 3, 5, 7 }, { 45, 64, 32 }, { 65, 130, 100 }, { 130, 7, 33 }, { 16, 192, 260 },
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], WORKSPACE = 1 << 20 };

struct job {
    int64_t m;
    int n, k, padded;
    float *x, *w, *bias, *y;
    double *want, *size; /* [m,n]: sums, and sums of magnitudes */
};

static void job_open(struct job *j, int which, enum fill fill)
{
    const struct kvr_block_shape x = { shapes[which].m, 1, shapes[which].k };
    const struct kvr_block_shape w = { shapes[which].n, 1, shapes[which].k };
    const struct kvr_block_shape b = { 1, 1, shapes[which].n };

    *j = (struct job){ .m = x.n_tok, .n = b.head_dim, .k = x.head_dim };
    j->padded = kvr_linear_padded(j->k);
    j->x = floats(elements(&x));
    j->w = floats(elements(&w));
    j->bias = floats(elements(&b));
    j->y = floats((size_t)(j->m * j->n));
    j->want = calloc((size_t)(j->m * j->n), sizeof *j->want);
    j->size = calloc((size_t)(j->m * j->n), sizeof *j->size);
    ck_assert(j->want && j->size);
    fill_block(j->x, &x, fill, 1);
    fill_block(j->w, &w, FILL_NORMAL, 2);
    fill_block(j->bias, &b, FILL_NORMAL, 3);
    for (int64_t i = 0; i < j->m * j->n; i++)
        for (int k = 0; k < j->k; k++) {
            const double p = (double)j->x[i / j->n * j->k + k] * j->w[i % j->n * j->k + k];

            j->want[i] += p;
            j->size[i] += fabs(p);
        }
}

static void job_close(struct job *j)
{
    both_free();
    free(j->x);
    free(j->w);
    free(j->bias);
    free(j->y);
    free(j->want);
    free(j->size);
}

/* Compares y with the reference. The error may be (K + 1) `cut` times the sum of magnitudes. */
static void check(const struct job *j, const float *d_y, bool biased, double cut, const char *what)
{
    both_get(j->y, d_y, (size_t)(j->m * j->n) * sizeof(float), what);
    for (int64_t i = 0; i < j->m * j->n; i++) {
        const double b = biased ? j->bias[i % j->n] : 0, want = j->want[i] + b;
        const double tol = (j->k + 1) * cut * (j->size[i] + fabs(b));

        if (j->size[i] < 3e38 ? !(fabs(j->y[i] - want) <= tol) : isfinite(j->y[i]))
            ck_abort_msg("%s[%lld]: %g, want %g within %g", what, (long long)i, (double)j->y[i],
                         want, tol);
    }
}

/* Copies x to the device as the layers expect it: in BF16, with rows padded by zeros from column
 * k on. */
static kvr_bf16 *padded_bf16(const struct job *j, int64_t rows, const float *x)
{
    kvr_bf16 *p = calloc((size_t)(rows * j->padded), sizeof *p), *d;

    ck_assert_ptr_nonnull(p);
    for (int64_t i = 0; i < rows * j->k; i++)
        p[i / j->k * j->padded + i % j->k] = kvr_f32_to_bf16(x[i]);
    d = both_in(p, (size_t)(rows * j->padded) * sizeof *p);
    free(p);
    return d;
}

START_TEST(products)
{
    const size_t f = sizeof(float);
    struct job j;

    job_open(&j, _i / N_FILLS, (enum fill)(_i % N_FILLS));
    const size_t out = (size_t)(j.m * j.n) * f;
    const float *x = both_in(j.x, (size_t)(j.m * j.k) * f);
    const float *w = both_in(j.w, (size_t)j.n * (size_t)j.k * f);
    const float *bias = both_in(j.bias, (size_t)j.n * f);
    const kvr_bf16 *x16 = padded_bf16(&j, j.m, j.x), *w16 = padded_bf16(&j, j.n, j.w);

    for (int biased = 0; biased < 2; biased++) {
        float *y = both_out(out), *y16 = both_out(out);

        kvr_stream_seed(both_stream, (uint64_t)_i);
        kvr_linear_f32_cuda(both_stream, j.m, j.n, j.k, x, w, biased ? bias : NULL, y);
        check(&j, y, biased, 0x1p-24, "F32");
        kvr_linear_bf16_cuda(both_stream, j.m, j.n, j.padded, x16, w16, biased ? bias : NULL, y16);
        check(&j, y16, biased, 0x1p-23, "BF16");
    }
    job_close(&j);
}
END_TEST

/* A product with a GELU or BF16 epilogue is bit-identical to product, GELU and rounding in separate
 * passes. */
START_TEST(product_and_gelu)
{
    struct job j;

    job_open(&j, _i / N_FILLS, (enum fill)(_i % N_FILLS));
    const int columns = kvr_linear_padded(j.n);
    const size_t out = (size_t)(j.m * j.n) * sizeof(float),
                 rounded = (size_t)(j.m * columns) * sizeof(kvr_bf16);
    const float *bias = both_in(j.bias, (size_t)j.n * sizeof(float));
    const kvr_bf16 *x = padded_bf16(&j, j.m, j.x), *w = padded_bf16(&j, j.n, j.w);
    kvr_bf16 *want = malloc(rounded), *got = malloc(rounded);

    ck_assert(want && got);
    for (int biased = 0; biased < 2; biased++) {
        float *y = both_out(out);
        kvr_bf16 *d_want = both_out(rounded), *d_got = both_out(rounded);

        kvr_linear_bf16_cuda(both_stream, j.m, j.n, j.padded, x, w, biased ? bias : NULL, y);
        kvr_gelu_cuda(both_stream, j.m * j.n, y);
        kvr_linear_round_cuda(both_stream, j.m, j.n, columns, y, d_want);
        kvr_linear_gelu_cuda(both_stream, j.m, j.n, j.padded, x, w, biased ? bias : NULL, d_got);
        both_get(want, d_want, rounded, "one after the other");
        both_get(got, d_got, rounded, "GELU in the product");
        ck_assert_msg(memcmp(want, got, rounded) == 0, "shape %d, fill %d", _i / N_FILLS,
                      _i % N_FILLS);
        kvr_linear_bf16_cuda(both_stream, j.m, j.n, j.padded, x, w, biased ? bias : NULL, y);
        kvr_linear_round_cuda(both_stream, j.m, j.n, j.n, y, d_want);
        kvr_linear_rounded_cuda(both_stream, j.m, j.n, j.padded, x, w, biased ? bias : NULL, d_got);
        both_get(want, d_want, (size_t)(j.m * j.n) * sizeof *want, "rounded after the product");
        both_get(got, d_got, (size_t)(j.m * j.n) * sizeof *got, "rounded in the product");
        ck_assert_msg(memcmp(want, got, (size_t)(j.m * j.n) * sizeof *got) == 0,
                      "rounded: shape %d, fill %d", _i / N_FILLS, _i % N_FILLS);
    }
    free(want);
    free(got);
    job_close(&j);
}
END_TEST

/* Compares bits, except for the sign and payload of NaNs, which depend on the machine. */
static bool same_bf16(const kvr_bf16 *a, const kvr_bf16 *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(kvr_bf16_to_f32(a[i])) && isnan(kvr_bf16_to_f32(b[i]))))
            return false;
    return true;
}

/* kvr_linear_added_cuda() rounds the product to BF16, multiplies it by the gate (if any) and adds
 * it to the output in one FMA, and rounds the sum to BF16. */
START_TEST(product_and_sum)
{
    const bool gated = _i / (N_SHAPES * N_FILLS);
    struct job j;

    job_open(&j, _i / N_FILLS % N_SHAPES, (enum fill)(_i % N_FILLS));
    const int64_t frames = (j.m + 1) / 2, stride = j.n + 3;
    const size_t out = (size_t)(j.m * j.n) * sizeof(kvr_bf16);
    const float *bias = both_in(j.bias, (size_t)j.n * sizeof(float));
    const kvr_bf16 *x = padded_bf16(&j, j.m, j.x), *w = padded_bf16(&j, j.n, j.w);
    kvr_bf16 *before = malloc(out), *want = malloc(out), *got = malloc(out);
    kvr_bf16 *y = both_out(out), *d_got;
    float *gates = floats((size_t)(frames * stride));

    ck_assert(before && want && got);
    kvr_normal(gates, frames * stride, 7, KVR_RNG_TEST, 31, 0, 0);
    for (int64_t i = 0; i < j.m * j.n; i++)
        before[i] = kvr_f32_to_bf16((float)(i % 37) - 18.5f);
    const float *d_gates = both_in(gates, (size_t)(frames * stride) * sizeof *gates);
    const struct kvr_linear_gate gate = { gated ? d_gates : NULL, stride, 2 };

    d_got = both_inout(before, out);
    kvr_linear_rounded_cuda(both_stream, j.m, j.n, j.padded, x, w, bias, y);
    kvr_linear_added_cuda(both_stream, j.m, j.n, j.padded, x, w, bias, &gate, d_got);
    both_get(want, y, out, "the product");
    for (int64_t i = 0; i < j.m * j.n; i++) {
        const float v = kvr_bf16_to_f32(want[i]), sum = kvr_bf16_to_f32(before[i]);
        const float g = gates[i / j.n / 2 * stride + i % j.n];

        want[i] = kvr_f32_to_bf16(gated ? fmaf(v, g, sum) : sum + v);
    }
    both_get(got, d_got, out, "the sum in the product");
    ck_assert_msg(same_bf16(want, got, (size_t)(j.m * j.n)), "shape %d, fill %d",
                  _i / N_FILLS % N_SHAPES, _i % N_FILLS);
    free(before);
    free(want);
    free(got);
    free(gates);
    job_close(&j);
}
END_TEST

/* kvr_linear_round_cuda() gives the bits of kvr_f32_to_bf16, and zeros from column k on. */
START_TEST(rounding)
{
    enum { M = 5, K = 37, ALL = M * 64 };
    const struct kvr_block_shape shape = { M, 1, K };
    float x[M * K];
    kvr_bf16 got[ALL], *out = both_out(sizeof got);

    ck_assert_int_eq(kvr_linear_padded(K), 64);
    fill_block(x, &shape, (enum fill)_i, 4);
    for (int i = 0; i < M * K; i++)
        x[i] *= 1.0f + 0.37f * (float)(i % 11) / 11; /* values that BF16 cannot represent */
    kvr_linear_round_cuda(both_stream, M, K, 64, both_in(x, sizeof x), out);
    both_get(got, out, sizeof got, "rounded");
    for (int i = 0; i < ALL; i++)
        ck_assert_int_eq(got[i], i % 64 < K ? kvr_f32_to_bf16(x[i / 64 * K + i % 64]) : 0);
    kvr_bf16 dense[M * K], again[ALL];

    for (int i = 0; i < M * K; i++) /* NaNs become quiet */
        dense[i] = kvr_f32_to_bf16(x[i]);
    out = both_out(sizeof again);
    kvr_linear_pad_cuda(both_stream, M, K, 64, both_in(dense, sizeof dense), out);
    both_get(again, out, sizeof again, "padded");
    ck_assert_mem_eq(again, got, sizeof again);
    both_free();
}
END_TEST

/* Results are bit-identical for any order of blocks and threads. */
START_TEST(order_does_not_show)
{
    float *first[2] = { NULL, NULL };
    struct job j;

    job_open(&j, 3, FILL_NORMAL);
    const size_t out = (size_t)(j.m * j.n) * sizeof(float);

    for (uint64_t seed = 1; seed <= 3; seed++) {
        const float *x = both_in(j.x, (size_t)(j.m * j.k) * sizeof(float));
        const float *w = both_in(j.w, (size_t)j.n * (size_t)j.k * sizeof(float));
        float *y[2] = { both_out(out), both_out(out) };

        kvr_stream_seed(both_stream, seed);
        kvr_linear_f32_cuda(both_stream, j.m, j.n, j.k, x, w, NULL, y[0]);
        kvr_linear_bf16_cuda(both_stream, j.m, j.n, j.padded, padded_bf16(&j, j.m, j.x),
                             padded_bf16(&j, j.n, j.w), NULL, y[1]);
        for (int i = 0; i < 2; i++) {
            both_get(j.y, y[i], out, "product");
            if (seed == 1) {
                first[i] = floats((size_t)(j.m * j.n));
                memcpy(first[i], j.y, out);
            }
            ck_assert_mem_eq(first[i], j.y, out);
        }
        both_free();
    }
    free(first[0]);
    free(first[1]);
    job_close(&j);
}
END_TEST

/* If cuBLASLt is present, it must agree with the reference. If not, the error states the reason. */
START_TEST(library)
{
    struct kvr_blaslt *lt;
    char words[64];
    struct job j;

    if (kvr_blaslt_open(&lt, both_stream) != KVR_OK) {
        ck_assert_ptr_null(lt);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "cuBLASLt: "));
        ck_assert(kvr_stream_emulated() || kvr_blaslt_find(words, sizeof words) != KVR_OK);
        kvr_blaslt_close(&lt);
        return;
    }
    ck_assert_int_eq(kvr_blaslt_find(words, sizeof words), KVR_OK);
    job_open(&j, _i, FILL_NORMAL);
    const size_t f = sizeof(float), out = (size_t)(j.m * j.n) * f;
    const void *x[2] = { both_in(j.x, (size_t)(j.m * j.k) * f), padded_bf16(&j, j.m, j.x) };
    const void *w[2] = { both_in(j.w, (size_t)j.n * (size_t)j.k * f), padded_bf16(&j, j.n, j.w) };
    const float *bias = both_in(j.bias, (size_t)j.n * f);
    void *workspace = both_out(WORKSPACE);

    for (int which = 0; which < 4; which++) {
        const bool bf16 = which % 2, biased = which / 2;
        const struct kvr_blaslt_shape shape = { .m = j.m,
                                                .n = j.n,
                                                .k = bf16 ? j.padded : j.k,
                                                .bf16 = bf16,
                                                .bias = biased,
                                                .workspace_bytes = WORKSPACE };
        struct kvr_blaslt_plan *p;
        float *y = both_out(out);
        const enum kvr_status st = kvr_blaslt_plan(&p, lt, &shape);

        /* cuBLASLt may refuse odd leading dimensions. */
        if (st == KVR_EUNSUPPORTED)
            continue;
        ck_assert_msg(st == KVR_OK, "%s", kvr_error());
        ck_assert_msg(kvr_blaslt_run(lt, p, x[bf16], w[bf16], bias, y, workspace) == KVR_OK, "%s",
                      kvr_error());
        check(&j, y, biased, 0x1p-23, bf16 ? "cuBLASLt BF16" : "cuBLASLt F32");
        kvr_blaslt_plan_close(&p);
    }
    kvr_blaslt_close(&lt);
    job_close(&j);
}
END_TEST

/* cuBLASLt's GELU, in the tanh form, must agree, too. GELU amplifies the sum's error by at most
 * 1.13. Rounding to BF16 adds at most 2^-8 of the value, and the library's exponential may add
 * 2^-10 of it. */
START_TEST(library_gelu)
{
    const struct kvr_blaslt_shape shape = { .m = 16,
                                            .n = 192,
                                            .k = kvr_linear_padded(shapes[N_SHAPES - 1].k),
                                            .bf16 = true,
                                            .bias = true,
                                            .end = KVR_BLASLT_GELU,
                                            .workspace_bytes = WORKSPACE };
    struct kvr_blaslt_plan *p;
    struct kvr_blaslt *lt;
    struct job j;

    if (kvr_blaslt_open(&lt, both_stream) != KVR_OK)
        return;
    job_open(&j, N_SHAPES - 1, FILL_NORMAL);
    ck_assert(j.m == shape.m && j.n == shape.n);
    const size_t n = (size_t)(j.m * j.n);
    kvr_bf16 *y = both_out(n * sizeof *y), *got = malloc(n * sizeof *got);
    const enum kvr_status st = kvr_blaslt_plan(&p, lt, &shape);

    ck_assert_ptr_nonnull(got);
    ck_assert_msg(st == KVR_OK || st == KVR_EUNSUPPORTED, "%s", kvr_error());
    if (st == KVR_OK) {
        kvr_bf16 bias[192];

        for (int i = 0; i < j.n; i++)
            bias[i] = kvr_f32_to_bf16(j.bias[i]);
        ck_assert_msg(kvr_blaslt_run(lt, p, padded_bf16(&j, j.m, j.x), padded_bf16(&j, j.n, j.w),
                                     both_in(bias, sizeof bias), y, both_out(WORKSPACE)) == KVR_OK,
                      "%s", kvr_error());
        both_get(got, y, n * sizeof *got, "GELU of cuBLASLt");
        for (size_t i = 0; i < n; i++) {
            const double b = (double)kvr_bf16_to_f32(bias[i % (size_t)j.n]);
            const double v = j.want[i] + b, size = j.size[i] + fabs(v);
            const double want =
                0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
            const double tol = (j.k + 1) * 0x1p-23 * 1.13 * size + (0x1p-8 + 0x1p-10) * fabs(want) +
                               0x1p-10 * fmin(fabs(v), 1);

            ck_assert_msg(fabs((double)kvr_bf16_to_f32(got[i]) - want) <= tol,
                          "%zu: GELU of %g: %g, want %g", i, v, (double)kvr_bf16_to_f32(got[i]),
                          want);
        }
    }
    kvr_blaslt_plan_close(&p);
    kvr_blaslt_close(&lt);
    free(got);
    job_close(&j);
}
END_TEST

TCase *cases_gemm(void)
{
    TCase *tc = tcase_create("linear layers");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, products, 0, N_SHAPES * N_FILLS);
    tcase_add_loop_test(tc, product_and_gelu, 0, N_SHAPES * N_FILLS);
    tcase_add_loop_test(tc, product_and_sum, 0, 2 * N_SHAPES * N_FILLS);
    tcase_add_test(tc, library_gelu);
    tcase_add_loop_test(tc, rounding, 0, N_FILLS);
    tcase_add_test(tc, order_does_not_show);
    tcase_add_loop_test(tc, library, 0, N_SHAPES);
    return tc;
}
