/* dtype.c - names and sizes of element types, and conversion of single elements and of arrays. */
#include "harness/core/dtype.h"

#include <assert.h>

#include "harness/core/dtype_kernels.h"
#include "harness/core/dtype_scalar.h"

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

float kvr_f16_to_f32(kvr_f16 h)
{
    return f16_to_f32(h);
}

kvr_f16 kvr_f32_to_f16(float x)
{
    return f32_to_f16(x);
}

float kvr_e4m3_to_f32(uint8_t b)
{
    return e4m3_to_f32(b);
}

uint8_t kvr_f32_to_e4m3(float x)
{
    return f32_to_e4m3(x);
}

float kvr_e5m2_to_f32(uint8_t b)
{
    return e5m2_to_f32(b);
}

uint8_t kvr_f32_to_e5m2(float x)
{
    return f32_to_e5m2(x);
}

/* The parentheses prevent expansion of the macro of this name in tools/lint/analyzer.h. */
void(kvr_to_f32)(float *dst, const void *src, enum kvr_dtype t, size_t n)
{
    kvr_widen_fn *widen = kvr_dtype_kernels()->widen[t];

    if (t != KVR_F32) {
        assert(widen && "not a floating type");
        widen(dst, src, n);
    } else if (n) {
        memcpy(dst, src, n * sizeof *dst);
    }
}

void kvr_from_f32(void *dst, enum kvr_dtype t, const float *src, size_t n)
{
    kvr_narrow_fn *narrow = kvr_dtype_kernels()->narrow[t];

    if (t != KVR_F32) {
        assert(narrow && "not a floating type");
        narrow(dst, src, n);
    } else if (n) {
        memcpy(dst, src, n * sizeof *src);
    }
}
