/* media.h - reads and writes video frames as raw tensors, H.264 in MP4, or PNG.
 *
 * Metrics are computed from raw frames only; MP4 and PNG files are for viewing. */
#ifndef KVR_MEDIA_MEDIA_H
#define KVR_MEDIA_MEDIA_H

#include "harness/core/frames.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_ratio {
    int num, den;
};

/* A video in display orientation, which owns its pixels. */
struct kvr_video {
    struct kvr_frames frames;
    uint8_t *pixels;        /* the buffer that frames.rgb points to; kvr_video_free() frees it */
    double fps;             /* frames per second, or 0 if the file does not state it */
    char codec[32];         /* name of the video codec, or "" if the file holds raw frames */
    struct kvr_ratio pixel; /* aspect ratio of a pixel, or 1:1 if the file does not state it */
};
void kvr_video_free(struct kvr_video *v);

/* Writes raw frames to a safetensors file with one tensor `frames`, U8 [n, height, width, 3]. */
enum kvr_status kvr_frames_write(const char *path, const struct kvr_frames *f, double fps);
/* Reads raw frames from a .safetensors file, or decodes the first video stream of any file that
 * FFmpeg supports. */
enum kvr_status kvr_video_read(struct kvr_video *out, const char *path);

/* Writes an H.264 video with pixel format yuv420p, the index at the start of the file (FFmpeg's
 * option +faststart), and a key frame every half second. Each pixel is enlarged to `scale` x
 * `scale` pixels. If the width or height is odd, the last column or row of pixels is duplicated,
 * because yuv420p needs even sizes. */
enum kvr_status kvr_mp4_write(const char *path, const struct kvr_frames *f, double fps, int scale);

enum kvr_status kvr_png_write(const char *path, const uint8_t *rgb, int height, int width);

/* Writes a contact sheet as PNG, with one row of `columns` frames per video. Each pixel is enlarged
 * to `scale` x `scale` pixels. A gap of two pixels separates the rows of the sheet. */
struct kvr_sheet_row {
    const char *label;
    struct kvr_frames frames;
    const int *pick; /* indices [columns] of the frames to show, from left to right (NULL: frames
                      * evenly spaced from first to last) */
};
enum kvr_status kvr_sheet_write(const char *path, const struct kvr_sheet_row *rows, int n_rows,
                                int columns, int scale);

#ifdef __cplusplus
}
#endif
#endif
