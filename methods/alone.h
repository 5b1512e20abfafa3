/* alone.h - codes small blocks on the calling thread alone.
 *
 *     const int n_threads = kvr_alone_begin(codec, dev, n);
 *     ... loops over n elements: a region now has one thread ...
 *     kvr_alone_end(n_threads);
 *
 * Waking a team takes 8 to 15 us with OMP_WAIT_POLICY=passive, as long as grids take for 20,000 elements. */
#ifndef KVR_METHODS_ALONE_H
#define KVR_METHODS_ALONE_H

#include <stdint.h>

#include "methods/codec.h"

/* Sets the number of threads to one if n elements are few (KVR_CODE_ALONE) and every stage is quick:
 * stored values, exact outliers, integer grids, a Walsh transform. Slower stages keep their teams.
 * Returns the number to restore. */
int kvr_alone_begin(const struct kvr_codec *c, const struct kvr_dev *dev, int64_t n);
void kvr_alone_end(int n_threads);

#endif
