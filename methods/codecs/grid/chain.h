/* chain.h - applies an optional transform and encodes one or two grids in one pass.
 *
 * On the CPU, F32 values and intermediate results of a tile stay in a core's cache. A CUDA device
 * encodes the chain in one kernel launch (grid_cuda.h). */
#ifndef KVR_METHODS_GRID_CHAIN_H
#define KVR_METHODS_GRID_CHAIN_H

#include "methods/codecs/grid/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A chain is two grids, where the second grid quantizes the residual of the first, or a transform
 * (kvr_fwht) and one grid. */
struct kvr_grid_chain {
    int n; /* number of grids; with the transform, only one grid is possible */
    struct kvr_grid grid[2];
    struct kvr_stage_job job[2]; /* opts are not used */
    bool rotate;                 /* apply the transform before the grid is fitted */
    enum kvr_compute rotate_compute;
    bool round; /* decoding rounds the sum of the two grids' decoded values to BF16 */
};

/* Number of floats of scratch that kvr_chain_encode needs. Returns 0 if the chain is not supported:
 * the block is too small to divide among threads, or the grids have no common tile. */
int64_t kvr_chain_scratch(const struct kvr_grid_chain *c);

/* Encodes the tokens from t0 on, where t0 is 0 or a multiple of KVR_GRID_ROWS. The input is x
 * [T,H,D], in which outliers are replaced by the values of `instead`; x is not changed. The codes
 * of the i-th grid go to data[i]. The bytes equal those of the stages run one after another. */
void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, int64_t t0, float *work,
                      const struct kvr_stage_data *const data[2]);

#ifdef __cplusplus
}
#endif
#endif
