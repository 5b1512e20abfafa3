/* kernels_cuda.h - launchers of the methods' kernels.
 *
 * Every pointer is device memory of the stream unless it says "host"; shapes, formats and
 * arithmetic are those of the CPU's functions named beside each, and so are the bytes, except
 * where a line says otherwise. A launcher neither allocates nor waits; what goes wrong shows at
 * kvr_stream_sync(). n 0 launches nothing. */
#ifndef KVR_METHODS_KERNELS_CUDA_H
#define KVR_METHODS_KERNELS_CUDA_H

#include "harness/device/stream.h"
#include "methods/kernels/grid.h"
#include "methods/kernels/topk.h"

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

/* Two grids, the second over what the first left, or the transform (kvr_fwht) and a grid: one
 * launch, so that what lies between never reaches memory. */
struct kvr_grid_chain {
    int n; /* 1 with the transform, else 1 or 2 */
    struct kvr_grid grid[2];
    struct kvr_stage_job job[2]; /* opts are not read */
    bool turn;                   /* with the transform before the grid */
    enum kvr_compute turn_compute;
    bool round; /* decoding: what comes of the grids, to BF16 */
};
/* x [T,H,D] is left alone; data[i] is the i-th grid's. False, and nothing launched, where the shape
 * is another than: sets of 16 tokens; multiples of four channels; to turn, heads of 32, 64 or 128.
 */
bool kvr_chain_encode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c, const float *x,
                           const struct kvr_stage_data *const data[2]);
/* False: to turn, and heads are others than of 32, 64 or 128 channels. */
bool kvr_chain_decode_cuda(struct kvr_stream *s, const struct kvr_grid_chain *c,
                           const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                           int h0, int nh, float *out);

/* The codec `exact(type=bf16)`: x [T,H,D] -> codes. (type=f32 is a copy.) */
void kvr_exact_encode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           const float *x, kvr_bf16 *codes);
/* Tokens [t0, t0 + n) of heads [h0, h0 + nh) -> out; type KVR_BF16 or KVR_F32. */
void kvr_exact_decode_cuda(struct kvr_stream *s, const struct kvr_block_shape *shape,
                           enum kvr_dtype type, const void *codes, int64_t t0, int64_t n, int h0,
                           int nh, float *out);

/* x as BF16 holds it, n values in place. */
void kvr_round_bf16_cuda(struct kvr_stream *s, float *x, int64_t n);

/* kvr_fwht; x lies on a multiple of 16 bytes. A NaN may have another payload. */
void kvr_fwht_cuda(struct kvr_stream *s, float *x, int64_t rows, int d, enum kvr_compute compute);

#ifdef __cplusplus
}
#endif
#endif
