/* ops_isa.c - the definition of the forward's small operations, vectorised over lanes.
 *
 * Rows are dealt to threads in contiguous ranges; a row never sees its neighbours. */
#include "harness/engine/ops.h"

#include <math.h>
#include <string.h>

#include "harness/core/dtype.h"

/* Below WORTH_A_TEAM values a team costs more than it saves. Elementwise work is dealt in whole
 * BLOCKs, so that a value is in the vector part or in the tail whatever the team. */
enum { WORTH_A_TEAM = 1 << 16, BLOCK = 4096, LANES = KVR_OPS_LANES };

/* e^x to about 2 ulp: 2^n times a degree-6 polynomial on [-ln2/2, ln2/2]. Clamped to
 * +-87, where it stays a normal number; written so that NaN passes through. */
static inline float exp_fast(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float y = x < -87.0f ? -87.0f : x;
    float n, r, p;

    y = y > 87.0f ? 87.0f : y;
    n = y * 1.44269504f + magic;
    r = n - magic;
    r = (y - r * 0.693359375f) + r * 2.12194440e-4f;
    p = 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * kvr_bits_f32((kvr_f32_bits(n) << 23) + 0x3f800000u);
}

/* ---- norms ---------------------------------------------------------------------------- */

struct moments {
    float mean, inv; /* 1 / sqrt(variance + eps) */
};

static inline struct moments row_moments(const float *x, int d, float eps)
{
    float sum = 0, square = 0;
    struct moments m;

#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < d; i++)
        sum += x[i];
    m.mean = sum / (float)d;
#pragma omp simd reduction(+ : square)
    for (int i = 0; i < d; i++)
        square += (x[i] - m.mean) * (x[i] - m.mean);
    m.inv = 1.0f / sqrtf(square / (float)d + eps);
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
        float square = 0, inv;

#pragma omp simd reduction(+ : square)
        for (int i = 0; i < d; i++)
            square += row[i] * row[i];
        inv = 1.0f / sqrtf(square / (float)d + (float)eps);
#pragma omp simd
        for (int i = 0; i < d; i++)
            row[i] = row[i] * inv * w[i];
    }
}

/* ---- positions ------------------------------------------------------------------------ */

static void rope(struct kvr_dev *dev, const struct kvr_rows *r, int head_dim, const double *cosines,
                 const double *sines, float *x)
{
    const int c = head_dim / 2, n_heads = r->d / head_dim;

    (void)dev;
#pragma omp parallel for schedule(static) if (r->n * r->d > WORTH_A_TEAM)
    for (int64_t n = 0; n < r->n; n++) {
        const double *co = cosines + n * c, *si = sines + n * c;

        for (int h = 0; h < n_heads; h++) {
            float *v = x + n * r->d + (int64_t)h * head_dim;

#pragma omp simd
            for (int p = 0; p < c; p++) {
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

/* 0.5 u (1 + tanh z) = u / (1 + e^(-2z)), z = sqrt(2/pi) (u + 0.044715 u^3). */
static void gelu(struct kvr_dev *dev, int64_t n, float *x)
{
    const float a = -2.0f * 0.7978845608028654f, b = a * 0.044715f;

    (void)dev;
#pragma omp parallel for schedule(static) if (n > WORTH_A_TEAM)
    for (int64_t i0 = 0; i0 < n; i0 += BLOCK) {
        const int64_t end = n - i0 < BLOCK ? n : i0 + BLOCK;

#pragma omp simd
        for (int64_t i = i0; i < end; i++) {
            float u = x[i];

            x[i] = u / (1.0f + exp_fast(u * (a + b * u * u)));
        }
    }
}

static void silu(struct kvr_dev *dev, int64_t n, const float *x, float *y)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n > WORTH_A_TEAM)
    for (int64_t i0 = 0; i0 < n; i0 += BLOCK) {
        const int64_t end = n - i0 < BLOCK ? n : i0 + BLOCK;

#pragma omp simd
        for (int64_t i = i0; i < end; i++)
            y[i] = x[i] / (1.0f + exp_fast(-x[i]));
    }
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

/* ---- cross-attention ------------------------------------------------------------------ */

/* The prompt is short: all scores of QUERIES tokens fit on the stack, so this is a plain
 * softmax. Keys lie transposed, [D, keys], so that a vector holds the scores of 16 keys. */
enum { QUERIES = 8 };

static int round_lanes(int n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static void cross_pack(struct kvr_dev *dev, struct kvr_cross *c, const float *k, const float *v)
{
    const int kp = round_lanes(c->n_keys), dp = round_lanes(c->head_dim);
    const int d = c->n_heads * c->head_dim;

    (void)dev;
    for (int h = 0; h < c->n_heads; h++) {
        for (int i = 0; i < c->head_dim; i++)
            for (int j = 0; j < kp; j++)
                c->k[((int64_t)h * c->head_dim + i) * kp + j] =
                    j < c->n_keys ? k[(int64_t)j * d + h * c->head_dim + i] : 0.0f;
        for (int j = 0; j < c->n_keys; j++)
            for (int i = 0; i < dp; i++)
                c->v[((int64_t)h * c->n_keys + j) * dp + i] =
                    i < c->head_dim ? v[(int64_t)j * d + h * c->head_dim + i] : 0.0f;
    }
}

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* out[r][l] = sum_i a[r][i] * b[i][l]: `rows` rows of a against one lane block of b. Inlined with
 * a constant `rows`, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void block_product(int rows, int n, const float *a,
                                                                int64_t a_stride, const float *b,
                                                                int64_t b_stride, float *out,
                                                                int64_t out_stride)
{
    lanes acc[QUERIES] = { 0 };

    for (int i = 0; i < n; i++) {
        lanes line;

        memcpy(&line, b + i * b_stride, sizeof line);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            acc[r] += a[r * a_stride + i] * line;
    }
    for (int r = 0; r < rows; r++)
        memcpy(out + r * out_stride, &acc[r], sizeof acc[r]);
}

/* Scores to probabilities in place, without dividing; returns their sum. */
static inline float softmax_row(float *s, int n, float scale)
{
    float top = s[0], sum = 0;

    for (int j = 1; j < n; j++)
        top = s[j] > top ? s[j] : top;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++) {
        s[j] = exp_fast((s[j] - top) * scale);
        sum += s[j];
    }
    return sum;
}

/* One head of `rows` tokens, 1 or QUERIES. */
static inline __attribute__((always_inline)) void
attend_rows(int rows, const struct kvr_cross *c, int h, int d, const float *q, float *out)
{
    /* A row of scores is a little longer than a power of two: no two rows share cache sets. */
    enum { ROW = KVR_OPS_MAX_TEXT + LANES };
    const int kp = round_lanes(c->n_keys), dp = round_lanes(c->head_dim);
    const float *k = c->k + (int64_t)h * c->head_dim * kp;
    const float *v = c->v + (int64_t)h * c->n_keys * dp;
    const float scale = 1.0f / sqrtf((float)c->head_dim);
    float score[QUERIES * ROW], acc[QUERIES * LANES];

    q += (int64_t)h * c->head_dim;
    out += (int64_t)h * c->head_dim;
    for (int j = 0; j < kp; j += LANES)
        block_product(rows, c->head_dim, q, d, k + j, kp, score + j, ROW);
    for (int r = 0; r < rows; r++) {
        float *row = score + r * ROW, inv = 1.0f / softmax_row(row, c->n_keys, scale);

        for (int j = 0; j < c->n_keys; j++)
            row[j] *= inv;
    }
    for (int i0 = 0; i0 < c->head_dim; i0 += LANES) {
        int width = c->head_dim - i0 < LANES ? c->head_dim - i0 : LANES;

        block_product(rows, c->n_keys, score, ROW, v + i0, dp, acc, LANES);
        for (int r = 0; r < rows; r++)
            memcpy(out + (int64_t)r * d + i0, acc + r * LANES, (size_t)width * sizeof *out);
    }
}

static void cross_attend(struct kvr_dev *dev, const struct kvr_rows *r, const struct kvr_cross *c,
                         const struct kvr_cross_work *work, const float *q, float *out)
{
    const int64_t blocks = (r->n + QUERIES - 1) / QUERIES;

    (void)dev;
    (void)work;
#pragma omp parallel for schedule(static) collapse(2) if (r->n * r->d > WORTH_A_TEAM)
    for (int64_t b = 0; b < blocks; b++)
        for (int h = 0; h < c->n_heads; h++) {
            int64_t t0 = b * QUERIES;
            int n = r->n - t0 < QUERIES ? (int)(r->n - t0) : QUERIES;

            if (n == QUERIES)
                attend_rows(QUERIES, c, h, r->d, q + t0 * r->d, out + t0 * r->d);
            else
                for (int64_t t = t0; t < t0 + n; t++)
                    attend_rows(1, c, h, r->d, q + t * r->d, out + t * r->d);
        }
}

/* ---- what surrounds the blocks ---------------------------------------------------------- */

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

static void l1(struct kvr_dev *dev, int64_t n, const float *x, const float *y, double *sums)
{
    double change = 0, size = 0;

    (void)dev;
    for (int64_t i = 0; i < n; i++) {
        change += fabs((double)x[i] - y[i]);
        size += fabs((double)y[i]);
    }
    memset(sums, 0, 2 * KVR_OPS_L1_PARTS * sizeof *sums);
    sums[0] = change;
    sums[KVR_OPS_L1_PARTS] = size;
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

static void clamp(struct kvr_dev *dev, int64_t n, float lo, float hi, float *x)
{
    (void)dev;
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] < lo ? lo : x[i];

        x[i] = v > hi ? hi : v;
    }
}

static void not_finite(struct kvr_dev *dev, int64_t n, const float *x, int32_t *flag)
{
    float sum = 0;

    (void)dev;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * 0.0f; /* NaN as soon as one value is not finite */
    *flag = sum != 0;
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
    .clamp = clamp,
    .not_finite = not_finite,
};
