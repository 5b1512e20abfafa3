/* attend_wgmma.h - warp-specialised wgmma attention for sm_90: one launch over a list of plain or
 * coded spans.
 *
 *     if (kvr_attend_list_supported(s) && kvr_attend_list_accepts() for every span)
 *         kvr_attend_list_cuda(s, &shape, &io, spans, n_spans, parts, n_floats);
 *
 * Equivalent to kvr_attend_mma_cuda span by span: BF16 products with F32 accumulation, F32
 * softmax. The tiles differ, so the results agree up to rounding. Results are deterministic.
 * Attention to a coded span is bit-identical to attention to its decoded values, rounded to BF16,
 * as plain rows. */
#ifndef KVR_CACHE_ATTEND_WGMMA_H
#define KVR_CACHE_ATTEND_WGMMA_H

#include "harness/cache/attend_mma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* maximum spans per launch; keys per tile */
enum { KVR_ATTEND_LIST_SPANS = 14, KVR_ATTEND_LIST_KEYS = 128 };

/* Whether the device has compute capability 9.0 and the program contains sm_90a code. */
bool kvr_attend_list_supported(const struct kvr_stream *s);

/* Whether the launcher supports this span; it must have no row bias. head_dim 64 or 128: BF16 rows,
 * plain or of codec `raw`, 16-byte aligned. head_dim 128: keys and values in grids of the same 2 or
 * 4 bits, from a multiple of 16 tokens on, without a correction. Forms: K and V symmetric per
 * channel, in groups of 16 or more tokens (RTN, QuaRot). K per channel and V with one scale per
 * token (KIVI). Two such symmetric grids for each of K and V, the second with 4 bits (PRQ). */
bool kvr_attend_list_accepts(const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Any number of spans, KVR_ATTEND_LIST_SPANS per launch; the coded spans of a launch have one form.
 * parts [n_floats]: device memory for split-KV (kvr_attend_parts_floats); with less, or NULL and 0,
 * fewer or no CTAs are split. */
void kvr_attend_list_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

#ifdef __cplusplus
}
#endif
#endif
