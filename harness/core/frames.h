/* frames.h - the video that metrics read: raw 8-bit RGB frames, before video compression. */
#ifndef KVR_CORE_FRAMES_H
#define KVR_CORE_FRAMES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* View of a video; the struct does not own the pixels. */
struct kvr_frames {
    int n, height, width;
    const uint8_t *rgb; /* [n, height, width, 3] */
};

#ifdef __cplusplus
}
#endif
#endif
