/* aperture.h - the clean aperture (clap) of an MP4 or QuickTime file: the visible part of a frame.
 *
 * FFmpeg's demuxer ignores the clap box before version 7.1, and since then only exports it; crop.h
 * applies it. */
#ifndef KVR_MEDIA_APERTURE_H
#define KVR_MEDIA_APERTURE_H

#include "harness/files/media/crop.h"

/* The clean aperture of video track `nth`, from 0, as a crop; zeros if the track or its box is not
 * found. The reads are bounded for any content. KVR_EUNSUPPORTED: the aperture's edges are not
 * whole pixels of the frame. */
enum kvr_status kvr_aperture_read(struct kvr_crop *out, FILE *f, int nth, const char *path);

#endif
