/* attend_mma.h - tensor-core attention over quantized or uncompressed spans, on a CUDA stream.
 *
 *     for each span, in a fixed order:
 *         if (kvr_attend_mma_accepts(&shape, &span))
 *             kvr_attend_mma_cuda(s, &shape, &io, &span);
 *         else
 *             decode, then kvr_attend_piece_cuda
 *
 * To initialise the softmax state, set io.begins for the first span; to write the output, set
 * io.out for the last span. Alternatively, call kvr_attend_begin_cuda before the loop over spans
 * and kvr_attend_finish_cuda after the loop. The functions kvr_attend_mma_cuda and
 * kvr_attend_piece_cuda share one softmax state, so a loop may call both.
 *
 * The warps of a CTA dequantize a tile of 64 keys or values to BF16 in shared memory, once for all
 * queries of the CTA. Matrix products have BF16 operands and F32 accumulators, and softmax is
 * computed in F32:
 *
 *     score(q, k_j) = bf16(q) . bf16(k_j) / sqrt(D) + log_m - row_bias(q) - taylor(q, j)
 *     out           = sum_j bf16(p_j) bf16(v_j) / sum_j p_j
 *
 * The dequantized k_j and v_j equal those of the CPU decoder. Results are deterministic. Tiles
 * start at multiples of 64 tokens of the span's block or tensor, so dividing a span at a multiple
 * of 64 tokens does not change the result.
 *
 * If a codec has a Hadamard rotation H, its decoded keys and values stay in rotated space, as H x /
 * sqrt(D). For rotated keys, pass rotated queries (kvr_fwht_cuda of a copy). For rotated values,
 * use a separate softmax state, and rotate its accumulator back before merging it. */
#ifndef KVR_CACHE_ATTEND_MMA_H
#define KVR_CACHE_ATTEND_MMA_H

#include "harness/cache/attend_cuda.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_MMA_MAX_D = 128, KVR_ATTEND_MMA_TILE = 64, KVR_ATTEND_ROWS_SPANS = 14 };

/* The block of quantized keys or values, or the uncompressed tensor, that a span reads. The host
 * reads the shape and codec of a quantized block during the call; the block's buffers are device
 * memory. */
struct kvr_attend_mma_source {
    const struct kvr_packed *packed; /* NULL: use raw */
    const void *raw;                 /* [T,H,D], 16-byte aligned; NULL: zeros */
    enum kvr_dtype dtype;            /* type of raw: KVR_BF16 or KVR_F32 */
};

struct kvr_attend_mma_span {
    struct kvr_attend_mma_source k, v;
    int64_t t0, n;         /* the span is tokens [t0, t0 + n) of k and v */
    float log_m;           /* logarithm of the multiplicity of the span's tokens, added to every
                            * score */
    const float *row_bias; /* [T,H]: term that is subtracted from every score of a query in one
                            * head; NULL subtracts nothing */
    bool taylor;           /* subtract the Taylor correction from the scores, computed from the
                            * scales of k's last quantizer */
};

/* Whether the launcher supports this span with `shared` bytes of shared memory per thread block
 * (kvr_stream_block_shared, or SIZE_MAX for no limit). Supported head_dims are the multiples of 16
 * up to 128; supported rows are BF16 or F32. Supported codecs are `raw` and the pipelines [hadamard
 * |] [outliers |] grid [+ grid], in which a grid is the quantizer `sym` or `asym`. Group sizes must
 * be powers of two, at least 8. If K or V has two grids (PRQ), every quantization group must hold
 * one channel of several tokens. If a codec's only quantizer is `asym` with compute=bf16, the
 * quantizer must not store minimums. */
bool kvr_attend_mma_accepts(size_t shared, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_mma_span *span);

/* The span must satisfy kvr_attend_mma_accepts. For quantized spans, a separate kernel applies the
 * query norm before attention. */
void kvr_attend_mma_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                         const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span);

/* Whether kvr_attend_rows_cuda supports this span. The span must have BF16 rows, plain or of codec
 * `raw`, and no row bias. Two tiles of the rows must fit the shared memory of a thread block. */
bool kvr_attend_rows_accepts(size_t shared, const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Attends to all spans, with one launch for every KVR_ATTEND_ROWS_SPANS spans. Without split-KV the
 * result is bit-identical to that of one kvr_attend_mma_cuda call per span. `parts` [n_floats] is
 * device memory for the partial results of split-KV (kvr_attend_parts_floats). If `parts` is too
 * small for all partial results, query blocks have fewer KV splits; if `parts` is NULL, they have
 * none. */
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
