/* dtype.h - element types, and the conversions between them.
 *
 * Every conversion to a narrower type rounds to nearest, ties to even, and keeps NaN a NaN. BF16,
 * FP16 and E5M2 overflow to infinity. E4M3 has no infinity (OCP variant "FN"), so values beyond its
 * largest number saturate at +-448. */
#ifndef KVR_CORE_DTYPE_H
#define KVR_CORE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_dtype {
    KVR_F32,
    KVR_F64,
    KVR_F16,
    KVR_BF16,
    KVR_F8_E4M3,
    KVR_F8_E5M2,
    KVR_BOOL,
    KVR_U8,
    KVR_I8,
    KVR_U16,
    KVR_I16,
    KVR_U32,
    KVR_I32,
    KVR_U64,
    KVR_I64,
    KVR_N_DTYPES
};

typedef uint16_t kvr_bf16;
typedef uint16_t kvr_f16;

size_t kvr_dtype_size(enum kvr_dtype t);      /* bytes of one element */
const char *kvr_dtype_name(enum kvr_dtype t); /* safetensors spelling: "F32", "F8_E4M3", ... */
/* Sets *out to the type of this name, or returns false and leaves *out unchanged. */
bool kvr_dtype_parse(const char *name, enum kvr_dtype *out);

static inline uint32_t kvr_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float kvr_bits_f32(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float kvr_bf16_to_f32(kvr_bf16 h)
{
    return kvr_bits_f32((uint32_t)h << 16);
}

static inline kvr_bf16 kvr_f32_to_bf16(float x)
{
    uint32_t u = kvr_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (kvr_bf16)((u >> 16) | 0x40u); /* makes the NaN quiet; sign and payload are kept */
    return (kvr_bf16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float kvr_f16_to_f32(kvr_f16 h);
kvr_f16 kvr_f32_to_f16(float x);
float kvr_e4m3_to_f32(uint8_t b);
uint8_t kvr_f32_to_e4m3(float x);
float kvr_e5m2_to_f32(uint8_t b);
uint8_t kvr_f32_to_e5m2(float x);

/* Converts n elements of any floating-point type (F32, F64, F16, BF16, F8_*) to float. */
void kvr_to_f32(float *dst, const void *src, enum kvr_dtype t, size_t n);
/* Converts n floats to any floating-point type. */
void kvr_from_f32(void *dst, enum kvr_dtype t, const float *src, size_t n);

#ifdef __cplusplus
}
#endif
#endif
