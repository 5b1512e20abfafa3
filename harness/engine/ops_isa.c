/* ops_isa.c - norms, RoPE, elementwise and patch operations of the forward pass on the CPU,
 * compiled once per instruction set. They are the reference for the CUDA kernels.
 *
 * Each thread processes a contiguous range of rows. One thread computes a whole row, so results do
 * not depend on the number of threads. */
#include "harness/engine/ops.h"

#include <math.h>
#include <string.h>

#include "harness/engine/ops_cross.h"
#include "harness/engine/ops_lanes.h"

/* Elements per block of an elementwise operation. A thread processes whole blocks. */
enum { BLOCK = 4096 };

/* ---- norms ---------------------------------------------------------------------------- */

struct moments {
    float mean, inv; /* inv = 1 / sqrt(variance + eps) */
};

/* Returns the sum of (x[i] - mean)^power over a row, for power 1 or 2. SUMS independent
 * accumulators hide the latency of floating-point additions, about four cycles. */
enum { SUMS = 4 };

INLINE float row_sum(const float *x, int d, float mean, int power)
{
    vec sum[SUMS] = { { 0 } };
    float rest = 0;
    int i = 0;

    for (; i + SUMS * W <= d; i += SUMS * W)
        for (int k = 0; k < SUMS; k++) {
            const vec v = load(x + i + k * W) - mean;

            sum[k] += power == 2 ? v * v : v;
        }
    for (; i + W <= d; i += W) {
        const vec v = load(x + i) - mean;

        sum[0] += power == 2 ? v * v : v;
    }
    for (; i < d; i++)
        rest += power == 2 ? (x[i] - mean) * (x[i] - mean) : x[i] - mean;
    return sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

static struct moments row_moments(const float *x, int d, float eps)
{
    struct moments m;

    m.mean = row_sum(x, d, 0, 1) / (float)d;
    m.inv = 1.0f / sqrtf(row_sum(x, d, m.mean, 2) / (float)d + eps);
    return m;
}

static void norm_modulate(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                          const float *shift, const float *scale, int64_t stride, double eps,
                          float *y)
{
    const int d = r->d;

    (void)dev;
#pragma omp parallel for schedule(static) if (r->n * d > WORTH_A_TEAM)
    for (int64_t n = 0; n < r->n; n++) {
        const float *row = x + n * d;
        const float *s = scale + n / r->tokens_per_frame * stride;
        const float *b = shift + n / r->tokens_per_frame * stride;
        float *out = y + n * d;
        struct moments m = row_moments(row, d, (float)eps);

#pragma omp simd
        for (int i = 0; i < d; i++)
            out[i] = (row[i] - m.mean) * m.inv * (1.0f + s[i]) + b[i];
    }
}

static void norm_affine(struct kvr_dev *dev, const struct kvr_rows *r, const float *x,
                        const float *w, const float *b, double eps, float *y)
{
    const int d = r->d;

    (void)dev;
#pragma omp parallel for schedule(static) if (r->n * d > WORTH_A_TEAM)
    for (int64_t n = 0; n < r->n; n++) {
        const float *row = x + n * d;
        float *out = y + n * d;
        struct moments m = row_moments(row, d, (float)eps);

#pragma omp simd
        for (int i = 0; i < d; i++)
            out[i] = (row[i] - m.mean) * m.inv * w[i] + b[i];
    }
}

static void rms_norm(struct kvr_dev *dev, const struct kvr_rows *r, const float *w, double eps,
                     float *x)
{
    const int d = r->d;

    (void)dev;
#pragma omp parallel for schedule(static) if (r->n * d > WORTH_A_TEAM)
    for (int64_t n = 0; n < r->n; n++) {
        float *row = x + n * d;
        const float inv = 1.0f / sqrtf(row_sum(row, d, 0, 2) / (float)d + (float)eps);

#pragma omp simd
        for (int i = 0; i < d; i++)
            row[i] = row[i] * inv * w[i];
    }
}

/* ---- positions ------------------------------------------------------------------------ */

#if KVR_ISA_AVX2
/* Rotates (RoPE) PAIRS channel pairs, from v[0] on, in every head of a token. All heads have the
 * same angles, which are loaded once. With x = (a, b, ...) and swapped(x) = (b, a, ...), the result
 * (a cos - b sin, a sin + b cos, ...) is x cos + swapped(x) (-sin, sin, ...). */
INLINE void rotate_pairs(int n_heads, int head_dim, const double *co, const double *si, float *v)
{
    halves ones;
    doubles cosine, sine, minus;

    memcpy(&ones, co, sizeof ones);
    cosine = TWICE(ones);
    memcpy(&ones, si, sizeof ones);
    sine = TWICE(ones);
    for (int i = 0; i < 2 * PAIRS; i++)
        minus[i] = i % 2 ? 1 : -1;
    sine *= minus;
    for (int h = 0; h < n_heads; h++, v += head_dim) {
        const doubles x = load_doubles(v);

        store_rounded(v, x * cosine + SWAPPED(x) * sine);
    }
}

/* Rotates channel pairs in every head of a token, PAIRS at a time as fill a register, and returns
 * the number of rotated pairs per head. The caller rotates the rest of the c pairs. */
static int rotate_whole(int n_heads, int head_dim, int c, const double *co, const double *si,
                        float *row)
{
    int p = 0;

    for (; p + PAIRS <= c; p += PAIRS)
        rotate_pairs(n_heads, head_dim, co + p, si + p, row + 2 * p);
    return p;
}
#else
/* Without AVX2, a register has only two doubles. This function then rotates nothing, because
 * rope()'s loop over single pairs is equally fast. */
static int rotate_whole(int n_heads, int head_dim, int c, const double *co, const double *si,
                        float *row)
{
    (void)n_heads, (void)head_dim, (void)c, (void)co, (void)si, (void)row;
    return 0;
}
#endif

static void rope(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const double *cosines,
                 const double *sines, float *x)
{
    const int c = head_dim / 2, n_heads = r->d / head_dim;

    (void)dev;
#pragma omp parallel for schedule(static) if (r->n * r->d > WORTH_A_TEAM)
    for (int64_t n = 0; n < r->n; n++) {
        const double *co = cosines + n * c, *si = sines + n * c;
        const int done = rotate_whole(n_heads, head_dim, c, co, si, x + n * r->d);

        for (int h = 0; h < n_heads; h++) {
            float *v = x + n * r->d + (int64_t)h * head_dim;

#pragma omp simd
            for (int p = done; p < c; p++) {
                double a = v[2 * p], b = v[2 * p + 1];

                v[2 * p] = (float)(a * co[p] - b * si[p]);
                v[2 * p + 1] = (float)(a * si[p] + b * co[p]);
            }
        }
    }
}

/* ---- elementwise ---------------------------------------------------------------------- */

static void add(struct kvr_dev *dev, const struct kvr_rows *r, const float *y, const float *gate,
                int64_t stride, float *x)
{
    const int d = r->d;

    (void)dev;
#pragma omp parallel for schedule(static) if (r->n * d > WORTH_A_TEAM)
    for (int64_t n = 0; n < r->n; n++) {
        const float *in = y + n * d;
        float *row = x + n * d;

        if (gate) {
            const float *g = gate + n / r->tokens_per_frame * stride;

#pragma omp simd
            for (int i = 0; i < d; i++)
                row[i] += in[i] * g[i];
        } else {
#pragma omp simd
            for (int i = 0; i < d; i++)
                row[i] += in[i];
        }
    }
}

/* GELU of u by the tanh approximation: 0.5 u (1 + tanh z) = u / (1 + e^(-2z)) with
 * z = sqrt(2/pi) (u + 0.044715 u^3). */
INLINE vec gelu_of(vec u)
{
    const float a = -2.0f * 0.7978845608028654f, b = a * 0.044715f;

    return u / (1.0f + exp_fast(u * (a + b * u * u)));
}

INLINE vec silu_of(vec u)
{
    return u / (1.0f + exp_fast(-u));
}

/* Applies the function `of` to n values: y[i] = of(x[i]). The last n % W values are padded to
 * a vector, so that a result does not depend on the value's index. */
INLINE void each(vec (*of)(vec), int64_t n, const float *x, float *y)
{
    int64_t i = 0;

    for (; i + W <= n; i += W)
        store(y + i, of(load(x + i)));
    if (i < n)
        store_part(y + i, of(load_part(x + i, n - i)), n - i);
}

static void gelu(struct kvr_dev *dev, int64_t n, float *x)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n > WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i += BLOCK)
        each(gelu_of, n - i < BLOCK ? n - i : BLOCK, x + i, x + i);
}

static void silu(struct kvr_dev *dev, int64_t n, const float *x, float *y)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n > WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i += BLOCK)
        each(silu_of, n - i < BLOCK ? n - i : BLOCK, x + i, y + i);
}

/* ---- patches -------------------------------------------------------------------------- */

static void patchify(struct kvr_dev *dev, const struct kvr_patching *p, const float *x, float *out)
{
    const int gh = p->height / p->ph, gw = p->width / p->pw;

    (void)dev;
    for (int f = 0; f < p->n_frames; f++)
        for (int i = 0; i < gh; i++)
            for (int j = 0; j < gw; j++)
                for (int c = 0; c < p->channels; c++)
                    for (int a = 0; a < p->ph; a++) {
                        int64_t line = ((int64_t)f * p->channels + c) * p->height + i * p->ph + a;
                        const float *in = x + line * p->width + (int64_t)j * p->pw;

                        for (int b = 0; b < p->pw; b++)
                            *out++ = in[b];
                    }
}

static void unpatchify(struct kvr_dev *dev, const struct kvr_patching *p, const float *in, float *x)
{
    const int gh = p->height / p->ph, gw = p->width / p->pw;

    (void)dev;
    for (int f = 0; f < p->n_frames; f++)
        for (int i = 0; i < gh; i++)
            for (int j = 0; j < gw; j++)
                for (int a = 0; a < p->ph; a++)
                    for (int b = 0; b < p->pw; b++)
                        for (int c = 0; c < p->channels; c++) {
                            int64_t line =
                                ((int64_t)f * p->channels + c) * p->height + i * p->ph + a;

                            x[line * p->width + (int64_t)j * p->pw + b] = *in++;
                        }
}

/* ---- operations before and after the transformer blocks --------------------------------- */

static void add_modulation(struct kvr_dev *dev, int n_frames, int n_rows, int d, const float *base,
                           const float *per_frame, bool same_for_rows, float *out)
{
    (void)dev;
    for (int f = 0; f < n_frames; f++)
        for (int r = 0; r < n_rows; r++) {
            int64_t from = same_for_rows ? f : (int64_t)f * n_rows + r;

            for (int i = 0; i < d; i++)
                out[((int64_t)f * n_rows + r) * d + i] =
                    base[(int64_t)r * d + i] + per_frame[from * d + i];
        }
}

static void subtract(struct kvr_dev *dev, int64_t n, const float *x, const float *y, float *out)
{
    (void)dev;
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] - y[i];
}

/* Computes the L1 norms of x - y and y. These norms decide whether the transformer blocks of a pass
 * are skipped, so they must not depend on the CPU. Therefore all instruction sets use 16 partial
 * sums. */
static void l1(struct kvr_dev *dev, int64_t n, const float *x, const float *y, double *sums)
{
    enum { EIGHT = 8, L1_SUMS = 2 * EIGHT };
    typedef float floats __attribute__((vector_size(EIGHT * sizeof(float))));
    typedef double sums_of __attribute__((vector_size(EIGHT * sizeof(double))));
    typedef int64_t bits __attribute__((vector_size(EIGHT * sizeof(double))));
    sums_of change[2] = { { 0 } }, size[2] = { { 0 } };
    int64_t i = 0;

    (void)dev;
    for (; i + L1_SUMS <= n; i += L1_SUMS)
        for (int k = 0; k < 2; k++) {
            floats fx, fy;
            sums_of a, b;

            memcpy(&fx, x + i + k * EIGHT, sizeof fx);
            memcpy(&fy, y + i + k * EIGHT, sizeof fy);
            b = __builtin_convertvector(fy, sums_of);
            a = __builtin_convertvector(fx, sums_of) - b;
            change[k] += (sums_of)((bits)a & INT64_MAX);
            size[k] += (sums_of)((bits)b & INT64_MAX);
        }
    memset(sums, 0, 2 * KVR_OPS_L1_PARTS * sizeof *sums);
    memcpy(sums, change, sizeof change);
    memcpy(sums + KVR_OPS_L1_PARTS, size, sizeof size);
    for (; i < n; i++) {
        sums[0] += fabs((double)x[i] - y[i]);
        sums[KVR_OPS_L1_PARTS] += fabs((double)y[i]);
    }
}

static void x0_from_flow(struct kvr_dev *dev, int64_t n, const float *x, const float *flow,
                         float sigma, float *x0)
{
    (void)dev;
    kvr_x0_from_flow(n, x, flow, sigma, x0);
}

static void renoise(struct kvr_dev *dev, int64_t n, const float *x0, const float *eps, float sigma,
                    float *x)
{
    (void)dev;
    kvr_renoise(n, x0, eps, sigma, x);
}

static void blend(struct kvr_dev *dev, int64_t n, const struct kvr_blend *b, float *out)
{
    (void)dev;
    kvr_blend(n, b, out);
}

static void clamp(struct kvr_dev *dev, int64_t n, float lo, float hi, float *x)
{
    int64_t i = 0;

    (void)dev;
    for (; i + W <= n; i += W)
        store(x + i, at_most(at_least(load(x + i), spread(lo)), spread(hi)));
    for (; i < n; i++) {
        float v = x[i] < lo ? lo : x[i];

        x[i] = v > hi ? hi : v;
    }
}

/* Sets *flag if a value is not finite. x * 0 is NaN for such a value, and a sum propagates this
 * NaN. */
static void not_finite(struct kvr_dev *dev, int64_t n, const float *x, int32_t *flag)
{
    vec sum[SUMS] = { { 0 } };
    float rest = 0;
    int64_t i = 0;

    (void)dev;
    for (; i + SUMS * W <= n; i += SUMS * W)
        for (int k = 0; k < SUMS; k++)
            sum[k] += load(x + i + k * W) * 0.0f;
    for (; i < n; i++)
        rest += x[i] * 0.0f;
    *flag = sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest != 0;
}

const struct kvr_ops KVR_ISA_NAME(kvr_ops_cpu) = {
    .norm_modulate = norm_modulate,
    .norm_affine = norm_affine,
    .rms_norm = rms_norm,
    .rope = rope,
    .add = add,
    .gelu = gelu,
    .silu = silu,
    .patchify = patchify,
    .unpatchify = unpatchify,
    .cross_pack = cross_pack,
    .cross_attend = cross_attend,
    .add_modulation = add_modulation,
    .subtract = subtract,
    .l1 = l1,
    .x0_from_flow = x0_from_flow,
    .renoise = renoise,
    .blend = blend,
    .clamp = clamp,
    .not_finite = not_finite,
};
