/* attend_vec.h - vector types for the CPU attention kernels; a vector is one SIMD register wide.
 *
 * Arithmetic uses GCC's vector operators; the elementary operations below map to single
 * instructions where the CPU has them. */
#ifndef KVR_CACHE_ATTEND_VEC_H
#define KVR_CACHE_ATTEND_VEC_H

#include <math.h>
#include <stdint.h>

#if KVR_ISA_AVX2
#include <immintrin.h>
#endif

/* The micro-tile of a matrix product has MR x NV accumulator vectors, which stay in registers.
 * AVX-512 and NEON have 32 vector registers, the other instruction sets 16. */
#if KVR_ISA_AVX512
enum { VLEN = 16, MR = 12, NV = 2 };
#elif KVR_ISA_AVX2
enum { VLEN = 8, MR = 6, NV = 2 };
#elif KVR_ISA_NEON
enum { VLEN = 4, MR = 6, NV = 4 };
#else
enum { VLEN = 4, MR = 4, NV = 2 };
#endif

typedef float vec __attribute__((vector_size(VLEN * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(VLEN * 4), aligned(4), may_alias));

static inline vec vec_of(float x)
{
    return (vec){ 0 } + x;
}

/* Elementwise maximum of a and b; returns b where a or b is NaN. */
static inline vec vec_max(vec a, vec b)
{
#if KVR_ISA_AVX512
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif KVR_ISA_AVX2
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    const ivec more = a > b;

    return (vec)(((ivec)a & more) | ((ivec)b & ~more));
#endif
}

static inline vec vec_add(vec a, vec b)
{
    return a + b;
}

#if KVR_ISA_AVX512
#define LOWS(a, b) (vec) _mm512_unpacklo_ps((__m512)(a), (__m512)(b))
#define HIGHS(a, b) (vec) _mm512_unpackhi_ps((__m512)(a), (__m512)(b))
#define PAIRS(a, b, which) (vec) _mm512_shuffle_ps((__m512)(a), (__m512)(b), which)
#elif KVR_ISA_AVX2
#define LOWS(a, b) (vec) _mm256_unpacklo_ps((__m256)(a), (__m256)(b))
#define HIGHS(a, b) (vec) _mm256_unpackhi_ps((__m256)(a), (__m256)(b))
#define PAIRS(a, b, which) (vec) _mm256_shuffle_ps((__m256)(a), (__m256)(b), which)
#endif

/* Reduces the elements of v to one number by `op`, for example to their maximum. */
static inline __attribute__((always_inline)) float fold(vec v, vec (*op)(vec, vec))
{
    for (int n = VLEN / 2; n >= 1; n /= 2) {
        vec w = v;

        for (int i = 0; i < n; i++)
            w[i] = v[i + n];
        v = op(w, v);
    }
    return v[0];
}

/* Reduces the elements of each of four vectors v[i] by `op`, and writes the result to out[i]. */
static inline __attribute__((always_inline)) void fold_four(const vec v[4], vec (*op)(vec, vec),
                                                            float out[4])
{
#if KVR_ISA_AVX2
    const vec ab = op(LOWS(v[0], v[1]), HIGHS(v[0], v[1]));
    const vec cd = op(LOWS(v[2], v[3]), HIGHS(v[2], v[3]));
    /* element i of each 128-bit lane is a partial result of v[i] */
    vec all = op(PAIRS(ab, cd, 0x44), PAIRS(ab, cd, 0xee));

#if KVR_ISA_AVX512
    all = op((vec)_mm512_shuffle_f32x4((__m512)all, (__m512)all, 0x4e), all);
    all = op((vec)_mm512_shuffle_f32x4((__m512)all, (__m512)all, 0xb1), all);
    _mm_storeu_ps(out, _mm512_castps512_ps128((__m512)all));
#else
    all = op((vec)_mm256_permute2f128_ps((__m256)all, (__m256)all, 1), all);
    _mm_storeu_ps(out, _mm256_castps256_ps128((__m256)all));
#endif
#else
    for (int i = 0; i < 4; i++)
        out[i] = fold(v[i], op);
#endif
}

/* e^x for x <= 8, computed as 2^n 2^r with an integer n and a polynomial for 2^r. The relative
 * error is below 2e-7 + 6e-8 |x|, where the second term is the rounding error of x log2(e). Below x
 * = -87, where e^x is under 2e-38, the result is 0. e^0 is exactly 1; NaN stays NaN. */
static inline vec exp_of(vec x)
{
    /* 2^r is approximated on [-1/2, 1/2] by 1 + C1 r + ... + C6 r^6. In exact arithmetic the
     * relative error of the polynomial is below 2e-8. */
    const float C1 = 0.69314718246f, C2 = 0.24022647738f, C3 = 0.055503323674f,
                C4 = 0.0096184369177f, C5 = 0.0013398876181f, C6 = 0.00015353361957f;
    /* Adding 1.5 * 2^23 + 127 to y = x log2(e) rounds y to an integer n. The low bits of the sum
     * are n + 127, the exponent bits of 2^n. */
    const float magic = 12583039.0f;
    const ivec low = x < -87.0f;
    const vec y = x * 1.44269504f; /* e^x = 2^y */
    const vec n = y + magic, r = y - (n - magic);
    const vec power = (vec)((ivec)n << 23);
    vec p = r * C6 + C5;

    p = p * r + C4;
    p = p * r + C3;
    p = p * r + C2;
    p = p * r + C1;
    p = p * r + 1.0f;
    return (vec)((ivec)(p * power) & ~low);
}

/* Rescaling factor e^(old - top) of the softmax state; exactly 1 if old == top, also for
 * infinities. */
static inline vec rescale_of(vec old, vec top)
{
    const ivec same = old == top;

    return (vec)(((ivec)exp_of(old - top) & ~same) | ((ivec)vec_of(1) & same));
}

/* Adds bias [n] to each of m rows of n scores, unless `bias` is NULL. Sets top[i] to the maximum of
 * start[i] and the scores of row i. A score of NaN does not affect the maximum. */
static inline void rows_top(float *s, int64_t stride, const float *bias, int m, int n,
                            const float *start, float *top)
{
    for (int i = 0; i < m;) {
        const int rows = m - i >= 4 ? 4 : 1;
        vec most[4];

        for (int r = 0; r < rows; r++) {
            float *row = s + (i + r) * stride;

            most[r] = vec_of(start[i + r]);
            for (int j = 0; j < n; j += VLEN) {
                if (bias)
                    *(vec *)(row + j) += *(const vec *)(bias + j);
                most[r] = vec_max(*(const vec *)(row + j), most[r]);
            }
        }
        if (rows == 4)
            fold_four(most, vec_max, top + i);
        else
            top[i] = fold(most[0], vec_max);
        i += rows;
    }
}

/* Updates the softmax state of m rows i after a tile of scores. The tile raises a row's maximum
 * from old_i to top_i; part_i is the sum of the row's softmax weights in the tile. The function
 * sets rescale_i = e^(old_i - top_i), sum_i = sum_i rescale_i + part_i and max_i = top_i. `less` is
 * scratch. The arrays `old`, `top` and `less` are padded to whole vectors. */
static inline void next_state(int m, const float *old, const float *top, const float *part,
                              float *less, float *max, float *sum, float *rescale)
{
    for (int i = 0; i < m; i += VLEN)
        *(vec *)(less + i) = rescale_of(*(const vec *)(old + i), *(const vec *)(top + i));
    for (int i = 0; i < m; i++) {
        sum[i] = sum[i] * less[i] + part[i];
        rescale[i] = less[i];
        max[i] = top[i];
    }
}

#endif
