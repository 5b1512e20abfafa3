/* bench_attention.h - attention over packed and uncoded caches, against the bare products.
 *
 * Rows "attention.PATH.METHOD.QxK": GFLOP/s counted as 4 Q K H D, decoding included. The
 * reference "oneDNN products" is Q K^T and S V of the same shape in F32 by the GEMM library over
 * an already decoded cache, without a softmax: what a library leaves to be gained. Before
 * anything is timed each row's output must agree with a direct softmax over the decoded cache.
 *
 * Rows "attention.int8.METHOD.QxK" multiply coded tokens as bytes (attend_dot.h); their reference,
 * "own F32 of BF16", is this program's F32 attention over the same tokens held in BF16. `error` is
 * theirs against that softmax. */
#ifndef KVR_BENCH_ATTENTION_H
#define KVR_BENCH_ATTENTION_H

#include "harness/bench/bench.h"

enum { KVR_BENCH_ATTENTION_ROWS = 48 };

/* seconds: the rounds of a row end when so many are over, with the third at the earliest; 0: they do
 * not. A row that ended so says it. Filling its cache, the warm-up and the check are not counted. */
enum kvr_status kvr_bench_attention(struct kvr_dev *dev, int rounds, double seconds,
                                    struct kvr_bench_row *rows, int *n_rows);
/* Products of one call at most: above, every row would take minutes and the library's scores
 * gigabytes. */
#define KVR_BENCH_ATTENTION_FLOP 5e10

/* The largest part of the queries that divides them and whose products are no more; one at least.
 */
int kvr_bench_attention_queries(int queries, int keys, int heads, int d);

/* At one shape, "QUERIESxKEYSxHEADSxDIM". Where that is more than KVR_BENCH_ATTENTION_FLOP, a part
 * of the queries is measured over all keys, in chunks of so many tokens; names of rows tell it:
 * "4680x65520x12x128" gives 120x65520. */
enum kvr_status kvr_bench_attention_at(struct kvr_dev *dev, const char *shape, int rounds,
                                       double seconds, struct kvr_bench_row *rows, int *n_rows);

/* On a device of backend CUDA, at Wan's size: 4680 queries, 4680 to 65520 keys, 12 heads of 128.
 * The reference is cuDNN over the already decoded cache in BF16, "cuDNN SDPA BF16", where it can be
 * loaded (harness/device/cudnn_load.h); else it is the dense kernel, "dense BF16", whose own rows,
 * "attention.dense...", then have no ratio and the reason. With cuDNN rows "attention.cuDNN..." tell
 * its rate. Before anything is timed 48 of the queries must agree with a direct softmax in double
 * over the decoded cache, and of the references that is asked for every cache: a cuDNN that does not
  * is none. An emulated device takes small shapes and has no ratio.
 *
 * Rows "attention.int8...", on devices of compute capability 9.0, multiply coded tokens as bytes
 * (attend_bytes.h). One that is further from that softmax than 8 bits explain has no rate, and says so. */
enum kvr_status kvr_bench_attention_cuda(struct kvr_dev *dev, int rounds,
                                         const struct kvr_bench_sink *sink,
                                         struct kvr_bench_row *rows, int *n_rows);

#endif
