/* alone.h - codes small blocks on a single thread.
 *
 *     const int n_threads = kvr_alone_begin(codec, dev, n);
 *     ... loops over n elements: a region now has one thread ...
 *     kvr_alone_end(n_threads);
 *
 * Waking an OpenMP team takes 8 to 15 us with OMP_WAIT_POLICY=passive, the time in which grids code
 * 20,000 elements. */
#ifndef KVR_METHODS_ALONE_H
#define KVR_METHODS_ALONE_H

#include <stdint.h>

#include "methods/codec.h"

/* Sets the number of threads to one if n is small (KVR_CODE_ALONE) and every stage is fast: stored
 * values, exact outliers, integer grids, a Walsh-Hadamard transform. Slower stages keep their
 * teams. Returns the number to restore. */
int kvr_alone_begin(const struct kvr_codec *c, const struct kvr_dev *dev, int64_t n);
void kvr_alone_end(int n_threads);

#endif
