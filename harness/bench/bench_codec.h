/* bench_codec.h - benchmark of how fast codecs encode and decode blocks of keys or values.
 *
 *     struct kvr_bench_row rows[KVR_BENCH_CODEC_ROWS];
 *     int n;
 *     KVR_TRY(kvr_bench_codec(dev, NULL, 15, rows, &n));
 *
 * The block is one chunk of Wan 1.3B, [4680,12,128], with values exact in BF16. A row's rate is the
 * block's size in BF16 divided by the time of encoding or decoding. The reference is a memcpy with
 * the same number of threads. Its traffic (bytes read plus bytes written) equals the bytes of the
 * block's values plus those of its encoded data. Rows are named quantise.LINE.VARIANT.tN and
 * dequantise.LINE.VARIANT.tN. LINE is the name of the codec pipeline, and VARIANT is the CPU kernel
 * variant. N is the number of threads, which is 1 or OpenMP's maximum. Rows quantise.LINE.bf16...
 * encode BF16 input, the type of a cache's uncompressed tokens. Other quantise rows encode F32
 * input. */
#ifndef KVR_BENCH_CODEC_H
#define KVR_BENCH_CODEC_H

#include "harness/bench/bench.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_BENCH_CODEC_ROWS = 84 };

/* A codec pipeline that is timed. The list kvr_bench_lines ends with name NULL. */
struct kvr_bench_line {
    const char *name, *text;
    enum kvr_side side;
};
extern const struct kvr_bench_line kvr_bench_lines[];

/* Fills x with test data: n floats, exact in BF16, in rows of head_dim channels. */
void kvr_bench_values(float *x, size_t n, int head_dim);

/* Times all pipelines on the CPU and writes *n_rows <= KVR_BENCH_CODEC_ROWS rows. The argument
 * `rounds` must be at least 3. If `shape` is NULL, a block is one chunk of Wan 1.3B. Each round
 * encodes and decodes a different block. Before timing and after the last round, every decoded
 * element is compared with its original. If the codec has a transform, both are compared in the
 * transformed space. The function returns KVR_ETOLERANCE if an error exceeds half a quantization
 * step or, for outliers stored in FP16, the rounding error of FP16. */
enum kvr_status kvr_bench_codec(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                int rounds, struct kvr_bench_row *rows, int *n_rows);

/* Times one pipeline with OpenMP's maximum number of threads. Writes three rows: encoding of BF16
 * input, encoding of F32 input, and decoding. */
enum { KVR_BENCH_LINE_ROWS = 3 };
enum kvr_status kvr_bench_codec_line(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_line *line,
                                     struct kvr_bench_row rows[KVR_BENCH_LINE_ROWS]);

/* Times all pipelines on a CUDA device. The traffic is the bytes of the block's F32 values plus its
 * encoded bytes, and a row's rate is the traffic per second. The reference is a device-to-device
 * copy with the same traffic. Before and after timing, encoded bytes and decoded floats are
 * compared with the CPU's. If they are not identical, the function returns KVR_ETOLERANCE. On an
 * emulated device (CUDA kernels run on the CPU) the block is small, and rows have no ratio. */
enum kvr_status kvr_bench_codec_cuda(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_sink *sink,
                                     struct kvr_bench_row *rows, int *n_rows);

#ifdef __cplusplus
}
#endif
#endif
