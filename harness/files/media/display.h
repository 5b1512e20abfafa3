/* display.h - rotates and mirrors frames by a video container's display matrix.
 *
 *     ... the first frame is decoded ...
 *     KVR_TRY(kvr_display_of(&shown, stream, frame, path));
 *     ... the other frames are decoded as stored ...
 *     KVR_TRY(kvr_display_apply(&shown, video));
 *
 * Players apply the display matrix, so two videos with equal stored frames but different matrices
 * look different. Metrics therefore compare the displayed frames. */
#ifndef KVR_MEDIA_DISPLAY_H
#define KVR_MEDIA_DISPLAY_H

#include "harness/files/media/av.h"
#include "harness/files/media/media.h"

/* The stored pixel (x, y) is displayed at (xx * x + xy * y, yx * x + yy * y), plus an offset that
 * makes all coordinates nonnegative. Each coefficient is 0, 1 or -1, and each row and column of the
 * matrix has one nonzero coefficient. */
struct kvr_display {
    int xx, xy, yx, yy;
};

/* Reads the display matrix of the container's stream or, if the stream has none, of the decoded
 * `frame`. If the frame has none either, the result is the identity. Returns KVR_EUNSUPPORTED if
 * the matrix is not a composition of quarter turns and mirroring. */
enum kvr_status kvr_display_of(struct kvr_display *out, const AVStream *stream,
                               const AVFrame *frame, const char *path);

/* Rotates and mirrors all frames in place. A quarter turn swaps width and height, and inverts the
 * pixel aspect ratio. If the function returns KVR_ENOMEM, the video is unchanged. */
enum kvr_status kvr_display_apply(const struct kvr_display *d, struct kvr_video *v);

#endif
