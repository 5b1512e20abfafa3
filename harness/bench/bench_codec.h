/* bench_codec.h - speed of encoding and decoding blocks.
 *
 *     struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
 *     int n;
 *     KVR_TRY(kvr_bench_codec(dev, NULL, 15, rows, &n));
 *
 * One chunk of Wan 1.3B, [4680,12,128], with values exact in BF16. Speed is the block's BF16 bytes
 * per second; the reference is a memcpy with the same number of threads and the same total traffic:
 * the block's values plus its coded bytes. Rows are named quantise.LINE.VARIANT.tN, where N is the
 * number of threads, first 1, then OpenMP's maximum. The name has .bf16 after LINE if the input is
 * BF16, as in a cache; otherwise the input is F32. */
#ifndef KVR_BENCH_CODEC_H
#define KVR_BENCH_CODEC_H

#include "harness/bench/bench.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_CODEC_ROWS = 84 };

/* A timed pipeline of a method. The list ends with a name of NULL. */
struct kvr_bench_line {
    const char *name, *text;
    enum kvr_side side;
};
extern const struct kvr_bench_line kvr_bench_lines[];

/* Test data: n floats in channels of head_dim, exact in BF16. */
void kvr_bench_values(float *x, size_t n, int head_dim);

/* `shape` NULL: the chunk of Wan 1.3B. rounds >= 3. Writes *n_rows <= KVR_BENCH_CODEC_ROWS rows.
 * Before timing, and for the last timed round, every decoded element must be within half a scale of
 * its original (exact elements: within FP16 rounding), else KVR_ETOLERANCE. Each round codes a
 * different block. */
enum kvr_status kvr_bench_codec(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                int rounds, struct kvr_bench_row *rows, int *n_rows);

/* One pipeline with OpenMP's threads: three rows. */
enum { KVR_BENCH_LINE_ROWS = 3 };
enum kvr_status kvr_bench_codec_line(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_line *line,
                                     struct kvr_bench_row rows[KVR_BENCH_LINE_ROWS]);

/* On CUDA. Speed is traffic in GB/s: the block's floats plus its coded bytes; the reference is a
 * device-to-device copy with the same traffic. Before and after timing the coded bytes and decoded
 * floats must equal the CPU's, else KVR_ETOLERANCE. An emulated device uses a small block and gives
 * no ratio. */
enum kvr_status kvr_bench_codec_cuda(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_sink *sink,
                                     struct kvr_bench_row *rows, int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
