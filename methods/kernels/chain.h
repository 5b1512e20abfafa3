/* chain.h - a transform and a grid, or two grids, done tile by tile on the CPU, so that what lies
 * between them stays in a core's own cache. */
#ifndef KVR_METHODS_KERNELS_CHAIN_H
#define KVR_METHODS_KERNELS_CHAIN_H

#include "methods/kernels/kernels_cuda.h"

/* x [T,H,D] is left alone; data[i] is the i-th grid's, work scratch of T*H*D floats. The same bytes
 * as one stage after the other. False, and nothing done, where the block is too small to deal out,
 * or the grids have no tile in common. */
bool kvr_chain_encode(const struct kvr_grid_chain *c, const float *x, float *work,
                      const struct kvr_stage_data *const data[2]);

#endif
