/* attend_vec.h - the vectors that attention's kernels are written in: as wide as a register.
 *
 * Arithmetic is the compiler's own (GNU C); what it has no operator for is named here and done by
 * an instruction where there is one. */
#ifndef KVR_CACHE_ATTEND_VEC_H
#define KVR_CACHE_ATTEND_VEC_H

#include <math.h>
#include <stdint.h>

#if KVR_ISA_AVX2
#include <immintrin.h>
#endif

/* MR x NV vectors of sums stay in registers: 32 of them with AVX-512 and NEON, else 16. */
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

/* The larger one; the second where either is NaN. */
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

static inline float vec_sum(vec v)
{
#if KVR_ISA_AVX512
    return _mm512_reduce_add_ps((__m512)v);
#else
    float s = 0;

    for (int i = 0; i < VLEN; i++)
        s += v[i];
    return s;
#endif
}

static inline float vec_top(vec v)
{
#if KVR_ISA_AVX512
    return _mm512_reduce_max_ps((__m512)v);
#else
    float m = v[0];

    for (int i = 1; i < VLEN; i++)
        m = v[i] > m ? v[i] : m;
    return m;
#endif
}

/* e^x for x <= 0: 2^n times a polynomial in the rest, relative error below 2e-7 + 6e-8 |x|, of
 * which the second is x's own rounding; 0 below -87, where e^x is under 2e-38. NaN stays. */
static inline vec exp_neg(vec x)
{
    /* 2^r = 1 + C1 r + ... + C6 r^6 on [-1/2, 1/2] to 2e-9, before rounding. */
    const float C1 = 0.69314718246f, C2 = 0.24022647738f, C3 = 0.055503323674f,
                C4 = 0.0096184369177f, C5 = 0.0013398876181f, C6 = 0.00015353361957f;
    const vec y = x * 1.44269504f; /* e^x = 2^y */
    vec n, r, p;
#if KVR_ISA_AVX512
    n = (vec)_mm512_roundscale_ps((__m512)y, _MM_FROUND_TO_NEAREST_INT);
#else
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const ivec in_range = x >= -87.0f;
    const ivec nan = x != x;
    ivec power;

    n = (vec)((ivec)y & in_range) + magic; /* 0 elsewhere, so that the shift below is defined */
    power = ((ivec)n - (ivec)vec_of(magic)) * (1 << 23);
    n -= magic;
#endif
    r = y - n;
    p = r * C6 + C5;
    p = p * r + C4;
    p = p * r + C3;
    p = p * r + C2;
    p = p * r + C1;
    p = p * r + 1.0f;
#if KVR_ISA_AVX512
    return (vec)_mm512_maskz_scalef_ps(
        _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ), (__m512)p, (__m512)n);
#else
    return (vec)((((ivec)p + power) & in_range) | ((ivec)x & nan));
#endif
}

#endif
