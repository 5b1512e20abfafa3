/* outfile.h - atomic output files.
 *
 *     struct kvr_out *o;
 *     KVR_TRY(kvr_out_open(&o, "results/table.csv"));
 *     st = kvr_out_write(o, text, n);
 *     if (st == KVR_OK)
 *         st = kvr_out_commit(&o);
 *     kvr_out_drop(&o);
 *
 * Output is written to a temporary file in the target's directory; kvr_out_commit syncs this file
 * and renames it over the target. Until the commit, and after any failure, the target is unchanged.
 * A target that is replaced keeps its file mode. A target that is a device or FIFO is written
 * directly; a symbolic link is refused. A full disk or an exhausted quota fails with KVR_EFULL, any
 * other I/O error with KVR_EIO. The message names the target. */
#ifndef KVR_CORE_OUTFILE_H
#define KVR_CORE_OUTFILE_H

#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_out;

/* Creates the temporary file for the target `path`; if the target is a device or FIFO, opens the
 * target instead. */
enum kvr_status kvr_out_open(struct kvr_out **out, const char *path);
/* Appends n bytes to the output. */
enum kvr_status kvr_out_write(struct kvr_out *o, const void *p, size_t n);
/* File descriptor of the temporary file, for libraries that seek. The caller must not close it. */
int kvr_out_fd(const struct kvr_out *o);
/* Syncs the temporary file and renames it over the target. Closes the output and sets *o to NULL,
 * whether the commit succeeds or fails. */
enum kvr_status kvr_out_commit(struct kvr_out **o);
/* Closes the output without a commit, removes the temporary file and sets *o to NULL. Does nothing
 * if *o is NULL. */
void kvr_out_drop(struct kvr_out **o);
/* Writes the n bytes at `p` to the file `path`: opens, writes and commits the output. */
enum kvr_status kvr_out_save(const char *path, const void *p, size_t n);

#ifdef __cplusplus
}
#endif
#endif
