/* attend_mma.h - tensor-core attention over coded or plain spans, on a CUDA stream.
 *
 *     for each span, in a fixed order:
 *         if (kvr_attend_mma_accepts(&shape, &span))
 *             kvr_attend_mma_cuda(s, &shape, &io, &span);
 *         else
 *             decode, then kvr_attend_piece_cuda
 *
 * The softmax state is initialised and the output written in one of two ways. Either io.begins is
 * set for the first span and io.out for the last, or kvr_attend_begin_cuda and
 * kvr_attend_finish_cuda enclose the loop. The functions kvr_attend_mma_cuda and
 * kvr_attend_piece_cuda share one softmax state, so a loop may call both.
 *
 * The warps of a CTA decode a tile of 64 keys or values into BF16 in shared memory once for all
 * queries. Products are BF16 with F32 accumulation, and softmax is F32:
 *
 *     score(q, k_j) = bf16(q) . bf16(k_j) / sqrt(D) + log_m - row_bias(q) - taylor(q, j)
 *     out           = sum_j bf16(p_j) bf16(v_j) / sum_j p_j
 *
 * The CPU decoder returns the same values k_j and v_j. Results are deterministic. Tiles start at
 * multiples of 64 tokens of the span's block or tensor, so dividing a span at a multiple of 64
 * tokens does not change the result.
 *
 * A codec with a Hadamard rotation H decodes to rotated values, H x / sqrt(D). For rotated keys,
 * pass rotated queries (kvr_fwht_cuda of a copy). For rotated values, use a separate softmax state,
 * and rotate its accumulator back before merging it. */
#ifndef KVR_CACHE_ATTEND_MMA_H
#define KVR_CACHE_ATTEND_MMA_H

#include "harness/cache/attend_cuda.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_MMA_MAX_D = 128, KVR_ATTEND_MMA_TILE = 64, KVR_ATTEND_ROWS_SPANS = 14 };

/* Source of keys or values. The host reads the shape and codec of a coded block during the call;
 * the block's buffers are device memory. */
struct kvr_attend_mma_source {
    const struct kvr_packed *packed; /* NULL: use raw */
    const void *raw;                 /* [T,H,D], 16-byte aligned; NULL: zeros */
    enum kvr_dtype dtype;            /* type of raw: KVR_BF16 or KVR_F32 */
};

struct kvr_attend_mma_span {
    struct kvr_attend_mma_source k, v;
    int64_t t0, n;         /* range of tokens within k and v */
    float log_m;           /* logarithm of the multiplicity that all tokens of the span share */
    const float *row_bias; /* [T,H] terms that are subtracted from all scores of a query; NULL
                            * subtracts nothing */
    bool taylor;           /* subtract the Taylor correction, computed from the scales of k's last
                            * grid */
};

/* Whether the launcher supports this span with `shared` bytes of shared memory per thread block
 * (kvr_stream_block_shared, or SIZE_MAX for no limit). Supported head_dims are the multiples of 16
 * up to 128; supported rows are BF16 or F32. Supported codecs are raw and [hadamard |] [outliers |]
 * grid [+ grid], with grids sym and asym. Not supported are group sizes below 8 or not a power of
 * two. A chain of two grids is supported only if all grids of K and V have groups of tokens. A
 * single grid asym that stores minimums is not supported with compute=bf16. */
bool kvr_attend_mma_accepts(size_t shared, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_mma_span *span);

/* The span must satisfy kvr_attend_mma_accepts. For coded spans, a separate kernel applies the
 * query norm before attention. */
void kvr_attend_mma_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                         const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span);

/* Whether kvr_attend_rows_cuda supports this span. The span must have BF16 rows, plain or of codec
 * `raw`, and no row bias. Two tiles of the rows must fit the shared memory of a thread block. */
bool kvr_attend_rows_accepts(size_t shared, const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Attends to all spans in one launch per KVR_ATTEND_ROWS_SPANS spans. Without split-KV the result
 * is bit-identical to that of kvr_attend_mma_cuda span by span. `parts` [n_floats] is device memory
 * for the partial results of split-KV (kvr_attend_parts_floats). With less memory fewer CTAs are
 * split; with NULL and 0, no CTA is split. */
void kvr_attend_rows_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

/* Bytes of shared memory per thread block of kvr_attend_mma_cuda, limited to `shared`; returns 0
 * for an unsupported span. */
size_t kvr_attend_mma_shared_bytes(size_t shared, const struct kvr_attend_shape *shape,
                                   const struct kvr_attend_mma_span *span);
/* Thread blocks of kvr_attend_mma_cuda that are resident per SM on the stream's device; returns 0
 * for an unsupported span. */
int kvr_attend_mma_blocks(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_mma_span *span);

#ifdef __cplusplus
}
#endif
#endif
