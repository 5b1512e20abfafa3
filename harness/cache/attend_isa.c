/* attend_isa.c - see attend_kernels.h. */
#include "harness/cache/attend_kernels.h"
#include "harness/cache/attend_vec.h"

#include <stdbool.h>
#include <string.h>

enum { PAD = KVR_ATTEND_PAD, ROWS = KVR_ATTEND_ROWS };

struct product {
    const float *b;
    float *c;
    int64_t panel, ldc;
    int k, m, n;
};

/* Computes m rows and nv vectors of columns of C = A B, or of C += A B if `add`, from row i0 and
 * column j0 on. The function is inlined with constant lda, add, m and nv, so that rows of A are at
 * constant offsets and only the loop bound occupies a general-purpose register. */
static inline __attribute__((always_inline)) void block(const struct product *t, const float *a,
                                                        const int64_t lda, const bool add, int i0,
                                                        int j0, const int m, const int nv)
{
    const float *b = t->b + j0 / PAD * t->panel + j0 % PAD;
    float *c = t->c + i0 * t->ldc + j0;
    vec acc[MR][NV];

    a += i0 * lda;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = add ? *(const vec *)(c + i * t->ldc + j * VLEN) : (vec){ 0 };
#pragma GCC unroll 2
    for (int p = 0; p < t->k; p++) {
        vec row[NV];

        for (int j = 0; j < nv; j++)
            row[j] = *(const vec *)(b + p * PAD + j * VLEN / PAD * t->panel + j * VLEN % PAD);
        for (int i = 0; i < m; i++) {
            const float x = a[i * lda + p];

            for (int j = 0; j < nv; j++)
                acc[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            *(vec *)(c + i * t->ldc + j * VLEN) = acc[i][j];
}

/* Computes C = A B, or C += A B if `add`, in panels of NV vectors of columns. The loop over the
 * rows of A is the inner loop, so that the columns of B in a panel stay in L1. */
static inline __attribute__((always_inline)) void panels(const struct product *t, const float *a,
                                                         const int64_t lda, const bool add)
{
    int j = 0;

    for (; j + NV * VLEN <= t->n; j += NV * VLEN) {
        int i = 0;

        for (; i + MR <= t->m; i += MR)
            block(t, a, lda, add, i, j, MR, NV);
        for (; i + MR / 2 <= t->m; i += MR / 2)
            block(t, a, lda, add, i, j, MR / 2, NV);
        for (; i < t->m; i++)
            block(t, a, lda, add, i, j, 1, NV);
    }
    for (; j < t->n; j += VLEN)
        for (int i = 0; i < t->m; i++)
            block(t, a, lda, add, i, j, 1, 1);
}

static inline __attribute__((always_inline)) void product(const struct product *t, const float *a,
                                                          int64_t lda, const bool add)
{
    _Static_assert(PAD % VLEN == 0, "panels are whole vectors");

    if (lda == 64)
        panels(t, a, 64, add);
    else if (lda == 128)
        panels(t, a, 128, add);
    else
        panels(t, a, lda, add);
}

static void scores(const float *q, int d, const float *keys, float *s, int64_t stride, int m, int n)
{
    product(&(struct product){ keys, s, (int64_t)d * PAD, stride, d, m, n }, q, d, false);
}

static void add_values(const float *p, int64_t stride, const float *values, float *out, int64_t ldo,
                       int n, int m, int d)
{
    product(&(struct product){ values, out, (int64_t)n * PAD, ldo, n, m, d }, p, stride, true);
}

static void online_softmax(float *s, int64_t stride, const float *bias, int m, int n, float *max,
                           float *sum, float *rescale)
{
    float old[ROWS] = { 0 }, top[ROWS] = { 0 }, part[ROWS] = { 0 }, less[ROWS];

    memcpy(old, max, (size_t)m * sizeof *old);
    rows_top(s, stride, bias, m, n, old, top);
    for (int i = 0; i < m;) {
        const int rows = m - i >= 4 ? 4 : 1;
        vec total[4] = { 0 };

        for (int r = 0; r < rows; r++) {
            float *row = s + (i + r) * stride;

            for (int j = 0; j < n; j += VLEN) {
                const vec e = exp_of(*(const vec *)(row + j) - top[i + r]);

                *(vec *)(row + j) = e;
                total[r] += e;
            }
        }
        if (rows == 4)
            fold_four(total, vec_add, part + i);
        else
            part[i] = fold(total[0], vec_add);
        i += rows;
    }
    next_state(m, old, top, part, less, max, sum, rescale);
}

static void scale(float *x, int n, float factor)
{
    for (int i = 0; i < n; i += VLEN)
        *(vec *)(x + i) *= factor;
}

/* Transposes PAD tokens by PAD channels: in[PAD tokens][stride] becomes out[PAD channels][PAD
 * tokens]. */
static inline void transpose(const float *in, int64_t stride, float *out)
{
#if KVR_ISA_AVX512
    __m512 r[PAD], s[PAD];

    for (int i = 0; i < PAD; i++)
        r[i] = _mm512_loadu_ps(in + i * stride);
    for (int i = 0; i < PAD; i += 2) { /* interleaves pairs of rows */
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    /* interleaves groups of four rows: r[i + c] has channels c, c + 4, c + 8, c + 12 of rows i to i
     * + 3 */
    for (int i = 0; i < PAD; i += 4)
        for (int c = 0; c < 2; c++) {
            r[i + 2 * c] = _mm512_shuffle_ps(s[i + c], s[i + 2 + c], 0x44);
            r[i + 2 * c + 1] = _mm512_shuffle_ps(s[i + c], s[i + 2 + c], 0xee);
        }
    /* The 128-bit lane q of r[c], r[4 + c], r[8 + c] and r[12 + c] has channel c + 4 * q of four
     * rows. */
    for (int c = 0; c < 4; c++) {
        const __m512 a = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
        const __m512 d = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
        const __m512 e = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);

        _mm512_storeu_ps(out + c * PAD, _mm512_shuffle_f32x4(a, d, 0x88));
        _mm512_storeu_ps(out + (c + 4) * PAD, _mm512_shuffle_f32x4(b, e, 0x88));
        _mm512_storeu_ps(out + (c + 8) * PAD, _mm512_shuffle_f32x4(a, d, 0xdd));
        _mm512_storeu_ps(out + (c + 12) * PAD, _mm512_shuffle_f32x4(b, e, 0xdd));
    }
#elif KVR_ISA_AVX2
    for (int half = 0; half < PAD; half += 8)
        for (int c0 = 0; c0 < PAD; c0 += 8) {
            __m256 r[8], s[8];

            for (int i = 0; i < 8; i++)
                r[i] = _mm256_loadu_ps(in + (half + i) * stride + c0);
            for (int i = 0; i < 8; i += 2) {
                s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
                s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
            }
            for (int i = 0; i < 8; i += 4)
                for (int c = 0; c < 2; c++) {
                    r[i + 2 * c] = _mm256_shuffle_ps(s[i + c], s[i + 2 + c], 0x44);
                    r[i + 2 * c + 1] = _mm256_shuffle_ps(s[i + c], s[i + 2 + c], 0xee);
                }
            for (int c = 0; c < 4; c++) {
                _mm256_storeu_ps(out + (c0 + c) * PAD + half,
                                 _mm256_permute2f128_ps(r[c], r[4 + c], 0x20));
                _mm256_storeu_ps(out + (c0 + c + 4) * PAD + half,
                                 _mm256_permute2f128_ps(r[c], r[4 + c], 0x31));
            }
        }
#else
    for (int c = 0; c < PAD; c++)
        for (int i = 0; i < PAD; i++)
            out[c * PAD + i] = in[i * stride + c];
#endif
}

static void pack_keys(const float *rows, int n, int d, float *out)
{
    for (int t = 0; t < n; t += PAD, out += (int64_t)d * PAD) {
        const float *in = rows + (int64_t)t * d;
        int c = 0;

        if (n - t >= PAD)
            for (; c + PAD <= d; c += PAD)
                transpose(in + c, d, out + c * PAD);
        for (; c < d; c++)
            for (int i = 0; i < PAD; i++)
                out[c * PAD + i] = t + i < n ? in[i * d + c] : 0;
    }
}

static void pack_values(const float *rows, int n, int d, float *out)
{
    const int whole = d / PAD * PAD;

    for (int t = 0; t < n; t++) {
        const float *in = rows + (int64_t)t * d;

        for (int c = 0; c < whole; c += VLEN)
            *(vec *)(out + (int64_t)(c / PAD * n + t) * PAD + c % PAD) = *(const vec *)(in + c);
        if (whole < d) {
            float *end = out + ((int64_t)(whole / PAD) * n + t) * PAD;

            for (int i = 0; i < PAD; i++)
                end[i] = whole + i < d ? in[whole + i] : 0;
        }
    }
}

const struct kvr_attend_kernels KVR_ISA_NAME(kvr_attend_kernels) = {
    .scores = scores,
    .add_values = add_values,
    .online_softmax = online_softmax,
    .scale = scale,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
};
