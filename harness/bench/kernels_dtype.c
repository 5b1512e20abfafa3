/* kernels_dtype.c - test and benchmark cases of type conversions (harness/core/dtype_kernels.h).
 *
 * Converted values are stored, so all variants must be exactly equal. */
#include "harness/bench/kernel_case.h"
#include "harness/core/dtype_kernels.h"

static const void *table(void)
{
    return kvr_dtype_kernels();
}

/* Shapes {n, random}: n values. If random is 1, the input is random bits, which contain more
 * denormals, infinities and NaNs than the input that enum kvr_case_fill defines. */
static const int shapes[][KVR_CASE_DIMS] = { { 1 },     { 7 },       { 33 },      { 1025 },
                                             { 16, 1 }, { 4099, 1 }, { 65536, 1 } };

/* Arguments: narrow values [n], their F32 values [n]. */
static enum kvr_status widen_args(struct kvr_case_kit *k, enum kvr_dtype t)
{
    const size_t n = (size_t)k->shape[0];
    const enum kvr_dtype bits = kvr_dtype_size(t) == 1 ? KVR_U8 : KVR_U16;

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, k->shape[1] ? bits : t, n, 1));
    return kvr_case_arg(k, KVR_CASE_OUT, KVR_F32, n, 1);
}

/* Arguments: F32 values [n], converted narrow values [n]. */
static enum kvr_status narrow_args(struct kvr_case_kit *k, enum kvr_dtype t)
{
    const size_t n = (size_t)k->shape[0];

    KVR_TRY(kvr_case_arg(k, KVR_CASE_IN, k->shape[1] ? KVR_U32 : KVR_F32, n, 1));
    return kvr_case_arg(k, KVR_CASE_OUT, t, n, 1);
}

#define TYPE(t, type)                                                                              \
    static enum kvr_status from_##t##_args(struct kvr_case_kit *k)                                 \
    {                                                                                              \
        return widen_args(k, type);                                                                \
    }                                                                                              \
    static enum kvr_status to_##t##_args(struct kvr_case_kit *k)                                   \
    {                                                                                              \
        return narrow_args(k, type);                                                               \
    }                                                                                              \
    static void from_##t(const struct kvr_case_kit *k)                                             \
    {                                                                                              \
        kvr_dtype_kernels()->widen[type](k->arg[1].p, k->arg[0].p, k->arg[0].n);                   \
    }                                                                                              \
    static void to_##t(const struct kvr_case_kit *k)                                               \
    {                                                                                              \
        kvr_dtype_kernels()->narrow[type](k->arg[1].p, k->arg[0].p, k->arg[0].n);                  \
    }

TYPE(f16, KVR_F16)
TYPE(bf16, KVR_BF16)
TYPE(e4m3, KVR_F8_E4M3)
TYPE(e5m2, KVR_F8_E5M2)

#define CASE(fn)                                                                                   \
    {                                                                                              \
        .name = "dtype." #fn, .table = table, .prepare = fn##_args, .run = fn, .shapes = shapes,   \
        .n_shapes = (int)(sizeof shapes / sizeof *shapes), .timed = {                              \
            1 << 18                                                                                \
        }                                                                                          \
    }

const struct kvr_kernel_case kvr_kernels_dtype[] = {
    CASE(from_f16), CASE(to_f16),    CASE(from_bf16), CASE(to_bf16), CASE(from_e4m3),
    CASE(to_e4m3),  CASE(from_e5m2), CASE(to_e5m2),   { 0 },
};
