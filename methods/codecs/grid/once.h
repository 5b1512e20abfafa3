/* once.h - encodes the stage `outliers` and the integer grid after it together, in fewer passes
 * over the values than if the stages ran one after another. Only BF16 values on the CPU are
 * supported.
 *
 *     KVR_TRY(kvr_once_encode(&chain, &job, &x, work, scratch, &out->stage[0], data, &done));
 *     if (!done)
 *         ...                      find the outliers, then kvr_chain_encode()
 *
 * The bound above which an element is an outlier is known only after all values of the block have
 * been read. A sample of the values therefore gives a magnitude that is probably below the bound.
 * With axis=tokens, one pass quantizes all columns, computes the bound, and lists the columns that
 * exceed the sampled magnitude. Listed columns with an outlier are then quantized again. With
 * axis=token, a first pass lists the elements that exceed the sampled magnitude and computes the
 * range of the other elements. Once the bound is known, a second pass quantizes the tokens. The
 * stored bytes are identical to those of running the stages one after another. */
#ifndef KVR_METHODS_GRID_ONCE_H
#define KVR_METHODS_GRID_ONCE_H

#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Encodes a block of BF16 values with an outlier stage (KVR_STAGE_EXACT) and the grid of chain c.
 * `exact` is the job of the outlier stage, which must provide a struct kvr_exact_once. `entries`
 * receives the outliers that this stage stores, and data[] the codes and scales of the grid. `work`
 * is scratch memory of T*H*D floats, and `scratch` is the result of kvr_chain_scratch(). If the
 * block is not supported, *done becomes false and `entries` stays empty. */
enum kvr_status kvr_once_encode(const struct kvr_grid_chain *c, const struct kvr_stage_job *exact,
                                const struct kvr_values *x, float *work, int64_t scratch,
                                struct kvr_stage_data *entries,
                                const struct kvr_stage_data *const data[2], bool *done);

#ifdef __cplusplus
}
#endif
#endif
