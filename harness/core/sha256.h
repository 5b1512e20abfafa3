/* sha256.h - SHA-256 hashes, which identify files and serve as keys of stored results.
 *
 *     char hex[KVR_SHA256_HEX];
 *     KVR_TRY(kvr_sha256_hex("abc", 3, hex));
 *
 *     struct kvr_sha256 h;
 *     KVR_TRY(kvr_sha256_open(&h));
 *     KVR_TRY(kvr_sha256_add(&h, p, n));        any number of times
 *     KVR_TRY(kvr_sha256_close(&h, hex));
 *
 * A struct kvr_sha256 allocates no memory, so kvr_sha256_close() may be omitted. */
#ifndef KVR_CORE_SHA256_H
#define KVR_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_SHA256_HEX = 65 }; /* 64 lower-case hex digits and the terminating zero */

struct kvr_sha256 {
    uint64_t state[16]; /* libcrypto's SHA256_CTX */
};

/* Starts a hash of content that is added in pieces. */
enum kvr_status kvr_sha256_open(struct kvr_sha256 *h);
/* Adds n bytes of content to the hash. */
enum kvr_status kvr_sha256_add(struct kvr_sha256 *h, const void *p, size_t n);
/* Finishes the hash and writes it to `hex`. If `hex` is NULL, the function does nothing. */
enum kvr_status kvr_sha256_close(struct kvr_sha256 *h, char hex[KVR_SHA256_HEX]);

/* Writes the hash of n bytes in memory to hex. */
enum kvr_status kvr_sha256_hex(const void *p, size_t n, char hex[KVR_SHA256_HEX]);
/* Writes the hash of a file's content to hex. The messages of KVR_ENOTFOUND and KVR_EIO name the
 * file. */
enum kvr_status kvr_sha256_file(const char *path, char hex[KVR_SHA256_HEX]);

#ifdef __cplusplus
}
#endif
#endif
