/* bench_codec.h - how fast blocks are coded and decoded.
 *
 *     struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
 *     int n;
 *     KVR_TRY(kvr_bench_codec(dev, NULL, 15, rows, &n));
 *
 * One chunk of Wan 1.3B, [4680,12,128], values as BF16 holds them. Speed is BF16 bytes of the
 * block per second, whatever is really read or written; the reference is a memcpy, by as many
 * threads, that reads and writes as many bytes together: the block's values as given and its coded
 * bytes. Rows are named quantise.LINE.VARIANT.tN, N threads: first 1, then as many as OpenMP gives;
 * with .bf16 after LINE where what is coded is given in BF16, as a cache holds it, else in F32. */
#ifndef KVR_BENCH_CODEC_H
#define KVR_BENCH_CODEC_H

#include "harness/bench/bench.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_CODEC_ROWS = 84 };

/* What is timed: pipelines of the methods. Ends with a name of NULL. */
struct kvr_bench_line {
    const char *name, *text;
    enum kvr_side side;
};
extern const struct kvr_bench_line kvr_bench_lines[];

/* Numbers as caches hold them: n floats in channels of head_dim, each one BF16's. */
void kvr_bench_values(float *x, size_t n, int head_dim);

/* `shape` NULL: the default. rounds >= 3. Writes *n_rows <= KVR_BENCH_CODEC_ROWS rows.
 * Before anything is timed, and of the last round after it was timed, every decoded element has to
 * lie within half a step of what was coded (held elements: within FP16's rounding), else
 * KVR_ETOLERANCE. Each round codes another block. */
enum kvr_status kvr_bench_codec(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                int rounds, struct kvr_bench_row *rows, int *n_rows);

/* One pipeline, by the threads that OpenMP has: three rows. */
enum { KVR_BENCH_LINE_ROWS = 3 };
enum kvr_status kvr_bench_codec_line(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_line *line,
                                     struct kvr_bench_row rows[KVR_BENCH_LINE_ROWS]);

/* On a device of backend CUDA. Speed is what is read and written, in GB/s: the floats of the block
 * and its coded bytes; the reference is a copy within the device that moves as many bytes. Before
 * anything is timed, and after it was, the coded bytes and the decoded floats have to be the CPU's,
 * else KVR_ETOLERANCE. An emulated device takes a small block and has no ratio. */
enum kvr_status kvr_bench_codec_cuda(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_sink *sink,
                                     struct kvr_bench_row *rows, int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
