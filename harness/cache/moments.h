/* moments.h - statistics of coded keys for a scheme's correction.
 *
 *     KVR_TRY(kvr_moments_make(c, &seg->k, k, &back, seg->moments.p));
 *
 * Moments computed on different devices are equal up to the last bit. */
#ifndef KVR_CACHE_MOMENTS_H
#define KVR_CACHE_MOMENTS_H

#include "harness/device/mem.h"
#include "methods/corrections/correction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes with tag KVR_MEM_SCRATCH that kvr_moments_make reserves in `back` for n elements, or 0 if
 * it needs no scratch. */
size_t kvr_moments_back_bytes(const struct kvr_correction *c, size_t n, enum kvr_backend backend);

/* Computes moments [c->moments][H][D] of the coded keys k, on their device. The input x [T,H,D] has
 * the original keys, rotated if the codec rotates keys. The buffer `back` is resized to fit the
 * decoded keys. */
enum kvr_status kvr_moments_make(const struct kvr_correction *c, const struct kvr_packed *k,
                                 const float *x, struct kvr_buf *back, kvr_f16 *moments);

#ifdef __cplusplus
}
#endif
#endif
