/* raw_cuda.h - launchers of the codec `raw`, which stores elements as BF16 or F32.
 *
 * All arrays are in memory of the stream's device. A launcher neither allocates memory nor
 * synchronises; kvr_stream_sync() returns errors. For n = 0 no kernel is launched. */
#ifndef KVR_METHODS_RAW_CUDA_H
#define KVR_METHODS_RAW_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Encodes x [T,H,D] with `raw(type=bf16)`. (The encoder of `raw(type=f32)` is a plain copy.) */
void kvr_raw_encode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape, const float *x,
                         kvr_bf16 *codes);
/* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) to out [n,nh,D]. The stored type is KVR_BF16
 * or KVR_F32. */
void kvr_raw_decode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                         enum kvr_dtype type, const void *codes, int64_t t0, int64_t n, int h0,
                         int nh, float *out);

/* Rounds n values to BF16 in place. */
void kvr_round_bf16_cuda(struct kvr_stream *s, float *x, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
