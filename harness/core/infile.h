/* infile.h - files that are read: those that have an end, and that nobody waits for.
 *
 *     FILE *f;
 *     KVR_TRY(kvr_infile_open(&f, path));
 *     ... to its end, once ...
 *     fclose(f);
 *
 * A directory has nothing to read, a device no end, and who opens a FIFO waits for somebody who may
 * never come. */
#ifndef KVR_CORE_INFILE_H
#define KVR_CORE_INFILE_H

#include <stdio.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A regular file, or a pipe: that of a shell's `<(...)` is read to its end, one that nobody writes
 * to is empty. KVR_ENOTFOUND: there is none; KVR_EFORMAT: another kind of thing; KVR_EIO; KVR_ENOMEM. */
enum kvr_status kvr_infile_open(FILE **out, const char *path);

/* kvr_infile_open() for text: a byte order mark of UTF-8 is skipped, as other systems write one. One of
 * UTF-16 or UTF-32 is KVR_EFORMAT and is named: this program reads UTF-8. */
enum kvr_status kvr_infile_open_text(FILE **out, const char *path);

/* Is it a regular file? For what is read at any place, or by a library. Errors as above. */
enum kvr_status kvr_infile_check(const char *path);

#ifdef __cplusplus
}
#endif
#endif
