/* fwht_kernels.h - functions of fwht.h, one table per instruction set. */
#ifndef KVR_METHODS_FWHT_KERNELS_H
#define KVR_METHODS_FWHT_KERNELS_H

#include "harness/core/isa.h"
#include "methods/codecs/hadamard/fwht.h"

struct kvr_fwht_kernels {
    /* Like kvr_fwht, but on one thread and with the result in y, which may be x. */
    void (*rows)(float *y, const float *x, int64_t n_rows, int d, bool bf16);
};
KVR_ISA_TABLES(struct kvr_fwht_kernels, kvr_fwht_kernels)

#endif
