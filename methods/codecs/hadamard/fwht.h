/* fwht.h - the fast Walsh-Hadamard transform of short rows.
 *
 *     y = H x / sqrt(D),   H_1 = [1],  H_2n = [ H_n  H_n ; H_n  -H_n ]
 *
 * in natural (Sylvester) order; the transform is its own inverse. Butterflies run with strides 1,
 * 2, 4, ..., then the division: the order is part of the definition, since it determines rounding.
 * A NaN in a row makes the whole row the positive quiet NaN without payload. */
#ifndef KVR_METHODS_FWHT_H
#define KVR_METHODS_FWHT_H

#include "methods/codec.h"

enum { KVR_FWHT_MAX = 1024 };

/* Transforms `rows` rows of d floats in place; d is a power of two, 2..KVR_FWHT_MAX. With
 * KVR_COMPUTE_BF16 the sums of every stride and the quotient are rounded to BF16. */
void kvr_fwht(float *x, int64_t rows, int d, enum kvr_compute compute);

#endif
