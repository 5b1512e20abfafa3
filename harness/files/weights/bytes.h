/* bytes.h - numbers in files, independent of the host's byte order.
 *
 *     const uint64_t n = kvr_little_endian(header + 4, 4); */
#ifndef KVR_WEIGHTS_BYTES_H
#define KVR_WEIGHTS_BYTES_H

#include <stdint.h>

/* The number in n <= 8 bytes at p, lowest byte first. */
static inline uint64_t kvr_little_endian(const unsigned char *p, int n)
{
    uint64_t x = 0;

    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

#endif
