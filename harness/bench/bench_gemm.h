/* bench_gemm.h - linear layers as in the engine, compared with a plain call of the GEMM library.
 *
 * Rows "gemm.MxKxN" in GFLOP/s; the reference is dnnl_sgemm on unpacked weights of the same shape.
 * The results of both must agree before timing. With AMX, rows "gemm.bf16.MxKxN" compute in
 * BF16. */
#ifndef KVR_BENCH_GEMM_H
#define KVR_BENCH_GEMM_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_LAYER_CALLS = 4, KVR_BENCH_GEMM_ROWS = 3 + 2 * KVR_BENCH_LAYER_CALLS };

enum kvr_status kvr_bench_gemm(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                               int *n_rows);

/* On CUDA, at Wan's size, against cuBLASLt, if it can be loaded. Rows "gemm.forward.CALL.MxKxN" are
 * the forward's calls, BF16 in and out with their epilogues; the reference is the fastest algorithm
 * that cuBLASLt proposes. Rows "gemm.cuBLASLt.CALL..." have the rate of that algorithm; their
 * reference is cuBLASLt's first proposal. Rows "gemm.own.BF16.MxKxN" are the mma.sync kernel with
 * F32 in and out. Before timing, 256 elements of each result are compared with sums in double. An
 * emulated device uses small shapes and gives no ratio. */
enum kvr_status kvr_bench_gemm_cuda(struct kvr_dev *dev, int rounds,
                                    const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                    int *n_rows);

/* The rows "gemm.forward" and "gemm.cuBLASLt" alone; appends to rows. */
enum kvr_status kvr_bench_layers_cuda(struct kvr_dev *dev, int rounds,
                                      const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                      int *n_rows);

#endif
