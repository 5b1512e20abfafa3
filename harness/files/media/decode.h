/* decode.h - decodes the first video stream of a file to RGB by FFmpeg. */
#ifndef KVR_MEDIA_DECODE_H
#define KVR_MEDIA_DECODE_H

#include "harness/files/media/media.h"

/* All frames or an error: a truncated file (KVR_EFORMAT), an undecodable frame and a change of size
 * are errors. On failure `out` is empty. */
enum kvr_status kvr_decode(struct kvr_video *out, const char *path);

#endif
