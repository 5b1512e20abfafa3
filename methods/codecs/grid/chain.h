/* chain.h - encodes a block by a chain of stages in one pass: a transform and one integer grid, or
 * one or two integer grids.
 *
 * On the CPU, each thread encodes one tile, a range of tokens and channels, at a time, so that
 * intermediate results stay in the core's cache. A CUDA device encodes the chain in one kernel
 * launch (grid_cuda.h). */
#ifndef KVR_METHODS_GRID_CHAIN_H
#define KVR_METHODS_GRID_CHAIN_H

#include "methods/codecs/grid/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A chain is one grid, two grids, or a transform (kvr_fwht) and one grid. A second grid quantizes
 * the residual of the first. */
struct kvr_grid_chain {
    int n; /* number of grids, 1 or 2; must be 1 if `rotate` is set */
    struct kvr_grid grid[2];
    struct kvr_stage_job job[2]; /* jobs of the grids; the field `opts` of a job is ignored, because
                                  * `grid` holds the grid's options */
    bool rotate;                 /* whether the Walsh-Hadamard transform kvr_fwht is applied to the
                                  * values before the grid quantizes them */
    enum kvr_compute rotate_compute;
    bool round; /* whether decoding rounds the sum of both grids' decoded values to BF16 */
};

/* Number of floats of the scratch memory `work` that kvr_chain_encode needs: one tile per thread.
 * Returns 0 if the chain is not supported: no tile size is a multiple of the group size of every
 * grid, or the tiles of all threads together have more elements than the block. */
int64_t kvr_chain_scratch(const struct kvr_grid_chain *c);

/* Encodes the tokens from t0 on, where t0 is 0 or a multiple of KVR_GRID_ROWS. Each outlier of x
 * [T,H,D] is encoded as its replacement value in `instead`; x is not changed. data[i] receives the
 * codes and scales of the i-th grid. The stored bytes are identical to those of running the stages
 * one after another. */
void kvr_chain_encode(const struct kvr_grid_chain *c, const struct kvr_values *x,
                      const struct kvr_instead *instead, int64_t t0, float *work,
                      const struct kvr_stage_data *const data[2]);

#ifdef __cplusplus
}
#endif
#endif
