/* read.c - chooses the reader for a path: raw frames or a video. */
#include "harness/files/media/media.h"

#include <stdbool.h>
#include <string.h>

#include "harness/files/media/decode.h"
#include "harness/files/media/frames.h"

static bool has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && strcmp(s + n - m, suffix) == 0;
}

enum kvr_status kvr_video_read(struct kvr_video *out, const char *path)
{
    return has_suffix(path, ".safetensors") ? kvr_frames_read(out, path) : kvr_decode(out, path);
}
