/* corrections_cuda.h - corrections of attention scores on a CUDA stream, called through struct
 * kvr_correction.
 *
 * A segment is a range of cached tokens that are quantized together. A correction is either one
 * number per query and segment, or a sum over channels that depends on the squared scales of a key.
 * If a correction c stores moments (statistics of the quantization error), the cache calls
 * c->prepare_cuda(s, &packed, x, back, moments) after it has quantized a segment. Here x contains
 * the original keys and `back` the decoded keys, both in the codec's space (rotated, if the codec
 * rotates keys). Before attention to a segment, queries q are transformed to the codec's space. If
 * c->by_scales is KVR_BY_SCALES_NO, c->rows_cuda(s, &packed.shape, moments, q, n_query, row_bias)
 * then computes the correction of every query. Otherwise kvr_squared_scales_cuda(s, &packed, t0, n,
 * s2) computes the squared scales of keys [t0, t0 + n). Attention receives row_bias, or s2 with
 * c->by_scales (harness/cache/attend_cuda.h).
 *
 * The function kvr_codec_noise() reads a packed block, whose shape and codec are in host memory and
 * whose buffers are in device memory. All other arrays are in device memory. The functions neither
 * allocate memory nor synchronise; kvr_stream_sync() returns errors. */
#ifndef KVR_METHODS_CORRECTIONS_CORRECTIONS_CUDA_H
#define KVR_METHODS_CORRECTIONS_CORRECTIONS_CUDA_H

#include "harness/device/stream.h"
#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Formula of the correction that attention subtracts from an attention score. In the formulas, q_c
 * is channel c of the query divided by sqrt(D), and s2_c is the squared scale of channel c of the
 * key. */
enum kvr_by_scales {
    KVR_BY_SCALES_NO,     /* no correction that depends on scales */
    KVR_BY_SCALES_TAYLOR, /* 1/24 sum_c q_c^2 s2_c */
    KVR_BY_SCALES_EXACT,  /* sum_c log(sinh a_c / a_c) with a_c = sqrt(q_c^2 s2_c) / 2 */
};

/* Computes the squared scales out [n,H,D] of keys [t0, t0 + n), as kvr_squared_scales() does for
 * one head. The results are bit-identical to the CPU's, except for NaN payloads. */
void kvr_squared_scales_cuda(struct kvr_stream *s, const struct kvr_packed *k, int64_t t0,
                             int64_t n, float *out);

/* Types of the functions prepare_cuda and rows_cuda of the corrections `flat` and `energy`. The
 * moments of a segment form an array [number of moments][H][D].
 *
 * A function prepare_cuda computes the moments of a segment, which has at least one token, from its
 * packed keys `k`, original keys `x` and decoded keys `back`, the latter two [T,H,D]. The
 * correction `flat` does not need the decoded keys and uses `back` as a buffer for squared scales.
 * Sums run in double in token order, as on the CPU, so the moments are bit-identical to the CPU's
 * (NaN payloads may differ).
 *
 * A function rows_cuda computes for each of n_query queries the correction that all keys of a
 * segment have in common. The caller does not scale queries q [n_query,H,D] by 1 / sqrt(D). The
 * output is row_bias [n_query,H]. The sum over D runs in a fixed order that differs from the order
 * on the CPU, so the result may differ from the CPU's by rounding errors. */
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
