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

#endif
