/* bench_kernels.h - single-threaded benchmark of all variants of the CPU kernels (AVX2, AVX-512,
 * ...).
 *
 * Rows give the time per element of each variant that this CPU supports. The benchmark fails if a
 * variant differs from portable C (kvr_kernel_check). The references are portable C and a memcpy
 * that moves as many bytes as the kernel. If they exist, the equivalent oneDNN function and another
 * kernel (kvr_kernel_case.compared_to) are references too. Every round runs all variants and all
 * references once. */
#ifndef KVR_BENCH_BENCH_KERNELS_H
#define KVR_BENCH_BENCH_KERNELS_H

#include "harness/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_KERNELS_ROWS = 2048 };

/* Writes *n_rows <= KVR_BENCH_KERNELS_ROWS rows. Each row compares one variant of a kernel with one
 * reference; its ratio is reference time / variant time. The argument `rounds` must be at least 3.
 * Before returning, the function restores the CPU's default variant by kvr_isa_force(NULL). */
enum kvr_status kvr_bench_kernels(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
