/* fwht_isa.c - see fwht.h for the definition. */
#include <math.h>
#include <string.h>

#include "methods/codecs/hadamard/fwht_kernels.h"
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

/* Rounds to the nearest BF16, ties to even; NaN stays NaN. */
#define ROUND_BF16(v)                                                                              \
    do {                                                                                           \
        const uvec u_ = (uvec)(v), nan_ = (uvec)((v) != (v));                                      \
        const uvec r_ = (u_ + 0x7fffu + ((u_ >> 16) & 1u)) >> 16;                                  \
        (v) = (vec)((nan_ & u_) | (~nan_ & (r_ << 16)));                                           \
    } while (0)

/* Which NaN a sum of two NaNs returns depends on the instruction, so every variant returns this
 * one. */
#define ONE_NAN 0x7fc00000u
#define MAKE_ONE_NAN(v)                                                                            \
    do {                                                                                           \
        const uvec nan_ = (uvec)((v) != (v));                                                      \
        (v) = (vec)((nan_ & ONE_NAN) | (~nan_ & (uvec)(v)));                                       \
    } while (0)

/* Stride h < LANES: lane j gets x[j] + x[j+h] or x[j-h] - x[j]. With FMA the sign is a factor,
 * which is exact. */
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

/* r / norm, rounded like a division. With FMA: q0 = r y, where y is the rounded 1/norm, and q0 + (r
 * - q0 norm) y is the rounded quotient unless something underflows, overflows or is 0; such rows
 * are divided. norm is 2^k or sqrt(2) 2^k, so only the 2^23 mantissas of [1, 2) matter, and
 * tests/methods/test_isa.c checks them all. */
static inline __attribute__((always_inline)) void divide(vec *r, int n, float norm)
{
#ifdef KVR_SIMD
    const vf y = v_set(1 / norm), by = v_set(norm);
    const vi least = i_set((int)(kvr_f32_bits(0x1p-90f) << 1));
    const uint32_t span = (kvr_f32_bits(0x1p120f) - kvr_f32_bits(0x1p-90f)) << 1;
    vi worst = i_set(0);

    /* Distance of the magnitudes from the smallest, as unsigned integers. */
#pragma GCC unroll 32
    for (int i = 0; i < n; i++)
        worst = i_max_bits(worst, i_sub(i_left(v_bits((vf)r[i]), 1), least));
    if (i_most_bits(worst) <= span) {
#pragma GCC unroll 32
        for (int i = 0; i < n; i++) {
            const vf q0 = v_mul((vf)r[i], y);

            r[i] = (vec)v_mul_add(v_minus_mul(q0, by, (vf)r[i]), y, q0);
        }
        return;
    }
#endif
#pragma GCC unroll 32
    for (int i = 0; i < n; i++) {
        r[i] /= norm;
        MAKE_ONE_NAN(r[i]);
    }
}

/* One row of n * LANES floats in r; a constant n keeps it in registers. */
static inline __attribute__((always_inline)) void row_of(float *y, const float *x, vec *r, int n,
                                                         bool bf16)
{
    const float norm = sqrtf((float)(n * LANES));

#pragma GCC unroll 32
    for (int i = 0; i < n; i++)
        r[i] = *(const vec *)(x + i * LANES);
    STRIDE(1)
    STRIDE(2)
#if defined(KVR_ISA_AVX2)
    STRIDE(4)
#endif
#if defined(KVR_ISA_AVX512)
    STRIDE(8)
#endif
#pragma GCC unroll 8
    for (int h = 1; h < n; h *= 2)
#pragma GCC unroll 32
        for (int at = 0; at < n / 2; at++) {
            const int i = at / h * 2 * h + at % h;
            const vec a = r[i], b = r[i + h];

            r[i] = a + b;
            r[i + h] = a - b;
            if (bf16) {
                ROUND_BF16(r[i]);
                ROUND_BF16(r[i + h]);
            }
        }
    divide(r, n, norm);
#pragma GCC unroll 32
    for (int i = 0; i < n; i++) {
        if (bf16)
            ROUND_BF16(r[i]);
        *(vec *)(y + i * LANES) = r[i];
    }
}

static void row_128(float *y, const float *x, bool bf16)
{
    vec r[128 / LANES];

    if (bf16)
        row_of(y, x, r, 128 / LANES, true);
    else
        row_of(y, x, r, 128 / LANES, false);
}

static void row_64(float *y, const float *x)
{
    vec r[64 / LANES];

    row_of(y, x, r, 64 / LANES, false);
}

static void row_any(float *y, const float *x, int d, bool bf16)
{
    vec r[KVR_FWHT_MAX / LANES];

    row_of(y, x, r, d / LANES, bf16);
}

static float to_bf16(float x, bool bf16)
{
    return bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(x)) : x;
}

/* Rows shorter than a register, in place. */
static void short_row(float *x, int d, bool bf16)
{
    const float norm = sqrtf((float)d);

    for (int h = 1; h < d; h *= 2)
        for (int base = 0; base < d; base += 2 * h)
            for (int i = base; i < base + h; i++) {
                const float a = x[i], b = x[i + h];

                x[i] = to_bf16(a + b, bf16);
                x[i + h] = to_bf16(a - b, bf16);
            }
    for (int i = 0; i < d; i++)
        x[i] = isnan(x[i]) ? NAN : to_bf16(x[i] / norm, bf16);
}

static void rows(float *y, const float *x, int64_t n_rows, int d, bool bf16)
{
    for (int64_t i = 0; i < n_rows; i++, x += d, y += d) {
        if (d < LANES) {
            memmove(y, x, (size_t)d * sizeof *y);
            short_row(y, d, bf16);
        } else if (d == 128) {
            row_128(y, x, bf16);
        } else if (d == 64 && !bf16) {
            row_64(y, x);
        } else {
            row_any(y, x, d, bf16);
        }
    }
}

const struct kvr_fwht_kernels KVR_ISA_NAME(kvr_fwht_kernels) = { .rows = rows };
