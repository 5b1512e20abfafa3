/* decode.h - the first video stream of a file as RGB, through FFmpeg's libraries. */
#ifndef KVR_MEDIA_DECODE_H
#define KVR_MEDIA_DECODE_H

#include "harness/files/media/media.h"

/* Every frame or an error: a file cut short (KVR_EFORMAT), a frame that does not decode, or a
 * size that changes on the way is refused. On failure `out` is empty. */
enum kvr_status kvr_decode(struct kvr_video *out, const char *path);

#endif
