/* ops_lanes.h - SIMD vectors as wide as the CPU variant's registers, and exp of such vectors. Only
 * ops_isa.c includes it. The code uses the compiler's vector types, so that loops with comparisons
 * or casts do not depend on auto-vectorization. */
#ifndef KVR_ENGINE_OPS_LANES_H
#define KVR_ENGINE_OPS_LANES_H

#include <stdint.h>
#include <string.h>

#if KVR_ISA_AVX2
#include <immintrin.h>
#endif

/* In cross-attention, a register tile holds VECS accumulator vectors of W floats for each of
 * QUERIES query tokens. The QUERIES * VECS accumulators, VECS operand vectors and one broadcast
 * value must fit in the vector registers. AVX-512 and NEON have 32 vector registers, other variants
 * 16. Without FMA, a multiply-add needs one more register for the product. QUERIES divides the
 * number of tokens per frame of the models nano (36) and Wan (1560), so that no block of QUERIES
 * tokens is incomplete. */
#if KVR_ISA_AVX512
enum { W = 16, VECS = 1, QUERIES = 12 };
#elif KVR_ISA_AVX2
enum { W = 8, VECS = 2, QUERIES = 6 };
#elif defined(__aarch64__)
enum { W = 4, VECS = 4, QUERIES = 4 };
#else
enum { W = 4, VECS = 2, QUERIES = 4 };
#endif

typedef float vec __attribute__((vector_size(W * sizeof(float))));
typedef int32_t vec_bits __attribute__((vector_size(W * sizeof(float))));

/* Minimum number of values for which a loop starts an OpenMP team; for fewer values the start would
 * take longer than the loop. */
enum { WORTH_A_TEAM = 1 << 16 };

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *p)
{
    vec v;

    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

/* Loads n < W values into the first lanes of a vector; the other lanes are 0. */
INLINE vec load_part(const float *p, int64_t n)
{
    float full[W] = { 0 };

    memcpy(full, p, (size_t)n * sizeof *p);
    return load(full);
}

INLINE void store_part(float *p, vec v, int64_t n)
{
    memcpy(p, &v, (size_t)n * sizeof *p);
}

INLINE vec spread(float x)
{
    return x - (vec){ 0 };
}

#if KVR_ISA_AVX2
/* A vector of type `doubles` has PAIRS pairs of doubles; a vector of type `halves` has one double
 * per pair. SWAPPED exchanges the two doubles of each pair. TWICE duplicates each double of a
 * `halves` vector into a pair. Conversions between float and double use intrinsics, because gcc
 * would convert only half a register at a time. */
enum { PAIRS = W / 4 };
typedef double doubles __attribute__((vector_size(2 * PAIRS * sizeof(double))));
typedef double halves __attribute__((vector_size(PAIRS * sizeof(double))));
#if KVR_ISA_AVX512
#define SWAPPED(x) __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6)
#define TWICE(x) __builtin_shufflevector(x, x, 0, 0, 1, 1, 2, 2, 3, 3)

INLINE doubles load_doubles(const float *p)
{
    return (doubles)_mm512_cvtps_pd(_mm256_loadu_ps(p));
}

INLINE void store_rounded(float *p, doubles v)
{
    _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)v));
}
#else
#define SWAPPED(x) __builtin_shufflevector(x, x, 1, 0, 3, 2)
#define TWICE(x) __builtin_shufflevector(x, x, 0, 0, 1, 1)

INLINE doubles load_doubles(const float *p)
{
    return (doubles)_mm256_cvtps_pd(_mm_loadu_ps(p));
}

INLINE void store_rounded(float *p, doubles v)
{
    _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)v));
}
#endif
#endif

/* The function at_least() returns max(x, bound), and at_most() returns min(x, bound). A NaN in x
 * stays NaN. */
#if KVR_ISA_AVX512
INLINE vec at_least(vec x, vec bound)
{
    return (vec)_mm512_max_ps((__m512)bound, (__m512)x);
}

INLINE vec at_most(vec x, vec bound)
{
    return (vec)_mm512_min_ps((__m512)bound, (__m512)x);
}
#elif KVR_ISA_AVX2
INLINE vec at_least(vec x, vec bound)
{
    return (vec)_mm256_max_ps((__m256)bound, (__m256)x);
}

INLINE vec at_most(vec x, vec bound)
{
    return (vec)_mm256_min_ps((__m256)bound, (__m256)x);
}
#else
INLINE vec choose(vec_bits which, vec a, vec b)
{
    return (vec)((which & (vec_bits)a) | (~which & (vec_bits)b));
}

INLINE vec at_least(vec x, vec bound)
{
    return choose(x < bound, bound, x);
}

INLINE vec at_most(vec x, vec bound)
{
    return choose(x > bound, bound, x);
}
#endif

/* Computes e^x with an error of about 2 ulp, as 2^n p(x - n ln2), where n is x / ln2 rounded to an
 * integer and p is a polynomial of degree 6. The argument x is clamped to +-87, so that the result
 * is never subnormal; NaN propagates. */
INLINE vec exp_fast(vec x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding this constant to a float below 2^22 in
                                      * magnitude rounds the float to an integer */
    const vec y = at_most(at_least(x, spread(-87.0f)), spread(87.0f));
    const vec n = y * 1.44269504f + magic, whole = n - magic;
    const vec r = (y - whole * 0.693359375f) + whole * 2.12194440e-4f;
    vec p = r * 1.38888889e-3f + 8.33333333e-3f;

    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vec)(((vec_bits)n << 23) + 0x3f800000);
}

/* Horizontal sum, pairwise. */
INLINE float sum_of(vec v)
{
    float s[W];

    store(s, v);
    for (int n = W / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            s[i] += s[i + n];
    return s[0];
}

#endif
