/* bench_kernels.h - benchmark of every CPU kernel variant that this CPU supports, on one thread, as
 * time per element.
 *
 * The benchmark fails if a variant differs from portable C (kvr_kernel_check). The references are
 * portable C, a memcpy with the same traffic, and the equivalent oneDNN function, if it exists.
 * Every round runs the variant and all references once. */
#ifndef KVR_BENCH_BENCH_KERNELS_H
#define KVR_BENCH_BENCH_KERNELS_H

#include "harness/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_KERNELS_ROWS = 2048 };

/* Writes *n_rows <= KVR_BENCH_KERNELS_ROWS rows, one per kernel, variant and reference; rounds >=
 * 3. A row's ratio is reference time / variant time. At the end the default variant is selected
 * (kvr_isa_force(NULL)). */
enum kvr_status kvr_bench_kernels(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
