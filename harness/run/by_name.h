/* by_name.h - readable names for result files: OUT/by-name/PROMPT/METHOD.mp4 and .safetensors.
 *
 *     KVR_TRY(kvr_link_by_name(out, "red", "RTN_INT4", key, "videos/red-RTN_INT4-1a2b-9c8d.mp4"));
 *
 * The names are relative symbolic links, so the folder may be moved. Result files are named by
 * hash, so sweeps that share a folder never overwrite each other's files. If the name belongs to
 * another cell, the link is METHOD-KEY8.mp4. */
#ifndef KVR_RUN_BY_NAME_H
#define KVR_RUN_BY_NAME_H

#include "harness/core/status.h"

/* `file` is below `out_dir`, "NAME-BUILD.SUFFIX"; a link to NAME of another build is redirected to
 * this one. A missing file gets no link. KVR_EIO, with nothing changed: the file system has no
 * symbolic links, or another file is in the way. */
enum kvr_status kvr_link_by_name(const char *out_dir, const char *prompt, const char *method,
                                 const char *key, const char *file);

#endif
