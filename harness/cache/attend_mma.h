/* attend_mma.h - tensor-core attention over quantized or uncompressed spans (runs of tokens), on a
 * CUDA stream.
 *
 *     for each span, in a fixed order:
 *         if (kvr_attend_mma_accepts(&shape, &span))
 *             kvr_attend_mma_cuda(s, &shape, &io, &span);
 *         else
 *             decode, then kvr_attend_piece_cuda
 *
 * For the first span, set io.begins, which initializes the softmax state. For the last span, set
 * io.out, which receives the output. Alternatively, call kvr_attend_begin_cuda before the loop over
 * spans and kvr_attend_finish_cuda after the loop. The functions kvr_attend_mma_cuda and
 * kvr_attend_piece_cuda share one softmax state, so a loop may call both.
 *
 * The warps of a CTA dequantize a tile of 64 keys or values to BF16 in shared memory, once for all
 * queries of the CTA. Matrix products have BF16 operands and F32 accumulators, and softmax is
 * computed in F32:
 *
 *     score(q, k_j) = bf16(q) . bf16(k_j) / sqrt(D) + log_m - row_bias(q) - taylor(q, j)
 *     out           = sum_j bf16(p_j) bf16(v_j) / sum_j p_j
 *
 * k_j and v_j, the dequantized key and value of token j, equal those of the CPU decoder. Results
 * are deterministic. A span is a run of tokens of a quantized block or of an uncompressed tensor.
 * Tiles begin at multiples of 64, counted from the block's or tensor's first token. Dividing a span
 * in two at such a multiple therefore does not change the result.
 *
 * If a codec stores rotated keys or values (transform `hadamard` or `rotate`), the kernels use them
 * without rotating them back. For rotated keys, pass a copy of the queries that
 * kvr_codec_transform() has rotated. For rotated values, use a second softmax state, and rotate its
 * accumulator back before the two states are merged. */
#ifndef KVR_CACHE_ATTEND_MMA_H
#define KVR_CACHE_ATTEND_MMA_H

#include "harness/cache/attend_cuda.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_ATTEND_MMA_MAX_D = 128, KVR_ATTEND_MMA_TILE = 64, KVR_ATTEND_ROWS_SPANS = 14 };

/* Keys or values of a span: a quantized block or an uncompressed tensor. The host reads the shape
 * and codec of `packed` during the call. The codes and scales of `packed` are device memory. */
struct kvr_attend_mma_source {
    const struct kvr_packed *packed; /* NULL: use raw */
    const void *raw;                 /* [tokens,H,D], 16-byte aligned; NULL: all elements are 0 */
    enum kvr_dtype dtype;            /* type of raw: KVR_BF16 or KVR_F32 */
};

struct kvr_attend_mma_span {
    struct kvr_attend_mma_source k, v;
    int64_t t0, n;         /* the span is tokens [t0, t0 + n) of k and v */
    float log_m;           /* log of the number of original tokens that each token of the span
                            * replaces, added to every score */
    const float *row_bias; /* [T,H]: term per query and head that is subtracted from all scores of
                            * the query in this head; NULL subtracts nothing */
    bool taylor;           /* whether to subtract from each score the Taylor correction
                            * 1/24 sum_c q_c^2 s_c^2. Here q is the query / sqrt(D), and s_c the
                            * key's quantization scale in channel c. If K has two quantizers, s_c is
                            * the scale of the second one. */
};

/* Whether the launcher supports this span with `shared` bytes of shared memory per thread block
 * (the device's limit kvr_stream_block_shared(), or SIZE_MAX for no limit). head_dim must be a
 * multiple of 16, at most 128. Uncompressed rows must be BF16 or F32. Supported codecs are `raw`
 * and the pipelines [transform |] [outliers |] quantizer [+ quantizer]. Brackets mark optional
 * stages; a transform is `hadamard` or `rotate`, and a quantizer is `sym` or `asym`. Group sizes
 * must be powers of two, at least 8, unless all channels of a token share one scale. If K or V has
 * two quantizers (PRQ), every quantization group of K and V must consist of several tokens of one
 * channel. A codec whose only quantizer is `asym` with compute=bf16 must store zero points. If it
 * stores the groups' minimums instead, its decoder rounds code * scale to BF16 before it adds the
 * minimum, which the kernels' FMA cannot reproduce. */
bool kvr_attend_mma_accepts(size_t shared, const struct kvr_attend_shape *shape,
                            const struct kvr_attend_mma_span *span);

/* Attends to one span, for which kvr_attend_mma_accepts must return true. For quantized spans, a
 * separate kernel applies RMSNorm and RoPE (io->norm) to the queries before attention. */
void kvr_attend_mma_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                         const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span);

/* Whether kvr_attend_rows_cuda supports this span. The span must have BF16 rows, from an
 * uncompressed tensor or a block of codec `raw`, and its row_bias must be NULL. A pipeline of two
 * tiles of K and two tiles of V must fit into `shared` bytes of shared memory per thread block. */
bool kvr_attend_rows_accepts(size_t shared, const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Attends to n_spans spans of BF16 rows, with up to KVR_ATTEND_ROWS_SPANS spans per launch. Without
 * split-KV the result is bit-identical to that of one kvr_attend_mma_cuda call per span. `parts`
 * [n_floats] is device memory for the partial results of split-KV (kvr_attend_parts_floats). A
 * smaller buffer leads to fewer KV splits per query block. If n_floats is 0 and `parts` is NULL,
 * the keys are not split. */
void kvr_attend_rows_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

/* Bytes of shared memory that kvr_attend_mma_cuda uses per thread block, if a thread block may use
 * at most `shared` bytes. Returns 0 for an unsupported span. With a head_dim of 128 and 4-bit codes
 * in groups of 16 tokens, the result is 80 KiB. */
size_t kvr_attend_mma_shared_bytes(size_t shared, const struct kvr_attend_shape *shape,
                                   const struct kvr_attend_mma_span *span);
/* Number of thread blocks of kvr_attend_mma_cuda that fit on one SM of the stream's device. Returns
 * 0 for an unsupported span. */
int kvr_attend_mma_blocks(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_mma_span *span);

#ifdef __cplusplus
}
#endif
#endif
