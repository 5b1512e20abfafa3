/* grid_rotated.cuh - Hadamard rotation and quantization of BF16 heads of 128 channels, in groups of
 * 16 tokens (grid_rotated_cuda.cu). */
#ifndef KVR_METHODS_GRID_ROTATED_CUH
#define KVR_METHODS_GRID_ROTATED_CUH

#include "methods/codecs/grid/grid_code.cuh"

/* Rotates x [g->n_tok,H,128], which has H heads, and quantizes it to `codes` and `scales`, in F32
 * arithmetic. The address of x must be 16-byte aligned. The function does not support methods named
 * NAME@study. */
void kvr_grid_encode_rotated(struct kvr_stream *s, const struct shape *g, const kvr_bf16 *x,
                             void *codes, void *scales);

#endif
