/* decode.h - the first video stream of a file as RGB, through FFmpeg's libraries. */
#ifndef KVR_MEDIA_DECODE_H
#define KVR_MEDIA_DECODE_H

#include "harness/files/media/media.h"

/* All frames or an error: a truncated file (KVR_EFORMAT), an undecodable frame, or a change of size
 * is refused. On failure `out` is empty. */
enum kvr_status kvr_decode(struct kvr_video *out, const char *path);

#endif
