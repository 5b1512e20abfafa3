/* linear_cuda.h - own kernels for linear layers on a CUDA stream: Y = X W^T + b.
 *
 * Every pointer is device memory; sums are F32 in a fixed order, so the same input gives the same
 * bytes every time. cuBLASLt is faster where it is (blaslt.h); these run everywhere. */
#ifndef KVR_ENGINE_LINEAR_CUDA_H
#define KVR_ENGINE_LINEAR_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* BF16 operands are padded with zero columns to a multiple of this. */
enum { KVR_LINEAR_CUDA_DEPTH = 32 };
static inline int kvr_linear_padded(int k)
{
    return (k + KVR_LINEAR_CUDA_DEPTH - 1) / KVR_LINEAR_CUDA_DEPTH * KVR_LINEAR_CUDA_DEPTH;
}

/* x [m,k], w [n,k], bias [n] or NULL, y [m,n]; products and sums in F32, k in order. */
void kvr_linear_f32_cuda(struct kvr_stream *s, int64_t m, int n, int k, const float *x,
                         const float *w, const float *bias, float *y);
/* x [m,padded], w [n,padded], 16-byte aligned: products on tensor cores, sums in F32. */
void kvr_linear_bf16_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, float *y);
/* The same, its GELU, rounded: y [m, kvr_linear_padded(n)], zeros behind n. The bytes of a pass of its
 * own over what the former gives. */
void kvr_linear_gelu_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, kvr_bf16 *y);
/* The same without GELU, y [m,n]. */
void kvr_linear_rounded_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                             const kvr_bf16 *w, const float *bias, kvr_bf16 *y);
/* The same, by a gate, added to sum [m,n] in F32, and rounded again. */
void kvr_linear_added_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                           const kvr_bf16 *w, const float *bias, const struct kvr_linear_gate *gate,
                           kvr_bf16 *sum);
/* x [m,k] -> out [m,padded]: to the nearest BF16, zeros behind k. */
void kvr_linear_round_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const float *x,
                           kvr_bf16 *out);
/* Of BF16: zeros alone. */
void kvr_linear_pad_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const kvr_bf16 *x,
                         kvr_bf16 *out);

#ifdef __cplusplus
}
#endif
#endif
