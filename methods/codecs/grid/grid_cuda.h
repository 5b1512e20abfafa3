/* grid_cuda.h - launchers of the integer grids.
 *
 * All pointers are device memory of the stream. Shapes, formats, arithmetic and bytes equal those
 * of the named CPU function unless stated otherwise. A launcher neither allocates nor synchronises;
 * errors surface at kvr_stream_sync(). n = 0 launches nothing. */
#ifndef KVR_METHODS_GRID_CUDA_H
#define KVR_METHODS_GRID_CUDA_H

#include "harness/device/stream.h"
#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kvr_grid_encode: x [T,H,D] -> codes, scales and zero points (kvr_grid_layout). job->opts is not used. */
void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes,
                          void *scales);
/* kvr_grid_decode. NaN payloads may differ. */
void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *scales,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out);

/* A chain in one launch; intermediate results stay in registers and shared memory.
 *
 * x [T,H,D] is unchanged; data[i] belongs to the i-th grid. Returns false without a launch unless
 * the grids have groups of 16 tokens, or there is one grid with one group per token; channels are
 * multiples of four; and heads have 32, 64 or 128 channels if rotated. BF16 input also requires the
 * intended reading in F32 and the alignment of floats. */
bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_values *x, const struct kvr_stage_data *const data[2]);
/* Returns false if the chain rotates and heads do not have 32, 64 or 128 channels. */
bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out);
/* kvr_chain_decode_cuda with output rounded to BF16, to nearest even; also for one grid without a
 * transform. `out` is 16-byte aligned. Returns false without a launch if kvr_chain_decodes_bf16 is
 * false. */
bool kvr_chain_decode_bf16_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                                const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                                int h0, int nh, kvr_bf16 *out);
/* Depends on the chain's shape alone: heads of 32, 64 or 128 channels if it rotates. */
bool kvr_chain_decodes_bf16(const struct kvr_grid_chain *c);

#ifdef __cplusplus
}
#endif
#endif
