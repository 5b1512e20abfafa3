/* once.h - outliers and the grid after them, coded while the outliers are found. CPU, BF16 values.
 *
 *     KVR_TRY(kvr_once_encode(&chain, &job, &x, work, scratch, &out->stage[0], data, &done));
 *     if (!done)
 *         ...                      find the outliers, then kvr_chain_encode()
 *
 * Which elements are outliers is known only after the last value is read. For groups of tokens, one
 * pass codes everything, adds the sums for sigma and sets aside the columns that hold a likely
 * outlier; columns with an outlier are then coded again. For groups of whole tokens, the first pass
 * lists likely outliers and the range of the other elements, and the second pass codes. The bytes
 * are those of the stages one by one. */
#ifndef KVR_METHODS_GRID_ONCE_H
#define KVR_METHODS_GRID_ONCE_H

#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* exact: the job of an EXACT stage with `once`; entries: its data; work: T*H*D floats, `scratch` as
 * of kvr_chain_scratch(). *done false: the block is not supported, and entries are empty. */
enum kvr_status kvr_once_encode(const struct kvr_grid_chain *c, const struct kvr_stage_job *exact,
                                const struct kvr_values *x, float *work, int64_t scratch,
                                struct kvr_stage_data *entries,
                                const struct kvr_stage_data *const data[2], bool *done);

#ifdef __cplusplus
}
#endif
#endif
