/* grid_cuda.h - launchers of the integer grids.
 *
 * All pointers are memory of the stream's device. A launcher uses the shapes, formats and
 * arithmetic of the CPU function that its comment names, and writes the same bytes, unless stated
 * otherwise. A launcher neither allocates memory nor synchronises; kvr_stream_sync() returns
 * errors. For n = 0 no kernel is launched. */
#ifndef KVR_METHODS_GRID_CUDA_H
#define KVR_METHODS_GRID_CUDA_H

#include "harness/device/stream.h"
#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Encodes x [T,H,D] as kvr_grid_encode does, to codes, scales and zero points (kvr_grid_layout).
 * The options come from `g`, not from job->opts. */
void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes,
                          void *scales);
/* Decodes as kvr_grid_decode does. NaN payloads may differ. */
void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *scales,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out);

/* Encodes a chain (two grids, or an optional rotation and one grid) in one launch. Intermediate
 * results stay in registers and shared memory.
 *
 * The input x [T,H,D] does not change, and data[i] receives the codes and scales of grid i. Returns
 * false without a launch if the chain is not supported. The groups of a supported chain have 16
 * tokens, with one exception: in a single grid without rotation, a group may be one token, if x is
 * BF16 and has at most 2048 channels. The number of channels H*D must be a multiple of four. A
 * chain with a rotation must have one grid, and heads of 32, 64 or 128 channels. If x is BF16, the
 * chain must use F32 arithmetic and the intended version of its grids (grid.h). The data of x, BF16
 * or F32, must be aligned to 16 bytes, or to D / 8 bytes if the chain has a rotation. */
bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_values *x, const struct kvr_stage_data *const data[2]);
/* Decodes a block that kvr_chain_encode or kvr_chain_encode_cuda encoded, in one launch. A chain
 * without a rotation is always supported. For a chain with a rotation, the function returns false
 * if the chain has two grids, or if D is not 32, 64 or 128. It also returns false if a buffer is
 * not aligned to D / 32 elements, or if groups consist of channels and their size is not a multiple
 * of D / 32. */
bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out);
/* Decodes a chain as kvr_chain_decode_cuda does, but rounds the output to the nearest BF16, with
 * ties to even. `out` must be 16-byte aligned. Returns false without a launch if
 * kvr_chain_decodes_bf16 returns false. */
bool kvr_chain_decode_bf16_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                                const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                                int h0, int nh, kvr_bf16 *out);
/* Returns whether kvr_chain_decode_bf16_cuda can decode the chain. It can decode every chain
 * without a rotation. A chain with a rotation must have one grid and heads of D = 32, 64 or 128
 * channels. If the grid of such a chain has groups of channels, the group size must be a multiple
 * of D / 32. */
bool kvr_chain_decodes_bf16(const struct kvr_grid_chain *c);

#ifdef __cplusplus
}
#endif
#endif
