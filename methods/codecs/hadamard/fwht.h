/* fwht.h - the fast Walsh-Hadamard transform of rows of up to 1024 elements.
 *
 *     y = H x / sqrt(D),   H_1 = [1],  H_2n = [ H_n  H_n ; H_n  -H_n ]
 *
 * H is in natural (Sylvester) order, and the transform is its own inverse. Butterflies with strides
 * 1, 2, 4, ... come first, and then the division by sqrt(d). The order of butterflies and division
 * is part of the definition, because it determines the rounding. If a row has a NaN, the whole row
 * becomes the positive quiet NaN without payload. */
#ifndef KVR_METHODS_FWHT_H
#define KVR_METHODS_FWHT_H

#include "methods/codec.h"

enum { KVR_FWHT_MAX = 1024 };

/* Transforms `rows` rows of d floats in place; d is a power of two, from 2 to KVR_FWHT_MAX. With
 * KVR_COMPUTE_BF16, the result of every butterfly and of the division by sqrt(d) is rounded to
 * BF16. */
void kvr_fwht(float *x, int64_t rows, int d, enum kvr_compute compute);

#endif
