/* one_thread.h - quantizes small blocks on one thread, without an OpenMP team.
 *
 *     const int n_threads = kvr_one_thread_begin(codec, dev, n);
 *     ... loops over n elements: a region now has one thread ...
 *     kvr_one_thread_end(n_threads);
 *
 * With OMP_WAIT_POLICY=passive, waking an OpenMP team takes 8 to 15 us, in which one thread can
 * quantize 20,000 elements. */
#ifndef KVR_METHODS_ONE_THREAD_H
#define KVR_METHODS_ONE_THREAD_H

#include <stdint.h>

#include "methods/codec.h"

/* Sets the number of OpenMP threads to one if n is below KVR_MIN_PARALLEL_ELEMENTS and every stage
 * of the codec is fast. Fast stages are `raw`, exact storage of outliers, integer quantization and
 * the Walsh-Hadamard transform. Returns the previous number of threads, which kvr_one_thread_end
 * restores. */
int kvr_one_thread_begin(const struct kvr_codec *c, const struct kvr_dev *dev, int64_t n);
/* Restores the number of OpenMP threads that kvr_one_thread_begin returned. */
void kvr_one_thread_end(int n_threads);

#endif
