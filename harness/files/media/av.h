/* av.h - helpers for calls of FFmpeg: loading, error messages and file names. */
#ifndef KVR_MEDIA_AV_H
#define KVR_MEDIA_AV_H

#include "harness/files/media/ffmpeg.h"

/* Loads FFmpeg, redirects its log messages from stderr to a buffer, and clears that buffer. Every
 * public function that uses FFmpeg must call kvr_av_begin first. */
enum kvr_status kvr_av_begin(const struct kvr_ffmpeg **out);

/* Sets the error message by kvr_fail, and returns the status that kvr_fail returns. The message
 * consists of `path`, `what`, FFmpeg's error text and, in parentheses, FFmpeg's last log
 * message. */
enum kvr_status kvr_av_fail(const char *path, const char *what, int averror);

/* Returns the string "file:PATH", which the caller frees, or NULL if memory is exhausted. Without
 * the prefix "file:", FFmpeg would interpret the part of a path before ':' as a protocol. */
char *kvr_av_url(const char *path);

#endif
