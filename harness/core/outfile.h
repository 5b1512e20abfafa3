/* outfile.h - atomic output files.
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
 * Writes go to a temporary file in the target's directory; commit syncs it and renames it over the
 * target. Until then, and after any failure, the target is unchanged. A replaced file keeps its
 * mode. Devices and FIFOs are written directly; symbolic links are refused. A full disk or quota is
 * KVR_EFULL, other errors are KVR_EIO; both name the target. */
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
/* Descriptor of the temporary file, for libraries that seek. Remains owned by `o`. */
int kvr_out_fd(const struct kvr_out *o);
/* Closes `o` on success and on failure; *o becomes NULL. */
enum kvr_status kvr_out_commit(struct kvr_out **o);
/* Removes the temporary file. Accepts NULL. */
void kvr_out_drop(struct kvr_out **o);

#ifdef __cplusplus
}
#endif
#endif
