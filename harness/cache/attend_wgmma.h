/* attend_wgmma.h - attention as sm_90 does it best: one launch over a list of spans, plain or coded.
 *
 *     if (kvr_attend_list_here(s) && every span of the list is one that kvr_attend_list_can takes)
 *         kvr_attend_list_cuda(s, &shape, &io, spans, n_spans, parts, n_floats);
 *
 * What it comes to is what kvr_attend_mma_cuda comes to, span after span: products of BF16 numbers
 * summed in F32, softmax in F32; other sums of other tiles, so that the two agree to roundings. The
 * same call gives the same bits every time, and a coded span those of its decoded values, rounded to
 * BF16, as plain rows. */
#ifndef KVR_CACHE_ATTEND_WGMMA_H
#define KVR_CACHE_ATTEND_WGMMA_H

#include "harness/cache/attend_mma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Spans of a launch; keys of a tile. */
enum { KVR_ATTEND_LIST_SPANS = 14, KVR_ATTEND_LIST_KEYS = 128 };

/* Whether the stream's device is of compute capability 9.0 and the program has its code. */
bool kvr_attend_list_here(const struct kvr_stream *s);

/* Whether the launcher takes this span, which has no bias of rows: with head_dim 64 or 128 rows of
 * BF16, plain or of a codec `raw`, at a multiple of 16 bytes; with head_dim 128 keys and values of one
 * grid each, of as many bits, 2 or 4, from a multiple of 16 tokens on, without a correction: both
 * symmetric with scales for 16 or more tokens of a channel (RTN, QuaRot), or keys so and values with scales
 * for whole tokens (KIVI); or of two such symmetric grids each, the second of 4 bits (PRQ). */
bool kvr_attend_list_can(const struct kvr_attend_shape *shape,
                         const struct kvr_attend_mma_span *span);

/* Any number of spans: KVR_ATTEND_LIST_SPANS to a launch, coded ones of one
 * kind. parts [n_floats] is device memory for what parts of the keys come to
 * (kvr_attend_parts_floats); with
 * less, or NULL and 0, fewer or none are cut. */
void kvr_attend_list_cuda(struct kvr_stream *s, const struct kvr_attend_shape *shape,
                          const struct kvr_attend_io *io, const struct kvr_attend_mma_span *span,
                          int n_spans, float *parts, size_t n_floats);

#ifdef __cplusplus
}
#endif
#endif
