/* chain.h - an optional transform and one or two grids in one pass.
 *
 * The CPU works tile by tile, so that F32 values and intermediate results stay in a core's cache; a
 * device uses one launch (grid_cuda.h). */
#ifndef KVR_METHODS_GRID_CHAIN_H
#define KVR_METHODS_GRID_CHAIN_H

#include "methods/codecs/grid/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two grids, the second for the residual of the first, or a transform (kvr_fwht) and one grid. */
struct kvr_grid_chain {
    int n; /* number of grids: 1 with the transform, else 1 or 2 */
    struct kvr_grid grid[2];
    struct kvr_stage_job job[2]; /* opts are not used */
    bool rotate;                 /* apply the transform before the grid */
    enum kvr_compute rotate_compute;
    bool round; /* decoding: round the sum of the grids to BF16 */
};

/* Scratch of kvr_chain_encode in floats. 0: unsupported, because the block is too small to split
 * across threads, or the grids have no common tile. */
int64_t kvr_chain_scratch(const struct kvr_grid_chain *c);

/* Codes tokens from t0 on; t0 is 0 or a multiple of KVR_GRID_ROWS. x [T,H,D] with the replacements of
 * `instead` is unchanged; data[i] belongs to the i-th grid. The bytes equal those of separate stages. */
void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, int64_t t0, float *work,
                      const struct kvr_stage_data *const data[2]);

#ifdef __cplusplus
}
#endif
#endif
