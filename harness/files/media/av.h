/* av.h - shared FFmpeg helpers: messages and file names. */
#ifndef KVR_MEDIA_AV_H
#define KVR_MEDIA_AV_H

#include "harness/files/media/ffmpeg.h"

/* Loads FFmpeg, redirects its log from stderr, and clears the last message. Must be the first call
 * of every public function that uses FFmpeg. */
enum kvr_status kvr_av_begin(const struct kvr_ffmpeg **out);

/* kvr_fail with "path: what: FFmpeg's error (FFmpeg's last message)". */
enum kvr_status kvr_av_fail(const char *path, const char *what, int averror);

/* "file:path", which prevents FFmpeg from parsing a protocol; NULL: out of memory. Caller frees. */
char *kvr_av_url(const char *path);

#endif
