/* dtype_kernels.h - array conversions that kvr_to_f32 and kvr_from_f32 call, with one table of
 * functions per CPU instruction set. The header dtype.h defines how conversions round. */
#ifndef KVR_CORE_DTYPE_KERNELS_H
#define KVR_CORE_DTYPE_KERNELS_H

#include "harness/core/dtype.h"
#include "harness/core/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Converts n elements; the arrays may be unaligned, but must not overlap. */
typedef void kvr_widen_fn(float *dst, const void *src, size_t n);
typedef void kvr_narrow_fn(void *dst, const float *src, size_t n);

/* Functions that convert arrays to float (`widen`) and from float (`narrow`), indexed by element
 * type. A pointer is NULL for F32, which is copied, and for integer types and BOOL, which have no
 * conversion. */
struct kvr_dtype_kernels {
    kvr_widen_fn *widen[KVR_N_DTYPES];
    kvr_narrow_fn *narrow[KVR_N_DTYPES];
};
KVR_ISA_TABLES(struct kvr_dtype_kernels, kvr_dtype_kernels)

#ifdef __cplusplus
}
#endif
#endif
