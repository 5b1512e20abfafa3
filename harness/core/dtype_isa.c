/* dtype_isa.c - conversions of arrays, as loops over dtype_scalar.h. With AVX2 or AVX-512, F16 is
 * converted by CPU instructions, which round like the functions of dtype_scalar.h. */
#include "harness/core/dtype_kernels.h"
#include "harness/core/dtype_scalar.h"

#ifdef KVR_ISA_AVX2
#include <immintrin.h>
#endif

static void f16_to_f32_n(float *restrict dst, const void *restrict src, size_t n)
{
    const unsigned char *s = src;
    size_t i = 0;

#if defined(KVR_ISA_AVX512)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(s + 2 * i))));
#elif defined(KVR_ISA_AVX2)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(s + 2 * i))));
#endif
    for (; i < n; i++) {
        kvr_f16 h;

        memcpy(&h, s + 2 * i, sizeof h);
        dst[i] = f16_to_f32(h);
    }
}

static void f32_to_f16_n(void *restrict dst, const float *restrict src, size_t n)
{
    unsigned char *d = dst;
    size_t i = 0;

#if defined(KVR_ISA_AVX512)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(d + 2 * i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(KVR_ISA_AVX2)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(d + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) {
        const kvr_f16 h = f32_to_f16(src[i]);

        memcpy(d + 2 * i, &h, sizeof h);
    }
}

static void bf16_to_f32_n(float *restrict dst, const void *restrict src, size_t n)
{
    const unsigned char *s = src;

    for (size_t i = 0; i < n; i++) {
        kvr_bf16 h;

        memcpy(&h, s + 2 * i, sizeof h);
        dst[i] = kvr_bf16_to_f32(h);
    }
}

static void f32_to_bf16_n(void *restrict dst, const float *restrict src, size_t n)
{
    unsigned char *d = dst;

    for (size_t i = 0; i < n; i++) {
        const kvr_bf16 h = kvr_f32_to_bf16(src[i]);

        memcpy(d + 2 * i, &h, sizeof h);
    }
}

static void f64_to_f32_n(float *restrict dst, const void *restrict src, size_t n)
{
    const unsigned char *s = src;

    for (size_t i = 0; i < n; i++) {
        double x;

        memcpy(&x, s + 8 * i, sizeof x);
        dst[i] = (float)x;
    }
}

static void f32_to_f64_n(void *restrict dst, const float *restrict src, size_t n)
{
    unsigned char *d = dst;

    for (size_t i = 0; i < n; i++) {
        const double x = src[i];

        memcpy(d + 8 * i, &x, sizeof x);
    }
}

static void e4m3_to_f32_n(float *restrict dst, const void *restrict src, size_t n)
{
    const uint8_t *s = src;

    for (size_t i = 0; i < n; i++)
        dst[i] = e4m3_to_f32(s[i]);
}

static void f32_to_e4m3_n(void *restrict dst, const float *restrict src, size_t n)
{
    uint8_t *d = dst;

    for (size_t i = 0; i < n; i++)
        d[i] = f32_to_e4m3(src[i]);
}

static void e5m2_to_f32_n(float *restrict dst, const void *restrict src, size_t n)
{
    const uint8_t *s = src;

    for (size_t i = 0; i < n; i++)
        dst[i] = e5m2_to_f32(s[i]);
}

static void f32_to_e5m2_n(void *restrict dst, const float *restrict src, size_t n)
{
    uint8_t *d = dst;

    for (size_t i = 0; i < n; i++)
        d[i] = f32_to_e5m2(src[i]);
}

const struct kvr_dtype_kernels KVR_ISA_NAME(kvr_dtype_kernels) = {
    .widen = {
        [KVR_F64] = f64_to_f32_n,
        [KVR_F16] = f16_to_f32_n,
        [KVR_BF16] = bf16_to_f32_n,
        [KVR_F8_E4M3] = e4m3_to_f32_n,
        [KVR_F8_E5M2] = e5m2_to_f32_n,
    },
    .narrow = {
        [KVR_F64] = f32_to_f64_n,
        [KVR_F16] = f32_to_f16_n,
        [KVR_BF16] = f32_to_bf16_n,
        [KVR_F8_E4M3] = f32_to_e4m3_n,
        [KVR_F8_E5M2] = f32_to_e5m2_n,
    },
};
