/* bench_kernels.h - every kernel variant that this CPU has, per element, on one thread.
 *
 * A variant that differs from portable C (kvr_kernel_check) is not timed: the benchmark fails. The
 * references are portable C, a memcpy that moves as many bytes as the kernel reads and writes, and
 * the library's function for the same arguments where there is one; all take turns in each round.
 */
#ifndef KVR_BENCH_BENCH_KERNELS_H
#define KVR_BENCH_BENCH_KERNELS_H

#include "harness/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_KERNELS_ROWS = 2048 };

/* rounds >= 3. Writes *n_rows <= KVR_BENCH_KERNELS_ROWS rows: one for each kernel, variant and
 * reference. ratio: the reference's time over the variant's. Leaves the choice of the variant as
 * kvr_isa_force(NULL) makes it. */
enum kvr_status kvr_bench_kernels(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
