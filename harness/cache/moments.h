/* moments.h - statistics of coded keys for a scheme's correction.
 *
 *     KVR_TRY(kvr_moments_make(c, &seg->k, k, &back, seg->moments.p));
 *
 * On any device; equal up to the last bit. */
#ifndef KVR_CACHE_MOMENTS_H
#define KVR_CACHE_MOMENTS_H

#include "harness/device/mem.h"
#include "methods/corrections/correction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SCRATCH that kvr_moments_make reserves in `back` for n elements; 0 if none. */
size_t kvr_moments_back_bytes(const struct kvr_correction *c, size_t n, enum kvr_backend backend);

/* moments [c->moments][H][D] of a coded segment, on its device; x [T,H,D]: the original keys in the
 * codec's space. `back` is resized for the decoded keys. */
enum kvr_status kvr_moments_make(const struct kvr_correction *c, const struct kvr_packed *k,
                                 const float *x, struct kvr_buf *back, kvr_f16 *moments);

#ifdef __cplusplus
}
#endif
#endif
