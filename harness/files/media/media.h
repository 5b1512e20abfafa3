/* media.h - reads and writes frames: raw tensors, H.264 in MP4, PNG.
 *
 * Metrics use raw frames only; MP4 and PNG are for viewing. */
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

/* A video that owns its pixels, in display orientation. */
struct kvr_video {
    struct kvr_frames frames;
    uint8_t *pixels;        /* memory of frames.rgb; free() */
    double fps;             /* 0 if the file does not give it */
    char codec[32];         /* codec of the file; "": raw frames */
    struct kvr_ratio pixel; /* aspect ratio of a pixel; 1:1 if the file does not give it */
};
void kvr_video_free(struct kvr_video *v);

/* Writes raw frames: a safetensors file with `frames` U8 [n, height, width, 3]. */
enum kvr_status kvr_frames_write(const char *path, const struct kvr_frames *f, double fps);
/* Reads raw frames (.safetensors), or decodes the first video stream of any file supported by
 * FFmpeg. */
enum kvr_status kvr_video_read(struct kvr_video *out, const char *path);

/* Writes H.264 with yuv420p, +faststart and a key frame every half second. Each pixel is enlarged
 * to `scale` x `scale`; odd sizes are padded by repetition. */
enum kvr_status kvr_mp4_write(const char *path, const struct kvr_frames *f, double fps, int scale);

enum kvr_status kvr_png_write(const char *path, const uint8_t *rgb, int height, int width);

/* Contact sheet: one row per video with `columns` frames, evenly spaced including the first and
 * last, or as given by the row. Each pixel is enlarged to `scale` x `scale`, rows are two pixels
 * apart, and labels use a built-in bitmap font. */
struct kvr_sheet_row {
    const char *label;
    struct kvr_frames frames;
    const int *pick; /* [columns] frames in order; NULL: evenly spaced */
};
enum kvr_status kvr_sheet_write(const char *path, const struct kvr_sheet_row *rows, int n_rows,
                                int columns, int scale);

#ifdef __cplusplus
}
#endif
#endif
