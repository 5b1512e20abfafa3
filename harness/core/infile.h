/* infile.h - opens input files of finite length without blocking.
 *
 *     FILE *f;
 *     KVR_TRY(kvr_infile_open(&f, path));
 *     ... read to the end, once ...
 *     fclose(f);
 *
 * Directories and devices, which may be endless, are refused. Opening a FIFO does not wait for its
 * writer. */
#ifndef KVR_CORE_INFILE_H
#define KVR_CORE_INFILE_H

#include <stdio.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a regular file or a pipe. A shell's process substitution `<(...)` is read to its end; a
 * FIFO without a writer reads as empty. Fails with KVR_ENOTFOUND if the file does not exist, with
 * KVR_EFORMAT if it is neither a regular file nor a pipe, and otherwise with KVR_EIO or
 * KVR_ENOMEM. */
enum kvr_status kvr_infile_open(FILE **out, const char *path);

/* Opens a text file like kvr_infile_open() and skips a UTF-8 byte order mark. Fails with
 * KVR_EFORMAT if the file has a UTF-16 or UTF-32 byte order mark. */
enum kvr_status kvr_infile_open_text(FILE **out, const char *path);

/* Checks that `path` is a regular file, in which a reader can seek. Errors are those of
 * kvr_infile_open(). */
enum kvr_status kvr_infile_check(const char *path);

#ifdef __cplusplus
}
#endif
#endif
