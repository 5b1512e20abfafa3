/* linear_cuda.h - kvreel's own kernels for linear layers, y = x w^T + bias, on a CUDA stream.
 *
 * All pointers are device pointers. Sums are computed in F32 and in a fixed order, so results are
 * deterministic. These kernels run on every supported device. The library cuBLASLt is faster where
 * it is available (blaslt.h). */
#ifndef KVR_ENGINE_LINEAR_CUDA_H
#define KVR_ENGINE_LINEAR_CUDA_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"
#include "harness/engine/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rows of BF16 operands are padded with zeros to a multiple of KVR_LINEAR_CUDA_DEPTH
 * columns. */
enum { KVR_LINEAR_CUDA_DEPTH = 32 };
static inline int kvr_linear_padded(int k)
{
    return (k + KVR_LINEAR_CUDA_DEPTH - 1) / KVR_LINEAR_CUDA_DEPTH * KVR_LINEAR_CUDA_DEPTH;
}

/* Computes y [m,n] = x w^T + bias in F32, from x [m,k], w [n,k], and bias [n] or NULL. Every sum is
 * accumulated in ascending order of k. */
void kvr_linear_f32_cuda(struct kvr_stream *s, int64_t m, int n, int k, const float *x,
                         const float *w, const float *bias, float *y);
/* Computes y [m,n] = x w^T + bias by BF16 tensor cores with F32 accumulation. Each row of x
 * [m,padded] and w [n,padded] has k elements and is padded with zeros to `padded` =
 * kvr_linear_padded(k) columns. Both operands must be 16-byte aligned. */
void kvr_linear_bf16_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, float *y);
/* Computes y = GELU(x w^T + bias), rounded to BF16. Each row of n results is padded with zeros to
 * the kvr_linear_padded(n) columns of y. The result is bit-identical to that of a separate GELU
 * pass over the F32 result. */
void kvr_linear_gelu_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                          const kvr_bf16 *w, const float *bias, kvr_bf16 *y);
/* Computes y [m,n] = x w^T + bias like kvr_linear_bf16_cuda(), with the result rounded to BF16. */
void kvr_linear_rounded_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                             const kvr_bf16 *w, const float *bias, kvr_bf16 *y);
/* Adds a gated linear layer to a residual stream: sum [m,n] = round(sum + gate * round(x w^T +
 * bias)), computed in F32, where round() rounds to BF16. */
void kvr_linear_added_cuda(struct kvr_stream *s, int64_t m, int n, int padded, const kvr_bf16 *x,
                           const kvr_bf16 *w, const float *bias, const struct kvr_linear_gate *gate,
                           kvr_bf16 *sum);
/* Rounds x [m,k] to BF16, writes the result to `out` [m,padded] and pads each row with zeros. */
void kvr_linear_round_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const float *x,
                           kvr_bf16 *out);
/* Copies the BF16 matrix x [m,k] to `out` [m,padded] and pads each row with zeros. */
void kvr_linear_pad_cuda(struct kvr_stream *s, int64_t m, int k, int padded, const kvr_bf16 *x,
                         kvr_bf16 *out);

#ifdef __cplusplus
}
#endif
#endif
