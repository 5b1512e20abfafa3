/* attend_wgmma.h - warp-specialised wgmma attention for sm_90: one launch attends to a list of
 * spans (runs of tokens) with BF16 or quantized keys and values.
 *
 *     if (kvr_attend_list_supported(s) && kvr_attend_list_accepts() for every span)
 *         kvr_attend_list_cuda(s, &shape, &io, spans, n_spans, parts, n_floats);
 *
 * Matrix products have BF16 operands and F32 accumulators, and softmax is computed in F32. The
 * result differs only by rounding from that of one kvr_attend_mma_cuda call per span, which uses
 * tiles of 64 keys. Results are deterministic. Attention to a quantized span is bit-identical to
 * attention to its dequantized keys and values, stored as BF16 rows. */
#ifndef KVR_CACHE_ATTEND_WGMMA_H
#define KVR_CACHE_ATTEND_WGMMA_H

#include "harness/cache/attend_mma.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_ATTEND_LIST_SPANS = 14, /* maximum number of spans per launch */
    KVR_ATTEND_LIST_KEYS = 128  /* keys per tile */
};

/* Whether the device has compute capability 9.0 and the program contains sm_90a code. */
bool kvr_attend_list_supported(const struct kvr_stream *s);

/* Whether the launcher supports this span. A span with a row bias (a term per query that is
 * subtracted from the scores) is not supported. With a head_dim of 64 or 128 the launcher supports
 * 16-byte aligned BF16 rows, either uncompressed tokens or tokens of codec `raw`. With a head_dim
 * of 128 the launcher also supports a quantized span that begins at a multiple of 16 tokens and
 * needs no Taylor correction of its scores (kvr_attend_mma_span.taylor). K and V must both be
 * quantized to 2 bits, or both to 4 bits (in PRQ spans, this applies to the first quantizer). Three
 * layouts of quantized spans are supported. In RTN and QuaRot spans, K and V have one scale per
 * channel and group of 16 or more tokens. In KIVI spans, K has one scale per channel and group of
 * 16 or more tokens, and V has one scale per token. In PRQ spans, K and V each have two symmetric
 * quantizers; the second one encodes the residual of the first one in 4 bits. Each quantizer has
 * one scale per channel and group of 16 or more tokens. */
bool kvr_attend_list_accepts(const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Attends to any number of spans. A launch processes up to KVR_ATTEND_LIST_SPANS spans. All
 * quantized spans of a launch have the same layout and bit width. `parts` [n_floats] is device
 * memory for the partial results of split-KV (kvr_attend_parts_floats). A smaller buffer leads to
 * fewer KV splits per query block. If n_floats is 0 and `parts` is NULL, the keys are not split. */
void kvr_attend_list_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

#ifdef __cplusplus
}
#endif
#endif
