/* demean.h - the operation of the stage `demean`, for rows that are not quantized, such as the
 * current chunk's keys. */
#ifndef KVR_METHODS_DEMEAN_H
#define KVR_METHODS_DEMEAN_H

#include "harness/device/mem.h"

/* Subtracts from each row of x [rows, d] the mean of the row; x is memory of `dev`. CPU and CUDA
 * add the elements of a row in different orders. */
void kvr_demean(struct kvr_dev *dev, float *x, int64_t rows, int d);

#endif
