/* linear_cuda.h - kvreel's kernels for linear layers on a CUDA stream: Y = X W^T + b.
 *
 * All pointers are device memory. Sums are F32 in a fixed order, so results are deterministic.
 * cuBLASLt is faster where it is available (blaslt.h); these kernels run on every supported
 * device. */
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

/* x [m,k], w [n,k], bias [n] or NULL, y [m,n]; F32 throughout, k in order. */
void kvr_linear_f32_cuda(struct kvr_stream *s, int64_t m, int n, int k, const float *x,
                         const float *w, const float *bias, float *y);
/* x [m,padded], w [n,padded], 16-byte aligned. BF16 tensor cores, F32 accumulation. */
void kvr_linear_bf16_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, float *y);
/* kvr_linear_bf16_cuda followed by GELU, rounded to BF16: y [m, kvr_linear_padded(n)], zero from
 * column n on. Bit-identical to a separate GELU pass over the F32 result. */
void kvr_linear_gelu_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, kvr_bf16 *y);
/* kvr_linear_bf16_cuda with the result rounded to BF16: y [m,n]. */
void kvr_linear_rounded_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                             const kvr_bf16 *w, const float *bias, kvr_bf16 *y);
/* sum [m,n] = round(sum + gate * round(product)), in F32 arithmetic. */
void kvr_linear_added_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                           const kvr_bf16 *w, const float *bias, const struct kvr_linear_gate *gate,
                           kvr_bf16 *sum);
/* Rounds x [m,k] to BF16 out [m,padded], zero from column k on. */
void kvr_linear_round_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const float *x,
                           kvr_bf16 *out);
/* Copies BF16 x [m,k] to out [m,padded], zero from column k on. */
void kvr_linear_pad_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const kvr_bf16 *x,
                         kvr_bf16 *out);

#ifdef __cplusplus
}
#endif
#endif
