/* rotate.h - random signs of the transform `rotate`, and the launcher of the kernel that applies
 * them. */
#ifndef KVR_METHODS_ROTATE_H
#define KVR_METHODS_ROTATE_H

#include <stdint.h>

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Random bit of channel c: the top bit of MurmurHash3's finalizer fmix32, applied to seed and
 * channel. */
#define KVR_ROTATE_BIT(seed, c, word)                                                              \
    ((word) = (uint32_t)(seed)*0x9e3779b9u ^ (uint32_t)(c),                                        \
     (word) = ((word) ^ (word) >> 16) * 0x85ebca6bu,                                               \
     (word) = ((word) ^ (word) >> 13) * 0xc2b2ae35u, ((word) ^ (word) >> 16) >> 31)

/* Negates the elements of x [n, d] in channels whose random bit is 1; x is device memory. */
void kvr_rotate_signs_cuda(struct kvr_stream *s, float *x, int64_t n, int d, uint32_t seed);

#ifdef __cplusplus
}
#endif
#endif
