/* once.h - encodes the stage `outliers` and the grid after it in the pass that finds the outliers.
 * CPU, BF16 values.
 *
 *     KVR_TRY(kvr_once_encode(&chain, &job, &x, work, scratch, &out->stage[0], data, &done));
 *     if (!done)
 *         ...                      find the outliers, then kvr_chain_encode()
 *
 * Which elements are outliers depends on all values of the block. For groups of tokens, one pass
 * quantizes all columns, accumulates the sums for sigma, and lists the columns with a likely
 * outlier. Columns with an actual outlier are then quantized again. For groups of whole tokens, the
 * first pass lists likely outliers and the range of the other elements, and the second pass
 * quantizes the tokens. The bytes equal those of the stages run one after another. */
#ifndef KVR_METHODS_GRID_ONCE_H
#define KVR_METHODS_GRID_ONCE_H

#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Encodes a block of BF16 values. The job `exact` belongs to an EXACT stage with `once`, and
 * `entries` receives its data. The scratch `work` has T*H*D floats; `scratch` is the result of
 * kvr_chain_scratch(). If the block is not supported, *done becomes false and `entries` stays
 * empty. */
enum kvr_status kvr_once_encode(const struct kvr_grid_chain *c, const struct kvr_stage_job *exact,
                                const struct kvr_values *x, float *work, int64_t scratch,
                                struct kvr_stage_data *entries,
                                const struct kvr_stage_data *const data[2], bool *done);

#ifdef __cplusplus
}
#endif
#endif
