/* bench_attention.h - benchmark of attention over compressed and BF16 caches.
 *
 * Rows "attention.PATH.METHOD.QxK" are the rate of attention of Q queries over K keys in GFLOP/s.
 * The rate is 4 Q K H D operations, with H heads of dimension D, divided by the time, which
 * includes dequantization. The reference "oneDNN products" computes the two matrix products Q K^T
 * and S V in F32 over a decoded cache, without softmax. The rate of this reference is an upper
 * bound for attention. After timing, the output of each row must agree with softmax attention
 * computed directly over the decoded cache.
 *
 * Rows "attention.int8.METHOD.QxK" multiply quantized tokens in int8 (attend_dot.h). Their
 * reference, "own F32 of BF16", is kvreel's F32 attention over the same tokens in BF16. With AMX,
 * rows "attention.bf16.METHOD.QxK" multiply in BF16 (attend_bf16.h), and their reference is "own
 * F32 of BF16" too. The reference of rows ending in ".onednn" is oneDNN's two BF16 matrix products
 * of the same shape. The reference of int8 rows ending in ".bf16" is kvreel's BF16 attention.
 * `error` is the relative L2 difference from the directly computed attention. */
#ifndef KVR_BENCH_ATTENTION_H
#define KVR_BENCH_ATTENTION_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_ATTENTION_ROWS = 64 };

/* Measures all rows of the benchmark on the CPU. `seconds` limits the time of a row's rounds (0:
 * unlimited), but at least three rounds run. The time of filling the cache, of warm-up and of the
 * check is not limited. A row that reaches the limit has out_of_time set. */
enum kvr_status kvr_bench_attention(struct kvr_dev *dev, int rounds, double seconds,
                                    struct kvr_bench_row *rows, int *n_rows);
/* Maximum number of floating-point operations of one timed attention call. Larger calls would take
 * minutes per row, and gigabytes for the score matrix of the reference. */
#define KVR_BENCH_ATTENTION_FLOP 5e10

/* Returns the number of queries to time: the largest divisor of `queries` with which an attention
 * call has at most KVR_BENCH_ATTENTION_FLOP operations, or else 1. */
int kvr_bench_attention_queries(int queries, int keys, int heads, int d);

/* Times one shape, "QUERIESxKEYSxHEADSxDIM". A shape above KVR_BENCH_ATTENTION_FLOP is timed with
 * fewer queries over all keys (kvr_bench_attention_queries). The queries are the tokens of the
 * current chunk, so each chunk of the cache has this smaller number of tokens too. The row's name
 * contains the number of timed queries. For the shape "4680x65520x12x128", the name ends in
 * 120x65520. */
enum kvr_status kvr_bench_attention_at(struct kvr_dev *dev, const char *shape, int rounds,
                                       double seconds, struct kvr_bench_row *rows, int *n_rows);

/* Times attention on CUDA at Wan's size, which is 4680 queries, 4680 to 65520 keys, 12 heads of
 * dimension 128. The reference "cuDNN SDPA BF16" is cuDNN's attention over the decoded cache in
 * BF16, if cuDNN can be loaded (harness/device/cudnn_load.h). With cuDNN, there are also rows
 * "attention.cuDNN...", which give cuDNN's own rate. Without cuDNN, the reference is kvreel's dense
 * kernel, "dense BF16", and rows "attention.dense..." have no ratio. Before timing, the outputs of
 * 48 of the queries must agree with softmax attention over the decoded cache, computed in double
 * precision. The output of cuDNN is also checked for every cache, and cuDNN is not used if the
 * check fails. On an emulated device the shapes are small, and rows have no ratio.
 *
 * Rows "attention.int8..." multiply quantized tokens in int8 (attend_bytes.h) and exist on devices
 * of compute capability 9.0 only. If a row's error exceeds the bound for 8-bit codes, the row has
 * no rate, and row->missing gives the reason. */
enum kvr_status kvr_bench_attention_cuda(struct kvr_dev *dev, int rounds,
                                         const struct kvr_bench_sink *sink,
                                         struct kvr_bench_row *rows, int *n_rows);

#endif
