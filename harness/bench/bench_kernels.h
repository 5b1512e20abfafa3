/* bench_kernels.h - time per element of every kernel variant this CPU supports, single-threaded.
 *
 * The benchmark fails if a variant differs from portable C (kvr_kernel_check). References are
 * portable C, a memcpy with the same traffic, and oneDNN's equivalent function, if any. All of them
 * alternate in each round. */
#ifndef KVR_BENCH_BENCH_KERNELS_H
#define KVR_BENCH_BENCH_KERNELS_H

#include "harness/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_KERNELS_ROWS = 2048 };

/* rounds >= 3. Writes *n_rows <= KVR_BENCH_KERNELS_ROWS rows: one per kernel, variant and
 * reference. ratio: reference time over variant time. Leaves the variant selected by
 * kvr_isa_force(NULL). */
enum kvr_status kvr_bench_kernels(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
