/* moments.h - computes statistics of quantized keys (moments). A correction of the attention scores
 * uses the moments to remove the bias that quantization error adds in softmax.
 *
 *     KVR_TRY(kvr_moments_make(c, &seg->k, k, &back, seg->moments.p));
 *
 * Moments computed on different devices may differ in the last bit. */
#ifndef KVR_CACHE_MOMENTS_H
#define KVR_CACHE_MOMENTS_H

#include "harness/device/mem.h"
#include "methods/corrections/correction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the scratch buffer `back`, into which kvr_moments_make decodes n key elements. Returns 0
 * on the CPU, and for a correction without moments. */
size_t kvr_moments_back_bytes(const struct kvr_correction *c, size_t n, enum kvr_backend backend);

/* Computes moments [c->moments][H][D] of the quantized keys `k`, on the device that stores the
 * keys. x [T,H,D] are the same keys before quantization; if the codec rotates keys, x must be
 * rotated too. On CUDA, the buffer `back` is resized to fit the decoded keys. */
enum kvr_status kvr_moments_make(const struct kvr_correction *c, const struct kvr_packed *k,
                                 const float *x, struct kvr_buf *back, kvr_f16 *moments);

#ifdef __cplusplus
}
#endif
#endif
