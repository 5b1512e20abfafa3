/* fingerprint.h - hash of a layer's stored content.
 *
 *     KVR_TRY(kvr_layer_fingerprint(&layer, hex));
 *
 * Two layers have equal hashes if they store the same tokens in the same segments with identical
 * bytes. The hash covers codes, scales, zero points, indices, token lists and moments (key
 * statistics for a score correction). The hash does not depend on the CPU instruction set of the
 * kernels, because stored bytes do not depend on it. */
#ifndef KVR_CACHE_FINGERPRINT_H
#define KVR_CACHE_FINGERPRINT_H

#include "harness/cache/layer.h"
#include "harness/core/sha256.h"

/* Hashes a layer in host memory; for a layer in device memory, first make a host copy
 * (mirror.h). */
enum kvr_status kvr_layer_fingerprint(const struct kvr_layer *l, char hex[KVR_SHA256_HEX]);

#endif
