/* remember.h - caches expensive results across runs.
 *
 *     KVR_TRY(kvr_file_sha256(path, hex));         computed, or cached
 *     KVR_TRY(kvr_file_sha256_known(path, hex));   "" if it would have to be computed
 *     rate = kvr_best_number("rate", key, rate);   maximum of all values given so far
 *
 * Lines of text in $XDG_CACHE_HOME/kvreel/remembered (~/.cache), which may be deleted at any time.
 * Hashes are cached for files of at least KVR_REMEMBER_BYTES, keyed by device, inode, size and
 * change times. A file modified within the last second is not cached: a later write in the same
 * clock tick would go unnoticed. */
#ifndef KVR_CORE_REMEMBER_H
#define KVR_CORE_REMEMBER_H

#include <stdbool.h>

#include "harness/core/sha256.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Smaller files are hashed in a fraction of a second. */
enum { KVR_REMEMBER_BYTES = 64 << 20, KVR_STAMP_LEN = 160 };

/* Identity of a file's content; it changes when the file is written. False: no such file. *quiet
 * becomes false if the file was modified less than a second ago, and is otherwise unchanged. */
bool kvr_file_stamp(const char *path, char stamp[KVR_STAMP_LEN], bool *quiet);

/* Like kvr_sha256_file, but returns a cached hash if there is one, and caches a computed one. */
enum kvr_status kvr_file_sha256(const char *path, char hex[KVR_SHA256_HEX]);
/* The hash if it is cached or the file is small; otherwise hex is "" and the status KVR_OK. */
enum kvr_status kvr_file_sha256_known(const char *path, char hex[KVR_SHA256_HEX]);

/* Path of a file in the cache folder, whether or not it exists; malloc'ed. NULL: no cache
 * folder. */
char *kvr_cache_file(const char *name);

/* The maximum of `now` and earlier values for `key` (without line feeds). */
double kvr_best_number(const char *what, const char *key, double now);

#ifdef __cplusplus
}
#endif
#endif
