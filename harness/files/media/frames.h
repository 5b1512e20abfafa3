/* frames.h - reads raw frames from a safetensors file. */
#ifndef KVR_MEDIA_FRAMES_H
#define KVR_MEDIA_FRAMES_H

#include "harness/files/media/media.h"

/* Reads the tensor `frames`, U8 [n, height, width, 3], as a video. Returns KVR_EFORMAT if the
 * tensor has another shape or type. After an error `out` is empty. */
enum kvr_status kvr_frames_read(struct kvr_video *out, const char *path);

#endif
