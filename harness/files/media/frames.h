/* frames.h - raw frames in a safetensors file. */
#ifndef KVR_MEDIA_FRAMES_H
#define KVR_MEDIA_FRAMES_H

#include "harness/files/media/media.h"

/* Reads the tensor `frames` as a video. KVR_EFORMAT: another shape or type. On failure `out` is
 * empty. */
enum kvr_status kvr_frames_read(struct kvr_video *out, const char *path);

#endif
