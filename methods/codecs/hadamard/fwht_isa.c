/* fwht_isa.c - the Walsh-Hadamard transform that fwht.h defines, compiled for each instruction
 * set. */
#include <math.h>
#include <string.h>

#include "methods/codecs/hadamard/fwht_kernels.h"
#include "methods/codecs/hadamard/fwht_lanes.h"

/* Divides the n SIMD vectors r by norm, correctly rounded. With FMA no division is needed: let y =
 * fl(1 / norm), where fl rounds to FP32, and l = 1 / norm - y. For an element r, fma(r, y, fl(r l))
 * is then the rounded quotient, unless r is 0 or an operation underflows or overflows. Rows with
 * such values are divided. The norm is 2^k or sqrt(2) 2^k, so the claim depends only on the
 * mantissa of r. The test tests/methods/test_isa.c checks all 2^23 mantissas. */
static inline __attribute__((always_inline)) void divide(vec *r, int n, float norm)
{
#ifdef KVR_SIMD
    const vf y = v_set(1 / norm), l = v_set(__builtin_fmaf(-(1 / norm), norm, 1) * (1 / norm));
    const vi least = i_set((int)(kvr_f32_bits(0x1p-90f) << 1));
    const uint32_t span = (kvr_f32_bits(0x1p120f) - kvr_f32_bits(0x1p-90f)) << 1;
    vi worst = i_set(0);

    /* Check that all |r| are in [2^-90, 2^120]: after subtracting the bits of 2^-90 as unsigned
     * integers, one comparison checks both limits. */
#pragma GCC unroll 32
    for (int i = 0; i < n; i++)
        worst = i_max_bits(worst, i_sub(i_left(v_bits((vf)r[i]), 1), least));
    if (i_most_bits(worst) <= span) {
#pragma GCC unroll 32
        for (int i = 0; i < n; i++)
            r[i] = (vec)v_mul_add((vf)r[i], y, v_mul((vf)r[i], l));
        return;
    }
#endif
#pragma GCC unroll 32
    for (int i = 0; i < n; i++) {
        r[i] /= norm;
        MAKE_ONE_NAN(r[i]);
    }
}

/* Transforms one row of n * LANES floats. If n is a compile-time constant, the row stays in
 * registers (r). */
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

/* Transforms, in place, a row that is shorter than a register. */
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
