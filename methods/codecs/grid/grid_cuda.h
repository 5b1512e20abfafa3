/* grid_cuda.h - launchers of the integer grids.
 *
 * Every pointer is device memory of the stream; shapes, formats and arithmetic are those of the
 * CPU's functions named beside each, and so are the bytes, except where a line says otherwise. A
 * launcher neither allocates nor waits; what goes wrong shows at kvr_stream_sync(). n 0 launches
 * nothing. */
#ifndef KVR_METHODS_GRID_CUDA_H
#define KVR_METHODS_GRID_CUDA_H

#include "harness/device/stream.h"
#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kvr_grid_encode: x [T,H,D] -> codes, meta (kvr_grid_bytes). job->opts is not read. */
void kvr_grid_encode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const float *x, void *codes, void *meta);
/* kvr_grid_decode. A NaN may have another payload. */
void kvr_grid_decode_cuda(struct kvr_stream *s, const struct kvr_grid *g,
                          const struct kvr_stage_job *job, const void *codes, const void *meta,
                          int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                          float *out);

/* A chain in one launch, so that what lies between its stages never reaches memory.
 *
 * x [T,H,D] is left alone; data[i] is the i-th grid's. False, and nothing launched, where the shape
 * is another than: groups of 16 tokens, or one grid by token; multiples of four channels; to rotate,
 * heads of 32, 64 or 128. Of BF16 also: as intended, in F32, and aligned as floats would have to be. */
bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_values *x, const struct kvr_stage_data *const data[2]);
/* False: to rotate, and heads are others than of 32, 64 or 128 channels. */
bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out);

#ifdef __cplusplus
}
#endif
#endif
