/* bench_gemm.h - benchmark of the engine's linear layers against a direct call of the GEMM library.
 *
 * Rows "gemm.MxKxN" give the rate of the product of an [M,K] input and [K,N] weights in GFLOP/s.
 * The reference of these rows is dnnl_sgemm on unpacked weights of the same shape. After timing,
 * the engine's result must agree with the result of dnnl_sgemm. The engine computes in F32 in these
 * rows, and in BF16 in rows "gemm.bf16.MxKxN", which require AMX. */
#ifndef KVR_BENCH_GEMM_H
#define KVR_BENCH_GEMM_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_LAYER_CALLS = 4, KVR_BENCH_GEMM_ROWS = 3 + 2 * KVR_BENCH_LAYER_CALLS };

enum kvr_status kvr_bench_gemm(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                               int *n_rows);

/* Times linear layers of Wan's size on CUDA. The reference is cuBLASLt in BF16; if it cannot be
 * loaded, rows have no ratio. Rows "gemm.forward.CALL.MxKxN" are the linear layers of the model's
 * forward pass, with BF16 input and output and fused epilogues. CALL is "qkv" (the three attention
 * projections), "out" (attention's output projection), "up" or "down" (the feed-forward network).
 * The reference of "gemm.forward" rows is the fastest algorithm that cuBLASLt proposes. Rows
 * "gemm.cuBLASLt.CALL..." have the rate of this algorithm. Their reference is the first algorithm
 * that cuBLASLt proposes, so the ratio is the gain from trying all proposals. Rows
 * "gemm.own.BF16.MxKxN" are kvreel's mma.sync kernel with F32 input and output. Before timing, 256
 * elements of each result are compared with dot products in double precision. On an emulated device
 * the shapes are small, and rows have no ratio. */
enum kvr_status kvr_bench_gemm_cuda(struct kvr_dev *dev, int rounds,
                                    const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                    int *n_rows);

/* Times only the rows "gemm.forward" and "gemm.cuBLASLt", and appends them to `rows`. */
enum kvr_status kvr_bench_layers_cuda(struct kvr_dev *dev, int rounds,
                                      const struct kvr_bench_sink *sink, struct kvr_bench_row *rows,
                                      int *n_rows);

#endif
