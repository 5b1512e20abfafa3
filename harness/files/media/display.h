/* display.h - how a container's frames are displayed: rotated, mirrored, with non-square pixels.
 *
 *     ... the first frame is decoded ...
 *     KVR_TRY(kvr_display_of(&shown, stream, frame, path));
 *     ... the others, as they are stored ...
 *     KVR_TRY(kvr_display_apply(&shown, video));
 *
 * Players apply the display matrix, so a comparison must, too: files with equal stored frames and
 * different matrices look different. */
#ifndef KVR_MEDIA_DISPLAY_H
#define KVR_MEDIA_DISPLAY_H

#include "harness/files/media/av.h"
#include "harness/files/media/media.h"

/* Stored pixel (x, y) is displayed at (xx x + xy y, yx x + yy y), shifted into the picture. Each
 * coefficient is 0, 1 or -1, with one nonzero per row and column. */
struct kvr_display {
    int xx, xy, yx, yy;
};

/* The container's matrix, else that of the video stream, which comes with a frame; identity without
 * either. KVR_EUNSUPPORTED: a matrix other than quarter turns and mirroring, with its numbers. */
enum kvr_status kvr_display_of(struct kvr_display *out, const AVStream *stream,
                               const AVFrame *frame, const char *path);

/* Rewrites all frames as displayed; width and height may swap, and with them a pixel's sides. On
 * KVR_ENOMEM the video is unchanged. */
enum kvr_status kvr_display_apply(const struct kvr_display *d, struct kvr_video *v);

#endif
