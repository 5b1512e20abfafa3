/* fingerprint.h - what a layer has stored, as one hash.
 *
 *     KVR_TRY(kvr_layer_fingerprint(&layer, hex));
 *
 * Two layers have the same one when they hold the same tokens in the same way and every byte of
 * codes, scales, zero points, indices, lists and moments is the same. No sum of products is in it,
 * so it does not hang on a CPU's instruction set. */
#ifndef KVR_CACHE_FINGERPRINT_H
#define KVR_CACHE_FINGERPRINT_H

#include "harness/cache/layer.h"
#include "harness/core/sha256.h"

/* Of a layer in the host's memory (mirror.h has a device's). */
enum kvr_status kvr_layer_fingerprint(const struct kvr_layer *l, char hex[KVR_SHA256_HEX]);

#endif
