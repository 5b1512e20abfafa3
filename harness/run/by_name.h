/* by_name.h - makes links with readable names to result files, such as
 * OUT/by-name/PROMPT/METHOD.mp4.
 *
 *     KVR_TRY(kvr_link_by_name(out, "red", "RTN_INT4", key, "videos/red-RTN_INT4-1a2b-9c8d.mp4"));
 *
 * The links are relative symbolic links, so the folder may be moved. The result files themselves
 * have hashes in their names, so sweeps that share a folder never overwrite each other's files. If
 * the link's name is taken by another cell, the link is METHOD-KEY8.mp4. */
#ifndef KVR_RUN_BY_NAME_H
#define KVR_RUN_BY_NAME_H

#include "harness/core/status.h"

/* Makes the link to `file`, a path "NAME-BUILD.SUFFIX" below `out_dir`. A link to the same NAME of
 * another build is replaced. If `file` does not exist, no link is made. KVR_EIO: the file system
 * has no symbolic links, or a file that is not such a link has the name; nothing is changed. */
enum kvr_status kvr_link_by_name(const char *out_dir, const char *prompt, const char *method,
                                 const char *key, const char *file);

#endif
