/* remember.h - what costs much to find out, kept from one run to the next.
 *
 *     KVR_TRY(kvr_file_sha256(path, hex));         read whole, or remembered
 *     KVR_TRY(kvr_file_sha256_known(path, hex));   "" where that would take its time
 *     rate = kvr_best_number("rate", key, rate);   the greatest that was ever given
 *
 * Lines of text in $XDG_CACHE_HOME/kvreel/remembered (~/.cache), which may be deleted at any time:
 * nothing but time is lost. A hash is remembered of files from KVR_REMEMBER_BYTES on, under device,
 * inode, size and the times of its last changes, and never of a file that somebody wrote to in the
 * second before, for then those would not show the next write. */
#ifndef KVR_CORE_REMEMBER_H
#define KVR_CORE_REMEMBER_H

#include <stdbool.h>

#include "harness/core/sha256.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is smaller is read in a fraction of a second. */
enum { KVR_REMEMBER_BYTES = 64 << 20, KVR_STAMP_LEN = 160 };

/* Of a file that is there: the same text while nobody writes to it. False: there is none. *quiet
 * becomes false when it was written to less than a second ago, and stays as it is otherwise. */
bool kvr_file_stamp(const char *path, char stamp[KVR_STAMP_LEN], bool *quiet);

/* As kvr_sha256_file. */
enum kvr_status kvr_file_sha256(const char *path, char hex[KVR_SHA256_HEX]);
/* The same where it is remembered or the file is small; else "" and KVR_OK. */
enum kvr_status kvr_file_sha256_known(const char *path, char hex[KVR_SHA256_HEX]);

/* The greater of `now` and what was given for `key` (no line feed in it) before. */
double kvr_best_number(const char *what, const char *key, double now);

#ifdef __cplusplus
}
#endif
#endif
