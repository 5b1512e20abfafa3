/* display.h - how a container says that its frames are shown: turned, mirrored, of pixels that are not
 * square.
 *
 *     ... the first frame is decoded ...
 *     KVR_TRY(kvr_display_of(&shown, stream, frame, path));
 *     ... the others, as they are stored ...
 *     KVR_TRY(kvr_display_apply(&shown, video));
 *
 * Players obey the display matrix, so a comparison must: two files with the same stored frames and other
 * matrices look different. */
#ifndef KVR_MEDIA_DISPLAY_H
#define KVR_MEDIA_DISPLAY_H

#include "harness/files/media/av.h"
#include "harness/files/media/media.h"

/* A stored pixel (x, y) is shown at (xx x + xy y, yx x + yy y), moved into the picture: each is 0, 1 or
 * -1, one in every row and column. */
struct kvr_display {
    int xx, xy, yx, yy;
};

/* The container's matrix, else the one of the video stream itself, which comes with a frame; without
 * either: as stored. KVR_EUNSUPPORTED: a matrix that does more than turn by quarters and
 * mirror; the message has its numbers. */
enum kvr_status kvr_display_of(struct kvr_display *out, const AVStream *stream,
                               const AVFrame *frame, const char *path);

/* Rewrites all frames as they are shown; width and height may change places, and with them the sides of a
 * pixel. On KVR_ENOMEM the video is as before. */
enum kvr_status kvr_display_apply(const struct kvr_display *d, struct kvr_video *v);

#endif
