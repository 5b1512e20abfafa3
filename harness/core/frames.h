/* frames.h - a video as metrics read it: raw 8-bit RGB, before any encoder. */
#ifndef KVR_CORE_FRAMES_H
#define KVR_CORE_FRAMES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Borrowed view of a video. */
struct kvr_frames {
    int n, height, width;
    const uint8_t *rgb; /* [n, height, width, 3] */
};

#ifdef __cplusplus
}
#endif
#endif
