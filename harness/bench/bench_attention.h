/* bench_attention.h - attention over compressed and BF16 caches, compared with the matrix products
 * alone.
 *
 * Rows "attention.PATH.METHOD.QxK": GFLOP/s counted as 4 Q K H D, dequantization included. The
 * reference "oneDNN products" is Q K^T and S V of the same shape in F32 by the GEMM library over a
 * decoded cache, without softmax: an upper bound. Before timing, each row's output must agree with
 * a direct softmax over the decoded cache.
 *
 * Rows "attention.int8.METHOD.QxK" multiply quantized tokens in int8 (attend_dot.h); their
 * reference, "own F32 of BF16", is this program's F32 attention over the same tokens in BF16. With
 * AMX, rows "attention.bf16.METHOD.QxK" multiply in BF16 (attend_bf16.h) and have the same
 * reference. The reference of rows ending in ".onednn" is oneDNN's BF16 products of the same shape;
 * that of int8 rows ending in ".bf16" is this program's BF16 attention. `error` is relative to the
 * direct softmax. */
#ifndef KVR_BENCH_ATTENTION_H
#define KVR_BENCH_ATTENTION_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_ATTENTION_ROWS = 64 };

/* seconds: time limit of a row's rounds; 0: unlimited. At least three rounds run. A row that
 * reaches the limit has out_of_time set. The limit excludes filling the cache, warm-up and
 * check. */
enum kvr_status kvr_bench_attention(struct kvr_dev *dev, int rounds, double seconds,
                                    struct kvr_bench_row *rows, int *n_rows);
/* Maximum number of floating-point operations per call. More would take minutes per row, and
 * gigabytes for the scores of the GEMM library. */
#define KVR_BENCH_ATTENTION_FLOP 5e10

/* Largest divisor of the number of queries for which a call stays within KVR_BENCH_ATTENTION_FLOP;
 * at least 1. */
int kvr_bench_attention_queries(int queries, int keys, int heads, int d);

/* One shape, "QUERIESxKEYSxHEADSxDIM". Above KVR_BENCH_ATTENTION_FLOP only some of the queries are
 * measured over all keys, in chunks of that many tokens. The row's name has the number of measured
 * queries: "4680x65520x12x128" becomes 120x65520. */
enum kvr_status kvr_bench_attention_at(struct kvr_dev *dev, const char *shape, int rounds,
                                       double seconds, struct kvr_bench_row *rows, int *n_rows);

/* On CUDA, at Wan's size: 4680 queries, 4680 to 65520 keys, 12 heads of 128. The reference is cuDNN
 * over the decoded cache in BF16, "cuDNN SDPA BF16", if it can be loaded
 * (harness/device/cudnn_load.h); else the dense kernel, "dense BF16", whose own rows,
 * "attention.dense...", then have no ratio. With cuDNN, rows "attention.cuDNN..." give its rate.
 * Before timing, 48 queries must agree with a direct softmax in double over the decoded cache;
 * cuDNN is checked for every cache and not used if it disagrees. An emulated device uses small
 * shapes and gives no ratio.
 *
 * Rows "attention.int8...", on devices of compute capability 9.0, multiply quantized tokens in int8
 * (attend_bytes.h). If the error exceeds the bound for 8 bits, the row gives the reason instead of
 * a rate. */
enum kvr_status kvr_bench_attention_cuda(struct kvr_dev *dev, int rounds,
                                         const struct kvr_bench_sink *sink,
                                         struct kvr_bench_row *rows, int *n_rows);

#endif
