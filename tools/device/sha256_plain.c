/* sha256_plain.c - harness/core/sha256.h for a machine without OpenSSL (FIPS 180-4, section 6.2). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness/core/sha256.h"

/* In kvr_sha256's state: 8 words, the number of bytes so far, and the block that is not full. */
struct plain {
    uint32_t h[8];
    uint64_t n;
    unsigned char block[64];
};
_Static_assert(sizeof(struct plain) <= sizeof(struct kvr_sha256), "the state fits");

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void take_block(struct plain *p)
{
    uint32_t w[64], a[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p->block[4 * i] << 24 | (uint32_t)p->block[4 * i + 1] << 16 |
               (uint32_t)p->block[4 * i + 2] << 8 | p->block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];

        w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] +
               (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
    }
    memcpy(a, p->h, sizeof a);
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 = a[7] + (turn(a[4], 6) ^ turn(a[4], 11) ^ turn(a[4], 25)) +
                            ((a[4] & a[5]) ^ (~a[4] & a[6])) + k[i] + w[i];
        const uint32_t t2 = (turn(a[0], 2) ^ turn(a[0], 13) ^ turn(a[0], 22)) +
                            ((a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]));

        memmove(a + 1, a, 7 * sizeof *a);
        a[4] += t1;
        a[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        p->h[i] += a[i];
}

enum kvr_status kvr_sha256_open(struct kvr_sha256 *h)
{
    static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    struct plain *p = (struct plain *)h->state;

    memset(p, 0, sizeof *p);
    memcpy(p->h, first, sizeof first);
    return KVR_OK;
}

enum kvr_status kvr_sha256_add(struct kvr_sha256 *h, const void *bytes, size_t n)
{
    struct plain *p = (struct plain *)h->state;

    for (size_t i = 0; i < n; i++) {
        p->block[p->n++ % 64] = ((const unsigned char *)bytes)[i];
        if (p->n % 64 == 0)
            take_block(p);
    }
    return KVR_OK;
}

enum kvr_status kvr_sha256_close(struct kvr_sha256 *h, char hex[KVR_SHA256_HEX])
{
    struct plain *p = (struct plain *)h->state;
    const uint64_t bits = 8 * p->n;
    unsigned char length[8];

    if (!hex)
        return KVR_OK;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    kvr_sha256_add(h, "\x80", 1);
    while (p->n % 64 != 56)
        kvr_sha256_add(h, "", 1);
    kvr_sha256_add(h, length, sizeof length);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", p->h[i]);
    return KVR_OK;
}

enum kvr_status kvr_sha256_hex(const void *p, size_t n, char hex[KVR_SHA256_HEX])
{
    struct kvr_sha256 h;

    kvr_sha256_open(&h);
    kvr_sha256_add(&h, p, n);
    return kvr_sha256_close(&h, hex);
}

enum kvr_status kvr_sha256_file(const char *path, char hex[KVR_SHA256_HEX])
{
    unsigned char bytes[1 << 14];
    struct kvr_sha256 h;
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f)
        return kvr_fail(errno == ENOENT ? KVR_ENOTFOUND : KVR_EIO, "%s: %s", path, strerror(errno));
    kvr_sha256_open(&h);
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0)
        kvr_sha256_add(&h, bytes, n);
    n = (size_t)ferror(f);
    fclose(f);
    return n ? kvr_fail(KVR_EIO, "%s: cannot be read", path) : kvr_sha256_close(&h, hex);
}
