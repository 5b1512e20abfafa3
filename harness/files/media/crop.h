/* crop.h - reads and applies the crop that a Matroska file stores for players in the elements
 * PixelCropTop, PixelCropBottom, PixelCropLeft and PixelCropRight.
 *
 *     KVR_TRY(kvr_crop_read(&crop, file, 0, path));
 *     ... all frames are decoded, uncropped ...
 *     KVR_TRY(kvr_crop_apply(&crop, video, path));
 *
 * FFmpeg before version 7.1 ignores Matroska's crop; later versions export the crop as metadata but
 * do not apply it. The crop refers to the stored frame, before the display matrix is applied. */
#ifndef KVR_MEDIA_CROP_H
#define KVR_MEDIA_CROP_H

#include <stdio.h>

#include "harness/files/media/media.h"

/* Number of pixels to remove from each side of the stored frame, and the size of the displayed
 * frame. Values in the file larger than INT_MAX are read as INT_MAX. */
struct kvr_crop {
    int top, bottom, left, right;
    int display_width, display_height; /* if 0, the display size is that of the cropped frame */
    int display_unit;                  /* Matroska's DisplayUnit; if 4, the display size is
                                        * meaningless */
};

/* Reads the crop of video track `nth`, counted from 0; the crop is all zeros if the track does not
 * define one. The number of bytes read is bounded for any file content. Returns KVR_EFORMAT if the
 * track is not found. */
enum kvr_status kvr_crop_read(struct kvr_crop *out, FILE *f, int nth, const char *path);

/* Crops all frames of the video and sets its pixel aspect ratio. Returns KVR_EFORMAT and leaves the
 * video unchanged if the crop would remove all pixels. */
enum kvr_status kvr_crop_apply(const struct kvr_crop *c, struct kvr_video *v, const char *path);

#endif
