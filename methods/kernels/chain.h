/* chain.h - perhaps a transform, and one or two grids, done tile by tile on the CPU, so that values
 * made F32 and what lies between the stages stay in a core's own cache. */
#ifndef KVR_METHODS_KERNELS_CHAIN_H
#define KVR_METHODS_KERNELS_CHAIN_H

#include "methods/kernels/kernels_cuda.h"

/* Floats of scratch that kvr_chain_encode uses. 0: it cannot, since the block is too small to deal
 * out, or the grids have no tile in common. */
int64_t kvr_chain_scratch(const struct kvr_grid_chain *c);

/* x [T,H,D], with some elements taken for others, is left alone; data[i] is the i-th grid's. The
 * same bytes as one stage after the other. */
void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, float *work,
                      const struct kvr_stage_data *const data[2]);

#endif
