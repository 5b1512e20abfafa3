/* corrections_cuda.h - corrections on a CUDA stream.
 *
 * Called through struct kvr_correction. A correction is either one number per query and segment, or
 * a sum over the squared scales of a key:
 *
 *     after a segment is coded, if c->moments:
 *         x: its original keys in the codec's space; back: the decoded keys in the same space
 *         c->prepare_cuda(s, &packed, x, back, moments);
 *     when it is attended to, with q in the codec's space:
 *         if (c->by_scales == KVR_BY_SCALES_NO)
 *             c->rows_cuda(s, &packed.shape, moments, q, n_query, row_bias);
 *         else
 *             kvr_squared_scales_cuda(s, &packed, t0, n, s2);
 *         attention takes row_bias, or s2 with c->by_scales (harness/cache/attend_cuda.h)
 *
 * A packed block is read through kvr_codec_noise(): shape and codec on the host, buffers on the
 * device. All other pointers are device memory. Nothing allocates or synchronises; errors surface
 * at kvr_stream_sync(). */
#ifndef KVR_METHODS_CORRECTIONS_CORRECTIONS_CUDA_H
#define KVR_METHODS_CORRECTIONS_CORRECTIONS_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The correction that is subtracted from the score of query q / sqrt(D) and a key with squared
 * scales s2. */
enum kvr_by_scales {
    KVR_BY_SCALES_NO,     /* no correction */
    KVR_BY_SCALES_TAYLOR, /* 1/24 sum_c q_c^2 s2_c */
    KVR_BY_SCALES_EXACT,  /* sum_c log(sinh a_c / a_c), a_c = sqrt(q_c^2 s2_c) / 2 */
};

/* Computes kvr_squared_scales of keys [t0, t0 + n) of every head: out [n,H,D]. The results are
 * bit-identical to the CPU's, except for NaN payloads. */
void kvr_squared_scales_cuda(struct kvr_stream *s, const struct kvr_packed *k, int64_t t0,
                             int64_t n, float *out);

/* Types of prepare_cuda and rows_cuda of flat and energy; moments [number of moments][H][D].
 *
 * prepare: k->shape.n_tok >= 1 tokens; x and back [T,H,D]. `back` is scratch: flat ignores its
 * input and leaves the squared scales there. Sums run in double in token order, as on the CPU:
 * bit-identical (NaN payloads may differ).
 *
 * rows: for n_query queries q [n_query,H,D], unscaled, the correction common to all keys of the
 * segment: row_bias [n_query,H]. The sum over D runs in another order than on the CPU, but
 * deterministically. */
typedef void kvr_correction_prepare_cuda_fn(struct kvr_stream *s, const struct kvr_packed *k,
                                            const float *x, float *back, kvr_f16 *moments);
typedef void kvr_correction_rows_cuda_fn(struct kvr_stream *s, const struct kvr_block_shape *shape,
                                         const kvr_f16 *moments, const float *q, int64_t n_query,
                                         float *row_bias);
kvr_correction_prepare_cuda_fn kvr_flat_prepare_cuda, kvr_energy_prepare_cuda;
kvr_correction_rows_cuda_fn kvr_flat_rows_cuda, kvr_energy_rows_cuda;

#ifdef __cplusplus
}
#endif
#endif
