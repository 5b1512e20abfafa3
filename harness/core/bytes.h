/* bytes.h - reads little-endian integers from files on hosts of any byte order.
 *
 *     const uint64_t n = kvr_little_endian(header + 4, 4); */
#ifndef KVR_CORE_BYTES_H
#define KVR_CORE_BYTES_H

#include <stdint.h>

/* Returns the unsigned integer stored in n <= 8 bytes at p, least significant byte first. */
static inline uint64_t kvr_little_endian(const unsigned char *p, int n)
{
    uint64_t x = 0;

    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

#endif
