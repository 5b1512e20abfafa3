/* attend_mma.h - tensor-core attention over coded or plain spans, on a CUDA stream.
 *
 *     for each span, in a fixed order:
 *         if (kvr_attend_mma_accepts(&shape, &span))
 *             kvr_attend_mma_cuda(s, &shape, &io, &span);
 *         else
 *             decode, then kvr_attend_piece_cuda
 *
 * io.begins is set for the first span and io has an output for the last; or kvr_attend_begin_cuda
 * and kvr_attend_finish_cuda enclose the loop. Both kinds of calls share one softmax state and may
 * be mixed. All warps of a CTA decode a tile of 64 keys or values once, into BF16 in shared memory;
 * products are BF16 with F32 accumulation, softmax is F32:
 *
 *     score(q, k_j) = bf16(q) . bf16(k_j) / sqrt(D) + log_m - row_bias(q) - taylor(q, j)
 *     out           = sum_j bf16(p_j) bf16(v_j) / sum_j p_j
 *
 * where k_j and v_j are the CPU decoder's values. Results are deterministic. Tiles start at
 * multiples of 64 tokens of the span's block or tensor, so splitting a span at such a multiple does
 * not change the result.
 *
 * Rotated codecs decode to H x / sqrt(D). Pass rotated queries (kvr_fwht_cuda of a copy), and for
 * rotated values use a separate state, whose acc is rotated back before it is merged. */
#ifndef KVR_CACHE_ATTEND_MMA_H
#define KVR_CACHE_ATTEND_MMA_H

#include "harness/cache/attend_cuda.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_MMA_MAX_D = 128, KVR_ATTEND_MMA_TILE = 64, KVR_ATTEND_ROWS_SPANS = 14 };

/* Source of keys or values. The shape and codec of a coded block are read on the host during the
 * call; its buffers are device memory. */
struct kvr_attend_mma_source {
    const struct kvr_packed *packed; /* NULL: use raw */
    const void *raw;                 /* [T,H,D], 16-byte aligned; NULL: zeros */
    enum kvr_dtype dtype;            /* type of raw: KVR_BF16 or KVR_F32 */
};

struct kvr_attend_mma_span {
    struct kvr_attend_mma_source k, v;
    int64_t t0, n;         /* range of tokens within them */
    float log_m;           /* log of each token's multiplicity */
    const float *row_bias; /* [T,H], subtracted from all scores of a query; NULL: 0 */
    bool taylor;           /* Taylor correction, from the scales of k's last grid */
};

/* Whether the launcher supports this span with this much shared memory per block
 * (kvr_stream_block_shared; SIZE_MAX: unlimited). Supported: head_dim a multiple of 16 up to 128;
 * codecs [hadamard |] [outliers |] grid [+ grid] with grids sym and asym, and raw; rows of BF16 or
 * F32. Unsupported: group sizes that are below 8 or not a power of two; chains of two grids, unless
 * all grids of K and V have groups of tokens; asym of the intended reading with compute=bf16. */
bool kvr_attend_mma_accepts(size_t shared, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_mma_span *span);

/* The span must satisfy kvr_attend_mma_accepts. For coded spans the query norm runs in a separate
 * pass. */
void kvr_attend_mma_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                         const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span);

/* Whether spans like this one can share a launch: BF16 rows, plain or of codec `raw`, without bias,
 * if two of their tiles fit a block's shared memory. */
bool kvr_attend_rows_accepts(size_t shared, const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Attends to all spans in one launch. Without split-KV it is bit-identical to kvr_attend_mma_cuda
 * span by span. parts [n_floats]: device memory for partial results (kvr_attend_parts_floats); with
 * less, or NULL and 0, fewer or no CTAs are split. */
void kvr_attend_rows_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

/* Shared memory per block, with at most `shared` available; 0: the span is not supported. */
size_t kvr_attend_mma_shared_bytes(size_t shared, const struct kvr_attend_shape *shape,
                                   const struct kvr_attend_mma_span *span);
/* Resident blocks per SM of the stream's device; 0: the span is not supported. */
int kvr_attend_mma_blocks(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_mma_span *span);

#ifdef __cplusplus
}
#endif
#endif
