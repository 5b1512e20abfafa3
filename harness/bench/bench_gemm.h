/* bench_gemm.h - linear layers as the engine runs them, against the library's plain call.
 *
 * Rows "gemm.MxKxN" in GFLOP/s; the reference is dnnl_sgemm on unpacked weights of the same
 * shape. Before anything is timed the two must agree. */
#ifndef KVR_BENCH_GEMM_H
#define KVR_BENCH_GEMM_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_GEMM_ROWS = 8 };

enum kvr_status kvr_bench_gemm(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                               int *n_rows);

/* On a device of backend CUDA: our own BF16 kernels at Wan's size beside cuBLASLt, where it can be
 * loaded; 256 elements of both are held to sums in double first. An emulated device takes small
 * shapes and has no ratio. */
enum kvr_status kvr_bench_gemm_cuda(struct kvr_dev *dev, int rounds,
                                    const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                    int *n_rows);

#endif
