/* dtype.c - element types and conversions.
 *
 * A narrow format of m mantissa bits is cut out of a float's bits: for normal results add
 * half of the last place kept (minus one, plus the bit that decides ties) and drop 23 - m
 * bits. For subnormal results add a power of two whose last place is the narrow format's
 * smallest step: the addition itself rounds to nearest even, and the step count appears in
 * the low bits of the sum. Both run off continuously into the next binade. */
#include "harness/core/dtype.h"

#include <assert.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

static const struct {
    const char *name;
    unsigned char size;
} types[KVR_N_DTYPES] = {
    [KVR_F32] = { "F32", 4 },   [KVR_F64] = { "F64", 8 },         [KVR_F16] = { "F16", 2 },
    [KVR_BF16] = { "BF16", 2 }, [KVR_F8_E4M3] = { "F8_E4M3", 1 }, [KVR_F8_E5M2] = { "F8_E5M2", 1 },
    [KVR_BOOL] = { "BOOL", 1 }, [KVR_U8] = { "U8", 1 },           [KVR_I8] = { "I8", 1 },
    [KVR_U16] = { "U16", 2 },   [KVR_I16] = { "I16", 2 },         [KVR_U32] = { "U32", 4 },
    [KVR_I32] = { "I32", 4 },   [KVR_U64] = { "U64", 8 },         [KVR_I64] = { "I64", 8 },
};

size_t kvr_dtype_size(enum kvr_dtype t)
{
    assert((unsigned)t < KVR_N_DTYPES);
    return types[t].size;
}

const char *kvr_dtype_name(enum kvr_dtype t)
{
    return (unsigned)t < KVR_N_DTYPES ? types[t].name : "?";
}

bool kvr_dtype_parse(const char *name, enum kvr_dtype *out)
{
    for (int i = 0; i < KVR_N_DTYPES; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *out = (enum kvr_dtype)i;
            return true;
        }
    }
    return false;
}

/* Steps of size ulp(2^k) = `step` in |x|, x far below 2^k; ties to even. */
static inline uint32_t count_steps(uint32_t abs_bits, float two_to_k)
{
    return kvr_f32_bits(kvr_bits_f32(abs_bits) + two_to_k) - kvr_f32_bits(two_to_k);
}

/* Drop `cut` low bits, nearest even, and move the exponent bias from 127 to `bias`. */
static inline uint32_t narrow_normal(uint32_t abs_bits, int cut, int bias)
{
    uint32_t half = (1u << (cut - 1)) - 1u;

    return ((abs_bits + half + ((abs_bits >> cut) & 1u)) >> cut) -
           ((uint32_t)(127 - bias) << (23 - cut));
}

/* A NaN becomes quiet and keeps its sign and upper payload, as F16C hardware does it. */
float kvr_f16_to_f32(kvr_f16 h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t a = h & 0x7fffu;

    if (a > 0x7c00u)
        return kvr_bits_f32(sign | 0x7fc00000u | (a & 0x3ffu) << 13);
    if (a == 0x7c00u)
        return kvr_bits_f32(sign | 0x7f800000u);
    if (a < 0x400u) /* a steps of 2^-24 */
        return kvr_bits_f32(sign | kvr_f32_bits((float)a * 0x1p-24f));
    return kvr_bits_f32(sign | ((a << 13) + ((127u - 15u) << 23)));
}

kvr_f16 kvr_f32_to_f16(float x)
{
    uint32_t u = kvr_f32_bits(x);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (kvr_f16)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) /* 65520, halfway between 65504 and the next even */
        return (kvr_f16)(sign | 0x7c00u);
    if (a < 0x38800000u) /* 2^-14 */
        return (kvr_f16)(sign | count_steps(a, 0.5f));
    return (kvr_f16)(sign | narrow_normal(a, 13, 15));
}

float kvr_e4m3_to_f32(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t a = b & 0x7fu;

    if (a == 0x7fu)
        return kvr_bits_f32(sign | 0x7fc00000u);
    if (a < 8u)
        return kvr_bits_f32(sign | kvr_f32_bits((float)a * 0x1p-9f));
    return kvr_bits_f32(sign | ((a << 20) + ((127u - 7u) << 23)));
}

uint8_t kvr_f32_to_e4m3(float x)
{
    uint32_t u = kvr_f32_bits(x);
    uint32_t sign = (u >> 24) & 0x80u;
    uint32_t a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (a >= 0x43e00000u) /* 448: saturates, infinity too */
        return (uint8_t)(sign | 0x7eu);
    if (a < 0x3c800000u) /* 2^-6 */
        return (uint8_t)(sign | count_steps(a, 0x1p14f));
    return (uint8_t)(sign | narrow_normal(a, 20, 7));
}

float kvr_e5m2_to_f32(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t a = b & 0x7fu;

    if (a > 0x7cu)
        return kvr_bits_f32(sign | 0x7fc00000u | (a & 3u) << 21);
    if (a == 0x7cu)
        return kvr_bits_f32(sign | 0x7f800000u);
    if (a < 4u)
        return kvr_bits_f32(sign | kvr_f32_bits((float)a * 0x1p-16f));
    return kvr_bits_f32(sign | ((a << 21) + ((127u - 15u) << 23)));
}

uint8_t kvr_f32_to_e5m2(float x)
{
    uint32_t u = kvr_f32_bits(x);
    uint32_t sign = (u >> 24) & 0x80u;
    uint32_t a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (a >= 0x47700000u) /* 61440, halfway between 57344 and the next even */
        return (uint8_t)(sign | 0x7cu);
    if (a < 0x38800000u) /* 2^-14 */
        return (uint8_t)(sign | count_steps(a, 0x1p7f));
    return (uint8_t)(sign | narrow_normal(a, 21, 15));
}

static void f16_to_f32_n(float *dst, const unsigned char *src, size_t n)
{
    size_t i = 0;

#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + 2 * i))));
#endif
    for (; i < n; i++) {
        kvr_f16 h;

        memcpy(&h, src + 2 * i, sizeof h);
        dst[i] = kvr_f16_to_f32(h);
    }
}

static void f32_to_f16_n(unsigned char *dst, const float *src, size_t n)
{
    size_t i = 0;

#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(dst + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) {
        kvr_f16 h = kvr_f32_to_f16(src[i]);

        memcpy(dst + 2 * i, &h, sizeof h);
    }
}

static void bf16_to_f32_n(float *dst, const unsigned char *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kvr_bf16 h;

        memcpy(&h, src + 2 * i, sizeof h);
        dst[i] = kvr_bf16_to_f32(h);
    }
}

static void f32_to_bf16_n(unsigned char *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kvr_bf16 h = kvr_f32_to_bf16(src[i]);

        memcpy(dst + 2 * i, &h, sizeof h);
    }
}

static void f64_to_f32_n(float *dst, const unsigned char *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x;

        memcpy(&x, src + 8 * i, sizeof x);
        dst[i] = (float)x;
    }
}

static void f32_to_f64_n(unsigned char *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = src[i];

        memcpy(dst + 8 * i, &x, sizeof x);
    }
}

void kvr_to_f32(float *dst, const void *src, enum kvr_dtype t, size_t n)
{
    const unsigned char *s = src;

    switch (t) {
    case KVR_F32:
        if (n)
            memcpy(dst, s, n * sizeof *dst);
        return;
    case KVR_F64:
        f64_to_f32_n(dst, s, n);
        return;
    case KVR_F16:
        f16_to_f32_n(dst, s, n);
        return;
    case KVR_BF16:
        bf16_to_f32_n(dst, s, n);
        return;
    case KVR_F8_E4M3:
        for (size_t i = 0; i < n; i++)
            dst[i] = kvr_e4m3_to_f32(s[i]);
        return;
    case KVR_F8_E5M2:
        for (size_t i = 0; i < n; i++)
            dst[i] = kvr_e5m2_to_f32(s[i]);
        return;
    default:
        assert(0 && "not a floating type");
    }
}

void kvr_from_f32(void *dst, enum kvr_dtype t, const float *src, size_t n)
{
    unsigned char *d = dst;

    switch (t) {
    case KVR_F32:
        if (n)
            memcpy(d, src, n * sizeof *src);
        return;
    case KVR_F64:
        f32_to_f64_n(d, src, n);
        return;
    case KVR_F16:
        f32_to_f16_n(d, src, n);
        return;
    case KVR_BF16:
        f32_to_bf16_n(d, src, n);
        return;
    case KVR_F8_E4M3:
        for (size_t i = 0; i < n; i++)
            d[i] = kvr_f32_to_e4m3(src[i]);
        return;
    case KVR_F8_E5M2:
        for (size_t i = 0; i < n; i++)
            d[i] = kvr_f32_to_e5m2(src[i]);
        return;
    default:
        assert(0 && "not a floating type");
    }
}
