/* bench_gemm.h - linear layers as in the engine, against the library's plain call.
 *
 * Rows "gemm.MxKxN" in GFLOP/s; the reference is dnnl_sgemm on unpacked weights of the same shape.
 * Both must agree before timing. */
#ifndef KVR_BENCH_GEMM_H
#define KVR_BENCH_GEMM_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_GEMM_ROWS = 8 };

enum kvr_status kvr_bench_gemm(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                               int *n_rows);

/* On CUDA: our BF16 kernels at Wan's size against cuBLASLt, if it can be loaded; 256 elements of
 * both are first compared with sums in double. An emulated device uses small shapes and gives no
 * ratio. */
enum kvr_status kvr_bench_gemm_cuda(struct kvr_dev *dev, int rounds,
                                    const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                    int *n_rows);

#endif
