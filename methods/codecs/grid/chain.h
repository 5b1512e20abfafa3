/* chain.h - perhaps a transform, and one or two grids, done as one.
 *
 * On the CPU tile by tile, so that values made F32 and what lies between the stages stay in a
 * core's own cache; on a device in one launch (grid_cuda.h). */
#ifndef KVR_METHODS_GRID_CHAIN_H
#define KVR_METHODS_GRID_CHAIN_H

#include "methods/codecs/grid/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two grids, the second over what the first left, or the transform (kvr_fwht) and a grid. */
struct kvr_grid_chain {
    int n; /* 1 with the transform, else 1 or 2 */
    struct kvr_grid grid[2];
    struct kvr_stage_job job[2]; /* opts are not read */
    bool rotate;                 /* with the transform before the grid */
    enum kvr_compute rotate_compute;
    bool round; /* decoding: what comes of the grids, to BF16 */
};

/* Floats of scratch that kvr_chain_encode uses. 0: it cannot, since the block is too small to deal
 * out, or the grids have no tile in common. */
int64_t kvr_chain_scratch(const struct kvr_grid_chain *c);

/* x [T,H,D], with some elements taken for others, is left alone; data[i] is the i-th grid's. The
 * same bytes as one stage after the other. */
void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, float *work,
                      const struct kvr_stage_data *const data[2]);

#ifdef __cplusplus
}
#endif
#endif
