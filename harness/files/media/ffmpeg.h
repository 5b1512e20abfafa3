/* ffmpeg.h - loads FFmpeg's libraries at the first read or write of a video or picture.
 *
 *     const struct kvr_ffmpeg *ff;
 *
 *     KVR_TRY(kvr_ffmpeg_open(&ff));
 *     ff->avcodec_open2(...);
 *
 * FFmpeg's libraries depend on some 120 others, whose symbol binding would multiply the program's
 * start-up time. The versions must match the headers at compile time. */
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

/* One table per process, never closed. KVR_EIO gives the missing library; later calls return the
 * same error. */
enum kvr_status kvr_ffmpeg_open(const struct kvr_ffmpeg **out);

#endif
