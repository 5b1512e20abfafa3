/* ffmpeg.h - loads FFmpeg's libraries when kvreel first reads or writes a video or an image.
 *
 *     const struct kvr_ffmpeg *ff;
 *
 *     KVR_TRY(kvr_ffmpeg_open(&ff));
 *     ff->avcodec_open2(...);
 *
 * FFmpeg's libraries depend on about 120 other libraries. Linking FFmpeg would multiply the
 * program's start-up time, because the loader would have to bind the symbols of all these
 * libraries. The loaded versions must match the FFmpeg headers that kvreel was compiled with. */
#ifndef KVR_MEDIA_FFMPEG_H
#define KVR_MEDIA_FFMPEG_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libavutil/dict.h>
#include <libswscale/swscale.h>

#include "harness/core/status.h"

struct kvr_ffmpeg {
#define FFMPEG(library, name) __typeof__(name) *name;
#include "harness/files/media/ffmpeg.def"
#undef FFMPEG
};

/* Loads FFmpeg's libraries at the first call, and returns the table of their functions. The
 * libraries stay loaded until the process ends. If a library is missing, this call and all later
 * calls return KVR_EIO, and the error message names the library. */
enum kvr_status kvr_ffmpeg_open(const struct kvr_ffmpeg **out);

#endif
