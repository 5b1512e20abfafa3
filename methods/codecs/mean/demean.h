/* demean.h - subtracts the mean over channels from rows that are not quantized, such as the keys of
 * the current chunk. The codec stage `demean` does the same for quantized keys. */
#ifndef KVR_METHODS_DEMEAN_H
#define KVR_METHODS_DEMEAN_H

#include "harness/device/mem.h"

/* Subtracts from each row of x [rows, d] the mean of the row; x is memory of `dev`. CPU and CUDA
 * add the elements of a row in different orders, so their results may differ in the last bits. */
void kvr_demean(struct kvr_dev *dev, float *x, int64_t rows, int d);

#endif
