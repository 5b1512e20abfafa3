/* outfile.h - a file that appears whole or not at all.
 *
 *     struct kvr_out *o;
 *     KVR_TRY(kvr_out_open(&o, "results/table.csv"));
 *     st = kvr_out_write(o, text, n);
 *     if (st != KVR_OK) {
 *         kvr_out_drop(&o);
 *         return st;
 *     }
 *     return kvr_out_commit(&o);
 *
 * Bytes go to a temporary file beside the target; commit syncs it and renames it over the
 * target. Until then, and after any failure, the target is as it was. A file that is replaced
 * keeps its mode. A device or a FIFO is written in place, as bytes come; a symbolic link is
 * neither followed nor replaced but refused. A full disk or quota is KVR_EFULL, everything else
 * KVR_EIO; both name the target. */
#ifndef KVR_CORE_OUTFILE_H
#define KVR_CORE_OUTFILE_H

#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_out;

enum kvr_status kvr_out_open(struct kvr_out **out, const char *path);
enum kvr_status kvr_out_write(struct kvr_out *o, const void *p, size_t n);
/* For a library that seeks: the file that will get the name. It stays ours and open. */
int kvr_out_fd(const struct kvr_out *o);
/* Closes whatever it returns; *o becomes NULL. */
enum kvr_status kvr_out_commit(struct kvr_out **o);
/* Removes the temporary. Copes with NULL. */
void kvr_out_drop(struct kvr_out **o);

#ifdef __cplusplus
}
#endif
#endif
