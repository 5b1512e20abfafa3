/* decode.h - decodes the first video stream of a file to RGB frames with FFmpeg. */
#ifndef KVR_MEDIA_DECODE_H
#define KVR_MEDIA_DECODE_H

#include "harness/files/media/media.h"

/* Decodes all frames of the first video stream. Returns an error if the file is truncated
 * (KVR_EFORMAT), a frame cannot be decoded, or the frame size changes. After an error `out` is
 * empty. */
enum kvr_status kvr_decode(struct kvr_video *out, const char *path);

#endif
