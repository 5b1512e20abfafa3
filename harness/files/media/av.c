/* av.c - captures FFmpeg's log messages, and converts paths to "file:" URLs for FFmpeg. */
#include "harness/files/media/av.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPLAINT_MAX = 256 };
static _Thread_local char complaint[COMPLAINT_MAX]; /* FFmpeg's last log message in this thread */

static void keep_complaint(void *ctx, int level, const char *fmt, va_list ap)
{
    size_t n;

    (void)ctx;
    if (level > AV_LOG_ERROR)
        return;
    vsnprintf(complaint, sizeof complaint, fmt, ap);
    n = strlen(complaint);
    while (n > 0 && (complaint[n - 1] == '\n' || complaint[n - 1] == '.'))
        complaint[--n] = '\0';
}

enum kvr_status kvr_av_begin(const struct kvr_ffmpeg **out)
{
    complaint[0] = '\0';
    errno = 0;
    KVR_TRY(kvr_ffmpeg_open(out));
    (*out)->av_log_set_level(AV_LOG_ERROR);
    (*out)->av_log_set_callback(keep_complaint);
    return KVR_OK;
}

static enum kvr_status status_of(int averror)
{
    switch (averror) {
    case AVERROR(ENOENT):
        return KVR_ENOTFOUND;
    case AVERROR(ENOMEM):
        return KVR_ENOMEM;
    case AVERROR(ENOSPC):
    case AVERROR(EDQUOT):
    case AVERROR(EFBIG):
        return KVR_EFULL;
    case AVERROR_INVALIDDATA:
    case AVERROR_EOF:
        return KVR_EFORMAT;
    default:
        return KVR_EIO;
    }
}

enum kvr_status kvr_av_fail(const char *path, const char *what, int averror)
{
    char reason[AV_ERROR_MAX_STRING_SIZE] = "";
    /* ENOMEM in errno takes precedence over `averror`: when memory is exhausted, some encoders
     * return AVERROR_EXTERNAL. */
    const bool memory = errno == ENOMEM;
    const struct kvr_ffmpeg *ff;

    KVR_TRY(kvr_ffmpeg_open(&ff));
    if (memory)
        averror = AVERROR(ENOMEM);
    ff->av_strerror(averror, reason, sizeof reason);
    if (complaint[0])
        return kvr_fail(status_of(averror), "%s: %s: %s (%s)", path, what, reason, complaint);
    return kvr_fail(status_of(averror), "%s: %s: %s", path, what, reason);
}

char *kvr_av_url(const char *path)
{
    size_t n = strlen(path) + sizeof "file:";
    char *url = malloc(n);

    if (url)
        snprintf(url, n, "file:%s", path);
    return url;
}
