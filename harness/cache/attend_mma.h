/* attend_mma.h - attention over coded or plain spans on tensor cores, on a CUDA stream.
 *
 *     for each span, in a fixed order:
 *         if (kvr_attend_mma_can(&shape, &span))
 *             kvr_attend_mma_cuda(s, &shape, &io, &span);
 *         else
 *             decode, then kvr_attend_piece_cuda
 *
 * where io begins with the first and has an output with the last (or a begin and a finish of
 * attend_cuda.h stand before and behind). The same state as there; calls of both may take turns. A tile of
 * 64 keys or values is decoded once, by all warps of a block, into BF16 in shared memory; products
 * are of BF16 numbers, summed in F32; softmax is F32. So
 *
 *     score(q, k_j) = bf16(q) . bf16(k_j) / sqrt(D) + log_m - row_bias(q) - taylor(q, j)
 *     out           = sum_j bf16(p_j) bf16(v_j) / sum_j p_j
 *
 * with k_j and v_j what the CPU's decoder gives. Tiles lie at multiples of 64 tokens of the block
 * or tensor that a span is of: spans cut there give the same bits as one span, and the same call
 * gives the same bits every time.
 *
 * Rotated codecs: what is decoded is H x / sqrt(D). Bring rotated queries (kvr_fwht_cuda of a
 * copy), and for rotated values a state of their own, whose acc is rotated back before it is
 * merged. */
#ifndef KVR_CACHE_ATTEND_MMA_H
#define KVR_CACHE_ATTEND_MMA_H

#include "harness/cache/attend_cuda.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_MMA_MAX_D = 128, KVR_ATTEND_MMA_TILE = 64, KVR_ATTEND_ROWS_SPANS = 14 };

/* Keys or values. A coded block's shape and codec are read on the host, when the call is made;
 * its buffers are device memory. */
struct kvr_attend_mma_source {
    const struct kvr_packed *packed; /* NULL: */
    const void *raw;                 /* [T,H,D], 16-byte aligned; NULL: zeros */
    enum kvr_dtype dtype;            /* of raw: KVR_BF16 or KVR_F32 */
};

struct kvr_attend_mma_span {
    struct kvr_attend_mma_source k, v;
    int64_t t0, n;         /* tokens within them */
    float log_m;           /* log of the multiplicity that each stands for */
    const float *row_bias; /* [T,H], taken off all scores of a query; NULL: 0 */
    bool taylor;           /* the correction of that name, by the scales of the last grid of k */
};

/* Whether the launcher takes this span where a block may have so many bytes of shared memory
 * (kvr_stream_block_shared; SIZE_MAX: of no particular device). It takes head_dim a multiple of 16 up to 128; codecs
 * [hadamard |] [outliers |] grid [+ grid] with grids sym and asym, and raw; rows of BF16 or
 * F32. It does not take groups that are no power of two or of fewer than 8, chains of grids unless
 * all of K and V are over tokens, and asym as intended with compute=bf16.
 */
bool kvr_attend_mma_can(size_t shared, const struct kvr_attend_shape *shape,
                        const struct kvr_attend_mma_span *span);

/* The span must be one that kvr_attend_mma_can takes. What is coded is normalised by a pass of its own. */
void kvr_attend_mma_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                         const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span);

/* Whether spans like this one can share a launch: rows of BF16, plain or of a codec `raw`, without a
 * bias, where a block may have two tiles of them. */
bool kvr_attend_rows_can(size_t shared, const struct kvr_attend_shape *shape,
                         const struct kvr_attend_mma_span *span);

/* All of them: what kvr_attend_mma_cuda comes to span after span, to the bit where nothing is cut.
 * parts [n_floats] is device memory for what parts of the keys come to (kvr_attend_parts_floats);
 * with less, or NULL and 0, fewer blocks or none are cut. */
void kvr_attend_rows_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

/* Shared memory of a block, where it may have as much; 0: the launcher does not take the span. */
size_t kvr_attend_mma_shared_bytes(size_t shared, const struct kvr_attend_shape *shape,
                                   const struct kvr_attend_mma_span *span);
/* Blocks that a multiprocessor of the stream's device takes at once; 0 likewise. */
int kvr_attend_mma_blocks(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_mma_span *span);

#ifdef __cplusplus
}
#endif
#endif
