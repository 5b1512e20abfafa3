/* fwht_lanes.h - butterflies of the Walsh-Hadamard transform within a vector register, for the
 * *_isa.c files that transform rows.
 *
 *     vec r[4];  int n = 4;  bool bf16 = false;
 *     STRIDE(1)                 lane j becomes r[j] + r[j+1] or r[j-1] - r[j], in all n vectors */
#ifndef KVR_METHODS_FWHT_LANES_H
#define KVR_METHODS_FWHT_LANES_H

#include <stdint.h>

#include "methods/kernels/simd.h"

/* One vector register. */
#if defined(KVR_ISA_AVX512)
enum { LANES = 16 };
#elif defined(KVR_ISA_AVX2)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

/* Rounds v to the nearest BF16, ties to even; a NaN stays NaN. */
#define ROUND_BF16(v)                                                                              \
    do {                                                                                           \
        const uvec u_ = (uvec)(v), nan_ = (uvec)((v) != (v));                                      \
        const uvec r_ = (u_ + 0x7fffu + ((u_ >> 16) & 1u)) >> 16;                                  \
        (v) = (vec)((nan_ & u_) | (~nan_ & (r_ << 16)));                                           \
    } while (0)

/* MAKE_ONE_NAN replaces every NaN by ONE_NAN, so that results do not depend on the processor, which
 * selects the payload of the sum of two NaNs. */
#define ONE_NAN 0x7fc00000u
#define MAKE_ONE_NAN(v)                                                                            \
    do {                                                                                           \
        const uvec nan_ = (uvec)((v) != (v));                                                      \
        (v) = (vec)((nan_ & ONE_NAN) | (~nan_ & (uvec)(v)));                                       \
    } while (0)

/* Butterfly of a stride h < LANES: lane j becomes x[j] + x[j+h] if j & h is 0, and x[j-h] - x[j]
 * otherwise. With FMA instructions, the sign of x[j] is a factor of +1 or -1, so the multiplication
 * is exact. */
#ifdef KVR_SIMD
#define SIGN(h, j) ((j) & (h) ? -1.0f : 1.0f)
#define SIGNS_TYPE vec
#define SIGNED_SUM(v, signs, other) (vec) v_mul_add((vf)(v), (vf)(signs), (vf)(other))
#else
#define SIGN(h, j) ((j) & (h) ? 0x80000000u : 0u)
#define SIGNS_TYPE uvec
#define SIGNED_SUM(v, signs, other) ((other) + (vec)((uvec)(v) ^ (signs)))
#endif
#if defined(KVR_ISA_AVX512)
#define SIGNS(h)                                                                                   \
    (SIGNS_TYPE)                                                                                   \
    {                                                                                              \
        SIGN(h, 0), SIGN(h, 1), SIGN(h, 2), SIGN(h, 3), SIGN(h, 4), SIGN(h, 5), SIGN(h, 6),        \
            SIGN(h, 7), SIGN(h, 8), SIGN(h, 9), SIGN(h, 10), SIGN(h, 11), SIGN(h, 12),             \
            SIGN(h, 13), SIGN(h, 14), SIGN(h, 15)                                                  \
    }
#define SWAP(v, h)                                                                                 \
    __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h, 4 ^ h, 5 ^ h, 6 ^ h, 7 ^ h, 8 ^ h,   \
                            9 ^ h, 10 ^ h, 11 ^ h, 12 ^ h, 13 ^ h, 14 ^ h, 15 ^ h)
#elif defined(KVR_ISA_AVX2)
#define SIGNS(h)                                                                                   \
    (SIGNS_TYPE)                                                                                   \
    {                                                                                              \
        SIGN(h, 0), SIGN(h, 1), SIGN(h, 2), SIGN(h, 3), SIGN(h, 4), SIGN(h, 5), SIGN(h, 6),        \
            SIGN(h, 7)                                                                             \
    }
#define SWAP(v, h)                                                                                 \
    __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h, 4 ^ h, 5 ^ h, 6 ^ h, 7 ^ h)
#else
#define SIGNS(h)                                                                                   \
    (SIGNS_TYPE)                                                                                   \
    {                                                                                              \
        SIGN(h, 0), SIGN(h, 1), SIGN(h, 2), SIGN(h, 3)                                             \
    }
#define SWAP(v, h) __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h)
#endif
#define STRIDE(h)                                                                                  \
    _Pragma("GCC unroll 32") for (int i = 0; i < n; i++)                                           \
    {                                                                                              \
        r[i] = SIGNED_SUM(r[i], SIGNS(h), SWAP(r[i], h));                                          \
        if (bf16)                                                                                  \
            ROUND_BF16(r[i]);                                                                      \
    }

#ifdef KVR_SIMD
/* The macro i_halves loads the low half of a register from p and its high half from q. The function
 * v_store_halves stores the low half of a register to p and its high half to q. */
#ifdef KVR_ISA_AVX512
#define i_halves(p, q)                                                                             \
    _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(p))),           \
                       _mm256_loadu_si256((const __m256i *)(q)), 1)

static inline void v_store_halves(float *p, float *q, vf v)
{
    _mm256_storeu_ps(p, _mm512_castps512_ps256(v));
    _mm256_storeu_ps(q, _mm512_extractf32x8_ps(v, 1));
}
#else
#define i_halves(p, q)                                                                             \
    _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(p))),         \
                            _mm_loadu_si128((const __m128i *)(q)), 1)

static inline void v_store_halves(float *p, float *q, vf v)
{
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storeu_ps(q, _mm256_extractf128_ps(v, 1));
}
#endif
#endif

#endif
