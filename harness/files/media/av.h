/* av.h - shared FFmpeg helpers: messages and file names. */
#ifndef KVR_MEDIA_AV_H
#define KVR_MEDIA_AV_H

#include "harness/files/media/ffmpeg.h"

/* Opens FFmpeg, redirects its messages from stderr to here, and clears the last one. Called at the
 * start of every public function that uses FFmpeg. */
enum kvr_status kvr_av_begin(const struct kvr_ffmpeg **out);

/* kvr_fail with "path: what: FFmpeg's reason (FFmpeg's last complaint)". */
enum kvr_status kvr_av_fail(const char *path, const char *what, int averror);

/* "file:path", so that a colon in a name is not read as a protocol; NULL without memory. Caller
 * frees. */
char *kvr_av_url(const char *path);

#endif
