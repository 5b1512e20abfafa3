/* test_ops.c - compares each small operation and the linear layer with its formula in double
 * precision. Sizes are no multiple of a vector or block, and some inputs are NaN. */
#include "harness/engine/ops.h"
#include "harness/engine/ops_cross_bf16.h"

#include <check.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/onednn.h"
#include "harness/core/rng.h"
#include "harness/engine/gemm.h"
#include "methods/kernels/rope.h"
#include "tests/suite.h"

/* Tolerance for outputs of size 1 to 4. A row's mean or norm is a float32 sum of d <= 1100 products
 * in vector lanes; its rounding errors partly cancel to about 1e-6. Each later operation adds a
 * relative rounding error of 6e-8. */
static const double tol = 5e-6;

static float *fresh(int64_t n, uint32_t stream)
{
    float *x = malloc((size_t)n * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, (size_t)n, 7, KVR_RNG_TEST, stream, 0, 0);
    return x;
}

static void near_to(double have, double want, double tolerance, const char *what, int64_t at)
{
    ck_assert_msg(fabs(have - want) <= tolerance, "%s[%lld]: %.9g, want %.9g", what, (long long)at,
                  have, want);
}

struct size {
    int64_t n;
    int d, per_frame;
};
static const struct size sizes[] = { { 1, 1, 1 },      { 3, 7, 1 },      { 5, 16, 2 },
                                     { 7, 33, 3 },     { 108, 192, 36 }, { 45, 257, 15 },
                                     { 130, 1100, 44 } };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static struct kvr_rows rows_of(int i)
{
    return (struct kvr_rows){ sizes[i].n, sizes[i].d, sizes[i].per_frame };
}

static int64_t frames_of(int i)
{
    return (sizes[i].n + sizes[i].per_frame - 1) / sizes[i].per_frame;
}

static void moments(const float *x, int d, double eps, double *mean, double *inv)
{
    double sum = 0, square = 0;

    for (int i = 0; i < d; i++)
        sum += x[i];
    *mean = sum / d;
    for (int i = 0; i < d; i++)
        square += (x[i] - *mean) * (x[i] - *mean);
    *inv = 1 / sqrt(square / d + eps);
}

START_TEST(layer_norm)
{
    const struct kvr_rows r = rows_of(_i);
    const int64_t stride = 6 * r.d, frames = frames_of(_i);
    float *x = fresh(r.n * r.d, 1), *mod = fresh(frames * stride, 2), *w = fresh(r.d, 3);
    float *b = fresh(r.d, 4), *y = malloc((size_t)(r.n * r.d) * 2 * sizeof *y), *z = y + r.n * r.d;
    const double eps = 1e-6;

    kvr_ops_cpu()->norm_modulate(NULL, &r, x, mod, mod + r.d, stride, eps, y);
    kvr_ops_cpu()->norm_affine(NULL, &r, x, w, b, eps, z);
    for (int64_t n = 0; n < r.n; n++) {
        const float *m = mod + n / r.tokens_per_frame * stride;
        double mean, inv;

        moments(x + n * r.d, r.d, eps, &mean, &inv);
        /* A row of one value has variance 0. The factor 1/sqrt(eps) is then large, but x - mean is
         * 0, so the normalized value is 0. */
        for (int i = 0; i < r.d; i++) {
            int64_t at = n * r.d + i;
            double norm = (x[at] - mean) * inv;

            near_to(y[at], norm * (1 + (double)m[r.d + i]) + m[i], 4 * tol, "modulated", at);
            near_to(z[at], norm * w[i] + b[i], 4 * tol, "affine", at);
        }
    }
    x[0] = NAN; /* row 0 becomes NaN, the other rows do not change */
    float kept = r.n > 1 ? y[r.d] : 0;
    kvr_ops_cpu()->norm_modulate(NULL, &r, x, mod, mod + r.d, stride, eps, y);
    ck_assert(isnan(y[0]) && isnan(y[r.d - 1]));
    ck_assert(r.n == 1 || y[r.d] == kept);
    free(x);
    free(mod);
    free(w);
    free(b);
    free(y);
}
END_TEST

START_TEST(rms_norm)
{
    const struct kvr_rows r = rows_of(_i);
    float *x = fresh(r.n * r.d, 1), *w = fresh(r.d, 2), *y = fresh(r.n * r.d, 1);

    kvr_ops_cpu()->rms_norm(NULL, &r, w, 1e-6, y);
    for (int64_t n = 0; n < r.n; n++) {
        double square = 0;

        for (int i = 0; i < r.d; i++)
            square += (double)x[n * r.d + i] * x[n * r.d + i];
        for (int i = 0; i < r.d; i++)
            near_to(y[n * r.d + i], x[n * r.d + i] / sqrt(square / r.d + 1e-6) * w[i], 2 * tol,
                    "rms", n * r.d + i);
    }
    y[r.d - 1] = NAN;
    kvr_ops_cpu()->rms_norm(NULL, &r, w, 1e-6, y);
    ck_assert(isnan(y[0]));
    free(x);
    free(w);
    free(y);
}
END_TEST

START_TEST(gated_add)
{
    const struct kvr_rows r = rows_of(_i);
    float *x = fresh(r.n * r.d, 1), *y = fresh(r.n * r.d, 2), *z = fresh(r.n * r.d, 1);
    float *g = fresh(frames_of(_i) * 3 * r.d, 3), *plain = fresh(r.n * r.d, 1);

    kvr_ops_cpu()->add(NULL, &r, y, g, 3 * r.d, z);
    kvr_ops_cpu()->add(NULL, &r, y, NULL, 0, plain);
    for (int64_t at = 0; at < r.n * r.d; at++) {
        int64_t frame = at / r.d / r.tokens_per_frame;

        near_to(z[at], x[at] + (double)y[at] * g[frame * 3 * r.d + at % r.d], tol, "gated", at);
        near_to(plain[at], (double)x[at] + y[at], tol, "added", at);
    }
    free(x);
    free(y);
    free(z);
    free(g);
    free(plain);
}
END_TEST

/* The computed e^x has a relative error of at most 2 ulp (2.4e-7), and the division adds 1 ulp. The
 * absolute tolerance of 1e-30 covers results that underflow to 0 in float32. */
START_TEST(activations)
{
    enum { N = 20011 };
    static float x[N], g[N], s[N];

    for (int i = 0; i < N; i++)
        x[i] = ((float)i - N / 2) / 400; /* -25 .. 25 */
    x[0] = -300;
    x[1] = 300;
    x[2] = -0.0f;
    x[3] = NAN;
    memcpy(g, x, sizeof g);
    kvr_ops_cpu()->gelu(NULL, N, g);
    kvr_ops_cpu()->silu(NULL, N, x, s);
    for (int i = 0; i < N; i++) {
        double u = x[i], z = sqrt(2 / M_PI) * (u + 0.044715 * u * u * u);
        /* GELU is 0.5 u (1 + tanh z). The quotient below equals it, but does not lose digits by
         * cancellation for negative z. */
        double gelu = u / (1 + exp(-2 * z)), silu = u / (1 + exp(-u));

        if (i == 3) {
            ck_assert(isnan(g[i]) && isnan(s[i]));
            continue;
        }
        /* Without FMA, six values are rounded to float32: two constants, u u, b u u, the sum and
         * the product. Each rounding changes 2z by up to 6e-8 |2z|, so e^(-2z) has an additional
         * relative error of up to 12 * 6e-8 |z| = 7.2e-7 |z|. */
        near_to(g[i], gelu, 1e-30 + fabs(gelu) * (6e-7 + 7.2e-7 * fabs(z)), "gelu", i);
        near_to(s[i], silu, 1e-30 + fabs(silu) * 6e-7, "silu", i);
        if (fabs(u) < 3) /* also compares with the tanh formula */
            near_to(g[i], 0.5 * u * (1 + tanh(z)), 1e-6, "gelu", i);
    }
}
END_TEST

START_TEST(sinusoid)
{
    float out[64];

    kvr_time_sinusoid(937.5f, 64, out);
    for (int k = 0; k < 32; k++) {
        double angle = 937.5 / pow(10000, k / 32.0);

        near_to(out[k], cos(angle), 1e-7, "cosines first", k);
        near_to(out[32 + k], sin(angle), 1e-7, "sines", k);
    }
    kvr_time_sinusoid(0, 6, out);
    for (int k = 0; k < 6; k++)
        ck_assert(out[k] == (k < 3 ? 1.0f : 0.0f));
}
END_TEST

/* Rotary position embedding of adjacent pairs. Of the D / 2 pairs of a head, height and width get
 * floor(D / 6) each, and time gets the rest. The first pair of each axis rotates by 1 radian per
 * position. */
START_TEST(rotary)
{
    static const int dims[] = { 2, 6, 16, 64, 128 };
    const int D = dims[_i], c = D / 2, g = c / 3, heads = 3;
    const struct kvr_rows r = { 5, heads * D, 1 };
    float *x = fresh(r.n * r.d, 1), *y = fresh(r.n * r.d, 1);
    double *co = malloc((size_t)(r.n * c) * sizeof *co),
           *si = malloc((size_t)(r.n * c) * sizeof *si);

    for (int n = 0; n < r.n; n++)
        kvr_rope_angles(D, 40 + n, n % 2, 3 * n, co + n * c, si + n * c);
    kvr_ops_cpu()->rope(NULL, &r, D, co, si, y);
    for (int n = 0; n < r.n; n++)
        for (int h = 0; h < heads; h++)
            for (int p = 0; p < c; p++) {
                int n_time = c - 2 * g;
                int axis = p < n_time ? 0 : p < n_time + g ? 1 : 2;
                int k = axis == 0 ? p : axis == 1 ? p - n_time : p - n_time - g;
                double pos = axis == 0 ? 40 + n : axis == 1 ? n % 2 : 3 * n;
                double angle = pos * pow(10000, -(double)k / (axis == 0 ? n_time : g));
                int64_t at = (int64_t)n * r.d + h * D + 2 * p;
                double a = x[at], b = x[at + 1];

                /* kvreel rotates in float64 and rounds the result to float32 */
                near_to(y[at], a * cos(angle) - b * sin(angle), 5e-7, "even", at);
                near_to(y[at + 1], a * sin(angle) + b * cos(angle), 5e-7, "odd", at);
            }
    free(x);
    free(y);
    free(co);
    free(si);
}
END_TEST

START_TEST(patches)
{
    const struct kvr_patching p = { 2, 3, 6, 8, 2, 4 };
    const int gh = 3, gw = 2, per = 3 * 2 * 4;
    const int64_t n = 2 * 3 * 6 * 8;
    float *x = fresh(n, 1), *cut = malloc((size_t)n * sizeof *cut), *y = fresh(n, 2);
    float *out = malloc((size_t)n * sizeof *out);

    kvr_ops_cpu()->patchify(NULL, &p, x, cut);
    kvr_ops_cpu()->unpatchify(NULL, &p, y, out);
    for (int f = 0; f < 2; f++)
        for (int c = 0; c < 3; c++)
            for (int row = 0; row < 6; row++)
                for (int col = 0; col < 8; col++) {
                    int token = (f * gh + row / 2) * gw + col / 4, a = row % 2, b = col % 4;
                    float pixel = x[((f * 3 + c) * 6 + row) * 8 + col];

                    ck_assert(cut[token * per + (c * 2 + a) * 4 + b] == pixel);
                    ck_assert(out[((f * 3 + c) * 6 + row) * 8 + col] ==
                              y[token * per + (a * 4 + b) * 3 + c]);
                }
    free(x);
    free(cut);
    free(y);
    free(out);
}
END_TEST

struct cross_case {
    int64_t n;
    int keys, heads, D;
};
static const struct cross_case cross_cases[] = {
    { 1, 1, 1, 2 }, { 9, 5, 2, 10 }, { 108, 16, 3, 64 }, { 45, 17, 2, 128 }, { 13, 512, 1, 48 }
};
enum { N_CROSS = sizeof cross_cases / sizeof *cross_cases };

static void cross_definition(const struct cross_case *c, const float *q, const float *k,
                             const float *v, int64_t n, int h, double *out)
{
    const int d = c->heads * c->D;
    double p[512], top = -INFINITY, sum = 0;

    for (int j = 0; j < c->keys; j++) {
        p[j] = 0;
        for (int i = 0; i < c->D; i++)
            p[j] += (double)q[n * d + h * c->D + i] * k[j * d + h * c->D + i];
        p[j] /= sqrt(c->D);
        top = fmax(top, p[j]);
    }
    for (int j = 0; j < c->keys; j++)
        sum += p[j] = exp(p[j] - top);
    for (int i = 0; i < c->D; i++) {
        out[i] = 0;
        for (int j = 0; j < c->keys; j++)
            out[i] += p[j] / sum * v[j * d + h * c->D + i];
    }
}

START_TEST(cross_attention)
{
    const struct cross_case *c = &cross_cases[_i];
    const struct kvr_rows r = { c->n, c->heads * c->D, 1 };
    float *q = fresh(r.n * r.d, 1), *k = fresh((int64_t)c->keys * r.d, 2);
    float *v = fresh((int64_t)c->keys * r.d, 3), *out = fresh(r.n * r.d + 1, 4);
    struct kvr_cross cross = { c->keys, c->heads, c->D, NULL, NULL, KVR_F32 };
    const float guard = out[r.n * r.d];
    double want[128];

    cross.k = fresh(kvr_cross_k_floats(c->keys, c->heads, c->D), 5);
    cross.v = fresh(kvr_cross_v_floats(c->keys, c->heads, c->D), 6);
    kvr_ops_cpu()->cross_pack(NULL, &cross, k, v);
    kvr_ops_cpu()->cross_attend(NULL, &r, &cross, NULL, q, out);
    for (int64_t n = 0; n < c->n; n++)
        for (int h = 0; h < c->heads; h++) {
            cross_definition(c, q, k, v, n, h, want);
            for (int i = 0; i < c->D; i++)
                near_to(out[n * r.d + h * c->D + i], want[i], tol, "attended", n);
        }
    ck_assert(out[r.n * r.d] == guard);
    q[0] = NAN;
    kvr_ops_cpu()->cross_attend(NULL, &r, &cross, NULL, q, out);
    ck_assert(isnan(out[0]) && isnan(out[c->D - 1]));
    ck_assert(c->n == 1 || !isnan(out[r.d]));
    ck_assert(c->heads == 1 || !isnan(out[c->D])); /* other heads of the token do not change */
    free(q);
    free(k);
    free(v);
    free(out);
    free(cross.k);
    free(cross.v);
}
END_TEST

/* Largest error of a query's output in one head, in units of the bound stated in attend_bf16.h. */
static double bf16_error(const struct cross_case *c, const float *q, const float *k, const float *v,
                         const float *got, int64_t n, int h)
{
    const int d = c->heads * c->D;
    const double u = 0x1p-8, e = 0x1p-24, w = 8e-6 + 1.2e-7 * 88;
    double delta = 0, grow, worst = 0, want[128], size[128];
    float magnitude[512 * 256];

    for (int j = 0; j < c->keys; j++) {
        double sum = 0;

        for (int i = 0; i < c->D; i++)
            sum += fabs((double)q[n * d + h * c->D + i] * k[j * d + h * c->D + i]) / sqrt(c->D);
        delta = fmax(delta, ((1 + u) * (1 + u) - 1 + (c->D + 2) * e) * sum);
    }
    for (int j = 0; j < c->keys * d; j++)
        magnitude[j] = fabsf(v[j]);
    grow = exp(2 * delta) * (1 + u) * (1 + u) * (1 + 2 * w + 2 * c->keys * e) - 1;
    cross_definition(c, q, k, v, n, h, want);
    cross_definition(c, q, k, magnitude, n, h, size);
    for (int i = 0; i < c->D; i++) {
        const double err = fabs((double)got[n * d + h * c->D + i] - want[i]) / (grow * size[i]);

        if (!(err <= worst)) /* keeps NaN */
            worst = err;
    }
    return worst;
}

/* Packs keys and values and computes cross-attention in BF16, with AMX tiles or in plain C. On a
 * CPU with AMX, the functions of kvr_ops_cpu() must give the same bits for a layer that computes in
 * BF16. On other CPUs, such layers compute in F32, so the bits must differ. */
START_TEST(cross_attention_bf16)
{
    const struct cross_case *c = &cross_cases[_i];
    const struct kvr_rows r = { c->n, c->heads * c->D, 1 };
    const int64_t n = r.n * r.d;
    struct kvr_cross cross = { c->keys, c->heads, c->D, NULL, NULL, KVR_BF16 }, other = cross;
    float *q, *k, *v, *out, *table, guard;
    double worst = 0;

    if (c->D < KVR_CROSS_BF16_NARROWEST) {
        ck_assert(!kvr_cross_tiles(&cross));
        return;
    }
    q = fresh(n, 1);
    k = fresh((int64_t)c->keys * r.d, 2);
    v = fresh((int64_t)c->keys * r.d, 3);
    out = fresh(n + 1, 4);
    table = fresh(n, 4);
    guard = out[n];
    cross.k = fresh(kvr_cross_k_floats(c->keys, c->heads, c->D), 5);
    cross.v = fresh(kvr_cross_v_floats(c->keys, c->heads, c->D), 6);
    other.k = fresh(kvr_cross_k_floats(c->keys, c->heads, c->D), 7);
    other.v = fresh(kvr_cross_v_floats(c->keys, c->heads, c->D), 8);
    kvr_cross_bf16_pack(&cross, k, v);
    kvr_cross_bf16_attend(&r, &cross, q, out);
    for (int64_t t = 0; t < r.n; t++)
        for (int h = 0; h < c->heads; h++) {
            const double err = bf16_error(c, q, k, v, out, t, h);

            worst = err <= worst ? worst : err;
            ck_assert_msg(err <= 1, "token %lld, head %d: %g of the bound", (long long)t, h, err);
        }
    ck_assert_msg(c->keys == 1 || worst >= 1e-4, "no rounding is to be seen: %g of the bound",
                  worst);
    ck_assert(out[n] == guard);
    if (!kvr_isa_has_tiles())
        other.compute = KVR_F32;
    kvr_ops_cpu()->cross_pack(NULL, &other, k, v);
    kvr_ops_cpu()->cross_attend(NULL, &r, &other, NULL, q, table);
    ck_assert_int_eq(memcmp(table, out, (size_t)n * sizeof *out) == 0, kvr_isa_has_tiles());
    /* If all values V are 1, the output is the sum of the attention weights. */
    for (int64_t i = 0; i < (int64_t)c->keys * r.d; i++)
        v[i] = 1;
    kvr_cross_bf16_pack(&cross, k, v);
    kvr_cross_bf16_attend(&r, &cross, q, out);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(out[i] - 1) <= 0x1.02p-8f, "weights sum to %g", (double)out[i]);
    q[0] = NAN;
    kvr_cross_bf16_attend(&r, &cross, q, out);
    ck_assert(isnan(out[0]) && isnan(out[c->D - 1]));
    ck_assert(c->n == 1 || !isnan(out[r.d]));
    ck_assert(c->heads == 1 || !isnan(out[c->D]));
    free(q);
    free(k);
    free(v);
    free(out);
    free(table);
    free(cross.k);
    free(cross.v);
    free(other.k);
    free(other.v);
}
END_TEST

struct linear_case {
    int64_t m;
    int n, k;
    bool bias;
};
static const struct linear_case linear_cases[] = {
    { 1, 1, 1, true },      { 3, 1152, 192, true },   { 64, 384, 16, true },  { 65, 385, 33, true },
    { 109, 50, 200, true }, { 108, 768, 192, false }, { 200, 1000, 7, true },
};
enum { N_LINEAR = sizeof linear_cases / sizeof *linear_cases };

static void round_all(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}

/* The first N_LINEAR loop indices test F32; the others test the same shapes in BF16. */
START_TEST(linear_layer)
{
    const struct linear_case *c = &linear_cases[_i % N_LINEAR];
    const bool bf16 = _i >= N_LINEAR;
    float *x = fresh(c->m * c->k, 1), *w = fresh((int64_t)c->n * c->k, 2), *b = fresh(c->n, 3);
    float *y = fresh(c->m * c->n + 1, 4);
    const float guard = y[c->m * c->n];
    struct kvr_dev *dev;
    struct kvr_gemm *g;
    struct kvr_linear *l;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_gemm_open_as(&g, dev, bf16 ? KVR_BF16 : KVR_F32) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(kvr_gemm_compute(g), bf16 ? KVR_BF16 : KVR_F32);
    ck_assert_ptr_nonnull(strstr(kvr_gemm_library(g), "oneDNN "));
    ck_assert_msg(kvr_linear_open(&l, g, c->n, c->k, w, c->bias ? b : NULL) == KVR_OK, "%s",
                  kvr_error());
    const struct kvr_linear *const layers[1] = { l };
    ck_assert_msg(kvr_linear_run(g, c->m, x, 1, layers, &y) == KVR_OK, "%s", kvr_error());
    if (bf16) { /* a BF16 layer rounds all its operands, and so does the reference */
        round_all(x, c->m * c->k);
        round_all(b, c->n);
        round_all(w, (int64_t)c->n * c->k);
    }
    for (int64_t m = 0; m < c->m; m++)
        for (int n = 0; n < c->n; n++) {
            double sum = c->bias ? b[n] : 0;

            for (int k = 0; k < c->k; k++)
                sum += (double)x[m * c->k + k] * w[(int64_t)n * c->k + k];
            /* A sum of k products of size 1 is about sqrt(k), so each addition rounds by up to 6e-8
             * sqrt(k). The k errors partly cancel to about 6e-8 k. */
            near_to(y[m * c->n + n], sum, 1e-6 * (c->k + 1), "linear", m * c->n + n);
        }
    ck_assert(y[c->m * c->n] == guard);
    x[0] = NAN;
    ck_assert_int_eq(kvr_linear_run(g, c->m, x, 1, layers, &y), KVR_OK);
    for (int n = 0; n < c->n; n++)
        ck_assert(isnan(y[n]));
    ck_assert(c->m == 1 || !isnan(y[c->n]));
    kvr_linear_close(&l);
    kvr_gemm_close(&g);
    kvr_dev_close(&dev);
    free(x);
    free(w);
    free(b);
    free(y);
}
END_TEST

/* With KVREEL_CPU=avx2, oneDNN also uses no AVX-512 instructions. */
START_TEST(library_keeps_to_the_forced_set)
{
#if defined(__x86_64__)
    static const dnnl_cpu_isa_t most[KVR_N_ISA] = { dnnl_cpu_isa_sse41,
                                                    dnnl_cpu_isa_avx2,
                                                    dnnl_cpu_isa_avx2_vnni,
                                                    dnnl_cpu_isa_avx512_core,
                                                    dnnl_cpu_isa_avx512_core_vnni,
                                                    dnnl_cpu_isa_avx512_core_amx,
                                                    dnnl_cpu_isa_avx512_core_amx };

    kvr_onednn_limit();
    if (kvr_isa_forced())
        ck_assert_int_eq(dnnl_get_effective_cpu_isa() & ~most[kvr_isa()], 0);
#endif
}
END_TEST

START_TEST(other_types_are_refused)
{
    struct kvr_gemm *g = NULL;
    struct kvr_dev *dev;

    for (int backend = KVR_CPU; backend < KVR_N_BACKENDS; backend++) {
        ck_assert_int_eq(kvr_dev_open(&dev, (enum kvr_backend)backend), KVR_OK);
        ck_assert_int_eq(kvr_gemm_open_as(&g, dev, KVR_F16), KVR_EINVAL);
        ck_assert_ptr_null(g);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "F16"));
        kvr_dev_close(&dev);
    }
}
END_TEST

/* For every n, the n-th allocation fails and no memory is left allocated, which closing the device
 * asserts. */
START_TEST(linear_without_memory)
{
    float w[64 * 8] = { 0 }, b[64] = { 0 };
    struct kvr_linear *l = NULL;
    struct kvr_gemm *g;
    struct kvr_dev *dev;
    bool ok = false;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    for (uint64_t n = 1; n < 20 && !ok; n++) {
        ck_assert_msg(kvr_gemm_open(&g, dev) == KVR_OK, "%s", kvr_error());
        kvr_mem_fail_after(dev, n);
        ok = kvr_linear_open(&l, g, 64, 8, w, b) == KVR_OK;
        kvr_mem_fail_after(dev, 0);
        ck_assert(ok || l == NULL);
        kvr_linear_close(&l);
        kvr_gemm_close(&g);
    }
    ck_assert(ok);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ops");
    TCase *tc = tcase_create("definitions");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, layer_norm, 0, N_SIZES);
    tcase_add_loop_test(tc, rms_norm, 0, N_SIZES);
    tcase_add_loop_test(tc, gated_add, 0, N_SIZES);
    tcase_add_test(tc, activations);
    tcase_add_test(tc, sinusoid);
    tcase_add_loop_test(tc, rotary, 0, 5);
    tcase_add_test(tc, patches);
    tcase_add_loop_test(tc, cross_attention, 0, N_CROSS);
    tcase_add_loop_test(tc, cross_attention_bf16, 0, N_CROSS);
    tcase_add_loop_test(tc, linear_layer, 0, 2 * N_LINEAR);
    tcase_add_test(tc, other_types_are_refused);
    tcase_add_test(tc, library_keeps_to_the_forced_set);
    tcase_add_test(tc, linear_without_memory);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
