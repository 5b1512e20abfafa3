/* block.h - copies, converts, rounds, encodes and decodes whole blocks, on CPU or CUDA.
 *
 *     kvr_block_widen(dev, work, bf16, n);
 *
 * Every pointer is memory of `dev`, or host memory if `dev` is NULL. No function allocates or
 * synchronises; a device error is reported at the next kvr_dev_sync(). */
#ifndef KVR_METHODS_BLOCK_H
#define KVR_METHODS_BLOCK_H

#include "methods/codecs/grid/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies n values. */
void kvr_block_copy(struct kvr_dev *dev, float *to, const float *from, int64_t n);
/* Converts n values from BF16 to F32. */
void kvr_block_widen(struct kvr_dev *dev, float *to, const kvr_bf16 *from, int64_t n);
/* Rounds n F32 values to BF16 and stores the results as F32, in place. */
void kvr_block_round(struct kvr_dev *dev, float *x, int64_t n);

/* Whether the device can quantize a block with a chain of two grids (the second quantizes the
 * residual of the first) in one kernel. If not, kvr_block_encode_chain and kvr_block_decode_chain
 * must not be called for this device. */
bool kvr_block_chains(const struct kvr_dev *dev);
/* Encodes x [T,H,D] with a chain of two grids and does not change x. data[i] receives the codes and
 * scales of the i-th grid. Returns false and has no effect if the shape is not supported. */
bool kvr_block_encode_chain(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                            const struct kvr_values *x, const struct kvr_stage_data *const data[2]);
/* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) to out [n,nh,D]. Returns false and has no
 * effect if the shape is not supported. */
bool kvr_block_decode_chain(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                            const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                            int h0, int nh, float *out);
/* Like kvr_block_decode_chain, with BF16 output; supported on CUDA only. */
bool kvr_block_decode_chain_bf16(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                                 const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                                 int h0, int nh, kvr_bf16 *out);
/* Whether kvr_block_decode_chain_bf16 supports this chain. */
bool kvr_block_decodes_bf16(const struct kvr_grid_chain *c);
/* Overwrites the outliers in the decoded values `out` by their stored values. `entries` is the data
 * of the EXACT stage (the stage that stores outliers), in the format KVR_FORM_ENTRIES. */
void kvr_block_put_entries_bf16(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                const struct kvr_stage_data *entries, int64_t t0, int64_t n, int h0,
                                int nh, kvr_bf16 *out);

#ifdef __cplusplus
}
#endif
#endif
