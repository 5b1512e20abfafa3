/* display.h - applies a container's display matrix: rotation, mirroring, non-square pixels.
 *
 *     ... the first frame is decoded ...
 *     KVR_TRY(kvr_display_of(&shown, stream, frame, path));
 *     ... the other frames are decoded as stored ...
 *     KVR_TRY(kvr_display_apply(&shown, video));
 *
 * Players apply the display matrix, so comparisons must as well: equal stored frames with different
 * matrices look different. */
#ifndef KVR_MEDIA_DISPLAY_H
#define KVR_MEDIA_DISPLAY_H

#include "harness/files/media/av.h"
#include "harness/files/media/media.h"

/* Stored pixel (x, y) is displayed at (xx x + xy y, yx x + yy y), shifted into the picture. Each
 * coefficient is 0, 1 or -1, with one nonzero per row and column. */
struct kvr_display {
    int xx, xy, yx, yy;
};

/* Uses the container's matrix; without it, the matrix of the video stream, found in `frame`;
 * without either, the identity. KVR_EUNSUPPORTED, with the numbers: a matrix that is not a
 * composition of quarter turns and mirroring. */
enum kvr_status kvr_display_of(struct kvr_display *out, const AVStream *stream,
                               const AVFrame *frame, const char *path);

/* Rewrites all frames as displayed; a quarter turn swaps width and height and the pixel's sides. On
 * KVR_ENOMEM the video is unchanged. */
enum kvr_status kvr_display_apply(const struct kvr_display *d, struct kvr_video *v);

#endif
