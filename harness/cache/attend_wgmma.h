/* attend_wgmma.h - warp-specialised wgmma attention for sm_90: one launch over a list of plain or
 * coded spans.
 *
 *     if (kvr_attend_list_supported(s) && kvr_attend_list_accepts() for every span)
 *         kvr_attend_list_cuda(s, &shape, &io, spans, n_spans, parts, n_floats);
 *
 * A launch computes the same attention as kvr_attend_mma_cuda span by span, with BF16 products, F32
 * accumulation and F32 softmax. The two launchers use different tiles, so their results agree only
 * up to rounding. Results are deterministic. Attention to a coded span gives the same bits as
 * attention to its decoded values, stored as plain BF16 rows. */
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

/* Whether the launcher supports this span. A span with a row bias is not supported. With a head_dim
 * of 64 or 128 the launcher reads 16-byte aligned BF16 rows, plain or of codec `raw`. With a
 * head_dim of 128 the launcher also reads coded keys and values, if the span begins at a multiple
 * of 16 tokens and has no correction. K and V must both be coded with 2 bits or both with 4 bits.
 * Three forms of coded spans are supported. In RTN and QuaRot spans, K and V have one scale per
 * channel and group of 16 or more tokens. In KIVI spans, K has such scales, and V has one scale per
 * token. In PRQ spans, K and V are coded by chains of two symmetric grids with such scales, where
 * the second grid has 4 bits. */
bool kvr_attend_list_accepts(const struct kvr_attend_shape *shape,
                             const struct kvr_attend_mma_span *span);

/* Attends to any number of spans. A launch takes at most KVR_ATTEND_LIST_SPANS spans, and its coded
 * spans must have one form. `parts` [n_floats] is device memory for the partial results of split-KV
 * (kvr_attend_parts_floats). With less memory fewer CTAs are split; with NULL and 0, no CTA is
 * split. */
void kvr_attend_list_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

#ifdef __cplusplus
}
#endif
#endif
