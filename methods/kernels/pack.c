/* pack.c - see pack.h for the layout. */
#include "methods/kernels/pack.h"

#include <string.h>

static int64_t plane_rows(int64_t n_tok, int field)
{
    int per_byte = 8 / field;

    return (n_tok + per_byte - 1) / per_byte;
}

size_t kvr_pack_bytes(int64_t n_tok, int64_t channels, int bits)
{
    size_t n = 0;

    for (int f = 8; f >= 1; f /= 2)
        if (bits & f)
            n += (size_t)(plane_rows(n_tok, f) * channels);
    return n;
}

/* One plane, from its column c0 on: the f bits of each code above bit `low`. */
static void pack_plane(uint8_t *plane, int64_t channels, int f, int low, int64_t t0, int64_t n,
                       int64_t nc, const uint8_t *codes)
{
    const int per_byte = 8 / f;
    const unsigned mask = (1u << f) - 1u;

    for (int64_t t = 0; t < n; t += per_byte) {
        uint8_t *restrict row = plane + (t0 + t) / per_byte * channels;
        int m = n - t < per_byte ? (int)(n - t) : per_byte;

        memset(row, 0, (size_t)nc);
        for (int i = 0; i < m; i++) {
            const uint8_t *restrict src = codes + (t + i) * nc;

            for (int64_t c = 0; c < nc; c++)
                row[c] = (uint8_t)(row[c] | (((unsigned)src[c] >> low) & mask) << (i * f));
        }
    }
}

void kvr_pack(uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t0, int64_t n,
              int64_t c0, int64_t nc, const uint8_t *codes)
{
    int low = bits;

    for (int f = 8; f >= 1; f /= 2) {
        if (!(bits & f))
            continue;
        low -= f;
        pack_plane(packed + c0, channels, f, low, t0, n, nc, codes);
        packed += plane_rows(n_tok, f) * channels;
    }
}

void kvr_unpack_token(const uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t,
                      int64_t c0, int64_t nc, uint8_t *restrict codes)
{
    int low = bits;
    int first = 1;

    for (int f = 8; f >= 1; f /= 2) {
        const int per_byte = 8 / f;
        const uint8_t *restrict row = packed + t / per_byte * channels + c0;
        const unsigned mask = (1u << f) - 1u;
        const int shift = (int)(t % per_byte) * f;

        if (!(bits & f))
            continue;
        low -= f;
        if (first)
            for (int64_t c = 0; c < nc; c++)
                codes[c] = (uint8_t)((((unsigned)row[c] >> shift) & mask) << low);
        else
            for (int64_t c = 0; c < nc; c++)
                codes[c] = (uint8_t)(codes[c] | (((unsigned)row[c] >> shift) & mask) << low);
        first = 0;
        packed += plane_rows(n_tok, f) * channels;
    }
}
