/* aperture.h - reads the clean aperture (clap box) of an MP4 or QuickTime file, which is the
 * visible part of a frame.
 *
 * FFmpeg does not crop decoded frames to the clean aperture; the function kvr_crop_apply does. */
#ifndef KVR_MEDIA_APERTURE_H
#define KVR_MEDIA_APERTURE_H

#include "harness/files/media/crop.h"

/* Reads the clean aperture of video track `nth`, counted from 0, and converts it to the number of
 * pixels to remove from each side. If the track or its clap box is not found, the crop is all
 * zeros. At most 2^20 boxes are read, so reading ends even for a corrupt file. Returns
 * KVR_EUNSUPPORTED if an edge of the aperture is not at an integer pixel position inside the
 * frame. */
enum kvr_status kvr_aperture_read(struct kvr_crop *out, FILE *f, int nth, const char *path);

#endif
