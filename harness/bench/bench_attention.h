/* bench_attention.h - benchmark of attention over compressed and BF16 caches.
 *
 * Rows "attention.PATH.METHOD.QxK" are the rate of attention of Q queries over K keys in GFLOP/s.
 * PATH is "staged" (dequantizes into scratch) or "fused" (dequantizes inside the attention loop).
 * The rate is 4 Q K H D operations, with H heads of dimension D, divided by the time, which
 * includes dequantization. The reference "oneDNN products" computes S = Q K^T and then S V in F32
 * over a decoded cache, without softmax. The rate of this reference is an upper bound for
 * attention. After timing, the output of each row must agree with direct attention, which is
 * softmax attention over the decoded cache in double precision.
 *
 * Rows "attention.int8.METHOD.QxK" use int8 matrix products for quantized tokens (attend_dot.h).
 * Their reference is kvreel's own F32 attention over a BF16 cache of the same tokens, named "own
 * F32 of BF16". If the CPU has AMX, rows "attention.bf16.METHOD.QxK" use BF16 matrix products
 * (attend_bf16.h), with the same reference. The reference of rows ending in ".onednn" is oneDNN's
 * two BF16 matrix products of the same shape. The reference of int8 rows ending in ".bf16" is
 * kvreel's BF16 attention. The field `error` of a row is the relative L2 error of its output, with
 * direct attention as the exact result. */
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

/* Returns the number of queries to time, a divisor of `queries`. It is the largest divisor for
 * which an attention call has at most KVR_BENCH_ATTENTION_FLOP operations, or 1 if no divisor is
 * small enough. */
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
 * of compute capability 9.0 only. If a row's error is larger than
 * 8-bit quantization explains, the row has no rate, and row->missing gives the reason. */
enum kvr_status kvr_bench_attention_cuda(struct kvr_dev *dev, int rounds,
                                         const struct kvr_bench_sink *sink,
                                         struct kvr_bench_row *rows, int *n_rows);

#endif
