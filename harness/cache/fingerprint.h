/* fingerprint.h - hash of a layer's stored content.
 *
 *     KVR_TRY(kvr_layer_fingerprint(&layer, hex));
 *
 * Equal if two layers hold the same tokens in the same way with identical bytes of codes, scales,
 * zero points, indices, lists and moments. The hash covers no floating-point sums, so it does not
 * depend on the instruction set. */
#ifndef KVR_CACHE_FINGERPRINT_H
#define KVR_CACHE_FINGERPRINT_H

#include "harness/cache/layer.h"
#include "harness/core/sha256.h"

/* For a layer in host memory (use mirror.h for a device's). */
enum kvr_status kvr_layer_fingerprint(const struct kvr_layer *l, char hex[KVR_SHA256_HEX]);

#endif
