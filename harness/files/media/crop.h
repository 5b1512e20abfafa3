/* crop.h - reads and applies the crop that a Matroska file stores for players in the elements
 * PixelCropTop, PixelCropBottom, PixelCropLeft and PixelCropRight.
 *
 *     KVR_TRY(kvr_crop_read(&crop, file, 0, path));
 *     ... all frames are decoded, uncropped ...
 *     KVR_TRY(kvr_crop_apply(&crop, video, path));
 *
 * FFmpeg does not apply this crop to decoded frames. The crop refers to the stored frame, before
 * rotation and mirroring by the display matrix. */
#ifndef KVR_MEDIA_CROP_H
#define KVR_MEDIA_CROP_H

#include <stdio.h>

#include "harness/files/media/media.h"

/* The value of Matroska's DisplayUnit for a display size of unknown unit. */
enum { KVR_CROP_UNIT_UNKNOWN = 4 };

/* Number of pixels to remove from each side of the stored frame, and the size of the displayed
 * frame. Values in the file larger than INT_MAX are read as INT_MAX. */
struct kvr_crop {
    int top, bottom, left, right;
    int display_width, display_height; /* size at which players display the cropped frame (0: the
                                        * size of the cropped frame) */
    int display_unit;                  /* Matroska's DisplayUnit, the unit of the display size; if
                                        * it is KVR_CROP_UNIT_UNKNOWN, the pixel aspect ratio
                                        * is unchanged */
};

/* Reads the crop of video track `nth`, counted from 0. If the track does not define a crop, the
 * crop is all zeros. At most 2^20 elements are read, so reading ends even for a corrupt file.
 * Returns KVR_EFORMAT if the track is not found. */
enum kvr_status kvr_crop_read(struct kvr_crop *out, FILE *f, int nth, const char *path);

/* Crops all frames of the video. If display_unit is less than KVR_CROP_UNIT_UNKNOWN, sets the
 * video's pixel aspect ratio so that players display the cropped frame at the display size. Returns
 * KVR_EFORMAT and leaves the video unchanged if the crop would remove all pixels. */
enum kvr_status kvr_crop_apply(const struct kvr_crop *c, struct kvr_video *v, const char *path);

#endif
