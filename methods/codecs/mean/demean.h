/* demean.h - what the stage `demean` does, for rows that are not coded. */
#ifndef KVR_METHODS_DEMEAN_H
#define KVR_METHODS_DEMEAN_H

#include "harness/device/mem.h"

/* x [rows, d], memory of `dev`: subtracts each row's mean. Both backends sum in their own order. */
void kvr_demean(struct kvr_dev *dev, float *x, int64_t rows, int d);

#endif
