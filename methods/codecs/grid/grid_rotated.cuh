/* grid_rotated.cuh - BF16 heads of 128 channels, rotated and coded by sets of 16 tokens
 * (grid_rotated_cuda.cu). */
#ifndef KVR_METHODS_GRID_ROTATED_CUH
#define KVR_METHODS_GRID_ROTATED_CUH

#include "methods/codecs/grid/grid_code.cuh"

/* x [g->n_tok,H,128], on multiples of 16 bytes; as intended and in F32. */
void kvr_grid_encode_rotated(struct kvr_stream *s, const struct shape *g, const kvr_bf16 *x,
                             void *codes, void *meta);

#endif
