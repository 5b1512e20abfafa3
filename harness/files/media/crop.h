/* crop.h - the crop that a Matroska file stores for its players: PixelCropTop and the other three.
 *
 *     KVR_TRY(kvr_crop_read(&crop, file, 0, path));
 *     ... all frames are decoded, uncropped ...
 *     KVR_TRY(kvr_crop_apply(&crop, video, path));
 *
 * FFmpeg's demuxer ignores these elements before version 7.1, and since then only exports them; no
 * version of its decoders applies them. The crop is that of the stored picture, before the display
 * matrix is applied. */
#ifndef KVR_MEDIA_CROP_H
#define KVR_MEDIA_CROP_H

#include <stdio.h>

#include "harness/files/media/media.h"

/* Pixels to remove from each side of the stored picture, and the size of the displayed picture.
 * Larger values in the file are INT_MAX here. */
struct kvr_crop {
    int top, bottom, left, right;
    int display_width, display_height; /* 0: the size of the cropped picture */
    int display_unit;                  /* 4: unknown; the display size is then meaningless */
};

/* The crop of video track `nth`, from 0; zeros if the track has none. Reads element headers only;
 * the reads are bounded for any content. KVR_EFORMAT: the track is not found. */
enum kvr_status kvr_crop_read(struct kvr_crop *out, FILE *f, int nth, const char *path);

/* Crops all frames and sets the pixel aspect ratio of the result. KVR_EFORMAT: nothing is left, and
 * the video is unchanged. */
enum kvr_status kvr_crop_apply(const struct kvr_crop *c, struct kvr_video *v, const char *path);

#endif
