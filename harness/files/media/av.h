/* av.h - what the media files share of FFmpeg: messages and file names. */
#ifndef KVR_MEDIA_AV_H
#define KVR_MEDIA_AV_H

#include "harness/files/media/ffmpeg.h"

/* Open FFmpeg, send its messages here instead of to stderr, and forget the last one. Called at the
 * start of every public function that uses FFmpeg. */
enum kvr_status kvr_av_begin(const struct kvr_ffmpeg **out);

/* kvr_fail with "path: what: FFmpeg's reason (FFmpeg's last complaint)". */
enum kvr_status kvr_av_fail(const char *path, const char *what, int averror);

/* "file:path", so that a colon in a name is no protocol; NULL without memory. free(). */
char *kvr_av_url(const char *path);

#endif
