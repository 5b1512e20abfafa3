/* infile.h - opens input files of finite length, without blocking.
 *
 *     FILE *f;
 *     KVR_TRY(kvr_infile_open(&f, path));
 *     ... read to the end, once ...
 *     fclose(f);
 *
 * Refuses directories and devices, which may never end; does not wait for the writer of a FIFO. */
#ifndef KVR_CORE_INFILE_H
#define KVR_CORE_INFILE_H

#include <stdio.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a regular file or a pipe. A shell's `<(...)` is read to its end; a FIFO without a writer is
 * empty. KVR_ENOTFOUND: no such file; KVR_EFORMAT: another kind of file; KVR_EIO; KVR_ENOMEM. */
enum kvr_status kvr_infile_open(FILE **out, const char *path);

/* kvr_infile_open() for text: skips a UTF-8 byte order mark. A UTF-16 or UTF-32 mark is
 * KVR_EFORMAT. */
enum kvr_status kvr_infile_open_text(FILE **out, const char *path);

/* Checks that the path is a regular file, for readers that seek. Errors as above. */
enum kvr_status kvr_infile_check(const char *path);

#ifdef __cplusplus
}
#endif
#endif
