/* raw_cuda.h - launchers for values stored unchanged.
 *
 * Every pointer is device memory of the stream. A launcher neither allocates nor synchronises;
 * errors surface at kvr_stream_sync(). n = 0 launches nothing. */
#ifndef KVR_METHODS_RAW_CUDA_H
#define KVR_METHODS_RAW_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The codec `raw(type=bf16)`: x [T,H,D] -> codes. (type=f32 is a copy.) */
void kvr_raw_encode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape, const float *x,
                         kvr_bf16 *codes);
/* Tokens [t0, t0 + n) of heads [h0, h0 + nh) -> out; type KVR_BF16 or KVR_F32. */
void kvr_raw_decode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                         enum kvr_dtype type, const void *codes, int64_t t0, int64_t n, int h0,
                         int nh, float *out);

/* Rounds n values to BF16 in place. */
void kvr_round_bf16_cuda(struct kvr_stream *s, float *x, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
