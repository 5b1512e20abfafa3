/* by_name.h - files under names that people read: OUT/by-name/PROMPT/METHOD.mp4 and .safetensors.
 *
 *     KVR_TRY(kvr_link_by_name(out, "red", "RTN_INT4", key, "videos/red-RTN_INT4-1a2b-9c8d.mp4"));
 *
 * They are links, and relative: the folder may be moved. Results go by hashes, so that sweeps that
 * share a folder never write over each other's files; where another cell has the name already, the
 * link is METHOD-KEY8.mp4. */
#ifndef KVR_RUN_BY_NAME_H
#define KVR_RUN_BY_NAME_H

#include "harness/core/status.h"

/* `file` is below `out_dir`, "NAME-BUILD.SUFFIX"; a link to another build's NAME is turned to this
 * one. What is not there gets no link. KVR_EIO: the file system has no links, or something else is
 * in the way; nothing was changed. */
enum kvr_status kvr_link_by_name(const char *out_dir, const char *prompt, const char *method,
                                 const char *key, const char *file);

#endif
