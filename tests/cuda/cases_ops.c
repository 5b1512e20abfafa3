/* cases_ops.c - norms, RoPE, elementwise and sampler operations: CPU against CUDA.
 *
 * u = 2^-24 is half an ulp of 1. The backends may differ by the sum of their error bounds:
 *
 *   sums  Of a row's d values, a lane adds d/16 (CPU) or d/256 (CUDA); then lanes are added. The
 *         error is at most e = (d/16 + 16) u times the sum of magnitudes. The error of a mean is
 *         at most e max|x|, and the norm multiplies it by inv = 1 / sqrt(variance + eps). The
 *         relative error of a sum of squares is e, plus the square of the mean's error. Let
 *         X = max|x| inv. The norm is at most 2X, and its error e X + 2X (e + e^2 X^2). The last
 *         products add 4u of their value.
 *   gelu  e^z has an error of at most 4 ulp on either backend, and z of 4 u |z|, where |z| <= 88.
 *         So the relative error of the exponential is (4 + 88 * 4) 2u, and that of
 *         x / (1 + e^z) is not larger.
 *   rope  float64 is rounded to float once: 1 ulp of at most |a| + |b|.
 *   add   CUDA uses FMA. The CPU may instead round the product, which adds one rounding error. */
#include "harness/engine/draw_cuda.h"
#include "harness/engine/noise.h"
#include "harness/engine/linear_cuda.h"
#include "harness/engine/ops_cuda.h"
#include "methods/kernels/rope.h"
#include "tests/cuda/both.h"

static const double u = 0x1p-24;

static const struct kvr_rows row_cases[] = {
    { 1, 1, 1 }, { 3, 7, 2 }, { 5, 33, 2 }, { 9, 192, 4 }, { 4, 1100, 3 },
};
enum { N_ROWS = sizeof row_cases / sizeof row_cases[0] };

/* Returns r->n rows of r->d values, filled by fill_block(). */
static float *filled(const struct kvr_rows *r, enum fill fill, uint32_t seed)
{
    const struct kvr_block_shape shape = { r->n, 1, r->d };
    float *x = floats(elements(&shape));

    fill_block(x, &shape, fill, seed);
    return x;
}

static void near_to(float want, float got, double tol, const char *what, int64_t at)
{
    if (!same(want, got) && !(fabs((double)want - (double)got) <= tol))
        ck_abort_msg("%s[%lld]: %a on the CPU, %a on CUDA, may differ by %g", what, (long long)at,
                     (double)want, (double)got, tol);
}

/* Returns max|x| / sqrt(variance + eps), or with the mean square instead of the variance if
 * !centre. */
static double spread(const float *x, int d, double eps, bool centre)
{
    double mean = 0, square = 0, top = 0;

    for (int i = 0; i < d; i++)
        mean += x[i] / (double)d;
    for (int i = 0; i < d; i++) {
        const double v = x[i] - (centre ? mean : 0);

        square += v * v / d;
        top = fabs((double)x[i]) > top ? fabs((double)x[i]) : top;
    }
    return top / sqrt(square + eps);
}

/* Returns the largest difference between two backends' norms of a row, if each normalized value is
 * multiplied by a factor of magnitude f. */
static double norm_bound(const float *x, int d, bool centre, double f)
{
    const double e = (d / 16 + 16) * u, X = spread(x, d, 1e-6, centre);

    return 2 * f * (e * X + 2 * X * (e + e * e * X * X) + 8 * u * X) + 4 * u * f;
}

static void check_norm(const struct kvr_rows *r, const float *x, const float *want,
                       const float *got, const float *factor, int64_t stride, bool centre,
                       const char *what)
{
    for (int64_t at = 0; at < r->n * r->d; at++) {
        const int64_t n = at / r->d;
        const double f = 1 + fabs((double)factor[n / r->tokens_per_frame * stride + at % r->d]);

        near_to(want[at], got[at], norm_bound(x + n * r->d, r->d, centre, f), what, at);
    }
}

START_TEST(norms)
{
    const struct kvr_rows r = row_cases[_i / N_FILLS];
    const enum fill fill = (enum fill)(_i % N_FILLS);
    const int64_t n = r.n * r.d, stride = 6 * r.d;
    const int64_t frames = (r.n + r.tokens_per_frame - 1) / r.tokens_per_frame;
    const size_t size = (size_t)n * sizeof(float);
    const struct kvr_rows mod_rows = { frames, (int)stride, 1 };
    float *x = filled(&r, fill, 1), *mod = filled(&mod_rows, FILL_NORMAL, 2);
    float *want = floats((size_t)n), *got = floats((size_t)n);
    float *d_x = both_in(x, size), *d_mod = both_in(mod, (size_t)(frames * stride) * sizeof(float));
    float *d_y = both_out(size), *d_z = both_out(size), *d_inout = both_inout(x, size);

    kvr_ops_cpu()->norm_modulate(NULL, &r, x, mod, mod + r.d, stride, 1e-6, want);
    kvr_norm_modulate_cuda(both_stream, &r, d_x, d_mod, d_mod + r.d, stride, 1e-6, d_y);
    both_get(got, d_y, size, "modulated");
    check_norm(&r, x, want, got, mod + r.d, stride, true, "modulated");
    kvr_ops_cpu()->norm_affine(NULL, &r, x, mod, mod + r.d, 1e-6, want);
    kvr_norm_affine_cuda(both_stream, &r, d_x, d_mod, d_mod + r.d, 1e-6, d_z);
    both_get(got, d_z, size, "affine");
    check_norm(&r, x, want, got, mod, 0, true, "affine");
    memcpy(want, x, size);
    kvr_ops_cpu()->rms_norm(NULL, &r, mod, 1e-6, want);
    kvr_rms_norm_cuda(both_stream, &r, d_mod, 1e-6, d_inout);
    both_get(got, d_inout, size, "rms");
    check_norm(&r, x, want, got, mod, 0, false, "rms");
    both_free();
    free(x);
    free(mod);
    free(want);
    free(got);
}
END_TEST

START_TEST(rotary)
{
    enum { N = 7, HEADS = 3, D = 20 };
    const struct kvr_rows r = { N, HEADS * D, 2 };
    const enum fill fill = (enum fill)_i;
    double co[N * D / 2], si[N * D / 2];
    float *x = filled(&r, fill, 3), *want = floats(N * HEADS * D), got[N * HEADS * D], *d_x;

    for (int n = 0; n < N; n++)
        kvr_rope_angles(D, n, 2 * n, 3 * n + 1, co + n * D / 2, si + n * D / 2);
    memcpy(want, x, sizeof got);
    kvr_ops_cpu()->rope(NULL, &r, D, co, si, want);
    d_x = both_inout(x, sizeof got);
    kvr_rope_cuda(both_stream, &r, D, both_in(co, sizeof co), both_in(si, sizeof si), d_x);
    both_get(got, d_x, sizeof got, "rope");
    for (int i = 0; i < N * HEADS * D; i++)
        near_to(want[i], got[i], 2 * u * (fabs((double)x[i]) + fabs((double)x[i ^ 1])), "rope", i);
    both_free();
    free(x);
    free(want);
}
END_TEST

static kvr_bf16 *narrow_of(const float *x, int64_t n)
{
    kvr_bf16 *y = malloc((size_t)n * sizeof *y);

    ck_assert_ptr_nonnull(y);
    for (int64_t i = 0; i < n; i++)
        y[i] = kvr_f32_to_bf16(x[i]);
    return y;
}

static void same_bytes(const void *d_want, const void *d_got, size_t n_bytes, const char *what)
{
    unsigned char *want = malloc(n_bytes), *got = malloc(n_bytes);

    ck_assert(want && got);
    both_get(want, d_want, n_bytes, what);
    both_get(got, d_got, n_bytes, what);
    ck_assert_msg(memcmp(want, got, n_bytes) == 0, "%s", what);
    free(want);
    free(got);
}

/* RMSNorm over all channels and RoPE per head in one pass: bit-identical to separate passes. */
START_TEST(passes_in_one)
{
    enum { N = 7, HEADS = 3, D = 20, WIDTH = HEADS * D, COLUMNS = 64 };
    const struct kvr_rows r = { N, WIDTH, 2 };
    const size_t size = N * WIDTH * sizeof(float), rounded = N * COLUMNS * sizeof(kvr_bf16);
    double co[N * D / 2], si[N * D / 2];
    float *x = filled(&r, (enum fill)_i, 11);
    float mod[WIDTH], *d_x, *d_y, *d_mod;
    const double *d_co, *d_si;
    kvr_bf16 *d_want = both_out(rounded), *d_got = both_out(rounded);

    ck_assert_int_eq(kvr_linear_padded(WIDTH), COLUMNS);
    kvr_normal(mod, WIDTH, 5, KVR_RNG_TEST, 12, 0, 0);
    for (int i = 0; i < N; i++)
        kvr_rope_angles(D, i, 2 * i, 3 * i, co + i * (D / 2), si + i * (D / 2));
    d_mod = both_in(mod, sizeof mod);
    d_co = both_in(co, sizeof co);
    d_si = both_in(si, sizeof si);
    d_x = both_inout(x, size);
    d_y = both_inout(x, size);
    kvr_rms_norm_cuda(both_stream, &r, d_mod, 1e-6, d_x);
    kvr_rope_cuda(both_stream, &r, D, d_co, d_si, d_x);
    kvr_rms_rope_cuda(both_stream, &r, D, d_mod, 1e-6, d_co, d_si, d_y);
    same_bytes(d_x, d_y, size, "norm and rotation");
    d_y = both_inout(x, size);
    kvr_gelu_cuda(both_stream, N * WIDTH, d_y);
    kvr_linear_round_cuda(both_stream, N, WIDTH, COLUMNS, d_y, d_want);
    kvr_gelu_bf16_cuda(both_stream, &r, both_in(x, size), d_got, COLUMNS);
    same_bytes(d_want, d_got, rounded, "GELU");
    both_free();
    free(x);
}
END_TEST

/* Checks a BF16 result against `want`, which is known within `bound` and then rounded to BF16. */
static void near_rounded(float want, kvr_bf16 got, double bound, const char *what, int64_t at)
{
    const float rounded = kvr_bf16_to_f32(kvr_f32_to_bf16(want));

    near_to(rounded, kvr_bf16_to_f32(got),
            bound > 0x1p-9 * fabs((double)want) ? bound + 0x1p-8 * fabs((double)want)
                                                : 0x1p-7 * fabs((double)want),
            what, at);
}

/* Rows of BF16 on the host and on the device, and vectors for norms and modulation. */
enum { BF16_ROWS = 7, BF16_HEADS = 3, BF16_MOST = BF16_HEADS * 24, BF16_COLUMNS = 96 };
struct bf16_rows {
    struct kvr_rows r;
    int head_dim, width, columns;
    float *x; /* the values of `narrow` as F32 */
    kvr_bf16 *narrow, *d_narrow;
    float mod[8 * BF16_MOST], *d_mod;
    size_t dense;
};

static void bf16_rows_open(struct bf16_rows *t, int head_dim, enum fill fill)
{
    t->head_dim = head_dim;
    t->width = BF16_HEADS * head_dim;
    t->columns = kvr_linear_padded(t->width);
    t->r = (struct kvr_rows){ BF16_ROWS, t->width, 2 };
    t->dense = (size_t)(BF16_ROWS * t->width) * sizeof(kvr_bf16);
    t->x = filled(&t->r, fill, 11);
    t->narrow = narrow_of(t->x, BF16_ROWS * t->width);
    t->d_narrow = both_inout(t->narrow, t->dense);
    for (int i = 0; i < BF16_ROWS * t->width; i++)
        t->x[i] = kvr_bf16_to_f32(t->narrow[i]);
    kvr_normal(t->mod, 8 * BF16_MOST, 5, KVR_RNG_TEST, 12, 0, 0);
    t->d_mod = both_in(t->mod, sizeof t->mod);
    ck_assert(t->columns <= BF16_COLUMNS);
}

static void bf16_rows_close(struct bf16_rows *t)
{
    both_free();
    free(t->narrow);
    free(t->x);
}

/* LayerNorm with one vector for all rows (affine), or with one vector per frame (modulated). */
static void check_norm_bf16(struct bf16_rows *t, bool affine)
{
    const struct kvr_residual none = { NULL, NULL, 0 };
    const int64_t stride = affine ? 0 : 2 * t->width;
    const size_t padded = (size_t)(BF16_ROWS * t->columns) * sizeof(kvr_bf16);
    float want[BF16_ROWS * BF16_MOST];
    kvr_bf16 got[BF16_ROWS * BF16_COLUMNS], *d_got = both_out(padded);

    if (affine) {
        kvr_ops_cpu()->norm_affine(NULL, &t->r, t->x, t->mod, t->mod + t->width, 1e-6, want);
        kvr_norm_affine_bf16_cuda(both_stream, &t->r, &none, t->d_narrow, t->d_mod,
                                  t->d_mod + t->width, 1e-6, d_got, t->columns);
    } else {
        kvr_ops_cpu()->norm_modulate(NULL, &t->r, t->x, t->mod + t->width, t->mod, stride, 1e-6,
                                     want);
        kvr_norm_modulate_bf16_cuda(both_stream, &t->r, &none, t->d_narrow, t->d_mod + t->width,
                                    t->d_mod, stride, 1e-6, d_got, t->columns);
    }
    both_get(got, d_got, padded, "norm");
    for (int64_t i = 0; i < BF16_ROWS * t->columns; i++) {
        const int64_t n = i / t->columns, c = i % t->columns;
        const double f = c < t->width ? 1 + fabs((double)t->mod[n / 2 * stride + c]) : 0;

        if (c >= t->width)
            ck_assert_int_eq(got[i], 0);
        else
            near_rounded(want[n * t->width + c], got[i],
                         norm_bound(t->x + n * t->width, t->width, true, f),
                         affine ? "affine" : "modulated", i);
    }
}

/* Applies RMSNorm and RoPE to the same rows as queries and as keys, with different weight
 * vectors. */
static void check_rms_rope_bf16(struct bf16_rows *t)
{
    const int D = t->head_dim, W = t->width;
    kvr_bf16 *d_rotated[2] = { both_out(t->dense), both_out(t->dense) };
    kvr_bf16 got[2][BF16_ROWS * BF16_MOST];
    float want[BF16_ROWS * BF16_MOST];
    double co[BF16_ROWS * 12], si[BF16_ROWS * 12];

    for (int i = 0; i < BF16_ROWS; i++)
        kvr_rope_angles(D, i, 2 * i, 3 * i, co + i * (D / 2), si + i * (D / 2));
    kvr_rms_rope_bf16_cuda(both_stream, &t->r, D, (const float *const[]){ t->d_mod, t->d_mod + W },
                           1e-6, both_in(co, sizeof co), both_in(si, sizeof si),
                           (const kvr_bf16 *const[]){ t->d_narrow, t->d_narrow }, d_rotated);
    both_get(got[0], d_rotated[0], t->dense, "queries");
    both_get(got[1], d_rotated[1], t->dense, "keys");
    for (int k = 0; k < 2; k++) {
        const float *w = t->mod + k * W;

        memcpy(want, t->x, (size_t)(BF16_ROWS * W) * sizeof *want);
        kvr_ops_cpu()->rms_norm(NULL, &t->r, w, 1e-6, want);
        kvr_ops_cpu()->rope(NULL, &t->r, D, co, si, want);
        for (int64_t i = 0; i < BF16_ROWS * W; i++) {
            const double f = 2 + fabs((double)w[i % W]) + fabs((double)w[(i ^ 1) % W]);

            near_rounded(want[i], got[k][i], norm_bound(t->x + i / W * W, W, false, f),
                         k ? "keys" : "queries", i);
        }
    }
}

static void check_rms_bf16(struct bf16_rows *t)
{
    const int W = t->width;
    float want[BF16_ROWS * BF16_MOST];
    kvr_bf16 got[BF16_ROWS * BF16_MOST];

    memcpy(want, t->x, (size_t)(BF16_ROWS * W) * sizeof *want);
    kvr_ops_cpu()->rms_norm(NULL, &t->r, t->mod, 1e-6, want);
    kvr_rms_norm_bf16_cuda(both_stream, &t->r, t->d_mod, 1e-6, t->d_narrow);
    both_get(got, t->d_narrow, t->dense, "RMS norm");
    for (int64_t i = 0; i < BF16_ROWS * W; i++)
        near_rounded(want[i], got[i],
                     norm_bound(t->x + i / W * W, W, false, 1 + fabs((double)t->mod[i % W])),
                     "RMS norm", i);
}

/* Kernels on BF16 rows, which read vectors of eight elements or of two. Results equal the CPU's for
 * the same values, rounded to BF16. Values near a rounding midpoint may differ by one BF16 ulp. */
START_TEST(passes_in_bf16)
{
    static const int head_dims[] = { 20, 24 }; /* 24: rows of 72, a multiple of eight */
    struct bf16_rows t;

    bf16_rows_open(&t, head_dims[_i / N_FILLS], (enum fill)(_i % N_FILLS));
    check_norm_bf16(&t, false);
    check_norm_bf16(&t, true);
    check_rms_rope_bf16(&t);
    check_rms_bf16(&t);
    bf16_rows_close(&t);
}
END_TEST

/* A residual add fused with the following norm is bit-identical to separate passes, and x receives
 * the sum, rounded to BF16. */
START_TEST(sum_and_norm_in_one)
{
    enum { N = 7, MOST = 304, COLUMNS = 320 };
    /* WIDTH is a multiple of eight, for vectors of eight elements, or not, for vectors of two. */
    const int WIDTH = _i / N_FILLS / 4 ? MOST : 300;
    const struct kvr_rows r = { N, WIDTH, 2 };
    const size_t size = (size_t)(N * WIDTH) * sizeof(kvr_bf16);
    const size_t rounded = N * COLUMNS * sizeof(kvr_bf16);
    const bool gated = _i / N_FILLS % 2, affine = _i / N_FILLS / 2 % 2;
    float *x = filled(&r, (enum fill)(_i % N_FILLS), 21), *y = filled(&r, FILL_NORMAL, 22);
    kvr_bf16 *narrow = narrow_of(x, N * WIDTH), *from = narrow_of(y, N * WIDTH);
    float mod[12 * MOST], *d_mod, *d_wide, *d_from;
    kvr_bf16 *d_x = both_inout(narrow, size), *d_sum = both_inout(narrow, size);
    kvr_bf16 *d_want = both_out(rounded), *d_got = both_out(rounded);

    kvr_normal(mod, 12 * MOST, 5, KVR_RNG_TEST, 23, 0, 0);
    d_mod = both_in(mod, sizeof mod);
    const struct kvr_residual none = { NULL, NULL, 0 },
                              before = { both_in(from, size), gated ? d_mod + 2 * WIDTH : NULL,
                                         3 * WIDTH };

    for (int i = 0; i < N * WIDTH; i++) {
        x[i] = kvr_bf16_to_f32(narrow[i]);
        y[i] = kvr_bf16_to_f32(from[i]);
    }
    d_wide = both_inout(x, (size_t)(N * WIDTH) * sizeof *x);
    d_from = both_in(y, (size_t)(N * WIDTH) * sizeof *y);
    kvr_add_cuda(both_stream, &r, d_from, before.gate, before.stride, d_wide);
    kvr_linear_round_cuda(both_stream, N, WIDTH, WIDTH, d_wide, d_want);
    kvr_add_bf16_cuda(both_stream, &r, &before, d_sum);
    same_bytes(d_want, d_sum, size, "sum");
    if (affine) {
        kvr_norm_affine_bf16_cuda(both_stream, &r, &none, d_sum, d_mod, d_mod + WIDTH, 1e-6, d_want,
                                  COLUMNS);
        kvr_norm_affine_bf16_cuda(both_stream, &r, &before, d_x, d_mod, d_mod + WIDTH, 1e-6, d_got,
                                  COLUMNS);
    } else {
        kvr_norm_modulate_bf16_cuda(both_stream, &r, &none, d_sum, d_mod, d_mod + WIDTH, 3 * WIDTH,
                                    1e-6, d_want, COLUMNS);
        kvr_norm_modulate_bf16_cuda(both_stream, &r, &before, d_x, d_mod, d_mod + WIDTH, 3 * WIDTH,
                                    1e-6, d_got, COLUMNS);
    }
    same_bytes(d_want, d_got, rounded, "norm of a sum");
    same_bytes(d_sum, d_x, size, "sum of the norm");
    both_free();
    free(narrow);
    free(from);
    free(x);
    free(y);
}
END_TEST

START_TEST(residual)
{
    const struct kvr_rows r = row_cases[_i / N_FILLS];
    const enum fill fill = (enum fill)(_i % N_FILLS);
    const int64_t n = r.n * r.d, stride = 2 * r.d;
    const int64_t frames = (r.n + r.tokens_per_frame - 1) / r.tokens_per_frame;
    const struct kvr_rows gate_rows = { frames, (int)stride, 1 };
    const size_t size = (size_t)n * sizeof(float);
    float *x = filled(&r, fill, 1), *y = filled(&r, FILL_NORMAL, 2);
    float *gate = filled(&gate_rows, FILL_OFFSET, 3);
    float *want = floats((size_t)n), *got = floats((size_t)n);
    float *d_y = both_in(y, size);

    for (int gated = 0; gated < 2; gated++) {
        float *d_x = both_inout(x, size);
        float *d_gate = both_in(gate, (size_t)(frames * stride) * sizeof(float));

        memcpy(want, x, size);
        kvr_ops_cpu()->add(NULL, &r, y, gated ? gate : NULL, stride, want);
        kvr_add_cuda(both_stream, &r, d_y, gated ? d_gate : NULL, stride, d_x);
        both_get(got, d_x, size, "add");
        for (int64_t i = 0; i < n; i++) {
            const double g = gated ? gate[i / r.d / r.tokens_per_frame * stride + i % r.d] : 0;

            near_to(want[i], got[i], 2 * u * (fabs(y[i] * g) + fabs((double)want[i])) * gated,
                    gated ? "gated" : "added", i);
        }
    }
    both_free();
    free(x);
    free(y);
    free(gate);
    free(want);
    free(got);
}
END_TEST

START_TEST(activations)
{
    const struct kvr_rows r = { 3, 333, 1 };
    const enum fill fill = (enum fill)_i;
    const int64_t n = r.n * r.d;
    const size_t size = (size_t)n * sizeof(float);
    float *x = filled(&r, fill, 8), *want = floats((size_t)n), *got = floats((size_t)n);
    float *d_x, *d_y = both_out(size);

    /* larger values, to reach the tails of the functions */
    if (fill == FILL_NORMAL)
        for (int64_t i = 0; i < n; i++)
            x[i] *= 6;
    d_x = both_inout(x, size);
    kvr_ops_cpu()->silu(NULL, n, x, want);
    kvr_silu_cuda(both_stream, n, d_x, d_y);
    both_get(got, d_y, size, "silu");
    for (int64_t i = 0; i < n; i++)
        near_to(want[i], got[i], 712 * u * fabs((double)want[i]), "silu", i);
    both_get(want, d_y, size, "silu");
    /* The in-place result must be the same. */
    d_y = both_inout(x, size);
    kvr_silu_cuda(both_stream, n, d_y, d_y);
    both_get(got, d_y, size, "silu in place");
    ck_assert_msg(memcmp(want, got, size) == 0, "silu in place differs");
    memcpy(want, x, size);
    kvr_ops_cpu()->gelu(NULL, n, want);
    kvr_gelu_cuda(both_stream, n, d_x);
    both_get(got, d_x, size, "gelu");
    for (int64_t i = 0; i < n; i++)
        near_to(want[i], got[i], 712 * u * fabs((double)want[i]), "gelu", i);
    both_free();
    free(x);
    free(want);
    free(got);
}
END_TEST

START_TEST(patching)
{
    static const struct kvr_patching cases[] = {
        { 2, 3, 8, 12, 2, 2 },
        { 1, 16, 6, 4, 1, 2 },
        { 3, 1, 9, 6, 3, 1 },
    };
    const struct kvr_patching p = cases[_i];
    const int64_t n = (int64_t)p.n_frames * p.channels * p.height * p.width;
    const size_t size = (size_t)n * sizeof(float);
    float *x = floats((size_t)n), *want = floats((size_t)n), *got = floats((size_t)n);
    float *d_x, *d_tokens = both_out(size), *d_frames = both_out(size);

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)i;
    d_x = both_in(x, size);
    kvr_ops_cpu()->patchify(NULL, &p, x, want);
    kvr_patchify_cuda(both_stream, &p, d_x, d_tokens);
    both_get(got, d_tokens, size, "patchify");
    ck_assert_mem_eq(want, got, size);
    kvr_ops_cpu()->unpatchify(NULL, &p, x, want);
    kvr_unpatchify_cuda(both_stream, &p, d_x, d_frames);
    both_get(got, d_frames, size, "unpatchify");
    ck_assert_mem_eq(want, got, size);
    both_free();
    free(x);
    free(want);
    free(got);
}
END_TEST

/* kvr_add_modulation_cuda() computes one addition per element, so results are bit-identical. */
START_TEST(modulating)
{
    enum { F = 3, ROWS = 6, D = 37, N = F * ROWS * D };
    const struct kvr_rows base_rows = { ROWS, D, 1 }, frame_rows = { F, ROWS * D, 1 };
    const enum fill fill = (enum fill)_i;
    float *base = filled(&base_rows, fill, 1), *frames = filled(&frame_rows, FILL_NORMAL, 2);
    float want[N], got[N], *d_base = both_in(base, ROWS * D * sizeof(float));
    float *d_frames = both_in(frames, sizeof want);

    for (int same_rows = 0; same_rows < 2; same_rows++) {
        float *d_out = both_out(sizeof got);

        kvr_ops_cpu()->add_modulation(NULL, F, ROWS, D, base, frames, same_rows, want);
        kvr_add_modulation_cuda(both_stream, F, ROWS, D, d_base, d_frames, same_rows, d_out);
        both_get(got, d_out, sizeof got, "modulation");
        for (int i = 0; i < N; i++)
            ck_assert_msg(same(want[i], got[i]), "[%d]: %a, %a", i, (double)want[i],
                          (double)got[i]);
    }
    both_free();
    free(base);
    free(frames);
}
END_TEST

static void same_floats(const float *want, const float *d_got, int64_t n, const char *what)
{
    float *got = floats((size_t)n);

    both_get(got, d_got, (size_t)n * sizeof *got, what);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(same(want[i], got[i]), "%s[%lld]: %a, %a", what, (long long)i,
                      (double)want[i], (double)got[i]);
    free(got);
}

/* Both backends round products before they are added, so results are bit-identical. */
START_TEST(sampling)
{
    const struct kvr_rows r = { 3, 333, 1 };
    const enum fill fill = (enum fill)_i;
    const int64_t n = r.n * r.d;
    const size_t size = (size_t)n * sizeof(float);
    const float sigma = 0.83333331f;
    float *x = filled(&r, fill, 1), *y = filled(&r, FILL_NORMAL, 2), *want = floats((size_t)n);
    const float *d_x = both_in(x, size), *d_y = both_in(y, size);
    float *d_x0 = both_out(size), *d_next = both_out(size), *d_less = both_out(size);
    float *d_clamped = both_inout(x, size);

    kvr_ops_cpu()->x0_from_flow(NULL, n, x, y, sigma, want);
    kvr_x0_from_flow_cuda(both_stream, n, d_x, d_y, sigma, d_x0);
    same_floats(want, d_x0, n, "x0");
    kvr_ops_cpu()->renoise(NULL, n, x, y, sigma, want);
    kvr_renoise_cuda(both_stream, n, d_x, d_y, sigma, d_next);
    same_floats(want, d_next, n, "renoised");
    for (int terms = 1; terms <= KVR_BLEND_MAX; terms++) {
        struct kvr_blend b = { terms, { 1.7, -0.3, 0.02, -1.1 }, { x, y, x, y } };

        kvr_ops_cpu()->blend(NULL, n, &b, want);
        for (int j = 0; j < KVR_BLEND_MAX; j++)
            b.x[j] = j >= terms ? NULL : j % 2 ? d_y : d_x;
        kvr_blend_cuda(both_stream, n, &b, d_next);
        same_floats(want, d_next, n, "blended");
    }
    /* The output overwrites the terms whose bits are set in `places`. */
    for (unsigned places = 1; places < 1u << KVR_BLEND_MAX; places++) {
        struct kvr_blend b = { KVR_BLEND_MAX, { 1.7, -0.3, 0.02, -1.1 }, { y, y, y, y } };
        float *d_place = both_inout(x, size);

        for (int i = 0; i < KVR_BLEND_MAX; i++)
            b.x[i] = places >> i & 1 ? x : y;
        kvr_ops_cpu()->blend(NULL, n, &b, want);
        for (int i = 0; i < KVR_BLEND_MAX; i++)
            b.x[i] = places >> i & 1 ? d_place : d_y;
        kvr_blend_cuda(both_stream, n, &b, d_place);
        same_floats(want, d_place, n, "blended in place");
    }
    kvr_ops_cpu()->subtract(NULL, n, x, y, want);
    kvr_subtract_cuda(both_stream, n, d_x, d_y, d_less);
    same_floats(want, d_less, n, "difference");
    memcpy(want, x, size);
    kvr_ops_cpu()->clamp(NULL, n, -0.5f, 0.25f, want);
    kvr_clamp_cuda(both_stream, n, -0.5f, 0.25f, d_clamped);
    same_floats(want, d_clamped, n, "clamped");
    both_free();
    free(x);
    free(y);
    free(want);
}
END_TEST

START_TEST(finding_what_is_not_finite)
{
    enum { N = 700 };
    static const float bad[] = { INFINITY, -INFINITY, NAN };
    float x[N];
    int32_t flag, cpu_flag, zero = 0;

    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? 3.402823466e38f : -3.402823466e38f;
    for (int at = -1; at < N; at += 233)
        for (int b = 0; b < 3; b++) {
            int32_t *d_flag = both_inout(&zero, sizeof zero);
            const float before = at < 0 ? 0 : x[at];

            if (at >= 0)
                x[at] = bad[b];
            kvr_ops_cpu()->not_finite(NULL, N, x, &cpu_flag);
            kvr_not_finite_cuda(both_stream, N, both_in(x, sizeof x), d_flag);
            both_get(&flag, d_flag, sizeof flag, "flag");
            ck_assert_int_eq(cpu_flag, at >= 0);
            ck_assert_int_eq(flag, at >= 0);
            if (at >= 0)
                x[at] = before;
            both_free();
        }
}
END_TEST

/* L1 norms: sums of n nonnegative terms in float64. On either backend, the relative error of a sum
 * is at most n 2^-53. */
START_TEST(changes)
{
    static const struct kvr_rows cases[] = { { 1, 1, 1 }, { 1, 255, 1 }, { 70, 1100, 1 } };
    const struct kvr_rows r = cases[_i];
    const int64_t n = r.n * r.d;
    const size_t size = (size_t)n * sizeof(float);
    float *x = filled(&r, FILL_NORMAL, 1), *y = filled(&r, FILL_OFFSET, 2);
    double want[2 * KVR_OPS_L1_PARTS], got[2 * KVR_OPS_L1_PARTS], first[2 * KVR_OPS_L1_PARTS];

    kvr_ops_cpu()->l1(NULL, n, x, y, want);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        double *d_sums = both_out(sizeof got);

        kvr_stream_seed(both_stream, seed);
        kvr_l1_cuda(both_stream, n, both_in(x, size), both_in(y, size), d_sums);
        both_get(got, d_sums, sizeof got, "l1");
        if (seed == 1)
            memcpy(first, got, sizeof first);
        /* identical for any order of blocks */
        ck_assert_mem_eq(first, got, sizeof first);
        both_free();
    }
    for (int part = 0; part < 2; part++) {
        double a = 0, b = 0;

        for (int i = 0; i < KVR_OPS_L1_PARTS; i++) {
            a += want[part * KVR_OPS_L1_PARTS + i];
            b += got[part * KVR_OPS_L1_PARTS + i];
        }
        ck_assert_msg(fabs(a - b) <= 2 * (double)n * 0x1p-53 * a, "%d: %a %a", part, a, b);
    }
    free(x);
    free(y);
}
END_TEST

/* Results are bit-identical for any order of blocks and threads. */
START_TEST(order_does_not_show)
{
    const struct kvr_rows r = { 9, 700, 4 };
    const size_t size = (size_t)(r.n * r.d) * sizeof(float);
    float *x = filled(&r, FILL_NORMAL, 1), *w = filled(&r, FILL_NORMAL, 2);
    float *first = floats((size_t)(r.n * r.d)), *again = floats((size_t)(r.n * r.d));

    for (uint64_t seed = 1; seed <= 4; seed++) {
        float *d_x = both_inout(x, size), *d_y = both_out(size), *d_w = both_in(w, size);

        kvr_stream_seed(both_stream, seed);
        kvr_rms_norm_cuda(both_stream, &r, d_w, 1e-6, d_x);
        kvr_norm_affine_cuda(both_stream, &r, d_x, d_w, d_w + r.d, 1e-6, d_y);
        both_get(seed == 1 ? first : again, d_y, size, "norms");
        if (seed > 1)
            ck_assert_mem_eq(first, again, size);
        both_free();
    }
    free(x);
    free(w);
    free(first);
    free(again);
}
END_TEST

static const struct {
    const char *name;
    int n_dims;
    int64_t shape[3];
} drawn[] = {
    { "blocks.0.ffn.0.weight", 2, { 37, 29 } },
    { "head.head.bias", 1, { 5 } },
    { "norm3.weight", 1, { 70 } }, /* all ones */
    { "blocks.1.modulation", 3, { 1, 6, 33 } },
    { "x.weight", 2, { 1, 1 } },
};
enum { N_DRAWN = sizeof drawn / sizeof drawn[0] };

/* Random weights are bit-identical on every device. */
START_TEST(drawing)
{
    const struct kvr_draw d = kvr_draw_of(drawn[_i].name, drawn[_i].n_dims, drawn[_i].shape);
    const uint64_t seed = 0x123456789abcull;
    int64_t n = 1;
    float *want, *got, *out;

    for (int i = 0; i < drawn[_i].n_dims; i++)
        n *= drawn[_i].shape[i];
    want = floats((size_t)n);
    got = floats((size_t)n);
    kvr_draw_tensor(seed, drawn[_i].name, drawn[_i].n_dims, drawn[_i].shape, want);
    out = both_out((size_t)n * sizeof *out);
    kvr_draw_cuda(both_stream, seed, &d, n, out);
    both_get(got, out, (size_t)n * sizeof *out, drawn[_i].name);
    for (int64_t i = 0; i < n; i++)
        near_to(want[i], got[i], 0, drawn[_i].name, i);
    free(want);
    free(got);
    both_free();
}
END_TEST

/* Initial noise (step -1) and the noise of denoising steps, unperturbed (draw 0) and perturbed. The
 * number of elements per frame is a multiple neither of 4, the numbers per call of Philox, nor of
 * the CTA size. */
static const struct {
    int chunk, step, frame0, n_frames;
    int64_t frame_elems;
    struct kvr_noise noise;
} noises[] = {
    { 0, -1, 0, 3, 1023, { 1, 0, 0 } },
    { 5, -1, 15, 3, 1023, { 0xfedcba9876543210ull, 0, 0 } },
    { 5, 0, 15, 3, 1021, { 0xfedcba9876543210ull, 0, 0x1p-3 } },
    { 5, 2, 15, 3, 1021, { 9, 0, 0 } },
    { 5, -1, 15, 2, 341, { 9, 1, 0x1p-10 } },
    { 5, 2, 15, 2, 341, { 9, KVR_MAX_DRAW, 0x1p-3 } },
    { 1, 1, 3, 1, 1, { 2, 0, 0 } },
};
enum { N_NOISES = sizeof noises / sizeof noises[0] };

/* Noise is bit-identical to the CPU's, because normal_pair.h has no operation whose rounding may
 * differ. */
START_TEST(noise)
{
    const int64_t n = noises[_i].n_frames * noises[_i].frame_elems;
    struct kvr_noise from = noises[_i].noise;
    float *want = floats((size_t)n), *got = floats((size_t)n);
    float *out = both_out((size_t)n * sizeof *out);

    ck_assert_int_eq(kvr_noise_moved(&from, noises[_i].chunk, noises[_i].step, noises[_i].frame0,
                                     noises[_i].n_frames, noises[_i].frame_elems, want),
                     KVR_OK);
    ck_assert_int_eq(kvr_noise_to(both_dev, &from, noises[_i].chunk, noises[_i].step,
                                  noises[_i].frame0, noises[_i].n_frames, noises[_i].frame_elems,
                                  out),
                     KVR_OK);
    ck_assert_int_eq(kvr_dev_sync(both_dev), KVR_OK);
    both_get(got, out, (size_t)n * sizeof *out, "noise");
    ck_assert_mem_eq(want, got, (size_t)n * sizeof *want);
    free(want);
    free(got);
    both_free();
}
END_TEST

TCase *cases_ops(void)
{
    TCase *tc = tcase_create("ops");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, norms, 0, N_ROWS * N_FILLS);
    tcase_add_loop_test(tc, rotary, 0, N_FILLS);
    tcase_add_loop_test(tc, passes_in_one, 0, N_FILLS);
    tcase_add_loop_test(tc, passes_in_bf16, 0, 2 * N_FILLS);
    tcase_add_loop_test(tc, sum_and_norm_in_one, 0, 8 * N_FILLS);
    tcase_add_loop_test(tc, residual, 0, N_ROWS * N_FILLS);
    tcase_add_loop_test(tc, activations, 0, N_FILLS);
    tcase_add_loop_test(tc, patching, 0, 3);
    tcase_add_loop_test(tc, drawing, 0, N_DRAWN);
    tcase_add_loop_test(tc, noise, 0, N_NOISES);
    tcase_add_loop_test(tc, modulating, 0, N_FILLS);
    tcase_add_loop_test(tc, sampling, 0, N_FILLS);
    tcase_add_test(tc, finding_what_is_not_finite);
    tcase_add_loop_test(tc, changes, 0, 3);
    tcase_add_test(tc, order_does_not_show);
    return tc;
}
