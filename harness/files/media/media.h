/* media.h - frames in and out of files: raw tensors, H.264 in MP4, PNG.
 *
 * Numbers come from raw frames only; MP4 and PNG are for looking. */
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

/* A video that owns its pixels, as it is shown: turned as the file says. */
struct kvr_video {
    struct kvr_frames frames;
    uint8_t *pixels;        /* what frames.rgb points to; free() */
    double fps;             /* 0 when the file does not say */
    char codec[32];         /* what the frames were decoded from; "": they are raw */
    struct kvr_ratio pixel; /* width to height of one pixel; 1:1 when the file does not say */
};
void kvr_video_free(struct kvr_video *v);

/* Raw frames: a safetensors file with `frames` U8 [n, height, width, 3]. */
enum kvr_status kvr_frames_write(const char *path, const struct kvr_frames *f, double fps);
/* Reads raw frames (.safetensors) or decodes the first video stream of any file FFmpeg knows. */
enum kvr_status kvr_video_read(struct kvr_video *out, const char *path);

/* H.264, yuv420p, +faststart, a key frame every half second; pixels repeated `scale` times
 * (nearest) so that a person can see a small picture. Odd sizes are padded by repetition. */
enum kvr_status kvr_mp4_write(const char *path, const struct kvr_frames *f, double fps, int scale);

enum kvr_status kvr_png_write(const char *path, const uint8_t *rgb, int height, int width);

/* A contact sheet: one row per video, `columns` frames of each evenly spread, first and last
 * included, or those that a row picks, pixels repeated `scale` times, a two-pixel gap, labels in a
 * built-in bitmap font. */
struct kvr_sheet_row {
    const char *label;
    struct kvr_frames frames;
    const int *pick; /* [columns] frames in their order; NULL: evenly spread */
};
enum kvr_status kvr_sheet_write(const char *path, const struct kvr_sheet_row *rows, int n_rows,
                                int columns, int scale);

#ifdef __cplusplus
}
#endif
#endif
