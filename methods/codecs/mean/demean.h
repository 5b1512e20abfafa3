/* demean.h - the operation of the stage `demean`, for rows that are not coded. */
#ifndef KVR_METHODS_DEMEAN_H
#define KVR_METHODS_DEMEAN_H

#include "harness/device/mem.h"

/* x [rows, d], memory of `dev`: subtracts each row's mean. The order of sums differs between CPU
 * and CUDA. */
void kvr_demean(struct kvr_dev *dev, float *x, int64_t rows, int d);

#endif
