/* result_cache.h - stores expensive results in a file, for later runs.
 *
 *     KVR_TRY(kvr_file_sha256(path, hex));         computed, or cached
 *     KVR_TRY(kvr_file_sha256_known(path, hex));   "" if it would have to be computed
 *     rate = kvr_max_remembered("rate", key, rate);   the maximum of all values given so far
 *
 * The file is $XDG_CACHE_HOME/kvreel/remembered, where XDG_CACHE_HOME defaults to ~/.cache. The
 * file has one line of text per result and may be deleted at any time. The hash of a file of at
 * least KVR_REMEMBER_BYTES bytes is stored; its lookup key is the file's device, inode, size,
 * modification time and change time. The hash of a file modified less than two seconds ago is not
 * stored, because a later write within the same clock tick would leave the file's timestamps
 * unchanged. */
#ifndef KVR_CORE_RESULT_CACHE_H
#define KVR_CORE_RESULT_CACHE_H

#include <stdbool.h>

#include "harness/core/sha256.h"

#ifdef __cplusplus
extern "C" {
#endif

/* KVR_REMEMBER_BYTES is the minimum size of a file whose hash is stored. Hashing a smaller file
 * takes only a fraction of a second. */
enum { KVR_REMEMBER_BYTES = 64 << 20, KVR_STAMP_LEN = 160 };

/* Sets `stamp` to a text of the file's device, inode, size and timestamps, which changes when the
 * file is written. Returns false if there is no such file. *settled becomes false if a timestamp is
 * less than two seconds old, because a later write might leave this stamp unchanged. Otherwise
 * *settled keeps its value. */
bool kvr_file_stamp(const char *path, char stamp[KVR_STAMP_LEN], bool *settled);

/* Like kvr_sha256_file, but returns the stored hash if there is one, and stores a computed hash. */
enum kvr_status kvr_file_sha256(const char *path, char hex[KVR_SHA256_HEX]);
/* Sets hex to the hash of the file if the hash is stored or the file is smaller than
 * KVR_REMEMBER_BYTES. Otherwise hex becomes an empty string and the status is KVR_OK. */
enum kvr_status kvr_file_sha256_known(const char *path, char hex[KVR_SHA256_HEX]);

/* Path of the file `name` in the folder $XDG_CACHE_HOME/kvreel (default ~/.cache/kvreel), allocated
 * by malloc. The file need not exist. Returns NULL if neither XDG_CACHE_HOME nor HOME is an
 * absolute path, or if memory is short. */
char *kvr_cache_file(const char *name);

/* Returns the larger of `now` and the maximum that earlier calls and runs stored for `what` and
 * `key`; stores `now` if it is larger. `what` names the measured quantity, for example "rate". If
 * nothing is stored, the stored maximum counts as 0. `key` must not contain line feeds. */
double kvr_max_remembered(const char *what, const char *key, double now);

#ifdef __cplusplus
}
#endif
#endif
