/* ops_cuda.h - the operations of ops.h on a CUDA stream.
 *
 * Shapes and formulas are those of struct kvr_ops. All pointers are device pointers. Results are
 * deterministic. CPU and GPU results differ by rounding, because the CPU and the GPU add the
 * elements of a row in different orders. The file tests/cuda/cases_ops.c has the error bounds. */
#ifndef KVR_ENGINE_OPS_CUDA_H
#define KVR_ENGINE_OPS_CUDA_H

#include "harness/device/stream.h"
#include "harness/engine/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

void kvr_norm_modulate_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *x,
                            const float *shift, const float *scale, int64_t stride, double eps,
                            float *y);
void kvr_norm_affine_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *x,
                          const float *w, const float *b, double eps, float *y);
void kvr_rms_norm_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *w, double eps,
                       float *x);
void kvr_rope_cuda(struct kvr_stream *s, const struct kvr_rows *r, int head_dim,
                   const double *cosines, const double *sines, float *x);
/* kvr_rms_rope_cuda() is bit-identical to kvr_rms_norm_cuda() followed by kvr_rope_cuda(). */
void kvr_rms_rope_cuda(struct kvr_stream *s, const struct kvr_rows *r, int head_dim, const float *w,
                       double eps, const double *cosines, const double *sines, float *x);
/* The functions named _bf16 read and write BF16 rows with an even number of elements. They compute
 * in F32 and round the result once. Norms with an argument `before` first add this residual to x in
 * place, like kvr_add_bf16_cuda(), and then write the normalized x to y [N,columns]. The function
 * kvr_rms_rope_bf16_cuda() applies RMSNorm and RoPE to queries and to keys: it computes y[i] from
 * x[i] with the RMSNorm weights w[i], i = 0 and 1. */
void kvr_norm_modulate_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r,
                                 const struct kvr_residual *before, kvr_bf16 *x, const float *shift,
                                 const float *scale, int64_t stride, double eps, kvr_bf16 *y,
                                 int columns);
void kvr_norm_affine_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r,
                               const struct kvr_residual *before, kvr_bf16 *x, const float *w,
                               const float *b, double eps, kvr_bf16 *y, int columns);
void kvr_rms_norm_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *w,
                            double eps, kvr_bf16 *x);
void kvr_rms_rope_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r, int head_dim,
                            const float *const *w, double eps, const double *cosines,
                            const double *sines, const kvr_bf16 *const *x, kvr_bf16 *const *y);
void kvr_add_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r,
                       const struct kvr_residual *from, kvr_bf16 *x);
/* Computes y [N,columns] = GELU(x), rounded to BF16. */
void kvr_gelu_bf16_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *x, kvr_bf16 *y,
                        int columns);
/* Computes x += gate * y, or x += y if `gate` is NULL. */
void kvr_add_cuda(struct kvr_stream *s, const struct kvr_rows *r, const float *y, const float *gate,
                  int64_t stride, float *x);
void kvr_gelu_cuda(struct kvr_stream *s, int64_t n, float *x);
void kvr_silu_cuda(struct kvr_stream *s, int64_t n, const float *x, float *y);
void kvr_patchify_cuda(struct kvr_stream *s, const struct kvr_patching *p, const float *x,
                       float *out);
void kvr_unpatchify_cuda(struct kvr_stream *s, const struct kvr_patching *p, const float *in,
                         float *x);
void kvr_add_modulation_cuda(struct kvr_stream *s, int n_frames, int n_rows, int d,
                             const float *base, const float *per_frame, bool same_for_rows,
                             float *out);
void kvr_subtract_cuda(struct kvr_stream *s, int64_t n, const float *x, const float *y, float *out);
void kvr_l1_cuda(struct kvr_stream *s, int64_t n, const float *x, const float *y, double *sums);
/* The functions kvr_x0_from_flow_cuda(), kvr_renoise_cuda(), kvr_blend_cuda() and kvr_clamp_cuda()
 * give bit-identical results to the CPU. */
void kvr_x0_from_flow_cuda(struct kvr_stream *s, int64_t n, const float *x, const float *flow,
                           float sigma, float *x0);
void kvr_renoise_cuda(struct kvr_stream *s, int64_t n, const float *x0, const float *eps,
                      float sigma, float *x);
void kvr_blend_cuda(struct kvr_stream *s, int64_t n, const struct kvr_blend *b, float *out);
void kvr_clamp_cuda(struct kvr_stream *s, int64_t n, float lo, float hi, float *x);
/* Sets *flag to 1 if an element of x is not finite, and otherwise leaves *flag unchanged. */
void kvr_not_finite_cuda(struct kvr_stream *s, int64_t n, const float *x, int32_t *flag);

#ifdef __cplusplus
}
#endif
#endif
