/* aperture.h - reads the clean aperture (clap box) of an MP4 or QuickTime file, which is the
 * visible part of a frame.
 *
 * FFmpeg before version 7.1 ignores the clap box; later versions export the clean aperture as
 * metadata but do not crop. The frames are cropped by kvr_crop_apply. */
#ifndef KVR_MEDIA_APERTURE_H
#define KVR_MEDIA_APERTURE_H

#include "harness/files/media/crop.h"

/* Reads the clean aperture of video track `nth`, counted from 0, as a crop. If the track or its
 * clap box is not found, the crop is all zeros. The number of bytes read is bounded for any file
 * content. Returns KVR_EUNSUPPORTED if an edge of the aperture lies within a pixel. */
enum kvr_status kvr_aperture_read(struct kvr_crop *out, FILE *f, int nth, const char *path);

#endif
