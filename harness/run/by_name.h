/* by_name.h - makes links with readable names to result files, such as
 * OUT/by-name/PROMPT/METHOD.mp4.
 *
 *     KVR_TRY(kvr_link_by_name(out, "red", "RTN_INT4", key, "videos/red-RTN_INT4-1a2b-9c8d.mp4"));
 *
 * The links are symbolic and relative, so they stay valid if the folder OUT is moved. The result
 * files themselves have hashes in their names, so sweeps that share a folder never overwrite each
 * other's files. If another cell's link already has the name METHOD.mp4, the new link is
 * METHOD-KEY8.mp4, where KEY8 is the first 8 digits of the cell's key (hash of its inputs). */
#ifndef KVR_RUN_BY_NAME_H
#define KVR_RUN_BY_NAME_H

#include "harness/core/status.h"

/* Makes the link to `file`, a path "NAME-BUILD.SUFFIX" below `out_dir`. An existing link to a file
 * with the same NAME but another BUILD is replaced. If `file` does not exist, no link is made.
 * Returns KVR_EIO if the file system does not support symbolic links. */
enum kvr_status kvr_link_by_name(const char *out_dir, const char *prompt, const char *method,
                                 const char *key, const char *file);

#endif
