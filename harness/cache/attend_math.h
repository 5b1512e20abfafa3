/* attend_math.h - the two loops attention spends its time in: small products and exponentials.
 *
 * Both products of attention have the form C[q][n] += A[q][k] B[k][n] with B contiguous along
 * n, so keys are decoded transposed and one micro-kernel serves scores and values. Vectors are
 * the compiler's own (GNU C), 16 floats wide; it splits them where registers are narrower. */
#ifndef KVR_CACHE_ATTEND_MATH_H
#define KVR_CACHE_ATTEND_MATH_H

#include <assert.h>
#include <math.h>
#include <stdint.h>

#define VLEN 16
typedef float vec __attribute__((vector_size(VLEN * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(VLEN * 4), aligned(4), may_alias));

/* C[m][NV*16] += A[m][k] B[k][NV*16]; m <= 6, NV <= 4. Inlined for constant m and nv. */
static inline __attribute__((always_inline)) void mul_block(const float *a, int64_t lda,
                                                            const float *b, int64_t ldb, float *c,
                                                            int64_t ldc, int k, const int m,
                                                            const int nv)
{
    vec acc[6][4];

    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = *(const vec *)(c + i * ldc + j * VLEN);
    for (int p = 0; p < k; p++) {
        vec row[4];

        for (int j = 0; j < nv; j++)
            row[j] = *(const vec *)(b + p * ldb + j * VLEN);
        for (int i = 0; i < m; i++) {
            const float x = a[i * lda + p];

            for (int j = 0; j < nv; j++)
                acc[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < nv; j++)
            *(vec *)(c + i * ldc + j * VLEN) = acc[i][j];
}

#define CASE(M)                                                                                    \
    case M:                                                                                        \
        if (nv == 4)                                                                               \
            mul_block(a, lda, b, ldb, c, ldc, k, M, 4);                                            \
        else if (nv == 2)                                                                          \
            mul_block(a, lda, b, ldb, c, ldc, k, M, 2);                                            \
        else                                                                                       \
            mul_block(a, lda, b, ldb, c, ldc, k, M, 1);                                            \
        break;

static inline void mul_rows(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                            int64_t ldc, int k, int m, int nv)
{
    switch (m) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
    default:
        assert(0);
    }
}

/* C[m][n] += A[m][k] B[k][n], n a multiple of 16. */
static inline void mul(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                       int64_t ldc, int k, int m, int n)
{
    for (int j = 0; j < n;) {
        const int left = (n - j) / VLEN, nv = left >= 4 ? 4 : left >= 2 ? 2 : 1;

        for (int i = 0; i < m; i += 6)
            mul_rows(a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, k, m - i < 6 ? m - i : 6,
                     nv);
        j += nv * VLEN;
    }
}

/* Largest of `start` and n values; NaN when any is. */
static inline float row_max(const float *x, int n, float start)
{
    vec top = (vec){ 0 } + start;
    ivec bad = top != top;
    float m = start, nan = 0;
    int j = 0;

    for (; j + VLEN <= n; j += VLEN) {
        const vec v = *(const vec *)(x + j);
        const ivec more = v > top;

        bad |= v != v;
        top = (vec)(((ivec)v & more) | ((ivec)top & ~more));
    }
    for (int i = 0; i < VLEN; i++) {
        m = top[i] > m ? top[i] : m;
        nan += bad[i] ? NAN : 0;
    }
    for (; j < n; j++) {
        m = x[j] > m ? x[j] : m;
        nan += x[j] != x[j] ? NAN : 0;
    }
    return m + nan;
}

static inline float lanes_sum(vec v)
{
    float s = 0;

    for (int i = 0; i < VLEN; i++)
        s += v[i];
    return s;
}

/* e^x for x <= 0: 2^n times a polynomial in the rest, relative error below 2e-7, and 0 below
 * -87, where e^x is under 2e-38. NaN stays. */
static inline vec exp_neg(vec x)
{
    const float log2e = 1.44269504f, ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const ivec in_range = x >= -87.0f;
    const ivec nan = x != x;
    const vec y = (vec)((ivec)x & in_range); /* 0 elsewhere, so that the shift below is defined */
    vec n = y * log2e + magic;
    const ivec power = ((ivec)n - (ivec)((vec){ 0 } + magic)) * (1 << 23);
    vec r, p;

    n -= magic;
    r = y - n * ln2_hi;
    r = r - n * ln2_lo;
    p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (vec)((((ivec)p + power) & in_range) | ((ivec)x & nan));
}

#endif
